"""Compute the products of one point with the classifiers of a label tree.

The weights of a tree are stored by feature: the row of a feature has the nodes that use it in ascending order, first
the inner nodes, then the labels. The score of a node is a sum over the rows of the point's features. There are two ways
to compute scores:

- Whole rows: all nodes are scored in one pass, without any search. This is fastest if rows are short. A row with many
  of the nodes is also stored densely, including zeros, and added with vector instructions.
- Masked rows: only the children of some nodes are scored. Siblings are consecutive in a row, so that the cost hardly
  depends on the number of labels. Nodes are processed in blocks of 2^BLOCK. Longer rows have *skips*, the number of
  entries before each block, so that the entries of a block are found at once. In shorter rows, bisection finds them.

Both ways add the terms of a node in the order of the features, so that scores are equal to the last bit. Most rows are
not in the cache, and are therefore prefetched a few features ahead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inner, kernel
from longtail.kernels.prefetch import LINE_BYTES, prefetch

FINDING = 60  # measured cost of adding one group of one row, in multiply-adds of whole rows
DENSE = 0.15  # a row with a larger share of the nodes is stored densely; an entry then costs a twelfth
BLOCK = 5  # a block has 2^BLOCK nodes
SKIPS = 0.25  # rows with more entries per block have skips
_MOST_SKIPPED = 0xFFFF  # largest number of entries of a row with skips, as these have 16 bits
_FAR, _NEAR, _NEXT = 8, 4, 2  # how many features ahead the start of a row, its skips, and its entries are prefetched

INNER_NODES, LABELS = np.int64(0), np.int64(1)  # the two parts of a tree


class Tree(NamedTuple):
    """One tree. Nodes are numbered level by level, so that inner nodes come before labels."""

    ptr: np.ndarray  # (2 D + 1,) starts of the two rows of each feature: its inner nodes, then its labels
    nodes: np.ndarray
    values: np.ndarray
    dense_at: np.ndarray  # (2 D,) start of a row that is stored densely, or -1
    dense: np.ndarray
    skip_at: np.ndarray  # (2 D,) start of the skips of a row, or -1
    skips: np.ndarray
    steps: np.ndarray  # the margin of a node is steps * (sum of its values) + bias
    bias: np.ndarray
    child_ptr: np.ndarray  # children of each group; node n is group n + 1, the root is group 0
    level_ptr: np.ndarray  # nodes of each level; the last level holds the labels
    labels: np.ndarray  # labels of the nodes of the last level


class Point(NamedTuple):
    """The non-zero features of one point."""

    features: np.ndarray
    values: np.ndarray


@inner(borrows=True)
def _first_at_least(nodes, lo, hi, wanted):
    """Return the first position from `lo` to `hi` with a node of at least `wanted`, by bisection without branches."""
    n = hi - lo
    while n > 1:
        half = n >> 1
        lo += half if nodes[np.uint64(lo + half - 1)] < wanted else 0
        n -= half
    return lo + 1 if n == 1 and nodes[np.uint64(lo)] < wanted else lo


@kernel(borrows=True)
def split_rows(ptr, nodes, first_label, rows):
    """Write the starts of the two rows of each feature, (2 D + 1,): nodes below `first_label`, and the others."""
    n_features = ptr.shape[0] - 1
    for f in range(n_features):
        rows[2 * f] = ptr[f]
        rows[2 * f + 1] = _first_at_least(nodes, ptr[f], ptr[f + 1], first_label)
    rows[2 * n_features] = ptr[n_features]


def place_rows(
    ptr: np.ndarray, first_label: int, n_nodes: int, sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Choose the rows to store densely and the rows with skips. Return their positions, -1 for all other rows.

    sizes : numbers of dense values and of skips in the trees before this one. The numbers including this tree are
    returned, too.
    """
    n = np.diff(ptr)
    width = np.tile([first_label, n_nodes - first_label], len(n) // 2)
    n_skips = (width >> BLOCK) + 2
    dense_at, dense_size = _places(n > DENSE * width, width, sizes[0])
    skip_at, skips_size = _places((n > SKIPS * n_skips) & (n <= _MOST_SKIPPED), n_skips, sizes[1])
    return dense_at, skip_at, (dense_size, skips_size)


def _places(chosen: np.ndarray, lengths: np.ndarray, start: int) -> tuple[np.ndarray, int]:
    """Place the chosen rows one after the other from `start`. Return where each begins, -1 for others, and the end."""
    ends = start + np.cumsum(np.where(chosen, lengths, 0))
    return np.where(chosen, ends - lengths, -1), int(ends[-1]) if len(ends) else start


@kernel(borrows=True)
def fill_rows(ptr, nodes, values, first_label, n_nodes, dense_at, dense, skip_at, skips):
    """Write the rows that :func:`place_rows` has chosen to `dense`, which must hold zeros, and to `skips`."""
    for row in range(dense_at.shape[0]):
        first, last = (first_label, n_nodes) if row & 1 else (0, first_label)
        if dense_at[row] >= 0:
            for q in range(ptr[row], ptr[row + 1]):
                dense[dense_at[row] + nodes[q] - first] = values[q]
        if skip_at[row] >= 0:
            q = ptr[row]
            for b in range(((last - first) >> BLOCK) + 2):
                while q < ptr[row + 1] and nodes[q] < first + (b << BLOCK):
                    q += 1
                skips[skip_at[row] + b] = q - ptr[row]


@inner(borrows=True)
def whole_cost(tree, point, part):
    """Return the cost of scoring all nodes of a part, in multiply-adds: one per entry, and a little for each node."""
    depth = tree.level_ptr.shape[0] - 1
    first_label = tree.level_ptr[depth - 1]
    total = np.int64((tree.level_ptr[depth] - first_label if part else first_label) >> 3)
    for f in point.features:
        total += tree.ptr[2 * f + part + 1] - tree.ptr[2 * f + part]
    return total


@inner(borrows=True, apart=True)
def score_nodes(tree, point, part, groups, margins, spans):
    """Compute the margins of the children of `groups` (ascending), or of all nodes of a part if `groups` is empty.

    The margins of other nodes in the same blocks are computed, too, and are also correct. spans : scratch
    (len(groups) + 1, 2), for the first node and the end of each range that is scored, counted from the part's start.
    """
    ptr, nodes, values, dense_at, dense = tree.ptr, tree.nodes, tree.values, tree.dense_at, tree.dense
    skip_at, skips, steps, bias, child_ptr = tree.skip_at, tree.skips, tree.steps, tree.bias, tree.child_ptr
    depth = tree.level_ptr.shape[0] - 1
    first_label = np.int64(tree.level_ptr[depth - 1])
    before = first_label if part else np.int64(0)  # number of nodes before this part
    width = np.int64(tree.level_ptr[depth]) - before if part else first_label
    whole, n_features, end = groups.shape[0] == 0, point.features.shape[0], np.int64(0)
    spans[0, 0], spans[0, 1] = 0, width
    n_spans = np.int64(1 if whole else 0)
    for g in groups:
        first = max(end, np.int64(child_ptr[g]) - before >> BLOCK << BLOCK)
        end = min(width, (np.int64(child_ptr[g + 1]) - before - 1 >> BLOCK) + 1 << BLOCK)
        if first < end:
            spans[n_spans, 0], spans[n_spans, 1] = first, end
            n_spans += 1
    for s in range(n_spans):
        for node in range(np.uint64(before + spans[s, 0]), np.uint64(before + spans[s, 1])):  # unsigned: never negative
            margins[node] = np.float32(0.0)
    for p in range(n_features):
        if p + _FAR < n_features:
            row = 2 * point.features[p + _FAR] + part
            prefetch(ptr, row)
            prefetch(dense_at if whole else skip_at, row)
        if p + _NEAR < n_features:
            row = 2 * point.features[p + _NEAR] + part
            if not whole:
                for s in range(n_spans):
                    prefetch(skips, np.int64(skip_at[row]) + (spans[s, 0] >> BLOCK))
            elif dense_at[row] >= 0:
                for j in range(0, width, LINE_BYTES):
                    prefetch(dense, np.int64(dense_at[row]) + j)
            else:
                for q in range(np.int64(ptr[row]), np.int64(ptr[row + 1]), LINE_BYTES):
                    prefetch(nodes, q)
                    prefetch(nodes, q + (LINE_BYTES >> 1))
                    prefetch(values, q)
        if p + _NEXT < n_features and not whole:
            row = 2 * point.features[p + _NEXT] + part
            at = np.int64(skip_at[row])
            for s in range(n_spans):
                q = np.int64(ptr[row])
                if at >= 0:
                    q += np.int64(skips[at + (spans[s, 0] >> BLOCK)])
                prefetch(nodes, q)
                prefetch(values, q)
        row = 2 * point.features[p] + part
        v = point.values[p]
        if whole and dense_at[row] >= 0:
            here, there = np.uint64(dense_at[row]), np.uint64(before)
            for j in range(np.uint64(width)):
                margins[there + j] += v * np.float32(dense[here + j])
            continue
        at = np.int64(-1) if whole else np.int64(skip_at[row])
        start, stop = np.int64(ptr[row]), np.int64(ptr[row + 1])
        for s in range(n_spans):
            q, end = start, stop
            if not whole:
                if at >= 0:
                    q = start + np.int64(skips[at + (spans[s, 0] >> BLOCK)])
                    end = start + np.int64(skips[at + (spans[s, 1] + (1 << BLOCK) - 1 >> BLOCK)])
                else:
                    q = end = _first_at_least(nodes, start, stop, before + spans[s, 0])
                    while end < stop and nodes[end] < before + spans[s, 1]:
                        end += 1
            for i in range(np.uint64(q), np.uint64(end)):
                margins[np.uint64(nodes[i])] += v * np.float32(values[i])
    for s in range(n_spans):
        for node in range(np.uint64(before + spans[s, 0]), np.uint64(before + spans[s, 1])):
            margins[node] = steps[node] * margins[node] + bias[node]
