"""Collect the labels of points, as they are read from files, into a matrix."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import repeat

import numpy as np
from scipy.sparse import csr_array

from longtail.sparse import entry_rows


class LabelRows:
    """Collect rows of label indices one by one, and turn them into a matrix at the end.

    They are stored in flat arrays of machine numbers, as lists of Python integers would take ten times the memory.
    """

    def __init__(self) -> None:
        self._indices, self._ends = array("i"), array("q", [0])
        self._relevance: array[float] | None = None

    def append(self, labels: Iterable[int], relevance: Iterable[float] | None = None) -> None:
        """Append a row. Raise TypeError for labels that are not integers, OverflowError for those beyond 32 bits."""
        if relevance is not None and self._relevance is None:
            self._relevance = array("f", repeat(1.0, len(self._indices)))
        self._indices.extend(labels)
        if self._relevance is not None:
            self._relevance.extend(repeat(1.0, len(self._indices) - self._ends[-1]) if relevance is None else relevance)
        self._ends.append(len(self._indices))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def outside(self, n_labels: int) -> tuple[int, int] | None:
        """Return row and label of the first index that is not in 0 … n_labels - 1, or None if there is none."""
        indices = np.asarray(self._indices)
        wrong = (indices < 0) | (indices >= n_labels)
        if not wrong.any():
            return None
        at = int(np.argmax(wrong))
        return int(np.searchsorted(self._ends, at, side="right")) - 1, int(indices[at])

    def matrix(self, n_labels: int) -> csr_array:
        """Return the rows as a canonical matrix (N, L). A label given twice in a row keeps its highest relevance."""
        indices = np.array(self._indices, np.int32)
        indptr = np.array(self._ends, np.int32 if len(indices) < 2**31 else np.int64)
        values = np.ones(len(indices), np.float32) if self._relevance is None else np.array(self._relevance, np.float32)
        return canonical_labels(csr_array((values, indices, indptr), shape=(len(self), n_labels)))


def canonical_labels(Y: csr_array) -> csr_array:
    """Sort each row, keep the highest value of duplicate labels (those of features are summed), and drop zeros."""
    if not Y.has_canonical_format:  # this checks the indices
        rows = entry_rows(Y)
        order = np.lexsort((Y.indices, rows))
        rows, columns, values = rows[order], Y.indices[order], Y.data[order]
        first = np.concatenate(([True], (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])))
        values = np.maximum.reduceat(values, np.flatnonzero(first))
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows[first], minlength=Y.shape[0]))))
        Y = csr_array((values, columns[first], indptr.astype(Y.indptr.dtype)), shape=Y.shape)
        Y.has_canonical_format = True
    if Y.nnz and not Y.data.all():
        Y.eliminate_zeros()
    return Y
