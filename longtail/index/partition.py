"""Partitions of vectors by k-means, and how many of them a search must open.

Inner product and cosine cluster by direction (a longer vector does not change which direction it has), the distance by
distance. Assignment is a matrix product, a block of vectors at a time.
"""

from __future__ import annotations

import math

import numpy as np

from longtail.index.base import Index, limit_blas
from longtail.index.exact import exact_search
from longtail.kernels import pool
from longtail.kernels import search as kernels

_BLOCK = 4096
_PER_PARTITION = 64  # training vectors: more moves centroids little
_ROUNDS = 10
_SAMPLE = 256  # queries


def assign(
    vectors: np.ndarray, rows: np.ndarray | None, centroids: np.ndarray, l2: bool, n_jobs: int | None
) -> np.ndarray:
    """Nearest centroid of each vector, or of those in `rows`; by direction unless `l2`."""
    n = len(vectors) if rows is None else len(rows)
    lengths = np.einsum("ij,ij->i", centroids, centroids)
    if not l2:
        centroids = centroids / np.sqrt(np.where(lengths > 0, lengths, 1))[:, None]
    out = np.empty(n, np.int32)
    with limit_blas(n_jobs):
        for start in range(0, n, _BLOCK):
            part = slice(start, start + _BLOCK)
            block = vectors[part] if rows is None else vectors[rows[part]]
            products = block @ centroids.T  # (block, partitions)

            def work(span: tuple[int, int], products: np.ndarray = products, to: np.ndarray = out[part]) -> None:
                kernels.nearest(products, lengths, l2, *span, to)

            pool.run(work, pool.blocks(len(block), n_jobs, smallest=1024), n_jobs)
    return out


def k_means(
    vectors: np.ndarray, n_partitions: int, l2: bool, rng: np.random.Generator, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Centroids (means of their members) and the partition of each vector.

    Centroids are trained on a sample. A partition that loses all its members starts again at a vector of the largest.
    """
    n = len(vectors)
    rows = np.sort(rng.permutation(n)[: _PER_PARTITION * n_partitions])
    centroids = vectors[rng.choice(rows, n_partitions, replace=False)]
    for _ in range(_ROUNDS):
        partition = assign(vectors, rows, centroids, l2, n_jobs)
        centroids, counts = _means(vectors, rows, partition, n_partitions)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            crowded = rows[partition == counts.argmax()]
            again = rng.choice(crowded, min(len(empty), len(crowded)), replace=False)
            centroids[empty[: len(again)]] = vectors[again]
    everything = np.arange(n)
    partition = assign(vectors, None, centroids, l2, n_jobs)
    means, counts = _means(vectors, everything, partition, n_partitions)
    return np.where(counts[:, None] > 0, means, centroids), partition


def _means(
    vectors: np.ndarray, rows: np.ndarray, partition: np.ndarray, n_partitions: int
) -> tuple[np.ndarray, np.ndarray]:
    sums, counts = kernels.sum_members(vectors, rows, partition, n_partitions)
    return sums / np.maximum(counts, 1)[:, None].astype(np.float32), counts


def needed_probes(
    index: Index, centroids: np.ndarray, partition: np.ndarray, queries: np.ndarray | None, k: int, recall: float,
    rng: np.random.Generator, n_jobs: int | None,
) -> int:  # fmt: skip
    """How many partitions hold `recall` of the true k nearest neighbours, over a sample of queries.

    Without queries, two samples are made of the vectors, and the harder one counts: vectors with noise of their own
    length, each one's own vector left out, as a point near one label; and sums of three vectors, as a point that has
    several labels of different topics.
    """
    if queries is not None:
        queries = np.asarray(queries)
        if len(queries) > _SAMPLE:
            queries = queries[rng.choice(len(queries), _SAMPLE, replace=False)]
        return _probes_for(index, centroids, partition, queries, None, k, recall, n_jobs)
    own = rng.choice(len(index), min(len(index), _SAMPLE), replace=False)
    noise = rng.standard_normal((len(own), index.width), np.float32)
    noise *= np.sqrt(index._squares[own] / np.float32(index.width))[:, None]
    mixed = index.vectors[rng.integers(0, len(index), (_SAMPLE, 3))].sum(axis=1)
    return max(
        _probes_for(index, centroids, partition, index.vectors[own] + noise, own, k, recall, n_jobs),
        _probes_for(index, centroids, partition, mixed, None, k, recall, n_jobs),
    )


def _probes_for(
    index: Index, centroids: np.ndarray, partition: np.ndarray, queries: np.ndarray, own: np.ndarray | None, k: int,
    recall: float, n_jobs: int | None,
) -> int:  # fmt: skip
    """`needed_probes` for these queries; the neighbour ``own[row]`` of a query does not count."""
    rows, squares = index._prepared(queries, "query")
    found, _ = exact_search(index, rows, squares, k if own is None else k + 1, n_jobs)
    near = rows @ centroids.T  # (queries, partitions)
    if index._l2:
        near = 2 * near - np.einsum("ij,ij->i", centroids, centroids)
    near = -near
    at = np.take_along_axis(near, partition[found], axis=1)  # of the partition of each neighbour
    counted = found >= 0 if own is None else (found >= 0) & (found != own[:, None])
    if not counted.any():
        return len(centroids)
    near.sort(axis=1)
    ranks = [np.searchsorted(row, there[use], "right") for row, there, use in zip(near, at, counted, strict=True)]
    ordered = np.sort(np.concatenate(ranks))
    return int(ordered[min(len(ordered), math.ceil(recall * len(ordered))) - 1])
