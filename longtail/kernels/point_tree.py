"""Trees that part points, not labels: growing one, and ranking labels by the leaves that a point falls into.

A tree is a few flat arrays. Nodes are numbered level by level and are made in that order; the two children of a node
have neighbouring numbers, so one number says where both are. A node's separator is a sparse row.
A leaf keeps the labels that its points have most, with their weighted shares of the points.

To rank, a point's features are laid out in a dense row; a separator is then one walk over its own few features, and a
tree costs as many walks as it is deep, however many labels and points it has seen.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from longtail.kernels import sparse_logistic
from longtail.kernels.gather import gather_rows
from longtail.kernels.partition import partition
from longtail.kernels.solve import _next
from longtail.kernels.topk import top_k_pairs

_HIGH, _ONE = np.uint64(40), np.uint64(1)
_TINY, _MOST = 1e-30, 1.0 - 2.0**-23  # scores lie between, in float32 too


@njit(cache=True, nogil=True)
def _room(array, size):
    """The array, or a longer copy where `size` entries would not fit."""
    if size <= array.shape[0]:
        return array
    longer = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    for a in range(array.shape[0]):
        longer[a] = array[a]
    return longer


@njit(cache=True, nogil=True)
def fill_leaf(points, indptr, indices, weights, keep, total, labels, shares):
    """Write the `keep` best labels of a leaf, by the summed weights of its points; returns how many.

    total : scratch of L zeros, zeros again at the end.
    """
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
    return top_k_pairs(met[:n], sums, keep, labels, shares)


@njit(cache=True, nogil=True)
def _separate(x_ptr, x_idx, x_val, points, sides, ones, cost, place):
    """Learn which side points are on: features, weights, bias. Both sides weigh the same in the loss.

    Leaves the points on the sides where the separator sees them.
    """
    n = points.shape[0]
    rows_ptr, rows_idx, rows_val, _, features = gather_rows(x_ptr, x_idx, x_val, points, place)
    starts, rows, values = sparse_logistic.to_columns(rows_ptr, rows_idx, rows_val, features.shape[0])
    signs, costs = np.empty(n, np.float32), np.empty(n, np.float32)
    for a in range(n):
        signs[a] = 1.0 if sides[a] == 1 else -1.0
        costs[a] = cost * n / (ones if sides[a] == 1 else n - ones)
    found = sparse_logistic.solve(starts, rows, values, signs, costs, 0.01, 10, 10)
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
def grow(x_ptr, x_idx, x_val, y_ptr, y_idx, weights, ideal, discounts, points, n_features, max_leaf, keep, cost, seed):
    """Grow one tree over `points` (reordered in place).

    x_*, y_* : all points and their labels as CSR; weights (L,) : the worth of a label; ideal (N,), discounts : see
    :mod:`longtail.kernels.partition`. Returns child (the first of a node's two children, or -1 - its leaf), the
    separators as ptr, features, values and bias by node, and the leaves as ptr, labels and shares.
    """
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
        if size > max_leaf:
            side = sides[:size]
            for a in range(size):
                state = _next(state)
                side[a] = (state >> _HIGH) & _ONE
            ones = partition(members, y_ptr, y_idx, weights, ideal, discounts, side, total, discount, 50)
            if 0 < ones < size:
                used, weight, bias[node] = _separate(x_ptr, x_idx, x_val, members, side, ones, cost, place)
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
            leaf_ptr[n_leaves + 1] = at + fill_leaf(
                members, y_ptr, y_idx, weights, keep, total, labels[at : at + keep], shares[at : at + keep]
            )
            n_leaves += 1
        node += 1
    last, kept = ptr[n_nodes], leaf_ptr[n_leaves]
    return (
        child[:n_nodes].copy(), ptr[: n_nodes + 1].copy(), features[:last].copy(), values[:last].copy(),
        bias[:n_nodes].copy(), leaf_ptr[: n_leaves + 1].copy(), labels[:kept].copy(), shares[:kept].copy(),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def mean_products(point_ptr, points, x_ptr, x_idx, x_val, v_ptr, v_idx, v_val, first, last, n_features):
    """Mean product of labels first..last, as vectors v, with their points; point_ptr, points : labels x points."""
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


@njit(cache=True, nogil=True)
def _leaf(roots, t, child, ptr, features, values, bias, dense):
    """The leaf of tree `t` that a point falls into."""
    node = roots[t]
    while child[node] >= 0:
        score = bias[node]
        for q in range(np.uint64(ptr[node]), np.uint64(ptr[node + 1])):
            score += values[q] * dense[np.uint64(features[q])]
        node = child[node] + (1 if score > 0 else 0)
    return -1 - child[node]


@njit(cache=True, nogil=True)
def rank(
    x_ptr, x_idx, x_val, first, last, roots, child, ptr, features, values, bias, leaf_ptr, labels, shares,
    tail_ptr, tail_idx, tail_val, alpha, gamma, factor, unit, k, dense, total, items, scores,
    out_labels, out_scores, out_n,
):  # fmt: skip
    """Rows first..last of a batch through all trees: labels and scores, the best first, and how many.

    roots (T,) : the trees' first nodes. A label's score is its mean share over the leaves; where alpha < 1, that to the
    power alpha, times exp(-gamma / 2 |x - mu|^2) to the power 1 - alpha, mu being the label's centroid (tail_*).
    factor : what points are multiplied by for the trees; unit : compare points of length 1 with centroids.
    dense (D,) and total (L,) : scratch of zeros, zeros again at the end; items, scores : scratch for as many labels
    as all trees can name.
    """
    n_trees = roots.shape[0]
    best, value = np.empty(k, np.int32), np.empty(k, np.float64)
    for row in range(first, last):
        begin, end = x_ptr[row], x_ptr[row + 1]
        square = np.float32(0.0)
        for p in range(begin, end):
            square += x_val[p] * x_val[p]
        scale = np.float32(1.0) / factor  # of the dense row, where it meets centroids
        if unit and square > 0:
            scale /= np.sqrt(square)
            square = np.float32(1.0)
        for p in range(begin, end):
            dense[x_idx[p]] = x_val[p] * factor
        n = 0
        for t in range(n_trees):
            leaf = _leaf(roots, t, child, ptr, features, values, bias, dense)
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
        out_n[at] = top_k_pairs(items[:n], scores[:n], k, best, value)
        for a in range(out_n[at]):
            out_labels[at, a] = best[a]
            out_scores[at, a] = min(max(value[a], _TINY), _MOST)
