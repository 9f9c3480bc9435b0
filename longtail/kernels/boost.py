"""Boosted trees for few features: what :mod:`longtail.labels.chances` learns and answers with.

A tree is oblivious: all nodes of a level ask the same question, so that a tree of depth d is d questions and 2^d
values, and the leaf of a pair is the number that its d answers spell.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BLOCK = 64


@njit(cache=True, nogil=True)
def derivatives(odds, right, grad, hess):
    """First and second derivative of the logistic loss; returns the loss summed up."""
    total = 0.0
    for i in range(odds.shape[0]):
        chance = 1.0 / (1.0 + np.exp(-odds[i]))
        grad[i] = chance - (1.0 if right[i] else 0.0)
        hess[i] = max(chance * (1.0 - chance), 1e-9)
        total -= np.log(max(chance if right[i] else 1.0 - chance, 1e-15))
    return total


@njit(cache=True, nogil=True)
def _count(bins, leaf, grad, hess, above, sums):
    """sums[leaf, feature, bin] = (gradients, second derivatives) of the pairs there; above : those of the level above.

    Of two leaves that were one the right one is counted, and the left one is the rest.
    """
    sums[:] = 0.0
    whole = sums.shape[0] == 1
    for i in range(bins.shape[0]):
        if whole or leaf[i] & 1:
            at = sums[leaf[i]]
            for f in range(bins.shape[1]):
                at[f, bins[i, f], 0] += grad[i]
                at[f, bins[i, f], 1] += hess[i]
    if not whole:
        for a in range(above.shape[0]):
            sums[2 * a] = above[a] - sums[2 * a + 1]


@njit(cache=True, nogil=True)
def _question(sums, n_bins, ridge):
    """The feature and bin above which pairs go right that lower the loss most, over all leaves; -1 if none does."""
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
def grow(bins, n_bins, odds, grad, hess, depth, rate, ridge, features, edges, values):
    """Grow one tree and add it to `odds`; returns its depth, which is 0 if no question helps.

    bins (pairs, F) uint8, n_bins (F,) : features in steps; features, edges (depth,) and values (2^depth,) : the tree.
    """
    n = bins.shape[0]
    leaf = np.zeros(n, np.uint8)
    deep = 0
    sums = np.empty((0, bins.shape[1], int(n_bins.max()), 2))
    for level in range(depth):
        above, sums = sums, np.empty((1 << level, bins.shape[1], int(n_bins.max()), 2))
        _count(bins, leaf, grad, hess, above, sums)
        f, edge = _question(sums, n_bins, ridge)
        if f < 0:
            break
        features[level], edges[level] = f, edge
        for i in range(n):
            leaf[i] = 2 * leaf[i] + (1 if bins[i, f] > edge else 0)
        deep += 1
    g, h = np.zeros(1 << deep), np.zeros(1 << deep)
    for i in range(n):
        g[leaf[i]] += grad[i]
        h[leaf[i]] += hess[i]
    for a in range(1 << deep):
        values[a] = -rate * g[a] / (h[a] + ridge)
    for i in range(n):
        odds[i] += values[leaf[i]]
    return deep


@njit(cache=True, nogil=True)
def answer(pairs, bias, features, edges, values, first, last, out):
    """Log odds of pairs first..last, rows of features, from T trees: features and edges (T, d), values (T, 2^d)."""
    n_trees, depth = features.shape
    columns = np.empty((pairs.shape[1], _BLOCK), pairs.dtype)  # so that one question is asked of a block at once
    leaf = np.empty(_BLOCK, np.int32)
    for start in range(first, last, _BLOCK):
        n = min(_BLOCK, last - start)
        for row in range(n):
            out[start + row] = bias
            for f in range(pairs.shape[1]):
                columns[f, row] = pairs[start + row, f]
        for t in range(n_trees):
            leaf[:] = 0
            for level in range(depth):
                column, edge = columns[features[t, level]], edges[t, level]
                for row in range(n):
                    leaf[row] = 2 * leaf[row] + (1 if column[row] > edge else 0)
            for row in range(n):
                out[start + row] += values[t, leaf[row]]
