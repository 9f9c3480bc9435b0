"""Dense vectors given as rows of a sparse matrix: convert them, and find their nearest vectors in an index."""

from __future__ import annotations

import numpy as np

from longtail.index.base import Index
from longtail.kernels.dense_knn import Nearest
from longtail.kernels.encode import SparseRows

_NO_ID = np.int32(-1)


def dense_rows(points: SparseRows, width: int) -> np.ndarray:
    """Return sparse rows as a dense array, (N, width) float32."""
    n, begin, end = len(points.ptr) - 1, points.ptr[0], points.ptr[-1]
    rows = np.zeros((n, width), np.float32)
    if n == 1:
        rows[0, points.idx[begin:end]] = points.val[begin:end]
    else:
        rows[np.repeat(np.arange(n), np.diff(points.ptr)), points.idx[begin:end]] = points.val[begin:end]
    return rows


def nearest_rows(index: Index, points: SparseRows, k: int, n_jobs: int | None) -> Nearest:
    """Find the k nearest vectors of each point by cosine. Vectors with a cosine of 0 or less have the id -1."""
    rows = dense_rows(points, index.width)
    k = min(k, len(index))
    if len(rows) == 1:
        ids, cosines = (found[None] for found in index.search_one(rows[0], k))
    else:
        ids, cosines = index.search(rows, k, n_jobs=n_jobs)
    return Nearest(np.where(cosines > 0, ids, _NO_ID), cosines)
