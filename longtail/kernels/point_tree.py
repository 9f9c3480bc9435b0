"""Grow trees that split points instead of labels, and rank labels by the leaves that a point reaches.

A tree consists of a few flat arrays. Nodes are numbered level by level, in the order in which they are made. The two
children of a node have consecutive numbers, so that one number locates both. The separator of a node is a sparse row. A
leaf has the most frequent labels of its points, with their weighted shares of the points.

For ranking, the features of a point are written to a dense row, of which a separator reads only its own few features.
The cost of a tree is proportional to its depth, and does not depend on the number of labels and points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from longtail.kernels import sparse_logistic
from longtail.kernels.compiling import njit
from longtail.kernels.gather import gather_rows
from longtail.kernels.partition import partition
from longtail.kernels.solve import next_random
from longtail.kernels.topk import ABOVE_ZERO, BELOW_ONE, top_k_pairs

_HIGH, _ONE = np.uint64(40), np.uint64(1)


class Growth(NamedTuple):
    """Settings for growing a tree."""

    max_leaf: int  # largest number of points in a leaf
    keep: int  # largest number of labels in a leaf
    cost: np.float32  # weight of the loss of a separator against its L1 norm


class PointTrees(NamedTuple):
    """All trees of a model. Nodes and leaves are numbered over all trees."""

    roots: np.ndarray  # (T,) the first node of each tree
    child: np.ndarray  # (nodes,) the first of a node's two children, or -1 - its leaf
    ptr: np.ndarray  # (nodes + 1,) start of each node's separator in features and values
    features: np.ndarray
    values: np.ndarray
    bias: np.ndarray  # (nodes,)
    leaf_ptr: np.ndarray  # (leaves + 1,) start of each leaf in labels and shares
    labels: np.ndarray
    shares: np.ndarray
    tail_ptr: np.ndarray  # (L + 1,) label centroids, or one 0 if a model has none
    tail_idx: np.ndarray
    tail_val: np.ndarray


class LeafScoring(NamedTuple):
    """Settings for computing scores from leaves and centroids.

    The score of a label is its mean share over the leaves. If alpha < 1, the score is that mean to the power alpha,
    times exp(-gamma / 2 |x - mu|^2) to the power 1 - alpha, where mu is the centroid of the label.
    """

    alpha: float
    gamma: float
    factor: np.float32  # factor by which points are multiplied for the trees
    unit: bool  # scale points to length 1 before they are compared with centroids


class LeafScratch(NamedTuple):
    """Buffers of one thread, reused between calls."""

    dense: np.ndarray  # (D,) zeros before and after
    total: np.ndarray  # (L,) zeros before and after
    items: np.ndarray  # room for as many labels as all leaves of a point can have
    scores: np.ndarray


@njit(cache=True, nogil=True)
def _room(array, size):
    """Return the array, or a longer copy if it has fewer than `size` entries."""
    if size <= array.shape[0]:
        return array
    longer = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    for a in range(array.shape[0]):
        longer[a] = array[a]
    return longer


@njit(cache=True, nogil=True)
def fill_leaf(points, Y, weights, total, labels, shares):
    """Write the best labels of a leaf, by the summed weights of its points, as many as fit. Return their number.

    total : scratch of L zeros, zeros again at the end.
    """
    indptr, indices = Y.ptr, Y.idx
    size = 0
    for i in points:
        size += indptr[i + 1] - indptr[i]
    met = np.empty(min(size, total.shape[0]), np.int32)
    n = 0
    for i in points:
        for p in range(indptr[i], indptr[i + 1]):
            if total[indices[p]] == 0.0:
                met[n] = indices[p]
                n += 1
            total[indices[p]] += weights[indices[p]]
    sums = np.empty(n, np.float32)
    for a in range(n):
        sums[a] = total[met[a]] / points.shape[0]
        total[met[a]] = 0.0
    return top_k_pairs(met[:n], sums, labels.shape[0], labels, shares)


@njit(cache=True, nogil=True)
def _separate(X, points, sides, ones, cost, place):
    """Train a separator of the two sides, and return its features, weights and bias.

    Both sides have the same total weight in the loss. Afterwards `sides` has the sides that the separator predicts.
    """
    n = points.shape[0]
    rows_ptr, rows_idx, rows_val, _, features = gather_rows(X.ptr, X.idx, X.val, points, place)
    columns = sparse_logistic.to_columns(rows_ptr, rows_idx, rows_val, features.shape[0])
    signs, costs = np.empty(n, np.float32), np.empty(n, np.float32)
    for a in range(n):
        signs[a] = 1.0 if sides[a] == 1 else -1.0
        costs[a] = cost * n / (ones if sides[a] == 1 else n - ones)
    found = sparse_logistic.solve(columns, signs, costs, 0.01, 10, 10)
    for a in range(n):
        score = found[-1]
        for p in range(rows_ptr[a], rows_ptr[a + 1]):
            score += rows_val[p] * found[rows_idx[p]]
        sides[a] = 1 if score > 0 else 0
    used = 0
    for j in range(features.shape[0]):
        if found[j] != 0.0:
            features[used], found[used] = features[j], found[j]
            used += 1
    return features[:used], found[:used], found[-1]


@njit(cache=True, nogil=True)
def grow_point_tree(X, Y, gains, points, n_features, growth, seed):
    """Grow one tree over `points` (reordered in place).

    X, Y : all points and their labels. Return child (the first of a node's two children, or -1 - its leaf), the
    separators of the nodes as ptr, features, values and bias, and the leaves as ptr, labels and shares.
    """
    weights, keep = gains.weights, growth.keep
    state = np.uint64(seed) * np.uint64(2654435761) + np.uint64(88172645463325252)
    n = points.shape[0]
    most = max(2 * n - 1, 1)
    begin, end = np.empty(most, np.int64), np.empty(most, np.int64)
    child, bias = np.empty(most, np.int32), np.zeros(most, np.float32)
    ptr = np.zeros(most + 1, np.int64)
    features, values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    leaf_ptr = np.zeros(n + 2, np.int64)
    labels, shares = np.empty(1024, np.int32), np.empty(1024, np.float32)
    n_labels = weights.shape[0]
    total, discount = np.zeros(n_labels, np.float32), np.empty((2, n_labels), np.float32)
    place = np.empty(n_features, np.int32)
    place[:] = -1
    sides, scratch = np.empty(n, np.int8), np.empty(n, np.int32)
    begin[0], end[0] = 0, n
    n_nodes, n_leaves, node = 1, 0, 0
    while node < n_nodes:
        members = points[begin[node] : end[node]]
        size = members.shape[0]
        ptr[node + 1] = ptr[node]
        middle = 0
        if size > growth.max_leaf:
            side = sides[:size]
            for a in range(size):
                state = next_random(state)
                side[a] = (state >> _HIGH) & _ONE
            ones = partition(members, Y, gains, side, total, discount, 50)
            if 0 < ones < size:
                used, weight, bias[node] = _separate(X, members, side, ones, growth.cost, place)
                ones = 0
                for a in range(size):
                    if side[a] == 1:
                        scratch[ones] = members[a]
                        ones += 1
                    else:
                        members[middle] = members[a]
                        middle += 1
                for a in range(ones):
                    members[middle + a] = scratch[a]
        if 0 < middle < size:
            to = ptr[node] + used.shape[0]
            features, values = _room(features, to), _room(values, to)
            for a in range(used.shape[0]):
                features[ptr[node] + a], values[ptr[node] + a] = used[a], weight[a]
            ptr[node + 1] = to
            child[node] = n_nodes
            begin[n_nodes], end[n_nodes] = begin[node], begin[node] + middle
            begin[n_nodes + 1], end[n_nodes + 1] = begin[node] + middle, end[node]
            n_nodes += 2
        else:
            bias[node] = 0.0
            child[node] = -1 - n_leaves
            at = leaf_ptr[n_leaves]
            labels, shares = _room(labels, at + keep), _room(shares, at + keep)
            span = slice(at, at + keep)
            leaf_ptr[n_leaves + 1] = at + fill_leaf(members, Y, weights, total, labels[span], shares[span])
            n_leaves += 1
        node += 1
    last, kept = ptr[n_nodes], leaf_ptr[n_leaves]
    return (
        child[:n_nodes].copy(),
        ptr[: n_nodes + 1].copy(),
        features[:last].copy(),
        values[:last].copy(),
        bias[:n_nodes].copy(),
        leaf_ptr[: n_leaves + 1].copy(),
        labels[:kept].copy(),
        shares[:kept].copy(),
    )


@njit(cache=True, nogil=True)
def mean_products(point_ptr, points, X, V, first, last, n_features):
    """Compute the mean inner product of each label's vector in V with the label's points, for labels first..last.

    point_ptr, points : the points of each label, as CSR.
    """
    x_ptr, x_idx, x_val, v_ptr, v_idx, v_val = X.ptr, X.idx, X.val, V.ptr, V.idx, V.val
    dense = np.zeros(n_features, np.float32)
    found = np.zeros(last - first, np.float32)
    for label in range(first, last):
        for q in range(v_ptr[label], v_ptr[label + 1]):
            dense[v_idx[q]] = v_val[q]
        total = 0.0
        for a in range(point_ptr[label], point_ptr[label + 1]):
            for p in range(x_ptr[points[a]], x_ptr[points[a] + 1]):
                total += x_val[p] * dense[x_idx[p]]
        found[label - first] = total / max(point_ptr[label + 1] - point_ptr[label], 1)
        for q in range(v_ptr[label], v_ptr[label + 1]):
            dense[v_idx[q]] = 0.0
    return found


@njit(cache=True, nogil=True, borrows=True)
def _leaf(trees, t, dense):
    """Return the leaf of tree t that a point reaches."""
    child, ptr, features, values, bias = trees.child, trees.ptr, trees.features, trees.values, trees.bias
    node = trees.roots[t]
    while child[node] >= 0:
        score = bias[node]
        for q in range(np.uint64(ptr[node]), np.uint64(ptr[node + 1])):
            score += values[q] * dense[np.uint64(features[q])]
        node = child[node] + (1 if score > 0 else 0)
    return -1 - child[node]


@njit(cache=True, nogil=True)
def rank_by_leaves(X, first, last, trees, scoring, scratch, results):
    """Rank labels for rows first..last by the leaves that these reach. Results begin at row 0.

    results : labels (n, k), scores (n, k) and counts (n,); see :class:`longtail.kernels.beam.Results`.
    """
    x_ptr, x_idx, x_val = X.ptr, X.idx, X.val
    leaf_ptr, labels, shares = trees.leaf_ptr, trees.labels, trees.shares
    tail_ptr, tail_idx, tail_val = trees.tail_ptr, trees.tail_idx, trees.tail_val
    alpha, gamma, factor, unit = scoring.alpha, scoring.gamma, scoring.factor, scoring.unit
    dense, total, items, scores = scratch.dense, scratch.total, scratch.items, scratch.scores
    n_trees, k = trees.roots.shape[0], results.labels.shape[1]
    best, value = np.empty(k, np.int32), np.empty(k, np.float64)
    for row in range(first, last):
        begin, end = x_ptr[row], x_ptr[row + 1]
        square = np.float32(0.0)
        for p in range(begin, end):
            square += x_val[p] * x_val[p]
        scale = np.float32(1.0) / factor  # undoes `factor` for the comparison with centroids
        if unit and square > 0:
            scale /= np.sqrt(square)
            square = np.float32(1.0)
        for p in range(begin, end):
            dense[x_idx[p]] = x_val[p] * factor
        n = 0
        for t in range(n_trees):
            leaf = _leaf(trees, t, dense)
            for q in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
                if total[labels[q]] == 0.0:
                    items[n] = labels[q]
                    n += 1
                total[labels[q]] += shares[q]
        for a in range(n):
            label = items[a]
            scores[a] = total[label] / n_trees
            total[label] = 0.0
            if alpha < 1.0:
                distance = square
                for q in range(tail_ptr[label], tail_ptr[label + 1]):  # |mu|^2 - 2 x.mu
                    distance += tail_val[q] * (tail_val[q] - np.float32(2.0) * scale * dense[tail_idx[q]])
                distance = max(distance, np.float32(0.0))
                scores[a] = scores[a] ** alpha * math.exp(-0.5 * gamma * (1.0 - alpha) * distance)
        for p in range(begin, end):
            dense[x_idx[p]] = 0.0
        at = row - first
        count = top_k_pairs(items[:n], scores[:n], k, best, value)
        results.counts[at] = count
        for a in range(count):
            results.labels[at, a] = best[a]
            results.scores[at, a] = min(max(value[a], ABOVE_ZERO), BELOW_ONE)
