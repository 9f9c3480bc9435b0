"""Check points and model folders before other kernels use them, as these index memory without checking bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inner, njit

FINE, UNORDERED, IMPOSSIBLE, UNEQUAL = 0, 1, 2, 3
_COUNTED = 1 << 15  # comparisons per block: their count fits into 16 bits, so that one vector has more counters


class LabelTrees(NamedTuple):
    """The structure of the label trees of a model; see :class:`longtail.linear.forest.Forest`."""

    child_ptr: np.ndarray
    level_ptr: np.ndarray
    labels: np.ndarray
    node_at: np.ndarray
    group_at: np.ndarray
    level_at: np.ndarray
    label_at: np.ndarray


@njit(cache=True, nogil=True, borrows=True)
def point_state(indices, values, n_features):
    """Return the state of a point: FINE, or what is wrong with its arrays.

    UNORDERED means that indices do not ascend strictly, or that a value is zero. IMPOSSIBLE means that an index is out
    of range, or a value not finite. UNEQUAL means that the arrays have different lengths.
    """
    if len(indices) != len(values):
        return UNEQUAL
    state = FINE
    before = np.int64(-1)
    for i in range(len(indices)):
        index = np.int64(indices[i])
        if index < 0 or index >= n_features or not np.isfinite(values[i]):
            return IMPOSSIBLE
        if index <= before or values[i] == 0.0:
            state = UNORDERED
        before = index
    return state


@njit(cache=True, nogil=True, borrows=True)
def most_above(words, mask, least):
    """Return the maximum of ``(word & mask) - least`` over 32-bit words, as an unsigned number.

    Comparing the result with the width of a range checks both of its ends, because a word below `least` wraps around
    to a large number.
    """
    most = np.uint32(0)
    for i in range(len(words)):
        most = max(most, np.uint32((words[i] & mask) - least))
    return most


@njit(cache=True, nogil=True, borrows=True)
def never_descends(values):
    """Return whether no value is smaller than the one before it."""
    ordered = True
    for i in range(len(values) - 1):
        ordered &= values[i] <= values[i + 1]
    return ordered


@njit(cache=True, nogil=True, borrows=True)
def are_label_trees(trees, met, limits):
    """Return whether the levels, children and labels of every tree are consistent.

    Write the first label node and the number of nodes of each tree to `limits`, (T, 2). `met` (L,) is scratch.
    Everything is done in one kernel: after the checksums of large arrays, the processor's caches hold nothing of
    Python, and each step in Python would be slow.
    """
    for t in range(len(limits)):
        levels = trees.level_ptr[trees.level_at[t] : trees.level_at[t + 1]]
        children = trees.child_ptr[trees.group_at[t] : trees.group_at[t + 1]]
        labels = trees.labels[trees.label_at[t] : trees.label_at[t + 1]]
        n_nodes = trees.node_at[t + 1] - trees.node_at[t]
        if not _are_levels(levels, children, n_nodes) or len(labels) != levels[-1] - levels[-2]:
            return False
        if not _are_distinct(labels, met):
            return False
        limits[t, 0], limits[t, 1] = levels[-2], n_nodes
    return len(limits) > 0


@inner(borrows=True)
def _are_distinct(labels, met):
    """Return whether all labels are valid indices of `met` and different. Make three passes without branches."""
    most = np.uint32(0)
    for i in range(len(labels)):
        most = max(most, np.uint32(labels[i]))  # a negative label becomes large
    if len(labels) > 0 and most >= len(met):
        return False
    met[:] = False
    for i in range(len(labels)):
        met[np.uint32(labels[i])] = True
    n_met = 0
    for i in range(len(met)):
        n_met += met[i]
    return n_met == len(labels)


@inner(borrows=True)
def _are_levels(levels, children, n_nodes):
    """Return whether levels ascend to the last node, and the children of each node are on the next level.

    Node n is group n + 1.
    """
    n_levels = len(levels) - 1
    if n_levels < 1 or levels[0] != 0 or levels[n_levels] != n_nodes:
        return False
    for level in range(n_levels):
        if levels[level] >= levels[level + 1]:
            return False
    if len(children) != np.int64(levels[n_levels - 1]) + 2 or children[0] != 0:
        return False
    fits = True
    for group in range(len(children) - 1):
        fits &= children[group] <= children[group + 1]
    for level in range(n_levels):
        fits &= children[1 + levels[level]] == levels[level + 1]
    return fits


@njit(cache=True, nogil=True, borrows=True)
def lead_to_leaves(child, n_leaves):
    """Return whether each node leads either to two nodes that come after it, or to a leaf."""
    astray = False
    for node in range(len(child)):
        to = np.int64(child[node])
        astray |= (to >= 0) & ((to <= node) | (to + 1 >= len(child)))
        astray |= to < -n_leaves
    return not astray


@njit(cache=True, nogil=True, borrows=True)
def rows_hold_nodes(ptr, nodes, first_label, n_nodes):
    """Return whether the rows of features are in order, and whether each has ascending nodes of the right kind.

    Rows 0, 2, ... of `ptr` have inner nodes. Rows 1, 3, ... have labels, which begin at `first_label`. The nodes of a
    feature therefore ascend over both of its rows.
    """
    start, stop = np.int64(ptr[0]), np.int64(ptr[len(ptr) - 1])
    if start < 0 or stop > len(nodes):
        return False
    ordered = True
    for row in range(len(ptr) - 1):
        ordered &= ptr[row] <= ptr[row + 1]
    if not ordered:
        return False
    if start == stop:
        return True
    own = nodes[start:stop]
    descents = np.int64(0)  # counted in one pass with vector instructions; allowed are those between features
    for block in range(0, len(own) - 1, _COUNTED):
        left, right = own[block : len(own) - 1], own[block + 1 :]
        some = np.uint16(0)
        for i in range(min(_COUNTED, len(right))):
            some = np.uint16(some + np.uint16(right[i] <= left[i]))
        descents += np.int64(some)
    first, last = 0, len(ptr) - 3  # the features with the first and the last entry
    while ptr[first + 2] == start:
        first += 2
    while ptr[last] == stop:
        last -= 2
    outside = own[0] < 0 or _is_outside(ptr, nodes, first, first_label, n_nodes)
    outside |= _is_outside(ptr, nodes, last, first_label, n_nodes)
    one, two, begin, expected = np.uint64(1), np.uint64(2), np.uint64(ptr[first + 2]), np.int64(0)
    if first < last:
        outside |= nodes[begin] < 0
        expected += nodes[begin] <= nodes[begin - one]
    # Without branches, as a processor cannot predict which rows are empty. Unsigned indices need no check of the sign.
    for row in range(np.uint64(first + 2), np.uint64(last), two):
        middle, end = np.uint64(ptr[row + one]), np.uint64(ptr[row + two])
        final, following = nodes[end - one], nodes[end]
        outside |= (begin != middle) & (nodes[middle - one] >= first_label)
        outside |= (middle != end) & (nodes[middle] < first_label)
        outside |= (final >= n_nodes) | (following < 0)
        expected += (begin != end) & (following <= final)
        begin = end
    return not outside and descents == expected


@inner(borrows=True)
def _is_outside(ptr, nodes, row, first_label, n_nodes):
    """Return whether the last inner node, or the first or last label, of a feature is outside its part of the tree."""
    begin, middle, end = np.uint64(ptr[row]), np.uint64(ptr[row + 1]), np.uint64(ptr[row + 2])
    one, outside = np.uint64(1), False
    if begin != middle:
        outside |= nodes[middle - one] >= first_label
    if middle != end:
        outside |= (nodes[middle] < first_label) | (nodes[end - one] >= n_nodes)
    return outside
