"""Spherical k-means on sparse label vectors: balanced halving (Parabel) and plain k-means (Bonsai).

Labels are rows of a CSR with unit rows. Similarity is the inner product with a dense centroid.
"""

from __future__ import annotations

import math

import numpy as np

from longtail.kernels.best import highest, kth_highest
from longtail.kernels.compiling import inner, njit
from longtail.kernels.prefetch import LINE_BYTES, prefetch

_1, _2 = np.uint64(1), np.uint64(2)
_LINE = np.uint64(LINE_BYTES // 4)
_AHEAD = np.uint64(4)  # features before that of a row whose weights in all centroids are loaded


@njit(cache=True, nogil=True)
def label_centroids(point_ptr, points, indptr, indices, data, first, last, width, n_features):
    """Compute the mean of each label's points, reduced to its `width` strongest features, as unit vectors.

    point_ptr, points : labels x points. Return (ptr, indices, values) of labels first..last.
    """
    total = np.zeros(n_features, np.float32)
    touched = np.empty(n_features, np.int32)
    out_ptr = np.zeros(last - first + 1, np.int64)
    capacity = 1024
    out_idx = np.empty(capacity, np.int32)
    out_val = np.empty(capacity, np.float32)
    c = 0
    for label in range(first, last):
        m = 0
        for q in range(point_ptr[label], point_ptr[label + 1]):
            i = points[q]
            for p in range(indptr[i], indptr[i + 1]):
                f = indices[p]
                if total[f] == 0.0:
                    touched[m] = f
                    m += 1
                total[f] += data[p]
                if total[f] == 0.0:  # cancelled to exactly zero: mark it as touched
                    total[f] = np.float32(1e-30)
        floor = np.float32(0.0)
        if m > width:
            size = np.empty(m, np.float32)
            for a in range(m):
                size[a] = abs(total[touched[a]])
            floor = kth_highest(size, width)
        while c + min(m, width) > capacity:
            capacity *= 2
            grown_idx = np.empty(capacity, np.int32)
            grown_val = np.empty(capacity, np.float32)
            for a in range(c):
                grown_idx[a] = out_idx[a]
                grown_val[a] = out_val[a]
            out_idx, out_val = grown_idx, grown_val
        start = c
        square = 0.0
        for a in range(m):
            f = touched[a]
            if abs(total[f]) >= floor and c - start < width:
                out_idx[c] = f
                out_val[c] = total[f]
                square += total[f] * total[f]
                c += 1
            total[f] = 0.0
        if square > 0:
            scale = np.float32(1.0 / math.sqrt(square))
            for a in range(start, c):
                out_val[a] *= scale
        out_ptr[label - first + 1] = c
    return out_ptr, out_idx[:c].copy(), out_val[:c].copy()


@inner(fastmath=True, borrows=True)
def _multiply(indptr, indices, data, vector, products):
    """Write the inner product of each row with a dense vector to `products`."""
    for i in range(products.shape[0]):
        total = np.float32(0.0)
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += data[p] * vector[np.uint64(indices[p])]
        products[i] = total


@inner(fastmath=True, borrows=True)
def _add_row(indptr, indices, data, i, factor, vector):
    """Add a multiple of row i to a dense vector."""
    for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
        vector[np.uint64(indices[p])] += factor * data[p]


@njit(cache=True, nogil=True, fastmath=True)
def two_means(indptr, indices, data, n_features, eps, max_iter, seed):
    """Split rows into two halves; return an order of which the first half (larger by one if odd) is one cluster.

    Spherical 2-means with equal halves: the rows with the larger difference of the two similarities are the second
    half; stop when the mean similarity improves by less than `eps`. The halves are found by selection: sorting the
    differences took half of the time.

    Only s, the sum of the first half, is kept, and changed by the rows that change sides. With S, the sum of all rows,
    that of the second half is S - s, and both lengths follow from the inner products of rows with S and s. A round is
    one pass over the rows; two centroids, computed anew in each round, took three times as long.
    """
    n = indptr.shape[0] - 1
    half = (n + 1) // 2
    one = np.float32(1.0)
    vector = np.zeros(n_features, np.float32)  # S, then a row, then s
    with_all = np.empty(n, np.float32)  # inner product of each row with S
    near = np.empty(n, np.float32)  # similarity of a row with the first centroid
    further = np.empty(n, np.float32)  # how much nearer a row is to the second centroid
    selected = np.empty(n, np.float32)
    side = np.ones(n, np.int8)
    a = (seed * 2654435761 % 4294967296) * n // 4294967296
    b = (a + 1 + ((seed + 1) * 2246822519 % 4294967296) * (n - 1) // 4294967296) % n  # not a
    for i in range(n):
        _add_row(indptr, indices, data, i, one, vector)
    _multiply(indptr, indices, data, vector, with_all)
    square = 0.0  # |S|^2
    for i in range(n):
        square += with_all[i]
    vector[:] = 0.0
    _add_row(indptr, indices, data, b, one, vector)
    _multiply(indptr, indices, data, vector, further)
    vector[:] = 0.0
    _add_row(indptr, indices, data, a, one, vector)
    _multiply(indptr, indices, data, vector, near)
    for i in range(n):
        further[i] -= near[i]
    vector[:] = 0.0
    before = -np.inf
    for _ in range(max_iter):
        selected[:] = further
        bound = kth_highest(selected, n - half)  # the lowest of the second half
        spare = half  # of those at the bound, the first ones fill the first half
        for i in range(n):
            spare -= further[i] < bound
        gain, moved = 0.0, 0
        for i in range(n):
            if further[i] == bound:
                new = 0 if spare > 0 else 1
                spare -= 1
            else:
                new = 0 if further[i] < bound else 1
            gain += near[i] + new * further[i]
            if new != side[i]:
                _add_row(indptr, indices, data, i, one if new == 0 else -one, vector)
                side[i] = new
                moved += 1
        gain /= n
        if gain - before < eps or moved == 0:
            break
        before = gain
        _multiply(indptr, indices, data, vector, near)
        first, both = 0.0, 0.0  # |s|^2 and the inner product of s and S
        for i in range(n):
            if side[i] == 0:
                first += near[i]
                both += with_all[i]
        second = square - 2.0 * both + first  # |S - s|^2
        first_step = np.float32(1.0 / math.sqrt(first)) if first > 0 else np.float32(0.0)
        second_step = np.float32(1.0 / math.sqrt(second)) if second > 0 else np.float32(0.0)
        for i in range(n):
            rest = (with_all[i] - near[i]) * second_step
            near[i] *= first_step
            further[i] = rest - near[i]
    order = np.empty(n, np.int64)
    at_first, at_second = 0, half
    for i in range(n):
        if side[i] == 0:
            order[at_first] = i
            at_first += 1
        else:
            order[at_second] = i
            at_second += 1
    return order


@njit(cache=True, nogil=True, fastmath=True)
def assign_rows(indptr, indices, data, first, last, centroids, nearest, similarity):
    """Find the nearest centroid of rows first..last; centroids (D, k), so that one pass over a row scores all k.

    Two features at a time, so that scores are read and written half as often. The weights of a feature in a hundred
    centroids lie all over the memory; they are loaded before they are needed.
    """
    k = np.uint64(centroids.shape[1])
    flat = centroids.reshape(-1)
    score = np.empty(k, np.float32)
    final = np.uint64(max(np.int64(indptr[last]) - 1, 0))
    for i in range(first, last):
        score[:] = 0.0
        p, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        while p + _1 < end:
            for ahead in range(p + _AHEAD, p + _AHEAD + _2):
                row = np.uint64(indices[min(ahead, final)]) * k
                for q in range(row, row + k, _LINE):
                    prefetch(centroids, q)
            f, g = np.uint64(indices[p]) * k, np.uint64(indices[p + _1]) * k
            v, w = data[p], data[p + _1]
            for c in range(k):
                score[c] += v * flat[f + c] + w * flat[g + c]
            p += _2
        if p < end:
            f, v = np.uint64(indices[p]) * k, data[p]
            for c in range(k):
                score[c] += v * flat[f + c]
        top = highest(score, 0, centroids.shape[1])
        best = 0
        while score[best] < top and best + 1 < centroids.shape[1]:
            best += 1
        nearest[i] = best
        similarity[i] = top


@njit(cache=True, nogil=True)
def recentre(indptr, indices, data, nearest, centroids):
    """Replace centroids by the sums of their members, scaled to length 1."""
    centroids[:] = 0.0
    for i in range(indptr.shape[0] - 1):
        c = nearest[i]
        for p in range(indptr[i], indptr[i + 1]):
            centroids[indices[p], c] += data[p]
    square = np.zeros(centroids.shape[1], np.float64)
    for f in range(centroids.shape[0]):
        for c in range(centroids.shape[1]):
            square[c] += centroids[f, c] * centroids[f, c]
    for c in range(centroids.shape[1]):
        square[c] = 1.0 / math.sqrt(square[c]) if square[c] > 0 else 0.0
    for f in range(centroids.shape[0]):
        for c in range(centroids.shape[1]):
            centroids[f, c] *= square[c]
