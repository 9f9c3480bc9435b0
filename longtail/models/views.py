"""What else is known of the points that a network ranks: other views of them, to be mixed with it.

A few shallow trees over sparse features know single words best; similar training points know every rare label; where
labels have text, those whose text is most like the point are a third. :mod:`longtail.neural.ensemble` mixes them with
the network, by what held-out points show each to be worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.labels.neighbours import Neighbours
from longtail.models.base import Arrays, Ranker
from longtail.models.label_tree import LabelTreeRanker
from longtail.neural.ensemble import View


@dataclass
class Views:
    """Other models of the same points and labels; each may be missing.

    Attributes
    ----------
    linear : LabelTreeRanker, optional
    n_neighbours : int
        Training points that vote; 0 for no such view.
    n_matches : int
        Labels of the view of texts.
    neighbours : Neighbours, optional
        Training points and their labels.
    texts : Neighbours, optional
        Texts of labels, and the labels themselves.
    """

    linear: LabelTreeRanker | None = None
    n_neighbours: int = 0
    n_matches: int = 0
    neighbours: Neighbours | None = None
    texts: Neighbours | None = None

    def __len__(self) -> int:
        return sum(view is not None for view in (self.linear, self.neighbours, self.texts))

    def fit(self, X: csr_array, Y: csr_array) -> None:
        """Learn from points and their labels, and from nothing before them."""
        if self.linear is not None:
            self.linear.fit(X, Y)
        if self.n_neighbours:
            self.neighbours = Neighbours.of(X, Y)

    def join(self, X: csr_array, Y: csr_array) -> None:
        """Put further points among the neighbours; Y has the columns of all labels. Trees stay as they are."""
        if self.neighbours is not None:
            self.neighbours = Neighbours.of(X, Y, before=self.neighbours)

    # Answering ---------------------------------------------------------------------------------------------------

    def ask(self, X: csr_array, k: int, n_jobs: int | None) -> list[View]:
        """What each view says of some points, at most k labels of each."""
        views: list[View] = []
        if self.linear is not None:
            found = self.linear.predict(X, k)
            sure = np.zeros(X.shape[0], np.float32)
            some = np.diff(found.indptr) > 0
            sure[some] = found.data[found.indptr[:-1][some]]
            views.append((found.indptr, found.indices, found.data, sure))
        return views + self._similar(X.indptr, X.indices, X.data, k, n_jobs)

    def ask_one(self, indices: np.ndarray, values: np.ndarray, k: int) -> list[View]:
        """The same of one point, whose features and values are valid."""
        views: list[View] = []
        if self.linear is not None:
            found = self.linear._rank(indices, values, min(k, self.linear.n_labels_))
            assert found is not None
            views.append((np.array([0, len(found[0])], np.int32), *found, found[1][:1]))
        return views + self._similar(np.array([0, len(indices)], np.int32), indices, values, k, 1)

    def _similar(self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, k: int, n_jobs: int | None) -> list[View]:
        """Labels of similar points, and labels of similar text."""
        views = []
        if self.neighbours is not None:
            views.append(self.neighbours.vote(ptr, idx, val, self.n_neighbours, k, n_jobs))
        if self.texts is not None:
            views.append(self.texts.vote(ptr, idx, val, self.n_matches, min(k, self.n_matches), n_jobs, shared=False))
        return views

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        """Facts, arrays and rankers to store."""
        facts: dict[str, Any] = {"n_neighbours": self.n_neighbours, "n_matches": self.n_matches, "n_labels": {}}
        arrays: Arrays = {}
        for name, view in (("neighbours", self.neighbours), ("texts", self.texts)):
            if view is not None:
                arrays |= {f"{name}.{part}": array for part, array in view.arrays().items()}
                facts["n_labels"][name] = view.n_labels
        return facts, arrays, {} if self.linear is None else {"linear": self.linear}

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> Self:
        """What :meth:`state` took apart, among other arrays and parts."""
        linear = parts.get("linear")
        assert linear is None or isinstance(linear, LabelTreeRanker)
        views = cls(linear, facts["n_neighbours"], facts["n_matches"])
        for name, n_labels in facts["n_labels"].items():
            mark = f"{name}."
            held = {key.removeprefix(mark): array for key, array in arrays.items() if key.startswith(mark)}
            setattr(views, name, Neighbours(**held, n_labels=n_labels))
        return views


def weight(counts: np.ndarray, n_points: int) -> np.ndarray:
    """How often labels occur, as the mix sees it."""
    return (np.log1p(counts) / np.log1p(n_points)).astype(np.float32)
