"""Changes to the labels of a fitted tagger, without training: add, rename, merge, retire."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from longtail.errors import DataError, ModelError, number_of
from longtail.models.label_map import RETIRED, LabelMap
from longtail.models.learning_copy import learns_on_a_copy
from longtail.names import Names, find_label
from longtail.params import value_shown
from longtail.sparse import canonical
from longtail.tagger.stored_tagger import StoredTagger

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FORMER = "former_names"  # key in a tagger's notes: the column of each name that a renamed label had before


class EditableTagger(StoredTagger):
    """Base of :class:`longtail.Tagger`: changes to its labels. Columns keep their numbers; new labels are appended.

    A changed tagger is used, saved and served as before. The changes bridge the time until the next training.
    """

    if TYPE_CHECKING:

        def features(self, texts: Any) -> csr_array:
            """Return the features of texts."""

    @learns_on_a_copy
    def add_labels(
        self, names: Sequence[str], texts: Sequence[str] | None = None, ids: Sequence[str] | None = None
    ) -> Self:
        """Add labels. The model must be able to score a label by its text alone. Retired labels are suggested again.

        Parameters
        ----------
        names : list of str
            Names of the labels.
        texts : list of str, optional
            One text per label; the label's name by default.
        ids : list of str, optional
            One identifier per label, such as a URI. If the model has identifiers, the default is the label's name.
        """
        names = listed_strings(names, "names")
        described = names if texts is None else listed_strings(texts, "texts")
        if len(described) != len(names):
            raise DataError(
                f"{number_of(len(names), 'name')} but {number_of(len(described), 'text')}",
                remedy="Give a text for each name",
            )
        given_ids = None if ids is None else listed_strings(ids, "ids")
        if given_ids is not None and len(given_ids) != len(names):
            raise DataError(
                f"{number_of(len(names), 'name')} but {number_of(len(given_ids), 'identifier')}",
                remedy="Give one for each name",
            )
        retired = {self._names()[label]: label for label, target in self._moved().items() if target == RETIRED}
        new = [at for at, name in enumerate(names) if name not in retired]
        self._check_new([names[at] for at in new], self._names())
        if given_ids is not None:
            given_ids = [given_ids[at] for at in new]
            self._check_new(given_ids, self.label_ids_ or ())
        if new:
            self._append([names[at] for at in new], [described[at] for at in new], given_ids)
        back = {retired[name] for name in names if name in retired}
        self._move({label: target for label, target in self._moved().items() if label not in back})
        return self

    def _append(self, names: list[str], texts: list[str], ids: list[str] | None) -> None:
        ranker: Any = copy(self.ranker_)  # a copy of the tagger may share the ranker
        if not hasattr(ranker, "add_labels"):
            raise ModelError(
                f"{type(ranker).__name__} cannot score a label by its text. Train a model that can, such as blend."
            )
        Z = self.features(texts)
        self.ranker_ = ranker.add_labels(Z)
        unknown = [names[at] for at in np.flatnonzero(np.diff(Z.indptr) == 0).tolist()]
        if unknown:
            several = f"{len(unknown):,} of {len(names):,} new labels {'has' if len(unknown) == 1 else 'have'}"
            logging.getLogger("longtail.tagger").warning(
                "%s no word of the vocabulary in the text (%s); not suggested before the next training.",
                several if len(names) > 1 else "The new label has",
                ", ".join(unknown[:3]),
            )
        if ids is not None or self.label_ids_ is not None:
            self.label_ids_ = Names.of([*(self.label_ids_ or self.label_names_), *(ids or names)])
        self.label_names_ = Names.of([*self.label_names_, *names])
        self.label_counts_ = np.concatenate([self.label_counts_, np.zeros(len(names), np.int32)])

    @learns_on_a_copy
    def rename_labels(self, names: Mapping[str, str]) -> Self:
        """Give labels other names. Their identifiers stay, and so does the label text that the model uses.

        The former names stay known: where data and corrections use them, they mean the renamed labels.

        Parameters
        ----------
        names : dict of str to str
            The new name of each label. The keys are names or identifiers.
        """
        if not isinstance(names, Mapping):
            raise DataError("names is not a dict", remedy="Give the new name of each label: {old: new}")
        renamed = {self._label(label): name for label, name in names.items()}
        kept = [name for at, name in enumerate(self.label_names_) if at not in renamed]
        self._check_new(listed_strings(renamed.values(), "names"), kept)
        former = self._former_names() | {self.label_names_[at]: at for at in renamed}
        self.label_names_ = Names.of(renamed.get(at, name) for at, name in enumerate(self.label_names_))
        self.notes_ = self.notes_ | {_FORMER: former}
        return self

    @learns_on_a_copy
    def merge_labels(self, labels: Sequence[str], into: str) -> Self:
        """Suggest one label wherever any of several would be suggested. Its score is the highest of their scores.

        The names of merged labels stay known: where data and corrections use them, they mean `into`.

        Parameters
        ----------
        labels : list of str
            Labels that are no longer suggested, by name or identifier.
        into : str
            The label that is suggested instead.
        """
        target = self._label(into)
        merged = {self._label(label) for label in listed_strings(labels, "labels")} - {target}
        if not merged:
            raise DataError(f"there is no label to merge into {into!r}", remedy="Give at least one other label")
        # Labels that were merged into one of them before are now merged into `target`, too.
        moved = {label: target if to in merged else to for label, to in self._moved().items()}
        counts = np.array(self.label_counts_)
        counts[target] += sum(int(counts[label]) for label in merged)  # counts a point twice if it has two of them
        counts[list(merged)] = 0
        self.label_counts_ = counts
        self._move(moved | dict.fromkeys(merged, target))
        return self

    @learns_on_a_copy
    def retire_labels(self, labels: Sequence[str]) -> Self:
        """Stop suggesting some labels. :meth:`add_labels` brings them back.

        Parameters
        ----------
        labels : list of str
            Labels by name or identifier.
        """
        retired = {self._label(label) for label in listed_strings(labels, "labels")}
        left = self.ranker_.n_labels_ - len(self._moved().keys() | retired)
        if left < 1:
            raise DataError("no label would be left", remedy="Keep at least one label")
        moved = {label: RETIRED if to in retired else to for label, to in self._moved().items()}
        self._move(moved | dict.fromkeys(retired, RETIRED))
        return self

    def label_numbers(self) -> dict[str, int]:
        """Return the column of each label by its name and by its identifier. A name wins over an equal identifier.

        A former name gives the renamed label, and the name of a merged label gives the label it was merged into.
        Retired labels are left out.
        """
        moved = self._moved()
        numbers = self._former_names() | {identifier: at for at, identifier in enumerate(self.label_ids_ or ())}
        numbers |= {name: at for at, name in enumerate(self._names())}
        if not moved:
            return numbers
        return {name: to for name, at in numbers.items() if (to := moved.get(at, at)) != RETIRED}

    def moved_labels(self) -> dict[str, str | None]:
        """Return the labels that are no longer suggested, with the label each was merged into, None if retired."""
        names = self._names()
        return {names[label]: None if to == RETIRED else names[to] for label, to in self._moved().items()}

    def current_names(self, names: Sequence[str]) -> list[str]:
        """Return the names with each former name of a renamed label replaced by its current name."""
        former = self._former_names()
        if not former:
            return list(names)
        taken = set(self.label_names_) | set(self.label_ids_ or ())
        return [name if name in taken or name not in former else self.label_names_[former[name]] for name in names]

    def current_labels(self, Y: csr_array) -> csr_array:
        """Return correct labels with each merged label replaced by the label it was merged into."""
        merged = {label: to for label, to in self._moved().items() if to != RETIRED}
        label_map = LabelMap.of(merged)
        return Y if label_map is None else canonical(label_map.applied(Y))

    def _former_names(self) -> dict[str, int]:
        return self.notes_.get(_FORMER, {})

    def _moved(self) -> dict[int, int]:
        """Return the column that stands in for each merged or retired label; ``RETIRED`` if there is none."""
        self._names()
        return {} if self.ranker_.label_map_ is None else self.ranker_.label_map_.as_dict()

    def _move(self, moved: dict[int, int]) -> None:
        self.ranker_ = copy(self.ranker_)
        self.ranker_.label_map_ = LabelMap.of(moved)

    def _names(self) -> Names:
        self._check_fitted()
        return self.label_names_

    def _label(self, label: str) -> int:
        """Return the column of a label that is still suggested."""
        if not isinstance(label, str):
            raise DataError(f"a label is {value_shown(label)}, not text", remedy="Give its name or identifier")
        at = find_label(label, self._names(), self.label_ids_)
        target = self._moved().get(at, at)
        if target == RETIRED:
            raise DataError(f"the label {label!r} was retired", remedy="Add it again first")
        if target != at:
            into = self.label_names_[target]
            raise DataError(f"the label {label!r} was merged into {into!r}", remedy=f"Change {into!r} instead")
        return at

    @staticmethod
    def _check_new(names: Sequence[str], known: Sequence[str]) -> None:
        """Raise an error for names that exist already, are blank, or are given twice."""
        seen = set(known)
        for name in names:
            if not name.strip():
                raise DataError("a label has no name", remedy="Give each label a name")
            if name in seen:
                raise DataError(f"the label {name!r} is there already", remedy="Give only new labels, each once")
            seen.add(name)


def listed_strings(values: Any, what: str) -> list[str]:
    """Return values as a list of strings, or raise an error that names the parameter `what`."""
    single = isinstance(values, str | bytes | Mapping) or getattr(values, "ndim", 1) == 0
    listed: list[Any] = list(values) if isinstance(values, Iterable) and not single else [None]
    if not all(isinstance(value, str) for value in listed):
        raise DataError(f"{what} is not a list of strings", remedy="Put a single label into a list: [label]")
    return listed
