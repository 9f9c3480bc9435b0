"""The label tree: labels clustered by the mean features of their points, level by level.

One mechanism serves all label trees. Parabel splits each group of labels into two halves of equal size; Bonsai splits a
group into up to a hundred unequal clusters and stays shallow; one-vs-rest is the tree without groups. All leaves have
the same depth: a group that needs no further split becomes its own only child on the remaining levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import cluster, gather, pool

LabelCut = Callable[[np.ndarray, int], list[np.ndarray]]

_LABELS_SAMPLED = 1 << 16  # labels of a group that its centroids are found with, at most
_LEAST_GAIN = 1e-4  # of the mean similarity in a round; with less, centroids are final
_HALVING_ROUNDS, _K_MEANS_ROUNDS = 50, 20  # at most
_LARGE = 1 << 14  # labels of a group that several threads assign to centroids


@dataclass
class LabelTree:
    """A tree as flat arrays. Nodes are numbered level by level, siblings side by side; the last level holds the labels.

    Attributes
    ----------
    child_ptr : int32 array, (n_groups + 1,)
        The children of group g are nodes ``child_ptr[g] .. child_ptr[g + 1]``. Group 0 is the root, and node n is group
        n + 1, so that groups are the root and all nodes above the last level.
    level_ptr : int32 array, (depth + 1,)
        Level d holds nodes ``level_ptr[d] .. level_ptr[d + 1]``.
    labels : int32 array
        The label of each node of the last level.
    """

    child_ptr: np.ndarray
    level_ptr: np.ndarray
    labels: np.ndarray

    @property
    def n_nodes(self) -> int:
        """Number of nodes, labels included."""
        return int(self.level_ptr[-1])

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.level_ptr) - 1

    def parents(self) -> np.ndarray:
        """Return the group of each node."""
        return np.repeat(np.arange(len(self.child_ptr) - 1, dtype=np.int32), np.diff(self.child_ptr))


def mean_label_vectors(X: csr_array, Y: csr_array, width: int, n_jobs: int | None) -> csr_array:
    """Return the mean of each label's points as a unit vector, reduced to its `width` strongest features.

    They make up nearly all of the vector's length, and a frequent label then costs no more to cluster than any other.
    """
    point_ptr, points = gather.invert(Y.indptr, Y.indices, Y.shape[1])

    def work(block: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return cluster.label_centroids(point_ptr, points, X.indptr, X.indices, X.data, *block, width, X.shape[1])

    parts = pool.run(work, pool.blocks(Y.shape[1], n_jobs, smallest=64), n_jobs)
    lengths = np.concatenate([np.diff(ptr) for ptr, _, _ in parts])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array(
        (np.concatenate([v for *_, v in parts]), np.concatenate([i for _, i, _ in parts]), indptr),
        shape=(Y.shape[1], X.shape[1]),
    )


def _local(vectors: csr_array, members: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    place = np.full(vectors.shape[1], -1, np.int32)
    indptr, indices, data, _, features = gather.gather_rows(
        vectors.indptr, vectors.indices, vectors.data, members, place
    )
    return indptr, indices, data, len(features)


def balanced_cuts(vectors: csr_array, arity: int, max_leaf: int) -> list[LabelCut]:
    """Return the cuts, one per level, of a tree whose inner nodes have `arity` (a power of two) equal children.

    Groups are halved until they have at most `max_leaf` labels. If the number of halvings is not a multiple of those
    per level, the first level has fewer children: its nodes are trained on every point.
    """
    halvings = max(0, int(np.ceil(np.log2(vectors.shape[0] / max_leaf))))
    per_level = int(arity).bit_length() - 1
    first = halvings % per_level
    rounds = [first] * (first > 0) + [per_level] * (halvings // per_level)
    return [partial(_halve, vectors, count) for count in rounds]


def _halve(vectors: csr_array, rounds: int, members: np.ndarray, seed: int) -> list[np.ndarray]:
    parts = [members]
    for step in range(rounds):
        halves = []
        for place, part in enumerate(parts):
            if len(part) < 2:
                halves.append(part)
                continue
            order = cluster.two_means(
                *_local(vectors, part), _LEAST_GAIN, _HALVING_ROUNDS, seed + 7919 * (place + 1) + step
            )
            part, half = part[order], (len(part) + 1) // 2
            halves += [part[:half], part[half:]]
        parts = halves
    return parts


def k_means_cut(vectors: csr_array, arity: int, n_jobs: int | None = 1) -> LabelCut:
    """Return a cut of a group into at most `arity` clusters of unequal size.

    Centroids of a very large group are found with a sample of its labels, which are then all assigned to the nearest.
    """

    def cut(members: np.ndarray, seed: int) -> list[np.ndarray]:
        n, k = len(members), min(arity, len(members))
        rng = np.random.default_rng(seed)
        if n > _LABELS_SAMPLED:
            members = members[rng.permutation(n)]  # the sample is the first of them
        m = min(n, _LABELS_SAMPLED)
        jobs = n_jobs if n >= _LARGE else 1
        indptr, indices, data, n_features = _local(vectors, members)
        nearest, similarity = np.full(n, -1, np.int32), np.zeros(n, np.float32)
        centroids = np.zeros((n_features, k), np.float32)
        for column, row in enumerate(rng.choice(m, k, replace=False)):
            span = slice(indptr[row], indptr[row + 1])
            centroids[indices[span], column] = data[span]

        def assign(rows: int) -> None:
            pool.run(
                lambda block: cluster.assign_rows(indptr, indices, data, *block, centroids, nearest, similarity),
                pool.blocks(rows, jobs),
                jobs,
            )

        before = -np.inf
        for _ in range(_K_MEANS_ROUNDS):
            assign(m)
            gain = float(similarity[:m].mean())
            if gain - before < _LEAST_GAIN:
                break
            before = gain
            cluster.recentre(indptr[: m + 1], indices, data, nearest[:m], centroids)
        if m < n:
            assign(n)
        order = np.lexsort((members, nearest)) if m < n else np.argsort(nearest, kind="stable")
        members = members[order]
        ends = [*(np.flatnonzero(np.diff(nearest[order])) + 1).tolist(), n]
        return [members[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

    return cut


def bounded_cut(cut: LabelCut, vectors: csr_array, label_counts: np.ndarray, n_points: int, most: float) -> LabelCut:
    """Return a cut whose parts are halved further where training them would take too long.

    k-means may leave a cluster of many labels that together have a large share of the points. With 1,000,000 labels,
    one had 28 times the training work of the next.

    Parameters
    ----------
    cut : callable
        The cut whose parts are bounded.
    vectors : csr_array
        Mean vectors of all labels, to halve a part by.
    label_counts : int array
        Points per label.
    n_points : int
        Number of points.
    most : float
        Bound on the labels of a part times its points, which are at most the sum of those of its labels.
    """

    def bounded(members: np.ndarray, seed: int) -> list[np.ndarray]:
        parts = []
        for part in cut(members, seed):
            work = len(part) * min(n_points, int(label_counts[part].sum()))
            rounds = max(0, int(np.ceil(np.log2(work / most))))
            parts += _halve(vectors, rounds, part, seed) if rounds else [part]
        return parts

    return bounded


def build_tree(labels: np.ndarray, cuts: Sequence[LabelCut], max_leaf: int, seed: int, n_jobs: int | None) -> LabelTree:
    """Split `labels` level by level until each group has at most `max_leaf` of them, or there are no more cuts.

    Parameters
    ----------
    labels : int array
        The labels of the tree: those that have points.
    cuts : sequence of callables
        One per level (see :func:`balanced_cuts`, :func:`k_means_cut`); none for the labels directly under the root.
    max_leaf : int
        A group no larger than this has labels as its children.
    seed : int
        Seed of the cuts.
    n_jobs : int, optional
        Number of threads; all cores by default.
    """
    groups = [np.asarray(labels, np.int32)]
    child_counts: list[np.ndarray] = []
    level_sizes: list[int] = []
    for level, cut in enumerate(cuts):
        if max(map(len, groups)) <= max_leaf:
            break

        def divide(task: tuple[int, np.ndarray], cut: LabelCut = cut, level: int = level) -> list[np.ndarray]:
            number, group = task
            return [group] if len(group) <= max_leaf else cut(group, seed + 104729 * level + number)

        parts = pool.run(divide, enumerate(groups), n_jobs)
        child_counts.append(np.array([len(part) for part in parts]))
        groups = [group for part in parts for group in part]
        level_sizes.append(len(groups))
    child_counts.append(np.array([len(group) for group in groups]))
    level_sizes.append(len(labels))
    child_ptr = np.concatenate([[0], np.cumsum(np.concatenate(child_counts))]).astype(np.int32)
    level_ptr = np.concatenate([[0], np.cumsum(level_sizes)]).astype(np.int32)
    return LabelTree(child_ptr, level_ptr, np.concatenate(groups).astype(np.int32))
