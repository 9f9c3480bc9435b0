"""Gradient-boosted oblivious trees for a few features: how they are grown and evaluated.

A tree is oblivious: all nodes of a level compare the same feature with the same edge, so that a tree of depth d is d
comparisons and 2^d values, and the leaf of a row is the number that its d answers spell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit

ROWS_AT_ONCE = 24  # as many as a blend re-ranks per point: one block
LEVELS_AT_ONCE = 3  # the depth is a multiple of it


class ObliviousTrees(NamedTuple):
    """T trained trees of depth d."""

    bias: float
    features: np.ndarray  # (T, d) int32, d a multiple of LEVELS_AT_ONCE
    edges: np.ndarray  # (T, d) float32: a row with more of the feature goes right
    values: np.ndarray  # (T, 2^d) float64


class Binned(NamedTuple):
    """Training rows with their features in steps."""

    bins: np.ndarray  # (n, F) uint8
    n_bins: np.ndarray  # (F,)


class Derivatives(NamedTuple):
    """Log odds so far, and the derivatives of the logistic loss there."""

    odds: np.ndarray  # (n,)
    slopes: np.ndarray  # (n, 2) first and second derivative
    packed: np.ndarray  # (n,) int64, both as whole numbers: the first in the upper half, the second in the lower


@njit(cache=True, nogil=True)
def derive(right, state):
    """Write the first and second derivative of the logistic loss; returns their units in `packed`.

    The units are so small that sums over all rows just fit into their halves. A sum of packed numbers is then one
    addition in the place of two, and half of the memory.
    """
    first, second = 1.0, 1.0
    for i in range(right.shape[0]):
        chance = 1.0 / (1.0 + np.exp(-state.odds[i]))
        state.slopes[i, 0] = chance - (1.0 if right[i] else 0.0)
        state.slopes[i, 1] = max(chance * (1.0 - chance), 1e-9)
        first += abs(state.slopes[i, 0])
        second += state.slopes[i, 1]
    half_a_unit = 0.5 * right.shape[0]  # that every row may be rounded up by
    per_first, per_second = (2.0**31 - 1.0 - half_a_unit) / first, (2.0**32 - 1.0 - half_a_unit) / second
    for i in range(right.shape[0]):
        upper = np.int64(np.rint(state.slopes[i, 0] * per_first))
        state.packed[i] = (upper << 32) + np.int64(np.rint(state.slopes[i, 1] * per_second))
    return 1.0 / per_first, 1.0 / per_second


@njit(cache=True, nogil=True)
def _sum_bins(bins, rows, packed, sums):
    """Write sums[feature, bin] of the packed derivatives of these rows."""
    sums[:] = 0
    for i in rows:
        value = packed[i]
        for f in range(bins.shape[1]):
            sums[f, bins[i, f]] += value


@njit(cache=True, nogil=True)
def _best_split(sums, n_bins, units, ridge):
    """Return the feature and bin above which rows go right that lower the loss most, over all leaves; -1 if none."""
    best, feature, edge = 1e-9, -1, -1
    n_most = sums.shape[2]
    gain, left_g, left_h = np.empty(n_most), np.empty(n_most), np.empty(n_most)
    for f in range(sums.shape[1]):
        n = n_bins[f]
        gain[:] = 0.0
        for leaf in range(sums.shape[0]):
            total = np.int64(0)
            for b in range(n):
                total += sums[leaf, f, b]
                left_g[b], left_h[b] = (total >> 32) * units[0], (total & 0xFFFFFFFF) * units[1]
            g, h = left_g[n - 1], left_h[n - 1]
            whole = g * g / (h + ridge)
            for b in range(n - 1):  # apart from the sums, so that vector instructions divide
                right_g, right_h = g - left_g[b], h - left_h[b]
                gain[b] += left_g[b] * left_g[b] / (left_h[b] + ridge) + right_g * right_g / (right_h + ridge) - whole
        for b in range(n - 1):
            if gain[b] > best:
                best, feature, edge = gain[b], f, b
    return feature, edge


@njit(cache=True, nogil=True)
def _divide_rows(column, edge, order, spare, begin, end):
    """Move the rows of order[begin:end] that go right behind the others, each in the order they had.

    Return where the first of them is.
    """
    left, n_right = begin, 0
    for q in range(begin, end):
        i = order[q]
        right = column[i] > edge
        order[left], spare[n_right] = i, i  # one of the two stays: cheaper than a branch
        left += not right
        n_right += right
    order[left:end] = spare[:n_right]
    return left


@njit(cache=True, nogil=True)
def grow(binned, right, state, rate, ridge, features, edges, values):
    """Grow one tree and add it to the log odds; returns its depth, which is 0 if no split helps.

    right (n,) : which rows are right. features, edges (depth,) and values (2^depth,) receive the tree; an edge is the
    number of a bin. Rows are kept together by leaf, so that the sums of one leaf stay in the cache while they are made.
    Of two leaves that were one, the rows of the smaller are summed, and the other has the rest.
    """
    bins, slopes, packed = binned.bins, state.slopes, state.packed
    units = derive(right, state)
    n, depth = bins.shape[0], features.shape[0]
    order, spare = np.arange(n), np.empty(n, np.int64)
    starts = np.array([0, n])  # of each leaf in `order`
    sums = np.empty((1, bins.shape[1], int(binned.n_bins.max())), np.int64)
    _sum_bins(bins, order, packed, sums[0])
    deep = 0
    for level in range(depth):
        f, edge = _best_split(sums, binned.n_bins, units, ridge)
        if f < 0:
            break
        features[level], edges[level] = f, edge
        deep += 1
        above, before, n_leaves = sums, starts, 1 << level
        starts = np.empty(2 * n_leaves + 1, np.int64)
        starts[2 * n_leaves] = n
        if deep < depth:
            sums = np.empty((2 * n_leaves, above.shape[1], above.shape[2]), np.int64)
        for leaf in range(n_leaves):
            begin, end = before[leaf], before[leaf + 1]
            middle = _divide_rows(bins[:, f], edge, order, spare, begin, end)
            starts[2 * leaf], starts[2 * leaf + 1] = begin, middle
            if deep < depth:
                small = 2 * leaf + (1 if end - middle < middle - begin else 0)
                rows = order[begin:middle] if small == 2 * leaf else order[middle:end]
                _sum_bins(bins, rows, packed, sums[small])
                sums[small ^ 1] = above[leaf] - sums[small]
    for leaf in range(1 << deep):
        rows = order[starts[leaf] : starts[leaf + 1]]
        g, h = 0.0, 0.0
        for i in rows:
            g += slopes[i, 0]
            h += slopes[i, 1]
        values[leaf] = -rate * g / (h + ridge)
        for i in rows:
            state.odds[i] += values[leaf]
    return deep


@njit(cache=True, nogil=True)
def add_trees(rows, trees, first, last, out):
    """Write the log odds of rows first..last, (n, F).

    ROWS_AT_ONCE rows take each comparison together, and three levels are one pass over them. Their number is the same
    for all blocks, so that the compiler unrolls these loops; the last block may be partly empty.
    """
    n_trees, depth = trees.features.shape
    columns = np.zeros((rows.shape[1], ROWS_AT_ONCE), rows.dtype)
    leaf = np.empty(ROWS_AT_ONCE, np.int32)
    sums = np.empty(ROWS_AT_ONCE, np.float64)
    for start in range(first, last, ROWS_AT_ONCE):
        n = min(ROWS_AT_ONCE, last - start)
        for row in range(n):
            for f in range(rows.shape[1]):
                columns[f, row] = rows[start + row, f]
        for row in range(ROWS_AT_ONCE):
            sums[row] = trees.bias
        for t in range(n_trees):
            for row in range(ROWS_AT_ONCE):
                leaf[row] = 0
            for level in range(0, depth, LEVELS_AT_ONCE):
                # Without a sign, no index is compared with zero.
                a, edge_a = columns[np.uint64(trees.features[t, level])], trees.edges[t, level]
                b, edge_b = columns[np.uint64(trees.features[t, level + 1])], trees.edges[t, level + 1]
                c, edge_c = columns[np.uint64(trees.features[t, level + 2])], trees.edges[t, level + 2]
                for row in range(ROWS_AT_ONCE):
                    first_two = (4 if a[row] > edge_a else 0) + (2 if b[row] > edge_b else 0)
                    leaf[row] = 8 * leaf[row] + first_two + (1 if c[row] > edge_c else 0)
            for row in range(ROWS_AT_ONCE):
                sums[row] += trees.values[t, np.uint64(leaf[row])]
        for row in range(n):
            out[start + row] = sums[row]


@njit(cache=True, nogil=True)
def add_losses(rows, right, trees, losses):
    """Add the logistic loss of rows (n, F) to losses[t], for the first t trees alone, t = 0 to all of them."""
    n_trees, depth = trees.features.shape
    for i in range(rows.shape[0]):
        odds = trees.bias
        for t in range(n_trees + 1):
            wrong = -odds if right[i] else odds
            losses[t] += max(wrong, 0.0) + np.log1p(np.exp(-abs(wrong)))
            if t < n_trees:
                leaf = 0
                for level in range(depth):
                    leaf = 2 * leaf + (1 if rows[i, trees.features[t, level]] > trees.edges[t, level] else 0)
                odds += trees.values[t, leaf]
