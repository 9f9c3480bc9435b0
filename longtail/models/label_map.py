"""Merged and retired labels of a fitted ranker: their scores move to other columns or are dropped.

Vocabularies change more often than models are trained. The ranker keeps its columns. A merged label gets the highest
score of the labels that were merged into it. Their training points are pooled only when the ranker is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.sparse import Arrays, entry_keys, select_entries
from longtail.store.invariants import Array, Rules, indices

RETIRED = -1
_EXTRA = 8  # labels to request beyond twice k, if that many labels have moved


@dataclass(frozen=True)
class LabelMap:
    """Labels that are no longer suggested, and the labels that are suggested instead.

    Attributes
    ----------
    labels : array of int, (M,)
        Labels whose scores move, ascending.
    targets : array of int, (M,)
        Labels that get these scores; -1 for retired labels, whose scores are dropped.
    """

    labels: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, targets: dict[int, int]) -> Self | None:
        """Build the map from a dict of label to target; None if it is empty."""
        if not targets:
            return None
        labels = sorted(targets)
        return cls(np.array(labels, np.int32), np.array([targets[label] for label in labels], np.int32))

    def as_dict(self) -> dict[int, int]:
        """Return the target of each label that has moved."""
        return dict(zip(self.labels.tolist(), self.targets.tolist(), strict=True))

    def moved(self, labels: np.ndarray) -> np.ndarray:
        """Return the label that is suggested in place of each of `labels`, -1 for retired ones."""
        at = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        return np.where(self.labels[at] == labels, self.targets[at], labels)

    def applied(self, scores: csr_array, k: int | None = None) -> csr_array:
        """Move the scores of a matrix whose rows have the best first, and keep the `k` best of each row.

        If several scores move to the same label, the highest one is kept.
        """
        moved = csr_array((scores.data, self.moved(scores.indices), scores.indptr), shape=scores.shape)
        moved = select_entries(moved, moved.indices >= 0)
        first = np.zeros(moved.nnz, np.bool_)
        first[np.unique(entry_keys(moved), return_index=True)[1]] = True
        moved = select_entries(moved, first)
        if k is None:
            return moved
        rank = np.arange(moved.nnz) - np.repeat(moved.indptr[:-1], np.diff(moved.indptr))
        return select_entries(moved, rank < k)

    def predict(
        self, predict: Callable[[csr_array, int], csr_array], X: csr_array, k: int, n_labels: int, width: int = 0
    ) -> csr_array:
        """Predict with the ranker's own labels, move the scores, and return the `k` best labels of each row.

        A row that has fewer than `k` labels after the move is predicted again with more labels. Each row is treated
        independently of the others.

        Parameters
        ----------
        predict : callable
            Given points and a number of labels, returns the best labels of each point.
        X : csr_array, (N, D)
            Points.
        k : int
            Number of labels per row, at most.
        n_labels : int
            Number of columns.
        width : int, optional
            Number of labels to request from `predict`.
        """
        width = min(width or k + min(len(self.labels), k + _EXTRA), n_labels)
        scores = predict(X, width)
        best = self.applied(scores, k)
        short = np.flatnonzero((np.diff(best.indptr) < k) & (np.diff(scores.indptr) == width))
        if not len(short) or width == n_labels or width >= k + len(self.labels):
            return best
        again = self.predict(predict, X[short], k, n_labels, 4 * width)
        rows = np.arange(X.shape[0])
        rows[short] = X.shape[0] + np.arange(len(short))
        return csr_array(vstack([best, again], format="csr"))[rows]

    # Storing -----------------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return the arrays to store."""
        return {"moved_labels": self.labels, "moved_to": self.targets}

    @staticmethod
    def array_rules(names: Container[str]) -> Rules:
        """Declare the rules that the arrays must meet, if a folder has them."""
        if "moved_labels" not in names:
            return Rules()
        targets = Array("i4", "moved", least=RETIRED, below="L")
        return Rules({"moved_labels": indices("moved", below="L", distinct=True), "moved_to": targets})

    @classmethod
    def taken_from(cls, arrays: Arrays) -> tuple[Self | None, Arrays]:
        """Restore the map from the arrays of a folder, None if it has none; return it and the other arrays."""
        if "moved_labels" not in arrays:
            return None, arrays
        others = {name: array for name, array in arrays.items() if name not in ("moved_labels", "moved_to")}
        return cls.of(dict(zip(arrays["moved_labels"].tolist(), arrays["moved_to"].tolist(), strict=True))), others
