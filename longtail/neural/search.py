"""Exact search by inner product, in blocks of points: the best labels of each."""

from __future__ import annotations

import numpy as np

from longtail.kernels import pool
from longtail.kernels.rows import top_k_rows

_SCORES = 1 << 22  # scores held at once


def top_k(
    points: np.ndarray, labels: np.ndarray, bias: np.ndarray, k: int, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k labels of the highest ``points @ labels.T + bias``.

    Parameters
    ----------
    points : array, (N, d)
    labels : array, (L, d)
    bias : array, (L,)
    k : int
        At most L.

    Returns
    -------
    found, scores : arrays, (N, k)
        Positions of labels and their scores, the best first, ties by smaller position.
    """
    n = len(points)
    found, scores = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    size = max(1, _SCORES // max(1, len(labels)))
    for start in range(0, n, size):
        rows = points[start : start + size] @ labels.T  # (size, L)
        rows += bias

        def work(block: tuple[int, int], rows: np.ndarray = rows, start: int = start) -> None:
            first, last = block
            top_k_rows(rows[first:last], k, found[start + first : start + last], scores[start + first : start + last])

        jobs = 1 if rows.size < 1 << 18 else n_jobs
        pool.run(work, pool.blocks(len(rows), jobs), jobs)
    return found, scores
