"""Balanced clusters of labels: halved again and again by two-means on the sphere, until there are enough.

What DECAF shortlists by (paper §3.1, Module I): many small clusters of equal size, the hierarchy itself forgotten.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import cluster, gather, pool


def balanced_clusters(
    vectors: csr_array, n_clusters: int, seed: int = 0, n_jobs: int | None = None, eps: float = 1e-4, max_iter: int = 50
) -> np.ndarray:
    """Cut labels into clusters of equal size, but for one.

    Parameters
    ----------
    vectors : csr_array, (L, D)
        Labels as vectors; only directions count.
    n_clusters : int
        Taken down to a power of two. With no more labels than that, each is a cluster of its own.
    seed : int
    eps : float
        A halving stops when the mean similarity gains less.

    Returns
    -------
    array, (L,)
        The cluster of each label; clusters are numbered from 0 without gaps.
    """
    n_labels = vectors.shape[0]
    if n_labels <= n_clusters:
        return np.arange(n_labels, dtype=np.int32)
    parts = [np.arange(n_labels)]

    def halve(task: tuple[int, np.ndarray]) -> list[np.ndarray]:
        number, part = task
        if len(part) < 2:
            return [part]
        place = np.full(vectors.shape[1], -1, np.int32)
        indptr, indices, data, norms, features = gather.gather_rows(
            vectors.indptr, vectors.indices, vectors.data, part, place
        )
        square = np.maximum(norms - 1, 0)  # the kernel counts the bias feature of linear models
        data *= np.repeat(1 / np.sqrt(np.maximum(square, 1e-12)), np.diff(indptr)).astype(np.float32)
        order = cluster.two_means(indptr, indices, data, len(features), eps, max_iter, seed + number)
        half = (len(part) + 1) // 2
        return [part[order[:half]], part[order[half:]]]

    for level in range(int(n_clusters).bit_length() - 1):
        numbers = 104729 * level + 7919 * np.arange(len(parts))
        parts = [half for pair in pool.run(halve, zip(numbers.tolist(), parts, strict=True), n_jobs) for half in pair]
    out = np.empty(n_labels, np.int32)
    for number, part in enumerate(parts):
        out[part] = number
    return out


def members(cluster_of: np.ndarray, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels by cluster: (ptr (K + 1,), labels)."""
    order = np.argsort(cluster_of, kind="stable").astype(np.int32)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(cluster_of, minlength=n_clusters))]).astype(np.int32)
    return ptr, order
