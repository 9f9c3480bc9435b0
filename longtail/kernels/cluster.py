"""Spherical k-means on sparse label vectors: balanced halving (Parabel) and plain k-means (Bonsai).

Labels are rows of a CSR with unit rows. Similarity is the inner product with a dense centroid.
"""

from __future__ import annotations

import math

import numpy as np

from longtail.kernels.best import kth_highest
from longtail.kernels.compiling import njit


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


@njit(cache=True, nogil=True, fastmath=True)
def two_means(indptr, indices, data, n_features, eps, max_iter, seed):
    """Split rows into two halves; return an order of which the first half (larger by one if odd) is one cluster.

    Spherical 2-means with equal halves: the rows with the larger difference of the two similarities are the second
    half; stop when the mean similarity improves by less than `eps`. The halves are found by selection: sorting the
    differences took half of the time.
    """
    n = indptr.shape[0] - 1
    half = (n + 1) // 2
    centroids = np.zeros((n_features, 2), np.float32)
    a = (seed * 2654435761 % 4294967296) * n // 4294967296
    for p in range(indptr[a], indptr[a + 1]):
        centroids[indices[p], 0] = data[p]
    b = (a + 1 + ((seed + 1) * 2246822519 % 4294967296) * (n - 1) // 4294967296) % n  # not a
    for p in range(indptr[b], indptr[b + 1]):
        centroids[indices[p], 1] = data[p]
    near = np.empty((n, 2), np.float32)
    further = np.empty(n, np.float32)  # how much nearer a row is to the second centroid
    selected = np.empty(n, np.float32)
    side = np.empty(n, np.int8)
    before = -np.inf
    for _ in range(max_iter):
        for i in range(n):
            first = np.float32(0.0)
            second = np.float32(0.0)
            for p in range(indptr[i], indptr[i + 1]):
                first += data[p] * centroids[indices[p], 0]
                second += data[p] * centroids[indices[p], 1]
            near[i, 0] = first
            near[i, 1] = second
            further[i] = second - first
        selected[:] = further
        bound = kth_highest(selected, n - half)  # the lowest of the second half
        spare = half  # of those at the bound, the first ones fill the first half
        for i in range(n):
            spare -= further[i] < bound
        gain = 0.0
        centroids[:] = 0.0
        for i in range(n):
            if further[i] == bound:
                side[i] = 0 if spare > 0 else 1
                spare -= 1
            else:
                side[i] = further[i] > bound
            gain += near[i, side[i]]
            for p in range(indptr[i], indptr[i + 1]):
                centroids[indices[p], side[i]] += data[p]
        gain /= n
        if gain - before < eps:
            break
        before = gain
        for c in range(2):
            square = 0.0
            for f in range(n_features):
                square += centroids[f, c] * centroids[f, c]
            if square > 0:
                centroids[:, c] *= np.float32(1.0 / math.sqrt(square))
    order = np.empty(n, np.int64)
    first, second = 0, half
    for i in range(n):
        if side[i] == 0:
            order[first] = i
            first += 1
        else:
            order[second] = i
            second += 1
    return order


@njit(cache=True, nogil=True, fastmath=True)
def assign_rows(indptr, indices, data, first, last, centroids, nearest, similarity):
    """Find the nearest centroid of rows first..last; centroids (D, k), so that one pass over a row scores all k."""
    k = centroids.shape[1]
    score = np.empty(k, np.float32)
    for i in range(first, last):
        score[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            f = indices[p]
            v = data[p]
            for c in range(k):
                score[c] += v * centroids[f, c]
        best = 0
        for c in range(1, k):
            if score[c] > score[best]:
                best = c
        nearest[i] = best
        similarity[i] = score[best]


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
