"""Partitions of vectors by k-means, and how many of them a search has to open.

Vectors are assigned to the centroid of the nearest direction, whatever their length. Assignment is a matrix product,
one block of vectors at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from longtail.index.base import Vectors, checked
from longtail.index.exact import exact_search
from longtail.kernels import pool
from longtail.kernels import search as kernels
from longtail.kernels.blas import product, single_threaded

_VECTORS_AT_ONCE = 4096
# (training vectors per partition, rounds of k-means with as many). First a few vectors, which bring the centroids near
# their final places in an eighth of the time. With 60,000 vectors, 24 partitions are opened; they are 23 if all ten
# rounds use 256 vectors. With 64 in all rounds, up to a third more partitions must be opened.
_KMEANS_ROUNDS = ((32, 8), (256, 2))
_QUERIES_SAMPLED = 256


class Partitioned(NamedTuple):
    """Vectors and the partition of each."""

    vectors: Vectors
    centroids: np.ndarray  # (partitions, d) means of the vectors in each, perhaps scaled; a search ranks them by score
    partition: np.ndarray  # (n,) the partition of each vector
    hubs: bool = False  # whether the first partition holds the hubs, which a search always looks at

    def with_hubs(self, queries: np.ndarray, n_hubs: int) -> Partitioned:
        """Move the vectors with the highest mean score over the queries into a partition of their own, the first.

        Vectors with a large bias, such as those of frequent labels, are among the best for queries from all
        directions, but lie in different partitions. Among 100,000 classifiers there were 48 such vectors. Because of
        them, a search for 99 % of the best five opened 598 of 949 partitions; with a partition of hubs it opens 10.
        """
        rows = self.vectors.rows
        partition = self.partition + 1
        partition[np.argpartition(-(rows @ queries.mean(axis=0)), n_hubs - 1)[:n_hubs]] = 0
        means, counts = _means(rows, np.arange(len(rows)), partition, len(self.centroids) + 1)
        means[1:] = np.where(counts[1:, None] > 0, means[1:], self.centroids)
        means[0] = 0
        return Partitioned(self.vectors, means, partition, hubs=True)

    def of_equal_length(self) -> Partitioned:
        """Scale all centroids to their mean length, so that partitions are ranked by direction alone.

        The mean of scattered vectors is short and scores low, although one of these vectors may score high.
        """
        lengths = np.sqrt(np.einsum("ij,ij->i", self.centroids, self.centroids))
        scale = np.where(lengths > 0, lengths.mean() / np.where(lengths > 0, lengths, 1), 1)
        return self._replace(centroids=(self.centroids * scale[:, None]).astype(np.float32))


def nearest_centroids(
    vectors: np.ndarray, rows: np.ndarray | None, centroids: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return the centroid of the nearest direction for each vector; `rows` selects vectors, None is all."""
    n = len(vectors) if rows is None else len(rows)
    lengths = np.sqrt(np.einsum("ij,ij->i", centroids, centroids))
    centroids = centroids / np.where(lengths > 0, lengths, 1)[:, None]
    out = np.empty(n, np.int32)
    with single_threaded():
        for start in range(0, n, _VECTORS_AT_ONCE):
            part = slice(start, start + _VECTORS_AT_ONCE)
            block = vectors[part] if rows is None else vectors[rows[part]]
            products = product(block, centroids.T, n_jobs)  # (block, partitions)

            def work(span: tuple[int, int], products: np.ndarray = products, to: np.ndarray = out[part]) -> None:
                kernels.nearest(products, *span, to)

            pool.run(work, pool.blocks(len(block), n_jobs, smallest=1024), n_jobs)
    return out


def train_partitions(vectors: Vectors, n_partitions: int, rng: np.random.Generator, n_jobs: int | None) -> Partitioned:
    """Cluster vectors by k-means.

    Centroids are trained on a small sample, then on a larger one. A partition that loses all its vectors gets a vector
    of the largest partition as its new centroid.
    """
    n = len(vectors.rows)
    order = rng.permutation(n)
    centroids = vectors.rows[order[:n_partitions]]
    for per_partition, n_rounds in _KMEANS_ROUNDS:
        rows = np.sort(order[: per_partition * n_partitions])
        before = None
        for _ in range(n_rounds):
            partition = nearest_centroids(vectors.rows, rows, centroids, n_jobs)
            if before is not None and (partition == before).all():
                break
            before = partition
            centroids, counts = _means(vectors.rows, rows, partition, n_partitions)
            empty = np.flatnonzero(counts == 0)
            if len(empty):
                largest = rows[partition == counts.argmax()]
                drawn = rng.choice(largest, min(len(empty), len(largest)), replace=False)
                centroids[empty[: len(drawn)]] = vectors.rows[drawn]
    partition = nearest_centroids(vectors.rows, None, centroids, n_jobs)
    means, counts = _means(vectors.rows, np.arange(n), partition, n_partitions)
    return Partitioned(vectors, np.where(counts[:, None] > 0, means, centroids), partition)


def _means(
    vectors: np.ndarray, rows: np.ndarray, partition: np.ndarray, n_partitions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the vectors in each partition, and their number."""
    sums, counts = kernels.sum_members(vectors, rows, partition, n_partitions)
    return sums / np.maximum(counts, 1)[:, None].astype(np.float32), counts


def sampled_queries(queries: np.ndarray | None, seed: int) -> np.ndarray | None:
    """Draw as many of the expected queries as :func:`sample_searches` uses."""
    if queries is None or len(queries) <= _QUERIES_SAMPLED:
        return queries
    rng = np.random.default_rng(seed)
    return np.asarray(queries)[rng.choice(len(queries), _QUERIES_SAMPLED, replace=False)]


class Sample(NamedTuple):
    """Queries with their truly nearest vectors."""

    queries: np.ndarray  # (m, d)
    nearest: np.ndarray  # (m, k) ids
    scores: np.ndarray  # (m, k)
    weights: np.ndarray  # (m, k) weight of each neighbour in the recall; 0 for the vector that a query was made from


def sample_searches(
    vectors: Vectors,
    queries: np.ndarray | None,
    metric: str,
    k: int,
    log_odds: bool,
    seed: int,
    n_jobs: int | None,
) -> list[Sample]:
    """Search for samples of queries exactly. The effort of later searches is what the hardest sample needs.

    All neighbours have the same weight or, if scores are `log_odds`, their probability as weight.

    Without queries, two samples are made from the vectors. One has vectors plus noise of the same length, like a point
    near one label; the vector itself is not counted among the neighbours. The other has sums of three vectors, like a
    point with several labels of different topics.
    """
    rows, squares = vectors
    if queries is not None:
        sample = _searched(vectors, checked(queries, "query", metric, rows.shape[1]), None, k, n_jobs)
        return [_by_probability(sample) if log_odds else sample]
    rng = np.random.default_rng(seed)
    own = rng.choice(len(rows), min(len(rows), _QUERIES_SAMPLED), replace=False)
    noise = rng.standard_normal((len(own), rows.shape[1]), np.float32)
    noise *= np.sqrt(squares[own] / np.float32(rows.shape[1]))[:, None]
    mixed = rows[rng.integers(0, len(rows), (_QUERIES_SAMPLED, 3))].sum(axis=1)
    return [
        _searched(vectors, checked(made, "query", metric), left_out, k, n_jobs)
        for made, left_out in ((rows[own] + noise, own), (mixed, None))
    ]


def _searched(vectors: Vectors, queries: Vectors, own: np.ndarray | None, k: int, n_jobs: int | None) -> Sample:
    """Search exactly; ``own[row]``, the vector that a query was made from, gets no weight."""
    nearest, scores = exact_search(vectors, queries, k if own is None else k + 1, n_jobs)
    counted = nearest >= 0 if own is None else (nearest >= 0) & (nearest != own[:, None])
    return Sample(queries.rows, nearest, scores, counted.astype(np.float64))


def _by_probability(sample: Sample) -> Sample:
    """Weight neighbours by their probability, given scores that are log odds."""
    return sample._replace(weights=sample.weights / (1 + np.exp(-np.maximum(sample.scores, -60.0))))


def needed_effort(parts: Partitioned, samples: Sequence[Sample], recall: float) -> tuple[int, float]:
    """Measure how far a search must go to find a share `recall` of the true neighbours in every sample.

    Returns
    -------
    n_probe : int
        Number of partitions to open, at most.
    reach : float
        The search ends when the next centroid scores less than this share of the best vector's score. A query near one
        label needs one or two partitions, a query near several labels needs many. The reach tells them apart, so that
        easy queries stay fast.
    """
    efforts = [_effort_for(parts, sample, recall) for sample in samples]
    return max(n_probe for n_probe, _ in efforts), min(reach for _, reach in efforts)


def _effort_for(parts: Partitioned, sample: Sample, recall: float) -> tuple[int, float]:
    """Measure `n_probe` and `reach` on one sample."""
    scores = sample.queries @ parts.centroids.T  # (queries, partitions)
    if parts.hubs:
        scores[:, 0] = np.inf
    needed = np.take_along_axis(scores, parts.partition[sample.nearest], axis=1)  # of each neighbour's partition
    if not sample.weights.any():
        return len(parts.centroids), -math.inf
    descending = zip(np.sort(-scores, axis=1), needed, strict=True)
    ranks = [np.searchsorted(negated, -row, "right") for negated, row in descending]
    n_probe = int(_quantile(np.array(ranks), sample.weights, recall))
    positive = sample.scores[:, 0] > 0  # a search without a positive score never ends early
    if not sample.weights[positive].any():
        return n_probe, -math.inf
    shares = needed[positive] / sample.scores[positive, :1]
    return n_probe, float(-_quantile(-shares, sample.weights[positive], recall))


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return the smallest value that at least `share` of the total weight does not exceed."""
    weighted = weights > 0
    values, weights = values[weighted], weights[weighted]
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    # The factor keeps a rounding error from moving the quantile to the next value.
    at = np.searchsorted(reached, share * reached[-1] * (1 - 1e-12))
    return values[order][min(at, len(values) - 1)]
