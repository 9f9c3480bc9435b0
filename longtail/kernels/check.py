"""Check one point before a ranker sees it: kernels index memory with what they are given."""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit

FINE, UNORDERED, IMPOSSIBLE = 0, 1, 2


@njit(cache=True, nogil=True)
def point_state(indices, values, n_features):
    """Return FINE, UNORDERED (not strictly ascending) or IMPOSSIBLE (a feature out of range, a value not finite)."""
    state = FINE
    before = np.int64(-1)
    for i in range(len(indices)):
        index = np.int64(indices[i])
        if index < 0 or index >= n_features or not np.isfinite(values[i]):
            return IMPOSSIBLE
        if index <= before:
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
    for row in range(len(ptr) - 1):
        least, most = (np.int64(first_label), np.int64(n_nodes)) if row & 1 else (np.int64(0), np.int64(first_label))
        for p in range(ptr[row], ptr[row + 1]):
            node = np.int64(nodes[p])
            if node < least or node >= most:
                return False
            least = node + 1
    return True
