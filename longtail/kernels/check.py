"""Check points and model folders before other kernels see them, which index memory with what they are given."""

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
def bit_range(words, mask):
    """Return the least and the largest of 32-bit words of which only the bits of `mask` count."""
    least, most = np.uint32(0xFFFFFFFF), np.uint32(0)
    for i in range(len(words)):
        bits = np.uint32(words[i] & mask)
        least, most = min(least, bits), max(most, bits)
    return least, most


@njit(cache=True, nogil=True)
def rows_hold_nodes(ptr, nodes, first_label, n_nodes):
    """Return whether the rows of features are in order, and whether each holds ascending nodes of its own kind.

    Rows 0, 2, ... of `ptr` are those of inner nodes, rows 1, 3, ... those of labels, which begin at `first_label`: the
    two rows of a feature ascend together.
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
    descents = np.int64(0)  # in one pass with vector instructions, to be compared with those between features
    for i in range(1, len(own)):
        descents += own[i] <= own[i - 1]
    inside, end_node = True, np.int64(-1)
    last = np.uint64(len(own) - 1)
    for row in range(0, len(ptr) - 1, 2):  # without branches: no processor foresees which rows are empty
        begin, middle, end = np.int64(ptr[row]) - start, np.int64(ptr[row + 1]) - start, np.int64(ptr[row + 2]) - start
        first, label = np.int64(own[min(np.uint64(begin), last)]), np.int64(own[min(np.uint64(middle), last)])
        inner = np.int64(own[np.uint64(max(middle - 1, 0))])
        inside &= (begin == middle) | (inner < first_label)
        inside &= (middle == end) | (label >= first_label)
        descents -= (begin < end) & (begin > 0) & (first <= end_node)
        inside &= (begin == end) | (first >= 0)
        end_node = np.int64(own[np.uint64(max(end - 1, 0))])
        inside &= (begin == end) | (end_node < n_nodes)
    return inside and descents == 0
