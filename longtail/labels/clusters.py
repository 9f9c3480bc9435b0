"""Balanced clusters of labels: all labels are halved by spherical 2-means, then each half, until there are enough.

DECAF's shortlister uses them (paper §3.1, Module I): many small clusters of equal size, without the hierarchy.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import cluster, gather, pool

_LEAST_GAIN = 1e-4  # a round that raises the mean similarity by less is the last of a split
_MOST_ROUNDS = 50


def balanced_clusters(vectors: csr_array, n_clusters: int, seed: int = 0, n_jobs: int | None = None) -> np.ndarray:
    """Divide labels into clusters whose sizes differ by at most one label.

    Parameters
    ----------
    vectors : csr_array, (L, D)
        One vector per label; only directions count.
    n_clusters : int
        Number of clusters, rounded down to a power of two. With no more labels than this, each label is a cluster.
    seed : int
        Seed of the starting points.
    n_jobs : int, optional
        Number of threads; all cores by default.

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
        indptr, indices, data, squares, features = gather.gather_rows(
            vectors.indptr, vectors.indices, vectors.data, part, place
        )
        data *= np.repeat(1 / np.sqrt(np.maximum(squares, 1e-12)), np.diff(indptr)).astype(np.float32)
        order = cluster.two_means(indptr, indices, data, len(features), _LEAST_GAIN, _MOST_ROUNDS, seed + number)
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
    """Return the labels of each cluster: those of cluster c are ``labels[ptr[c]:ptr[c + 1]]``, given (ptr, labels)."""
    order = np.argsort(cluster_of, kind="stable").astype(np.int32)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(cluster_of, minlength=n_clusters))]).astype(np.int32)
    return ptr, order
