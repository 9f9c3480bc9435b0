"""Trained label trees, laid out for prediction: one set of flat arrays holds all trees and can be memory-mapped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import beam, pool, products
from longtail.linear.train import TreeWeights
from longtail.linear.tree import LabelTree
from longtail.store.flat import FlatArrays

SLOPES = {"squared_hinge": 4.0, "logistic": 1.0}  # margin to log-odds, by the loss that made the margin


@dataclass
class Forest(FlatArrays):
    """All trees of a model. ``*_at`` say where each tree begins in the arrays that hold all of them."""

    ptr: np.ndarray  # (T, 2 D + 1) rows of the features in nodes and values: inner nodes, then labels
    nodes: np.ndarray
    values: np.ndarray  # int8 or float32
    scale: np.ndarray  # a node's margin is scale * (sum of its values) + bias
    bias: np.ndarray
    child_ptr: np.ndarray
    level_ptr: np.ndarray
    labels: np.ndarray
    node_at: np.ndarray  # (T + 1,)
    group_at: np.ndarray
    level_at: np.ndarray
    label_at: np.ndarray

    @classmethod
    def join(cls, trees: list[LabelTree], weights: list[TreeWeights]) -> Forest:
        """Lay trained trees out side by side. Takes the weights, so as not to hold them twice."""
        starts = np.concatenate([[0], np.cumsum([len(w.nodes) for w in weights])])
        rows = zip(trees, weights, starts[:-1], strict=True)
        ptr = np.stack([_rows(tree, w) + start for tree, w, start in rows])
        return cls(
            ptr=ptr.astype(np.int32 if starts[-1] < 2**31 else np.int64),
            nodes=_take(weights, "nodes"),
            values=_take(weights, "values"),
            scale=_take(weights, "scale"),
            bias=_take(weights, "bias"),
            child_ptr=np.concatenate([t.child_ptr for t in trees]),
            level_ptr=np.concatenate([t.level_ptr for t in trees]),
            labels=np.concatenate([t.labels for t in trees]),
            node_at=_starts([t.n_nodes for t in trees]),
            group_at=_starts([len(t.child_ptr) for t in trees]),
            level_at=_starts([len(t.level_ptr) for t in trees]),
            label_at=_starts([len(t.labels) for t in trees]),
        )

    @cached_property
    def trees(self) -> beam.Trees:
        """The arrays as the search takes them, with some more that are made rather than kept."""
        n_trees = len(self.ptr)
        inner = self.level_ptr[self.level_at[1:] - 2]  # nodes of each tree that are no labels
        full_at = np.empty((n_trees, self.ptr.shape[1] - 1), np.int64)
        size = 0
        for t in range(n_trees):
            n_nodes = int(self.node_at[t + 1] - self.node_at[t])
            size = products.place_full_rows(self.ptr[t], inner[t], n_nodes, size, full_at[t])
        full = np.zeros(size, self.values.dtype)
        for t in range(n_trees):
            products.fill_full_rows(self.ptr[t], self.nodes, self.values, inner[t], full_at[t], full)
        return beam.Trees(
            self.ptr, self.nodes, self.values, full_at.astype(np.int32 if size < 2**31 else np.int64), full,
            self.scale, self.bias, self.child_ptr, self.level_ptr, self.labels, self.node_at, self.group_at,
            self.level_at, self.label_at, self._node_of(),
        )  # fmt: skip

    def _node_of(self) -> np.ndarray:
        """The node of each label in each tree, (T, L); -1 where a tree has no such label."""
        n_trees = len(self.ptr)
        if n_trees == 1:  # not asked for
            return np.empty((1, 0), np.int32)
        nodes = np.full((n_trees, int(self.labels.max(initial=-1)) + 1), -1, np.int32)
        for t in range(n_trees):
            labels = self.labels[self.label_at[t] : self.label_at[t + 1]]
            nodes[t, labels] = self.level_ptr[self.level_at[t + 1] - 2] + np.arange(len(labels))
        return nodes

    def _most_candidates(self, width: int) -> int:
        """The most candidates a point can have over all trees with a beam of `width`."""
        total = 0
        for t in range(len(self.ptr)):
            sizes = np.diff(self.child_ptr[self.group_at[t] : self.group_at[t + 1]])
            levels = self.level_ptr[self.level_at[t] : self.level_at[t + 1]]
            most = int(sizes[0])
            for level in range(len(levels) - 2):
                siblings = np.sort(sizes[1 + levels[level] : 1 + levels[level + 1]])
                most = max(most, int(siblings[-width:].sum()))
            total += most
        return total

    def _buffers(self, n_labels: int, width: int) -> tuple[np.ndarray, ...]:
        """Scratch of this thread, kept between calls: a single point must not pay for fresh pages."""
        key = (n_labels, width)
        if getattr(self._scratch, "key", None) != key:
            candidates = self._most_candidates(width)
            nodes = int(np.diff(self.node_at).max())
            self._scratch.key = key
            self._scratch.buffers = (
                np.empty((len(self.ptr), nodes), np.float32),
                np.empty(candidates, np.int32),
                np.empty(candidates, np.float64),
                np.zeros(n_labels, np.bool_),
            )
        return self._scratch.buffers

    def search(
        self, x_ptr: np.ndarray, x_idx: np.ndarray, x_val: np.ndarray, first: int, last: int,
        n_labels: int, k: int, width: int, slope: float, unit: bool,
        labels: np.ndarray, scores: np.ndarray, counts: np.ndarray,
    ) -> None:  # fmt: skip
        """Best labels of rows first..last: into labels and scores (rows, k), and into counts how many of them count."""
        beam.search(
            x_ptr, x_idx, x_val, first, last, self.trees, width, np.float32(slope), unit, k,
            *self._buffers(n_labels, width), labels, scores, counts,
        )  # fmt: skip

    def search_point(
        self, x_idx: np.ndarray, x_val: np.ndarray, n_labels: int, k: int, width: int, slope: float, unit: bool
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Best labels of one point, or None where it has a feature out of range or a value that is no number."""
        labels, scores = np.empty((1, k), np.int32), np.empty((1, k), np.float32)
        count = beam.search_point(
            x_idx, x_val, self.ptr.shape[1] // 2, self.trees, width, np.float32(slope), unit, k,
            *self._buffers(n_labels, width), labels, scores,
        )  # fmt: skip
        return None if count < 0 else (labels[0, :count], scores[0, :count])

    def predict(
        self, X: csr_array, n_labels: int, k: int, width: int, slope: float, unit: bool, n_jobs: int | None
    ) -> csr_array:
        """Best labels of every row as CSR."""
        n = X.shape[0]
        labels, scores, counts = np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.empty(n, np.int32)

        def work(block: tuple[int, int]) -> None:
            out = (part[slice(*block)] for part in (labels, scores, counts))
            self.search(X.indptr, X.indices, X.data, *block, n_labels, k, width, slope, unit, *out)

        pool.spread(work, n, n_jobs)
        indptr = np.zeros(n + 1, np.int32 if n * k < 2**31 else np.int64)
        np.cumsum(counts, out=indptr[1:])
        if indptr[-1] == n * k:
            return csr_array((scores.ravel(), labels.ravel(), indptr), shape=(n, n_labels))
        filled = np.arange(k) < counts[:, None]
        scores = scores[filled]  # one after the other, so that only one of them is there twice
        labels = labels[filled]
        return csr_array((scores, labels, indptr), shape=(n, n_labels))


def _rows(tree: LabelTree, weights: TreeWeights) -> np.ndarray:
    """Where the rows of each feature begin, that of inner nodes and that of labels, (2 D + 1,)."""
    ptr = np.empty(2 * len(weights.ptr) - 1, np.int64)
    products.split_rows(weights.ptr, weights.nodes, tree.level_ptr[-2], ptr)
    return ptr


def _take(weights: list[TreeWeights], name: str) -> np.ndarray:
    """One array of all trees, which do not have it any more."""
    parts = [getattr(w, name) for w in weights]
    for w in weights:
        setattr(w, name, np.empty(0, parts[0].dtype))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _starts(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
