"""The label tree: labels grouped by the features of their points, group by group, down to the labels themselves.

One mechanism serves the field's trees. Parabel halves each group of labels into equal parts; Bonsai cuts a group into
up to a hundred unequal ones and stays shallow; one-vs-rest is the tree without groups. All leaves lie at one depth: a
group that needs no further cut passes through the remaining levels as the only child of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import cluster, gather, pool

Cut = Callable[[np.ndarray, int], list[np.ndarray]]


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
        return int(self.level_ptr[-1])

    @property
    def depth(self) -> int:
        return len(self.level_ptr) - 1

    def parents(self) -> np.ndarray:
        """The group of each node."""
        return np.repeat(np.arange(len(self.child_ptr) - 1, dtype=np.int32), np.diff(self.child_ptr))


def label_vectors(X: csr_array, Y: csr_array, width: int, n_jobs: int | None) -> csr_array:
    """Labels as unit vectors: the mean of their points, cut to the `width` strongest features.

    The cut keeps nearly all of a vector's length and makes the cost of clustering a head label that of any other.
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


def balanced(vectors: csr_array, arity: int, max_leaf: int, eps: float = 1e-4, max_iter: int = 50) -> list[Cut]:
    """The cuts, level by level, of a tree whose inner nodes have `arity` (a power of two) children of equal size.

    Halving goes on until groups have at most `max_leaf` labels. Where the number of halvings does not divide evenly
    into levels, the first level has fewer children: it is the one whose nodes see every point.
    """
    halvings = max(0, int(np.ceil(np.log2(vectors.shape[0] / max_leaf))))
    a_level = int(arity).bit_length() - 1
    first = halvings % a_level
    rounds = [first] * (first > 0) + [a_level] * (halvings // a_level)
    return [partial(_halve, vectors, count, eps, max_iter) for count in rounds]


def _halve(
    vectors: csr_array, rounds: int, eps: float, max_iter: int, members: np.ndarray, seed: int
) -> list[np.ndarray]:
    parts = [members]
    for step in range(rounds):
        halves = []
        for place, part in enumerate(parts):
            if len(part) < 2:
                halves.append(part)
                continue
            order = cluster.two_means(*_local(vectors, part), eps, max_iter, seed + 7919 * (place + 1) + step)
            part, half = part[order], (len(part) + 1) // 2
            halves += [part[:half], part[half:]]
        parts = halves
    return parts


def k_means(vectors: csr_array, arity: int, eps: float = 1e-4, max_iter: int = 20, n_jobs: int | None = 1) -> Cut:
    """A cut of a group into at most `arity` parts of unequal size."""

    def cut(members: np.ndarray, seed: int) -> list[np.ndarray]:
        indptr, indices, data, n_features = _local(vectors, members)
        n, k = len(members), min(arity, len(members))
        nearest, similarity = np.full(n, -1, np.int32), np.zeros(n, np.float32)
        centroids = np.zeros((n_features, k), np.float32)
        for column, row in enumerate(np.random.default_rng(seed).choice(n, k, replace=False)):
            span = slice(indptr[row], indptr[row + 1])
            centroids[indices[span], column] = data[span]
        before = -np.inf
        for _ in range(max_iter):
            pool.run(
                lambda block: cluster.assign(indptr, indices, data, *block, centroids, nearest, similarity),
                pool.blocks(n, n_jobs),
                n_jobs,
            )
            gain = float(similarity.mean())
            if gain - before < eps:
                break
            before = gain
            cluster.recentre(indptr, indices, data, nearest, centroids)
        order = np.argsort(nearest, kind="stable")
        ends = np.flatnonzero(np.diff(nearest[order])) + 1
        return [part for part in np.split(members[order], ends) if len(part)]

    return cut


def build(labels: np.ndarray, cuts: Sequence[Cut], max_leaf: int, seed: int, n_jobs: int | None) -> LabelTree:
    """Cut `labels` level by level until each group has at most `max_leaf` of them, or there are no more cuts.

    Parameters
    ----------
    labels : int array
        The labels to place; labels without a point are left out by the caller.
    cuts : sequence of callables
        One a level (see :func:`balanced`, :func:`k_means`); none for the labels directly under the root.
    max_leaf : int
        A group no larger than this has labels as its children.
    """
    groups = [np.asarray(labels, np.int32)]
    child_counts: list[np.ndarray] = []
    level_sizes: list[int] = []
    for level, cut in enumerate(cuts):
        if max(map(len, groups)) <= max_leaf:
            break

        def divide(task: tuple[int, np.ndarray], cut: Cut = cut, level: int = level) -> list[np.ndarray]:
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
