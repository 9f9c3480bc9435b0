"""Products of one point with the classifiers of a label tree.

The weights of a tree are kept feature by feature: for each feature, the nodes that use it, in the order of their
numbers, first those of the inner nodes, then those of the labels. A point's node scores are then sums over the rows of
its features. Two ways to make them:

- whole rows: all nodes are scored in one sweep with no search at all, which is the fastest where rows are short;
- masked rows: only the children of some nodes; siblings lie side by side in a row and are found by bisection. The cost
  does not depend on the number of labels.

A row that names a fair share of the nodes is also there in full, zeros included: it is added with vector instructions,
and nothing is searched for in it. All ways add a node's terms in the order of the features, so the scores agree to the
last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

BISECTION = 80  # cost of finding one group in one row, in units of one multiply-add; measured
FULL = 0.15  # rows that name a larger share of the nodes are kept in full; one of them costs a twelfth of an entry


class Tree(NamedTuple):
    """One tree. Nodes are numbered level by level, so that inner nodes come before labels."""

    ptr: np.ndarray  # (2 D + 1,) where the rows of each feature begin: its inner nodes, then its labels
    nodes: np.ndarray
    values: np.ndarray
    full_at: np.ndarray  # (2 D,) where a row begins in full, or -1
    full: np.ndarray
    steps: np.ndarray  # a node's margin is steps * (sum of its values) + bias
    bias: np.ndarray
    child_ptr: np.ndarray  # children of each group; node n is group n + 1, the root group 0
    level_ptr: np.ndarray  # nodes of each level; the last level holds the labels
    labels: np.ndarray  # of the nodes of the last level


@njit(cache=True, nogil=True, inline="always")
def _first_at_least(nodes, lo, hi, wanted):
    """Bisection without a branch to foresee."""
    n = hi - lo
    while n > 1:
        half = n >> 1
        lo += half if nodes[np.uint64(lo + half - 1)] < wanted else 0
        n -= half
    return lo + 1 if n == 1 and nodes[np.uint64(lo)] < wanted else lo


@njit(cache=True, nogil=True)
def split_rows(ptr, nodes, inner, rows):
    """Where the two rows of each feature begin, (2 D + 1,): nodes below `inner`, and the others."""
    n_features = ptr.shape[0] - 1
    for f in range(n_features):
        rows[2 * f] = ptr[f]
        rows[2 * f + 1] = _first_at_least(nodes, ptr[f], ptr[f + 1], inner)
    rows[2 * n_features] = ptr[n_features]


@njit(cache=True, nogil=True)
def place_full_rows(ptr, inner, n_nodes, start, full_at):
    """Where each row that is worth it begins in full, from `start` on; -1 for the others. Returns where they end."""
    for row in range(full_at.shape[0]):
        width = n_nodes - inner if row & 1 else inner
        full_at[row] = -1
        if ptr[row + 1] - ptr[row] > FULL * width:
            full_at[row] = start
            start += width
    return start


@njit(cache=True, nogil=True)
def fill_full_rows(ptr, nodes, values, inner, full_at, full):
    """Write the rows that :func:`place_full_rows` found into `full`, which is all zeros there."""
    for row in range(full_at.shape[0]):
        if full_at[row] >= 0:
            first = inner if row & 1 else 0
            for q in range(ptr[row], ptr[row + 1]):
                full[full_at[row] + nodes[q] - first] = values[q]


@njit(cache=True, nogil=True)
def work(tree, features, part):
    """Multiply-adds of :func:`whole_rows`, and a little for each node."""
    depth = tree.level_ptr.shape[0] - 1
    inner = tree.level_ptr[depth - 1]
    total = (tree.level_ptr[depth] - inner if part else inner) >> 3
    for f in features:
        total += tree.ptr[2 * f + part + 1] - tree.ptr[2 * f + part]
    return total


@njit(cache=True, nogil=True, inline="always")
def _finish(tree, first, last, margins):
    """Make sums of values into margins."""
    steps, bias = tree.steps, tree.bias
    for node in range(np.uint64(first), np.uint64(last)):
        margins[node] = steps[node] * margins[node] + bias[node]


@njit(cache=True, nogil=True)
def whole_rows(tree, features, weights, part, margins):
    """Margins of all inner nodes (part 0) or of all labels (part 1)."""
    ptr, nodes, values, full_at, full = tree.ptr, tree.nodes, tree.values, tree.full_at, tree.full
    depth = tree.level_ptr.shape[0] - 1
    inner = tree.level_ptr[depth - 1]
    first, last = (inner, tree.level_ptr[depth]) if part else (np.int32(0), inner)
    margins[first:last] = 0.0
    for p in range(features.shape[0]):
        row = 2 * features[p] + part
        v = weights[p]
        if full_at[row] >= 0:
            at, start = np.uint64(full_at[row]), np.uint64(first)
            for j in range(np.uint64(last - first)):  # unsigned: no check for negative indices in the inner loop
                margins[start + j] += v * np.float32(full[at + j])
        else:
            for q in range(np.uint64(ptr[row]), np.uint64(ptr[row + 1])):
                margins[np.uint64(nodes[q])] += v * np.float32(values[q])
    _finish(tree, first, last, margins)


@njit(cache=True, nogil=True)
def masked_rows(tree, features, weights, part, groups, margins):
    """Margins of the children of some groups, which are in ascending order."""
    ptr, nodes, values, full_at, full = tree.ptr, tree.nodes, tree.values, tree.full_at, tree.full
    child_ptr = tree.child_ptr
    before = tree.level_ptr[tree.level_ptr.shape[0] - 2] if part else 0  # nodes that are not in the row
    for group in groups:
        margins[child_ptr[group] : child_ptr[group + 1]] = 0.0
    for p in range(features.shape[0]):
        row = 2 * features[p] + part
        v = weights[p]
        if full_at[row] >= 0:
            for group in groups:
                first, last = child_ptr[group], child_ptr[group + 1]
                at, start = np.uint64(full_at[row] + first - before), np.uint64(first)
                for j in range(np.uint64(last - first)):
                    margins[start + j] += v * np.float32(full[at + j])
        else:
            q, stop = ptr[row], ptr[row + 1]
            for group in groups:
                first, last = child_ptr[group], child_ptr[group + 1]
                q = _first_at_least(nodes, q, stop, first)
                while q < stop and nodes[q] < last:
                    margins[nodes[q]] += v * np.float32(values[q])
                    q += 1
    for group in groups:
        _finish(tree, child_ptr[group], child_ptr[group + 1], margins)
