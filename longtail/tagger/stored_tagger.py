"""Save a tagger as a model folder, and load it again.

The folder holds the names of the labels, their numbers of training points, what the vectoriser has learnt, and the
ranker as a part.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from longtail import registry, store
from longtail.errors import ModelError, not_fitted, number_of
from longtail.model_card import model_card
from longtail.names import Names
from longtail.params import NOT_NEGATIVE, SHARE, Boolean, Constraint, Integer, OneOf, Params, optional
from longtail.sparse import with_prefix, without_prefix
from longtail.store.facts import ListOf, Record, Text, check_facts
from longtail.store.invariants import REMEDY, Rules, check_arrays, codes, counts, floats, packed_names

if TYPE_CHECKING:
    from longtail.data import TextVectorizer
    from longtail.models.base import Ranker

_VECTORIZER = Record({"n_features": Integer(1), "idf": Boolean(), "hashing": optional(Integer(1))})
_THRESHOLDS: dict[str, Constraint] = {
    "values": ListOf(SHARE, 1),
    "frequencies": ListOf(Integer(0), 1),
    "goal": Text(),
    "limit": Integer(1),
}
_TRAINING: dict[str, Constraint] = {"model": Text(), "data": Text(), "train_seconds": NOT_NEGATIVE}
_NOTES: dict[str, Constraint] = {
    "training": Record(if_there=_TRAINING),
    "training_data": Record(if_there={"checksum": Text(), "name": Text()}),
    "labels_separator": Text(),
    "thresholds": Record(_THRESHOLDS),
    "feedback": Record(),
    "former_names": Record(),
    "metrics": Record(),
}
"""Constraints of those notes of a tagger that commands read. There may be other notes."""


class StoredTagger(Params):
    """Base of :class:`longtail.Tagger`: saves it, and checks a folder while loading it."""

    ranker_: Ranker
    vectorizer_: TextVectorizer | None
    label_names_: Names
    label_ids_: Names | None
    label_counts_: np.ndarray
    n_points_: int
    notes_: dict[str, Any]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the tagger to `folder`, completely or not at all. Read it back with :func:`longtail.load`.

        README.md in the folder is a model card: data, settings, versions, held-out metrics, intended use. If you have
        edited it, it is not overwritten.
        """
        self._check_fitted()
        names, ids, vectorizer = self.label_names_, self.label_ids_, self.vectorizer_
        meta: dict[str, Any] = {"n_points": self.n_points_, "n_labels": len(names), "notes": self.notes_}
        arrays = {"label_counts": self.label_counts_, "names": names.blob, "names_offsets": names.offsets}
        if ids is not None:
            arrays |= {"ids": ids.blob, "ids_offsets": ids.offsets}
        if vectorizer is not None:
            meta["vectorizer"], learnt = vectorizer.to_arrays()
            arrays |= with_prefix("vectorizer_", learnt)
        with store.atomic_folder(folder) as fresh:
            store.write(fresh, "tagger", meta | {"parts": ["ranker"]}, arrays)
            (fresh / "ranker").mkdir()
            self.ranker_._write(fresh / "ranker")
            store.write_card(fresh, model_card(self))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a saved tagger."""
        model = registry.load(folder)
        if not isinstance(model, cls):
            raise ModelError(
                f"{os.fspath(folder)}: holds a {type(model).__name__} alone, without a vectoriser or label names. "
                "Read it with longtail.load."
            )
        return model

    _facts: ClassVar[dict[str, Constraint]] = {
        "n_points": Integer(0),
        "n_labels": Integer(1),
        "notes": Record(),
        "parts": OneOf(["ranker"]),
    }

    @classmethod
    def _check_stored(cls, stored: store.Stored, parts: dict[str, Any]) -> None:
        """Check everything in a model folder before any of it is used."""
        meta, ranker = stored.meta, parts.get("ranker")
        check_facts(cls._facts, meta, stored.folder)
        notes = meta["notes"]
        check_facts({name: rule for name, rule in _NOTES.items() if name in notes}, notes, stored.folder)
        if isinstance(ranker, StoredTagger) or ranker is None or ranker.n_labels_ != meta["n_labels"]:
            raise ModelError(
                f"{stored.folder}: the ranker does not have {number_of(meta['n_labels'], 'label')}. {REMEDY}"
            )
        column = Integer(0, meta["n_labels"] - 1)
        if not all(map(column.allows, notes.get("former_names", {}).values())):
            raise ModelError(f"{stored.folder}: former_names in model.json name no labels of the model. {REMEDY}")
        rules = Rules({"label_counts": counts("L")})
        for name in ("names", "ids") if "ids" in stored.arrays else ("names",):
            rules |= packed_names(name, f"{name}_offsets", "L", decoded=stored.thorough)
        if meta.get("vectorizer") is not None:
            check_facts({"vectorizer": _VECTORIZER}, meta, stored.folder)
            settings = meta["vectorizer"]
            n_terms = ranker.n_features_in_ - _vector_size(ranker)
            if not settings["n_features"] == n_terms == (settings["hashing"] or n_terms):
                raise ModelError(f"{stored.folder}: vectoriser and ranker differ in their features. {REMEDY}")
            vocabulary = {
                "terms": codes("terms.bytes", "u1"),
                "offsets": codes("terms+1", "i8"),  # compared in `TextVectorizer.from_arrays`
                "idf": floats("D" if settings["idf"] else "0", above=0),  # rows are divided by their lengths
            }
            rules |= Rules(vocabulary).prefixed("vectorizer_")
        sizes = {"L": meta["n_labels"], "D": ranker.n_features_in_ - _vector_size(ranker)}
        check_arrays(rules, stored.arrays, sizes, stored.folder, stored.checksums)

    def _check_loaded(self) -> None:
        """Raise an error if a loaded setting breaks its constraint."""
        if self.vectorizer_ is not None:
            self.vectorizer_.check_params()

    @classmethod
    def _read(cls, stored: store.Stored, parts: dict[str, Any]) -> Self:
        meta, arrays = stored.meta, stored.arrays
        tagger = cls(parts["ranker"])  # type: ignore[call-arg]
        tagger.ranker_ = parts["ranker"]
        tagger.vectorizer_ = None
        if meta.get("vectorizer") is not None:
            from longtail.data.text import TextVectorizer

            learnt = without_prefix("vectorizer_", arrays)
            tagger.vectorizer_ = TextVectorizer.from_arrays(meta["vectorizer"], learnt)
            if tagger.vectorizer_.vector_size_ not in (0, tagger._vector_size()):
                raise ModelError(f"{stored.folder}: encoder and ranker differ in the size of vectors. {REMEDY}")
        tagger.label_names_ = Names(arrays["names"], arrays["names_offsets"])
        tagger.label_ids_ = Names(arrays["ids"], arrays["ids_offsets"]) if "ids" in arrays else None
        tagger.label_counts_, tagger.n_points_, tagger.notes_ = arrays["label_counts"], meta["n_points"], meta["notes"]
        return tagger

    def reads_text(self) -> bool:
        """Return whether the model needs nothing but text: it has a vectoriser, and an encoder if it uses vectors."""
        self._check_fitted()
        return self.vectorizer_ is not None and self.vectorizer_.vector_size_ == self._vector_size()

    def _vector_size(self) -> int:
        """Return the size of the dense vector of the text in the last features; 0 if there is none."""
        return _vector_size(self.ranker_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "ranker_"):
            raise not_fitted("Tagger")


def _vector_size(ranker: Ranker) -> int:
    """Return the size of the dense vector in the last features of a ranker; 0 if there is none."""
    n_words = getattr(ranker, "n_words_", None)
    return 0 if n_words is None else ranker.n_features_in_ - n_words
