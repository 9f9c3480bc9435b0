"""Products of one point with the classifiers of a label tree.

The weights of a tree are stored by feature: for each feature, the nodes that use it in ascending order, first the inner
nodes, then the labels. The scores of a point's nodes are sums over the rows of its features. There are two ways to
compute them:

- whole rows: all nodes are scored in one sweep without any search. This is the fastest way where rows are short;
- masked rows: only the children of some nodes are scored. Siblings are neighbours in a row and are found by bisection,
  so the cost does not depend on the number of labels.

A row that names many of the nodes is also stored densely, zeros included: it is added with vector instructions and
needs no bisection. All ways add the terms of a node in the order of the features, so the scores are equal to the last
bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inlined, inner, kernel

BISECTION = 80  # measured cost of finding one group in one row, in multiply-adds
DENSE = 0.15  # rows that name a larger share of the nodes are stored densely; an entry then costs a twelfth

INNER_NODES, LABELS = np.int64(0), np.int64(1)  # the two parts of a tree


class Tree(NamedTuple):
    """One tree. Nodes are numbered level by level, so that inner nodes come before labels."""

    ptr: np.ndarray  # (2 D + 1,) starts of the two rows of each feature: its inner nodes, then its labels
    nodes: np.ndarray
    values: np.ndarray
    dense_at: np.ndarray  # (2 D,) start of a row that is stored densely, or -1
    dense: np.ndarray
    steps: np.ndarray  # the margin of a node is steps * (sum of its values) + bias
    bias: np.ndarray
    child_ptr: np.ndarray  # children of each group; node n is group n + 1, the root is group 0
    level_ptr: np.ndarray  # nodes of each level; the last level holds the labels
    labels: np.ndarray  # labels of the nodes of the last level


class Point(NamedTuple):
    """The non-zero features of one point."""

    features: np.ndarray
    values: np.ndarray


@inlined
def _first_at_least(nodes, lo, hi, wanted):
    """Return the first position from `lo` to `hi` whose node is at least `wanted`, by bisection without branches."""
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


@kernel(borrows=True)
def place_dense_rows(ptr, first_label, n_nodes, start, dense_at):
    """Choose the rows to store densely, from `start` on, and -1 for the others. Return where the last one ends."""
    for row in range(dense_at.shape[0]):
        width = n_nodes - first_label if row & 1 else first_label
        dense_at[row] = -1
        if ptr[row + 1] - ptr[row] > DENSE * width:
            dense_at[row] = start
            start += width
    return start


@kernel(borrows=True)
def fill_dense_rows(ptr, nodes, values, first_label, dense_at, dense):
    """Write the rows that :func:`place_dense_rows` chose into `dense`, which holds zeros."""
    for row in range(dense_at.shape[0]):
        if dense_at[row] >= 0:
            first = first_label if row & 1 else 0
            for q in range(ptr[row], ptr[row + 1]):
                dense[dense_at[row] + nodes[q] - first] = values[q]


@inner(borrows=True)
def whole_cost(tree, point, part):
    """Return the cost of scoring all nodes of a part, in multiply-adds: the entries, and a little for each node."""
    depth = tree.level_ptr.shape[0] - 1
    first_label = tree.level_ptr[depth - 1]
    total = np.int64((tree.level_ptr[depth] - first_label if part else first_label) >> 3)
    for f in point.features:
        total += tree.ptr[2 * f + part + 1] - tree.ptr[2 * f + part]
    return total


@inner(borrows=True)
def score_nodes(tree, point, part, groups, margins):
    """Compute the margins of the children of `groups` (ascending), or of all nodes of a part if `groups` is empty."""
    ptr, nodes, values, dense_at, dense = tree.ptr, tree.nodes, tree.values, tree.dense_at, tree.dense
    steps, bias, child_ptr = tree.steps, tree.bias, tree.child_ptr
    depth = tree.level_ptr.shape[0] - 1
    first_label = np.int64(tree.level_ptr[depth - 1])
    before = first_label if part else np.int64(0)  # nodes of the other part, which are not in the rows
    whole = groups.shape[0] == 0
    first, last = before, (np.int64(tree.level_ptr[depth]) if part else first_label)
    n_spans = 1 if whole else groups.shape[0]
    for s in range(n_spans):
        if not whole:
            first, last = np.int64(child_ptr[groups[s]]), np.int64(child_ptr[groups[s] + 1])
        for node in range(np.uint64(first), np.uint64(last)):  # unsigned: no check for negative indices
            margins[node] = np.float32(0.0)
    for p in range(point.features.shape[0]):
        row = 2 * point.features[p] + part
        v = point.values[p]
        if dense_at[row] < 0 and whole:
            for q in range(np.uint64(ptr[row]), np.uint64(ptr[row + 1])):
                margins[np.uint64(nodes[q])] += v * np.float32(values[q])
            continue
        q, stop = np.int64(ptr[row]), np.int64(ptr[row + 1])
        for s in range(n_spans):
            if not whole:
                first, last = np.int64(child_ptr[groups[s]]), np.int64(child_ptr[groups[s] + 1])
            if dense_at[row] >= 0:
                at, start = np.uint64(dense_at[row] + first - before), np.uint64(first)
                for j in range(np.uint64(last - first)):
                    margins[start + j] += v * np.float32(dense[at + j])
            else:
                q = _first_at_least(nodes, q, stop, first)
                while q < stop and nodes[q] < last:
                    margins[nodes[q]] += v * np.float32(values[q])
                    q += 1
    for s in range(n_spans):
        if not whole:
            first, last = np.int64(child_ptr[groups[s]]), np.int64(child_ptr[groups[s] + 1])
        for node in range(np.uint64(first), np.uint64(last)):
            margins[node] = steps[node] * margins[node] + bias[node]
