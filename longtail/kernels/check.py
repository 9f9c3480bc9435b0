"""Check one point before a ranker sees it: kernels index memory with what they are given."""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit

FINE, UNORDERED, IMPOSSIBLE = 0, 1, 2


@njit(cache=True, nogil=True)
def point_state(indices, values, n_features):
    """Return FINE, UNORDERED (not strictly ascending, or a zero), or IMPOSSIBLE (out of range, or not finite)."""
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


@njit(cache=True, nogil=True)
def rows_hold_nodes(ptr, nodes, first_label, n_nodes):
    """Return whether rows are in order, and whether each holds ascending nodes of its own kind.

    Rows 0, 2, ... of `ptr` are those of inner nodes, rows 1, 3, ... those of labels, which begin at `first_label`.
    """
    if ptr[0] < 0 or ptr[len(ptr) - 1] > len(nodes):
        return False
    for row in range(len(ptr) - 1):
        if ptr[row] > ptr[row + 1]:
            return False
    descents = np.int64(0)  # in one pass with vector instructions, to be compared with those between rows
    for p in range(np.int64(ptr[0]) + 1, np.int64(ptr[len(ptr) - 1])):
        descents += nodes[p] <= nodes[p - 1]
    for row in range(len(ptr) - 1):
        begin, end = np.int64(ptr[row]), np.int64(ptr[row + 1])
        if begin == end:
            continue
        least, most = (np.int64(first_label), np.int64(n_nodes)) if row & 1 else (np.int64(0), np.int64(first_label))
        if nodes[begin] < least or nodes[end - 1] >= most:
            return False
        if begin > ptr[0]:
            descents -= nodes[begin] <= nodes[begin - 1]
    return descents == 0
