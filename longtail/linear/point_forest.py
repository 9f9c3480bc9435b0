"""Forests of trees that split points (FastXML), grown in parallel and stored as one set of flat arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.engine import current
from longtail.engine.checkpoints import NO_STEPS, Steps
from longtail.kernels import check, gather, partition, point_tree, pool
from longtail.kernels.beam import Results
from longtail.kernels.csr import Csr
from longtail.linear.forest import empty_results
from longtail.linear.tree import mean_label_vectors
from longtail.sparse import from_top_k, frozen, frozen_csr, labelled_rows
from longtail.store.flat import FlatArrays
from longtail.store.invariants import Array, Read, Relation, Rules, Sizes, floats, indices, pointers

GrownTree = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class GrowSettings:
    """How trees are grown.

    Parameters
    ----------
    n_trees : int
        Number of trees.
    max_leaf : int
        Number of points in a leaf, at most.
    labels_per_leaf : int
        Number of labels that a leaf keeps, at most.
    cost : float
        C, the weight of the logistic loss of the separators against their L1 norm.
    steps : Steps
        Checkpoint of finished trees, so that an interrupted training can be resumed.
    """

    n_trees: int = 50
    max_leaf: int = 10
    labels_per_leaf: int = 100
    cost: float = 2.0
    steps: Steps = NO_STEPS


@dataclass
class PointForest(FlatArrays):
    """All trees of a model. Nodes and leaves are numbered consecutively over all trees."""

    roots: np.ndarray  # (T,) the first node of each tree
    child: np.ndarray  # (nodes,) the first of a node's two children; for a leaf, -1 minus its number
    ptr: np.ndarray  # (nodes + 1,) where a node's separator begins in features and values
    features: np.ndarray
    values: np.ndarray
    bias: np.ndarray  # (nodes,)
    leaf_ptr: np.ndarray  # (leaves + 1,) where a leaf begins in labels and shares
    labels: np.ndarray
    shares: np.ndarray
    tail_ptr: np.ndarray  # (L + 1,) label centroids (CSR), or a single 0 for a model without centroids
    tail_idx: np.ndarray
    tail_val: np.ndarray

    @classmethod
    def grow(
        cls,
        X: csr_array,
        Y: csr_array,
        weights: np.ndarray,
        settings: GrowSettings,
        n_jobs: int | None,
        seed: int,
        centroids: csr_array | None = None,
    ) -> PointForest:
        """Grow all trees.

        Parameters
        ----------
        X, Y : csr_array, (N, D) and (N, L)
            Points without labels are left out.
        weights : array, (L,)
            Weight of each label in partitions and leaves, above 0 and at most 1.
        settings : GrowSettings
            How trees are grown.
        n_jobs : int, optional
            Number of threads; all cores by default.
        seed : int
            Seed of the trees.
        centroids : csr_array, (L, D), optional
            Label centroids for re-ranking.
        """
        points = labelled_rows(Y).astype(np.int32)
        n_ranks = len(np.unique(Y.indices))
        discounts = (1 / np.log2(np.arange(2, n_ranks + 2))).astype(np.float32)  # ranks 1, 2, ...
        weights = weights.astype(np.float32)
        ideal = partition.ideal_gains(Y.indptr, discounts)
        gains = partition.LabelGains(frozen(weights), frozen(ideal), frozen(discounts))
        growth = point_tree.Growth(settings.max_leaf, settings.labels_per_leaf, np.float32(settings.cost))
        seeds = np.random.default_rng(seed).integers(1 << 31, size=settings.n_trees)
        names = [f"tree-{number + 1}" for number in range(settings.n_trees)]
        trees = {name: _stored_tree(settings.steps, name) for name in names if settings.steps.find(name) is not None}
        missing = [number for number, name in enumerate(names) if name not in trees]

        def finished(i: int, tree: GrownTree) -> None:
            name = names[missing[i]]
            trees[name] = tree
            settings.steps.arrays(name, lambda: {f"{i}": array for i, array in enumerate(tree)})
            done(1 / settings.n_trees)

        with progress.stage("growing trees") as done:
            done(1 - len(missing) / settings.n_trees)
            current().map(
                _grow_tree,
                [int(seeds[number]) for number in missing],
                ((_csr(X), _csr(Y)), gains, frozen(points), X.shape[1], growth),
                n_jobs=n_jobs,
                finished=finished,
            )
        return cls._join([trees[name] for name in names], centroids)

    @staticmethod
    def bytes_needed(X: csr_array, Y: csr_array, n_trees: int, n_jobs: int | None) -> float:
        """Estimate the memory of growing trees: the points twice per thread, and the leaves of all trees."""
        threads = min(pool.cores(n_jobs), n_trees)
        growing = 16.0 * X.nnz + 60.0 * X.shape[0] + 12.0 * Y.shape[1] + 24.0 * X.shape[1] + 4.0 * Y.nnz
        return threads * growing + n_trees * (6.0 * Y.nnz + 20.0 * X.shape[0])

    @classmethod
    def _join(cls, trees: list[GrownTree], centroids: csr_array | None) -> PointForest:
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
            roots=roots[:-1].astype(np.int32),
            child=np.concatenate(numbered).astype(np.int32),
            ptr=_chain(ptr),
            features=np.concatenate(features),
            values=np.concatenate(values),
            bias=np.concatenate(bias),
            leaf_ptr=_chain(leaf_ptr),
            labels=np.concatenate(labels),
            shares=np.concatenate(shares),
            tail_ptr=tail[0],
            tail_idx=tail[1],
            tail_val=tail[2],
        )

    @staticmethod
    def array_rules(centroids: bool) -> Rules:
        """Declare the rules that the arrays must meet; D and L are the numbers of features and labels."""
        arrays = {
            "roots": indices("T", below="nodes"),
            "child": Array("i4", "nodes"),
            "ptr": pointers("nodes+1", into="entries", dtypes="i8"),
            "features": indices("entries", below="D"),
            "values": floats("entries"),
            "bias": floats("nodes"),
            "leaf_ptr": pointers("leaves+1", into="leaf_entries", dtypes="i8"),
            "labels": indices("leaf_entries", below="L"),
            "shares": floats("leaf_entries", above=0),  # the search takes a sum of 0 for a label not found yet
            "tail_ptr": pointers("L+1" if centroids else "1", into="tail_entries", dtypes="i8"),
            "tail_idx": indices("tail_entries", below="D"),
            "tail_val": floats("tail_entries"),
        }
        return Rules(arrays, (Relation(_lead_to_leaves, "of the trees do not fit together"),))

    @cached_property
    def trees(self) -> point_tree.PointTrees:
        """The arrays as one tuple, for kernels."""
        return point_tree.PointTrees(**self.arrays())

    def _buffers(self, n_features: int, n_labels: int) -> point_tree.LeafScratch:
        """Return this thread's scratch memory, kept because allocating it takes longer than ranking one point."""
        if getattr(self._scratch, "buffers", None) is None:
            most_found = min(n_labels, len(self.roots) * int(np.diff(self.leaf_ptr).max()))
            self._scratch.buffers = point_tree.LeafScratch(
                dense=np.zeros(n_features, np.float32),
                total=np.zeros(n_labels, np.float64),
                items=np.empty(most_found, np.int32),
                scores=np.empty(most_found, np.float64),
            )
        return self._scratch.buffers

    def search_point(
        self, features: np.ndarray, values: np.ndarray, shape: tuple[int, int], k: int, scoring: point_tree.LeafScoring
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the best labels of one point; `shape` is (number of features, number of labels) of the model."""
        results = empty_results(1, k)
        ptr = frozen(np.array([0, len(features)], np.int64))
        rows = Csr(ptr, frozen(features), frozen(values))
        point_tree.rank_by_leaves(rows, 0, 1, self.trees, scoring, self._buffers(*shape), results)
        return results.labels[0, : results.counts[0]], results.scores[0, : results.counts[0]]

    def predict(
        self, X: csr_array, n_labels: int, k: int, scoring: point_tree.LeafScoring, n_jobs: int | None
    ) -> csr_array:
        """Find the best labels of every row of X (N, D), as a matrix (N, n_labels)."""
        rows, shape = _csr(X), (X.shape[1], n_labels)
        results = empty_results(X.shape[0], k)

        def work(block: tuple[int, int]) -> None:
            part = Results(*(array[slice(*block)] for array in results))
            point_tree.rank_by_leaves(rows, *block, self.trees, scoring, self._buffers(*shape), part)

        pool.spread(work, X.shape[0], n_jobs)
        return from_top_k(*results, n_labels)


def _grow_tree(
    seed: int,
    matrices: tuple[Csr, Csr],
    gains: partition.LabelGains,
    points: np.ndarray,
    n_features: int,
    growth: point_tree.Growth,
) -> GrownTree:
    """Grow one tree; given the data, it depends on its seed only."""
    return point_tree.grow_point_tree(*matrices, gains, points.copy(), n_features, growth, seed)


def _stored_tree(steps: Steps, name: str) -> GrownTree:
    """Return a finished tree from the checkpoint."""
    arrays = steps.arrays(name, dict)
    return tuple(arrays[f"{i}"] for i in range(len(arrays)))


def _lead_to_leaves(arrays: Mapping[str, np.ndarray], sizes: Sizes, read: Read) -> bool:
    """Return whether there is at least one tree, and every node has two children or a leaf."""
    return sizes["T"] > 0 and bool(check.lead_to_leaves(frozen(arrays["child"]), sizes["leaves"]))


def _csr(X: csr_array) -> Csr:
    """Return the arrays of a matrix, read-only, with the types that kernels are compiled for."""
    X = frozen_csr(X)
    return Csr(X.indptr, X.indices, X.data)


def centroids(X: csr_array, Y: csr_array, width: int, n_jobs: int | None) -> csr_array:
    """Return label centroids (L, D): the mean of each label's points, reduced to its `width` strongest features."""
    vectors = mean_label_vectors(X, Y, width, n_jobs)
    point_ptr, points = gather.invert(Y.indptr, Y.indices, Y.shape[1])
    matrices = _csr(X), _csr(vectors)

    def work(block: tuple[int, int]) -> np.ndarray:
        return point_tree.mean_products(point_ptr, points, *matrices, *block, X.shape[1])

    # The length of a mean is the mean of its points' inner products with the unit vector of its direction.
    lengths = np.concatenate(pool.run(work, pool.blocks(Y.shape[1], n_jobs, smallest=64), n_jobs))
    data = vectors.data * np.repeat(lengths, np.diff(vectors.indptr))
    return csr_array((data, vectors.indices, vectors.indptr), shape=vectors.shape)


def _chain(starts: tuple[np.ndarray, ...]) -> np.ndarray:
    """Join the row starts of several matrices that are stored one after the other."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part) for part in starts]))]).astype(np.int64)
