"""Labels as they are met in files, gathered into a matrix."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import repeat

import numpy as np
from scipy.sparse import csr_array


class LabelRows:
    """Rows of label indices, appended one by one and made into a matrix at the end.

    Held in flat arrays of machine numbers: lists of Python integers would take ten times the room.
    """

    def __init__(self) -> None:
        self._indices, self._ends = array("i"), array("q", [0])
        self._relevance: array[float] | None = None

    def append(self, labels: Iterable[int], relevance: Iterable[float] | None = None) -> None:
        """Add a row. Raises TypeError for what is no whole number, OverflowError for what no index can hold."""
        if relevance is not None and self._relevance is None:
            self._relevance = array("f", repeat(1.0, len(self._indices)))
        self._indices.extend(labels)
        if self._relevance is not None:
            self._relevance.extend(repeat(1.0, len(self._indices) - self._ends[-1]) if relevance is None else relevance)
        self._ends.append(len(self._indices))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def outside(self, n_labels: int) -> tuple[int, int] | None:
        """Row and label of the first index that is not in 0 … n_labels - 1, if any."""
        indices = np.asarray(self._indices)
        wrong = (indices < 0) | (indices >= n_labels)
        if not wrong.any():
            return None
        at = int(np.argmax(wrong))
        return int(np.searchsorted(self._ends, at, side="right")) - 1, int(indices[at])

    def matrix(self, n_labels: int) -> csr_array:
        """The rows as a canonical matrix (N, L); a label named twice in a row is one, of its highest relevance."""
        indices = np.array(self._indices, np.int32)
        indptr = np.array(self._ends, np.int32 if len(indices) < 2**31 else np.int64)
        values = np.ones(len(indices), np.float32) if self._relevance is None else np.array(self._relevance, np.float32)
        return canonical(csr_array((values, indices, indptr), shape=(len(self), n_labels)))


def widen(A: csr_array, n_columns: int) -> csr_array:
    """The same entries in a matrix of `n_columns` columns; nothing is copied."""
    wide = csr_array((A.data, A.indices, A.indptr), shape=(A.shape[0], n_columns), copy=False)
    wide.has_canonical_format = A.has_canonical_format
    return wide


def canonical(Y: csr_array) -> csr_array:
    """Sort each row, keep the highest of duplicates, drop zeros."""
    if not Y.has_canonical_format:  # looks at the indices
        rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
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
