"""Forests of trees that part points (FastXML's): growing them in parallel, and flat arrays that hold all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.engine import memory
from longtail.kernels import gather, partition, point_tree, pool
from longtail.linear.tree import label_vectors
from longtail.store.flat import FlatArrays


@dataclass(frozen=True)
class GrowSettings:
    """How trees are grown.

    Parameters
    ----------
    n_trees : int
    max_leaf : int
        Nodes of at most so many points are leaves.
    labels_per_leaf : int
        Labels that a leaf keeps, at most.
    cost : float
        C, the weight of the logistic loss of the separators against their L1 norm.
    """

    n_trees: int = 50
    max_leaf: int = 10
    labels_per_leaf: int = 100
    cost: float = 2.0


@dataclass
class PointForest(FlatArrays):
    """All trees of a model, side by side. Children and leaves are numbered through all trees."""

    roots: np.ndarray  # (T,) the first node of each tree
    child: np.ndarray  # (nodes,) the first of a node's two children, or -1 - its leaf
    ptr: np.ndarray  # (nodes + 1,) a node's separator in features and values
    features: np.ndarray
    values: np.ndarray
    bias: np.ndarray  # (nodes,)
    leaf_ptr: np.ndarray  # (leaves + 1,) a leaf's labels and their shares
    labels: np.ndarray
    shares: np.ndarray
    tail_ptr: np.ndarray  # (L + 1,) label centroids, or one 0 where a model has none
    tail_idx: np.ndarray
    tail_val: np.ndarray

    @classmethod
    def grow(
        cls, X: csr_array, Y: csr_array, weights: np.ndarray, settings: GrowSettings, n_jobs: int | None, seed: int,
        centroids: csr_array | None = None,
    ) -> PointForest:  # fmt: skip
        """Grow all trees.

        Parameters
        ----------
        X, Y : csr_array, (N, D) and (N, L)
            Points without labels have nothing to say and are left out.
        weights : array, (L,)
            The worth of each label in partitions and leaves, above 0 and at most 1.
        centroids : csr_array, (L, D), optional
            Label centroids for re-ranking.
        """
        points = np.flatnonzero(np.diff(Y.indptr)).astype(np.int32)
        most_labels = len(np.unique(Y.indices))
        discounts = (1 / np.log2(np.arange(2, most_labels + 2))).astype(np.float32)  # place 1, 2, ...
        weights = weights.astype(np.float32)
        ideal = partition.ideal_gains(Y.indptr, discounts)
        threads = min(pool.cores(n_jobs), settings.n_trees)
        memory.require(
            threads * (16.0 * X.nnz + 60.0 * X.shape[0] + 12.0 * Y.shape[1] + 24.0 * X.shape[1] + 4.0 * Y.nnz)
            + settings.n_trees * (6.0 * Y.nnz + 20.0 * X.shape[0]),
            "Growing trees",
            "Lower n_jobs (each thread holds the points twice) or n_trees, or use fewer points.",
        )

        def work(tree: int) -> tuple[np.ndarray, ...]:
            grown = point_tree.grow(
                X.indptr, X.indices, X.data, Y.indptr, Y.indices, weights, ideal, discounts, points.copy(),
                X.shape[1], settings.max_leaf, settings.labels_per_leaf, np.float32(settings.cost), int(seeds[tree]),
            )  # fmt: skip
            done(1 / settings.n_trees)
            return grown

        seeds = np.random.default_rng(seed).integers(1 << 31, size=settings.n_trees)
        with progress.stage("growing trees") as done:
            trees = pool.run(work, range(settings.n_trees), n_jobs)
        return cls._join(trees, centroids)

    @classmethod
    def _join(cls, trees: list[tuple[np.ndarray, ...]], centroids: csr_array | None) -> PointForest:
        child, ptr, features, values, bias, leaf_ptr, labels, shares = zip(*trees, strict=True)
        roots = np.cumsum([0, *map(len, child)])
        leaves = np.cumsum([0, *(len(starts) - 1 for starts in leaf_ptr)])
        numbered = [
            np.where(part >= 0, part + root, part - leaf)
            for part, root, leaf in zip(child, roots[:-1], leaves[:-1], strict=True)
        ]
        if centroids is None:
            tail = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
        else:
            tail = centroids.indptr.astype(np.int64), centroids.indices.astype(np.int32), centroids.data
        return cls(
            roots=roots[:-1].astype(np.int32), child=np.concatenate(numbered).astype(np.int32), ptr=_chain(ptr),
            features=np.concatenate(features), values=np.concatenate(values), bias=np.concatenate(bias),
            leaf_ptr=_chain(leaf_ptr), labels=np.concatenate(labels), shares=np.concatenate(shares),
            tail_ptr=tail[0], tail_idx=tail[1], tail_val=tail[2],
        )  # fmt: skip

    def _buffers(self, n_features: int, n_labels: int) -> tuple[np.ndarray, ...]:
        """Scratch of this thread, kept between calls: a single point must not pay for fresh pages."""
        if getattr(self._scratch, "buffers", None) is None:
            most = min(n_labels, len(self.roots) * int(np.diff(self.leaf_ptr).max()))
            self._scratch.buffers = (
                np.zeros(n_features, np.float32), np.zeros(n_labels, np.float64),
                np.empty(most, np.int32), np.empty(most, np.float64),
            )  # fmt: skip
        return self._scratch.buffers

    def search(
        self, x_ptr: np.ndarray, x_idx: np.ndarray, x_val: np.ndarray, first: int, last: int,
        shape: tuple[int, int], k: int, alpha: float, gamma: float, factor: float, unit: bool,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Best labels of rows first..last: labels and scores (rows, k) and how many of them count.

        shape : features and labels of the model. The rest as :func:`longtail.kernels.point_tree.rank` has it.
        """
        labels = np.empty((last - first, k), np.int32)
        scores = np.empty((last - first, k), np.float32)
        counts = np.empty(last - first, np.int32)
        point_tree.rank(
            x_ptr, x_idx, x_val, first, last, *self.arrays().values(), alpha, gamma, np.float32(factor), unit, k,
            *self._buffers(*shape), labels, scores, counts,
        )  # fmt: skip
        return labels, scores, counts

    def predict(
        self, X: csr_array, n_labels: int, k: int, alpha: float, gamma: float, factor: float, unit: bool,
        n_jobs: int | None,
    ) -> csr_array:  # fmt: skip
        """Best labels of every row as CSR."""
        n = X.shape[0]
        jobs = 1 if n < 64 else n_jobs
        shape = X.shape[1], n_labels

        def work(block: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return self.search(X.indptr, X.indices, X.data, *block, shape, k, alpha, gamma, factor, unit)

        parts = pool.run(work, pool.blocks(n, jobs) or [(0, 0)], jobs)
        labels, scores, counts = (np.concatenate(side) for side in zip(*parts, strict=True))
        indptr = np.zeros(n + 1, np.int32 if n * k < 2**31 else np.int64)
        np.cumsum(counts, out=indptr[1:])
        filled = np.arange(k) < counts[:, None]
        return csr_array((scores[filled], labels[filled], indptr), shape=(n, n_labels))


def centroids(X: csr_array, Y: csr_array, width: int, n_jobs: int | None) -> csr_array:
    """The mean of each label's points, cut to its `width` strongest features: (L, D)."""
    vectors = label_vectors(X, Y, width, n_jobs)
    point_ptr, points = gather.invert(Y.indptr, Y.indices, Y.shape[1])

    def work(block: tuple[int, int]) -> np.ndarray:
        return point_tree.mean_products(
            point_ptr, points, X.indptr, X.indices, X.data, vectors.indptr, vectors.indices, vectors.data, *block,
            X.shape[1],
        )  # fmt: skip

    # Along its own direction a mean is as long as the mean of its points' products with that direction.
    lengths = np.concatenate(pool.run(work, pool.blocks(Y.shape[1], n_jobs, smallest=64), n_jobs))
    data = vectors.data * np.repeat(lengths, np.diff(vectors.indptr))
    return csr_array((data, vectors.indices, vectors.indptr), shape=vectors.shape)


def _chain(starts: tuple[np.ndarray, ...]) -> np.ndarray:
    """Row starts of parts laid end to end."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part) for part in starts]))]).astype(np.int64)
