"""Save rankers to model folders and load them.

A ranker is stored as facts (JSON values), arrays, and parts, which are rankers themselves. When a folder is loaded, its
facts and arrays are checked against the rules that the class declares before they are used. Kernels use arrays as
addresses, so that a damaged array could make them read memory that is not theirs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from longtail import store
from longtail.errors import ModelError, not_fitted, number_of
from longtail.models.label_map import LabelMap
from longtail.params import Constraint, Integer, Params, plain
from longtail.sparse import Arrays
from longtail.store.facts import ListOf, Record, Text, check_facts
from longtail.store.invariants import REMEDY, Rules, check_arrays

_STORED: dict[str, Constraint] = {
    "params": Record(),
    "n_features": Integer(1),
    "n_labels": Integer(1),
    "parts": ListOf(Text()),
}
_PATHS = ("checkpoint", "cache")  # parameters that are paths of the training machine; they are not stored


class StoredRanker(Params):
    """Base of :class:`longtail.models.base.Ranker` that saves and loads models."""

    kind: ClassVar[str] = ""  # the name in model folders and on the command line
    n_features_in_: int
    feature_names_in_: np.ndarray
    n_labels_: int
    label_map_: LabelMap | None = None  # labels that were merged or retired after the fit
    _facts: ClassVar[Mapping[str, Constraint]] = {}  # constraints of the facts of `_state`, checked after loading

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to `folder`, completely or not at all. Load it with :func:`longtail.load`."""
        self._check_fitted()
        with store.atomic_folder(folder) as fresh:
            self._write(fresh)

    def _write(self, folder: Path) -> None:
        self._check_loadable()
        facts, arrays, parts = self._state()
        if self.label_map_ is not None:
            arrays = arrays | self.label_map_.arrays()
        params = {
            name: plain(value)
            for name, value in self.get_params(deep=False).items()
            if name not in parts and name not in _PATHS and not _holds_rankers(value)
        }
        meta = {"params": params, "n_features": self.n_features_in_, "n_labels": self.n_labels_, **facts}
        if hasattr(self, "feature_names_in_"):
            meta["feature_names"] = self.feature_names_in_.tolist()
        store.write(folder, self.kind, meta | {"parts": sorted(parts)}, arrays)
        for name, part in parts.items():
            (folder / name).mkdir()
            part._write(folder / name)

    def _check_loadable(self) -> None:
        """Raise an error for a subclass whose parameters differ from those of the class that would load its folder."""
        from longtail.models import MODELS

        if self.kind not in MODELS:
            return
        module, _, name = MODELS[self.kind].partition(":")
        own, known = self._defaults().keys(), getattr(import_module(module), name)._defaults().keys()
        if own != known:
            differs = ", ".join(sorted(own ^ known))
            raise ModelError(
                f"{type(self).__name__} cannot be saved: a model folder of the kind {self.kind!r} is read as {name}, "
                f"and the two differ in the parameters {differs}. Give the class the parameters of {name}."
            )

    @classmethod
    def _check_stored(cls, stored: store.Stored, parts: dict[str, Any]) -> None:
        """Check everything in a model folder before it is used."""
        declared: dict[str, Constraint] = dict(_STORED)
        for ancestor in reversed(cls.__mro__):
            declared |= ancestor.__dict__.get("_facts", {})
        meta = stored.meta
        check_facts(declared, meta, stored.folder)
        n_features, n_labels = meta["n_features"], meta["n_labels"]
        names = meta.get("feature_names")
        if names is not None and not ListOf(Text(), n_features, n_features).allows(names):
            raise ModelError(
                f"{stored.folder}: model.json does not name each of {number_of(n_features, 'feature')}. {REMEDY}"
            )
        for name, part in parts.items():
            if not isinstance(part, StoredRanker):
                raise ModelError(f"{stored.folder}: the part {name} is not a ranker. {REMEDY}")
            expected = cls._features_of_part(part, stored), cls._labels_of_part(name, part, stored)
            if (part.n_features_in_, part.n_labels_) != expected:
                raise ModelError(
                    f"{stored.folder}: the part {name} has {number_of(part.n_features_in_, 'feature')} and "
                    f"{number_of(part.n_labels_, 'label')}, "
                    f"not {expected[0]} and {expected[1]}. {REMEDY}"
                )
        rules = cls._array_rules(stored, parts) | LabelMap.array_rules(stored.arrays)
        sizes = {"D": n_features, "L": n_labels}
        check_arrays(rules, stored.arrays, sizes, stored.folder, stored.checksums)

    @classmethod
    def _features_of_part(cls, part: StoredRanker, stored: store.Stored) -> int:
        """Return the number of features that a part must have."""
        return stored.meta["n_features"]

    @classmethod
    def _labels_of_part(cls, name: str, part: StoredRanker, stored: store.Stored) -> int:
        """Return the number of labels that a part must have."""
        return stored.meta["n_labels"]

    @classmethod
    def _array_rules(cls, stored: store.Stored, parts: dict[str, Any]) -> Rules:
        """Declare the rules that the arrays of `_state` must meet; D and L are the numbers of features and labels."""
        raise AssertionError(f"{cls.__name__} must define _array_rules")

    @classmethod
    def _read(cls, stored: store.Stored, parts: dict[str, Any]) -> Self:
        params = {name: value for name, value in stored.meta["params"].items() if name not in _PATHS}
        model = cls(**params, **{name: part for name, part in parts.items() if name in cls._defaults()})
        model._take_state(stored, parts)
        return model

    def _take_state(self, stored: store.Stored, parts: dict[str, Any]) -> None:
        """Restore what was learnt; the parameters stay."""
        self.n_features_in_, self.n_labels_ = stored.meta["n_features"], stored.meta["n_labels"]
        self._keep_feature_names(stored.meta.get("feature_names"))
        self.label_map_, arrays = LabelMap.taken_from(stored.arrays)
        self._restore(stored.meta, arrays, parts)

    def _take_over(self, folder: Path) -> None:
        """Restore what was learnt from a folder that `_write` wrote; the parameters stay."""
        stored = store.read(folder, mmap=False)
        self._take_state(stored, {name: _read_part(folder / name) for name in stored.meta["parts"]})

    def _keep_feature_names(self, names: Any) -> None:
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_labels_"):
            raise not_fitted(type(self).__name__)

    # What an algorithm defines -----------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Any]]:
        """Return what was learnt: small facts as JSON values, arrays, and the rankers inside this one."""
        raise AssertionError(f"{type(self).__name__} must define _state")

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Any]) -> None:
        raise AssertionError(f"{type(self).__name__} must define _restore")


def _holds_rankers(value: Any) -> bool:
    """Return whether a parameter is a list of rankers, which are stored as parts of the model."""
    return isinstance(value, list | tuple) and any(isinstance(part, StoredRanker) for part in value)


def _read_part(folder: Path) -> Any:
    """Read a ranker from a step of a checkpoint."""
    from longtail.models import MODELS

    stored = store.read(folder, mmap=False)
    module, _, name = MODELS[stored.kind].partition(":")
    cls: type[Any] = getattr(import_module(module), name)
    return cls._read(stored, {part: _read_part(folder / part) for part in stored.meta["parts"]})
