"""Encode points as weighted sums of feature vectors: the first step of a prediction by a network."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.compiling import njit
from longtail.sparse import frozen


class SparseRows(NamedTuple):
    """Points as the three arrays of a CSR matrix. `ptr` need not begin at 0."""

    ptr: np.ndarray
    idx: np.ndarray
    val: np.ndarray

    @classmethod
    def of(cls, X: csr_array) -> SparseRows:
        """Return the rows of a matrix."""
        return cls(X.indptr, X.indices, X.data)

    @classmethod
    def single(cls, indices: np.ndarray, values: np.ndarray) -> SparseRows:
        """Return one point with the given features and values."""
        return cls(np.array([0, len(indices)], np.int32), indices, values)

    def divided(self, column: int) -> tuple[SparseRows, SparseRows]:
        """Split the features at a column. In the second part, they are counted from 0 again."""
        before = self.idx < column
        ends = np.zeros(len(before) + 1, self.ptr.dtype)
        np.cumsum(before, out=ends[1:])
        ptr = ends[self.ptr]
        first = SparseRows(ptr, self.idx[before], self.val[before])
        return first, SparseRows(self.ptr - ptr, self.idx[~before] - np.int32(column), self.val[~before])

    def frozen(self) -> SparseRows:
        """Return read-only views, so that kernels are compiled for one type."""
        return SparseRows(frozen(self.ptr), frozen(self.idx), frozen(self.val))


@njit(cache=True, nogil=True, fastmath=True, borrows=True)
def encode_whole(ptr, idx, val, table, bias, unit, first, last, out):
    """Set out[i] (d,) to bias + the sum of val * table[idx] over row i, for rows first..last.

    With `unit`, points are scaled to length 1 first. A row gives the same result alone and in a batch.
    """
    d = table.shape[1]
    for i in range(first, last):
        row = out[i]
        square = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            square += np.float64(val[p]) * np.float64(val[p])
        scale = np.float32(1.0 / np.sqrt(square)) if unit and square > 0 else np.float32(1.0)
        for j in range(d):
            row[j] = bias[j]
        for p in range(ptr[i], ptr[i + 1]):
            x = val[p] * scale
            w = table[idx[p]]
            for j in range(d):
                row[j] += x * w[j]
