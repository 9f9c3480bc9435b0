"""Gradient-boosted oblivious trees for a few features: how they are grown and evaluated.

A tree is oblivious: all nodes of a level compare the same feature with the same edge, so that a tree of depth d is d
comparisons and 2^d values, and the leaf of a row is the number that its d answers spell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit

_ROWS_AT_ONCE = 64


class ObliviousTrees(NamedTuple):
    """T trained trees of depth d."""

    bias: float
    features: np.ndarray  # (T, d) int32
    edges: np.ndarray  # (T, d) float32: a row with more of the feature goes right
    values: np.ndarray  # (T, 2^d) float64


class Binned(NamedTuple):
    """Training rows with their features in steps."""

    bins: np.ndarray  # (n, F) uint8
    n_bins: np.ndarray  # (F,)


class Derivatives(NamedTuple):
    """Log odds so far, and the derivatives of the logistic loss there."""

    odds: np.ndarray  # (n,)
    grad: np.ndarray
    hess: np.ndarray


@njit(cache=True, nogil=True)
def derive(right, state):
    """Write the first and second derivative of the logistic loss."""
    for i in range(right.shape[0]):
        chance = 1.0 / (1.0 + np.exp(-state.odds[i]))
        state.grad[i] = chance - (1.0 if right[i] else 0.0)
        state.hess[i] = max(chance * (1.0 - chance), 1e-9)


@njit(cache=True, nogil=True)
def _sum_bins(binned, leaf, state, above, sums):
    """Write sums[leaf, feature, bin] = (gradients, second derivatives); above : the sums of the level above.

    Of two leaves that were one, the right one is summed and the left one is the rest.
    """
    sums[:] = 0.0
    whole = sums.shape[0] == 1
    for i in range(binned.bins.shape[0]):
        if whole or leaf[i] & 1:
            at = sums[leaf[i]]
            for f in range(binned.bins.shape[1]):
                at[f, binned.bins[i, f], 0] += state.grad[i]
                at[f, binned.bins[i, f], 1] += state.hess[i]
    if not whole:
        for a in range(above.shape[0]):
            sums[2 * a] = above[a] - sums[2 * a + 1]


@njit(cache=True, nogil=True)
def _best_split(sums, n_bins, ridge):
    """Return the feature and bin above which rows go right that lower the loss most, over all leaves; -1 if none."""
    n_leaves = sums.shape[0]
    best, feature, edge = 1e-9, -1, -1
    gain = np.empty(256)
    for f in range(sums.shape[1]):
        gain[:] = 0.0
        for leaf in range(n_leaves):
            g, h = 0.0, 0.0
            for b in range(n_bins[f]):
                g += sums[leaf, f, b, 0]
                h += sums[leaf, f, b, 1]
            whole = g * g / (h + ridge)
            left_g, left_h = 0.0, 0.0
            for b in range(n_bins[f] - 1):
                left_g += sums[leaf, f, b, 0]
                left_h += sums[leaf, f, b, 1]
                right_g, right_h = g - left_g, h - left_h
                gain[b] += left_g * left_g / (left_h + ridge) + right_g * right_g / (right_h + ridge) - whole
        for b in range(n_bins[f] - 1):
            if gain[b] > best:
                best, feature, edge = gain[b], f, b
    return feature, edge


@njit(cache=True, nogil=True)
def grow(binned, state, rate, ridge, features, edges, values):
    """Grow one tree and add it to the log odds; returns its depth, which is 0 if no split helps.

    features, edges (depth,) and values (2^depth,) receive the tree; an edge is the number of a bin.
    """
    bins, n_bins = binned.bins, binned.n_bins
    n, depth = bins.shape[0], features.shape[0]
    leaf = np.zeros(n, np.uint8)
    deep = 0
    sums = np.empty((0, bins.shape[1], int(n_bins.max()), 2))
    for level in range(depth):
        above, sums = sums, np.empty((1 << level, bins.shape[1], int(n_bins.max()), 2))
        _sum_bins(binned, leaf, state, above, sums)
        f, edge = _best_split(sums, n_bins, ridge)
        if f < 0:
            break
        features[level], edges[level] = f, edge
        for i in range(n):
            leaf[i] = 2 * leaf[i] + (1 if bins[i, f] > edge else 0)
        deep += 1
    g, h = np.zeros(1 << deep), np.zeros(1 << deep)
    for i in range(n):
        g[leaf[i]] += state.grad[i]
        h[leaf[i]] += state.hess[i]
    for a in range(1 << deep):
        values[a] = -rate * g[a] / (h[a] + ridge)
    for i in range(n):
        state.odds[i] += values[leaf[i]]
    return deep


@njit(cache=True, nogil=True)
def add_trees(rows, trees, first, last, out):
    """Write the log odds of rows first..last, (n, F)."""
    n_trees, depth = trees.features.shape
    columns = np.empty((rows.shape[1], _ROWS_AT_ONCE), rows.dtype)  # so that one comparison is made for a block at once
    leaf = np.empty(_ROWS_AT_ONCE, np.int32)
    for start in range(first, last, _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, last - start)
        for row in range(n):
            out[start + row] = trees.bias
            for f in range(rows.shape[1]):
                columns[f, row] = rows[start + row, f]
        for t in range(n_trees):
            for row in range(n):  # a slice takes longer to compile
                leaf[row] = 0
            for level in range(depth):
                column, edge = columns[trees.features[t, level]], trees.edges[t, level]
                for row in range(n):
                    leaf[row] = 2 * leaf[row] + (1 if column[row] > edge else 0)
            for row in range(n):
                out[start + row] += trees.values[t, leaf[row]]


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
