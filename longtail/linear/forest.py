"""Trained label trees for prediction, stored as one set of flat arrays that can be memory-mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import beam, check, pool, products
from longtail.kernels.csr import Csr
from longtail.linear.train import TreeWeights, node_type
from longtail.linear.tree import LabelTree
from longtail.sparse import from_top_k, frozen, select_entries
from longtail.store.flat import FlatArrays
from longtail.store.invariants import Array, Read, Relation, Rules, Sizes, floats, indices, pointers

_POINTER_TYPES = "i4 i8"
_NODE_BYTES = 1 << 19  # bytes of node numbers that are checked together: few enough to stay in the cache
SLOPES = {"squared_hinge": 4.0, "logistic": 1.0}  # log odds per unit of margin, by the loss of training


@dataclass
class Forest(FlatArrays):
    """All trees of a model. The arrays ``*_at`` hold where each tree begins in the arrays of all trees."""

    ptr: (
        np.ndarray
    )  # (T, 2 D + 1) where rows begin in nodes and values; a feature has one of inner nodes, one of labels
    nodes: np.ndarray
    values: np.ndarray  # int8 or float32
    scale: np.ndarray  # the margin of a node is scale * (sum of its values, times those of the point) + bias
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
        """Join trained trees into one forest. It empties `weights`, so that they are not in memory twice."""
        starts = np.concatenate([[0], np.cumsum([len(w.nodes) for w in weights])])
        rows = zip(trees, weights, starts[:-1], strict=True)
        ptr = np.stack([_row_starts(tree, w) + start for tree, w, start in rows])
        return cls(
            ptr=ptr.astype(np.int32 if starts[-1] < 2**31 else np.int64),
            nodes=_move_out(weights, "nodes"),
            values=_move_out(weights, "values"),
            scale=_move_out(weights, "scale"),
            bias=_move_out(weights, "bias"),
            child_ptr=np.concatenate([t.child_ptr for t in trees]),
            level_ptr=np.concatenate([t.level_ptr for t in trees]),
            labels=np.concatenate([t.labels for t in trees]),
            node_at=_starts([t.n_nodes for t in trees]),
            group_at=_starts([len(t.child_ptr) for t in trees]),
            level_at=_starts([len(t.level_ptr) for t in trees]),
            label_at=_starts([len(t.labels) for t in trees]),
        )

    def with_labels_of(self, other: Forest) -> Forest:
        """Return a forest with the classifiers of `other` for its labels, and these for all others; no inner nodes."""
        labels = np.union1d(self.labels, other.labels).astype(np.int32)
        kept = ~np.isin(self.labels, other.labels)
        tree = LabelTree(np.array([0, len(labels)], np.int32), np.array([0, len(labels)], np.int32), labels)
        matrices: list[csr_array] = []
        scale, bias = np.empty(len(labels), np.float32), np.empty(len(labels), np.float32)
        for forest, used in ((self, kept), (other, np.ones(len(other.labels), bool))):
            at = np.searchsorted(labels, forest.labels)
            scale[at[used]], bias[at[used]] = forest.scale[used], forest.bias[used]
            starts = forest.ptr[0, ::2]  # each feature has two rows; that of inner nodes is empty
            matrix = csr_array(
                (forest.values, at[forest.nodes].astype(np.int32), starts), shape=(len(starts) - 1, len(labels))
            )
            matrices.append(select_entries(matrix, used[forest.nodes]))
        joined = csr_array(matrices[0] + matrices[1])  # they have no entry in common
        nodes = joined.indices.astype(node_type(len(labels)))
        return Forest.join([tree], [TreeWeights(joined.indptr, nodes, joined.data, scale, bias)])

    @staticmethod
    def array_rules() -> Rules:
        """Declare the rules that the arrays must meet; D and L are the numbers of features and labels."""
        starts = {f"{name}_at": pointers("T+1", f"{name}s", "i8") for name in ("node", "group", "level", "label")}
        arrays = {
            "ptr": Array(_POINTER_TYPES, "T 2*D+1"),  # `_are_trees` checks the values of ptr and nodes
            "nodes": Array("u2 i4", "entries"),
            "values": floats("entries", "i1 f4"),
            "scale": floats("nodes"),
            "bias": floats("nodes"),
            "child_ptr": Array("i4", "groups", least=0),
            "level_ptr": Array("i4", "levels", least=0),
            "labels": indices("labels", below="L"),
        }
        return Rules(arrays | starts, (Relation(_are_trees, "of the label trees do not fit together", "nodes"),))

    @cached_property
    def trees(self) -> beam.Trees:
        """The arrays for the search: those stored, dense copies of long rows, and skips."""
        n_trees = len(self.ptr)
        first_label = self.level_ptr[self.level_at[1:] - 2]  # of each tree
        n_nodes = np.diff(self.node_at)
        needs_int64 = len(self.nodes) / products.DENSE >= 2**31  # an upper bound of dense values, and of skips
        dense_at = np.empty((n_trees, self.ptr.shape[1] - 1), np.int64 if needs_int64 else np.int32)
        skip_at, sizes = np.empty_like(dense_at), (0, 0)
        for t in range(n_trees):
            dense_at[t], skip_at[t], sizes = products.place_rows(self.ptr[t], first_label[t], n_nodes[t], sizes)
        dense, skips = np.zeros(sizes[0], self.values.dtype), np.empty(sizes[1], np.uint16)
        for t in range(n_trees):
            products.fill_rows(
                self.ptr[t], self.nodes, self.values, first_label[t], n_nodes[t],
                dense_at[t], dense, skip_at[t], skips,
            )  # fmt: skip
        arrays = self.arrays()
        steps = arrays.pop("scale")
        return beam.Trees(**arrays, steps=steps, dense_at=dense_at, dense=dense, skip_at=skip_at, skips=skips)

    @cached_property
    def label_places(self) -> np.ndarray | None:
        """The node and the group of each label in each tree, (T, L, 2), -1 if a tree lacks it; None for one tree."""
        n_trees = len(self.ptr)
        if n_trees == 1:
            return None
        places = np.full((n_trees, int(self.labels.max(initial=-1)) + 1, 2), -1, np.int32)
        for t in range(n_trees):
            labels = self.labels[self.label_at[t] : self.label_at[t + 1]]
            nodes = self.level_ptr[self.level_at[t + 1] - 2] + np.arange(len(labels))
            children = self.child_ptr[self.group_at[t] : self.group_at[t + 1]]
            places[t, labels, 0] = nodes
            places[t, labels, 1] = np.searchsorted(children, nodes, side="right") - 1
        return places

    @cached_property
    def widest_level(self) -> int:
        """The number of nodes of the largest level; a wider beam keeps no more nodes."""
        starts = zip(self.level_at[:-1], self.level_at[1:], strict=True)
        return max(int(np.diff(self.level_ptr[first:last]).max()) for first, last in starts)

    def _most_candidates(self, width: int) -> int:
        """Return an upper bound of the candidates of a point in all trees, searched with a beam of `width`."""
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

    def _buffers(self, n_labels: int, options: beam.Options, longest: int) -> beam.Scratch:
        """Return this thread's scratch memory for rows of up to `longest` features.

        It is kept between calls, because allocating it takes longer than searching for one point.
        """
        key = (n_labels, options.width)
        if getattr(self._scratch, "key", None) != key:
            self._scratch.buffers = beam.Scratch.empty(self.trees, self._most_candidates(options.width), *key)
            self._scratch.ptr = np.zeros(2, np.int64)
            self._scratch.frozen_ptr = frozen(self._scratch.ptr)
            self._scratch.key = key  # set last: an error or Ctrl-C above must not leave buffers of another size
        self._scratch.buffers = self._scratch.buffers.for_rows(longest, options.k)
        return self._scratch.buffers

    def search(
        self, rows: Csr, block: tuple[int, int], n_labels: int, options: beam.Options, results: beam.Results
    ) -> None:
        """Find the best labels of a block (first, last) of the rows; row `first` is row 0 of `results`."""
        first, last = block
        longest = int(np.diff(rows.ptr[first : last + 1]).max(initial=0))
        scratch = self._buffers(n_labels, options, longest)
        beam.search_trees(rows, first, last, self.trees, self.label_places, options, scratch, results)

    def search_point(
        self, features: np.ndarray, values: np.ndarray, n_labels: int, options: beam.Options
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the best labels of one point."""
        results = empty_results(1, options.k)
        scratch = self._buffers(n_labels, options, len(features))
        self._scratch.ptr[1] = len(features)
        rows = Csr(self._scratch.frozen_ptr, frozen(features), frozen(values))
        beam.search_trees(rows, 0, 1, self.trees, self.label_places, options, scratch, results)
        count = results.counts[0]
        return results.labels[0, :count], results.scores[0, :count]

    def search_rows(self, rows: Csr, n_labels: int, options: beam.Options, n_jobs: int | None) -> beam.Results:
        """Find the best labels of all rows."""
        dtypes = np.int64, np.int32, np.float32  # the types that kernels are compiled for
        rows = Csr(*(frozen(np.asarray(array, dtype)) for array, dtype in zip(rows, dtypes, strict=True)))
        results = empty_results(len(rows.ptr) - 1, options.k)

        def work(block: tuple[int, int]) -> None:
            self.search(rows, block, n_labels, options, beam.Results(*(part[slice(*block)] for part in results)))

        pool.spread(work, len(results.counts), n_jobs, pool.FEW_SLOW_ROWS)
        return results

    def predict(self, X: csr_array, n_labels: int, options: beam.Options, n_jobs: int | None) -> csr_array:
        """Find the best labels of every row of X (N, D), as a matrix (N, n_labels)."""
        labels, scores, counts = self.search_rows(Csr(X.indptr, X.indices, X.data), n_labels, options, n_jobs)
        all_full = int(counts.sum()) == labels.size
        return from_top_k(labels, scores, None if all_full else counts, n_labels)


def _are_trees(arrays: Mapping[str, np.ndarray], sizes: Sizes, read: Read) -> bool:
    """Return whether levels, children, labels and rows of every tree fit together."""
    trees = check.LabelTrees(**{name: frozen(arrays[name]) for name in check.LabelTrees._fields})
    limits = np.empty((sizes["T"], 2), np.int64)  # the first label and the number of nodes of each tree
    if not check.are_label_trees(trees, np.empty(sizes["L"], bool), limits):
        return False
    ptr, nodes = frozen(arrays["ptr"]), frozen(arrays["nodes"])
    n_pieces = 1 + nodes.nbytes // (len(ptr) * _NODE_BYTES)
    at = [2 * (sizes["D"] * piece // n_pieces) for piece in range(n_pieces + 1)]  # each feature has two rows
    end = 0  # of the previous tree
    for starts, (first_label, n_nodes) in zip(ptr, limits, strict=True):
        if starts[0] < end:
            return False
        end = starts[-1]
        for first, last in pairwise(at):
            rows = starts[first : last + 1]
            read(int(rows[-1]))
            if not check.rows_hold_nodes(rows, nodes, first_label, n_nodes):
                return False
    return True


def empty_results(n: int, k: int) -> beam.Results:
    """Allocate arrays for the k best labels of n points."""
    return beam.Results(np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.empty(n, np.int32))


@lru_cache(maxsize=64)  # building them anew would add to the time of every single point
def search_options(width: int, loss: str, unit: bool, k: int) -> beam.Options:
    """Return the options of a search, with fixed types so that kernels are compiled once."""
    return beam.Options(int(width), np.float32(SLOPES[loss]), bool(unit), int(k))


def _row_starts(tree: LabelTree, weights: TreeWeights) -> np.ndarray:
    """Return where the two rows of each feature begin, that of inner nodes and that of labels, (2 D + 1,)."""
    ptr = np.empty(2 * len(weights.ptr) - 1, np.int64)
    products.split_rows(weights.ptr, weights.nodes, tree.level_ptr[-2], ptr)
    return ptr


def _move_out(weights: list[TreeWeights], name: str) -> np.ndarray:
    """Return one array of all trees, joined, and remove it from the trees."""
    parts = [getattr(w, name) for w in weights]
    for w in weights:
        setattr(w, name, np.empty(0, parts[0].dtype))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _starts(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
