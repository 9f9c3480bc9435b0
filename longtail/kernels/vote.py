"""Points through a small network, and the vote of their neighbours' labels, row by row: the way of a DXML prediction.

One row is computed in the same order alone and in a batch, so that a point's answer never depends on its company.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.kernels.topk import top_k_pairs

_LEAST = np.float32(1e-20)  # of a neighbour's weight, so that a label it alone carries is still found


@njit(cache=True, nogil=True, fastmath=True)
def embed(ptr, idx, val, hidden, hidden_bias, output, output_bias, relu, length, first, last, column, out):
    """length * unit(act(x W1 + b1) W2 + b2) for rows first..last, x scaled to length 1; zeros stay zeros.

    hidden : W1 (D, h); output : W2 (h, l); out : (rows, l or more), filled from `column` on.
    """
    h, d = output.shape
    middle = np.empty(h, np.float32)
    row = np.empty(d, np.float32)
    for i in range(first, last):
        square = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            square += np.float64(val[p]) * np.float64(val[p])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)
        for j in range(h):
            middle[j] = hidden_bias[j]
        for p in range(ptr[i], ptr[i + 1]):
            x = val[p] * scale
            w = hidden[idx[p]]
            for j in range(h):
                middle[j] += x * w[j]
        for j in range(d):
            row[j] = output_bias[j]
        for a in range(h):
            m = middle[a]
            if m > 0 or not relu:
                w = output[a]
                for j in range(d):
                    row[j] += m * w[j]
        total = np.float32(0.0)
        for j in range(d):
            total += row[j] * row[j]
        shrink = length / np.sqrt(total) if total > 0 else np.float32(0.0)
        for j in range(d):
            out[i, column + j] = row[j] * shrink


@njit(cache=True, nogil=True)
def add_feature_cosines(
    ids, nearness, ptr, idx, val, point_ptr, point_idx, point_val, n_features, weight, first, last
):  # fmt: skip
    """Add weight * the cosine of features to the nearness of each neighbour and sort again, for rows first..last.

    ids, nearness : (rows, m), changed in place, -1 where there are no more; ptr, idx, val : features of the rows;
    point_... : of what the ids number, of length 1.
    """
    dense = np.zeros(n_features, np.float32)
    for i in range(first, last):
        square = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            square += np.float64(val[p]) * np.float64(val[p])
        if square == 0.0:
            continue
        scale = np.float32(weight / np.sqrt(square))
        for p in range(ptr[i], ptr[i + 1]):
            dense[idx[p]] = val[p] * scale
        n = 0
        while n < ids.shape[1] and ids[i, n] >= 0:
            dot = np.float32(0.0)
            for p in range(point_ptr[ids[i, n]], point_ptr[ids[i, n] + 1]):
                dot += point_val[p] * dense[point_idx[p]]
            nearness[i, n] += dot
            n += 1
        for p in range(ptr[i], ptr[i + 1]):
            dense[idx[p]] = 0.0
        some_ids, some = ids[i, :n].copy(), nearness[i, :n].copy()
        top_k_pairs(some_ids, some, n, ids[i], nearness[i])


@njit(cache=True, nogil=True, fastmath=True)
def _dot(a, b):
    total = np.float32(0.0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True)
def vote(
    ids, nearness, sharpness, indptr, indices, points, vectors, label_weight, n_used, k, first, last, labels, scores,
    counts,
):  # fmt: skip
    """The k labels with the largest share of the neighbours' weights, for rows first..last.

    ids, nearness : (rows, m) neighbours, the nearest first, -1 where there are no more, of which `n_used` vote;
    indptr, indices : their labels. A neighbour weighs exp(sharpness * (its nearness - the nearest's)): 0 for a plain
    average. A label's share is then multiplied by exp(label_weight * (its cosine with the point - the highest such)).
    points : (rows, d); vectors : (L, d); labels, scores : (rows, k); counts : how many were found.
    """
    n_labels = vectors.shape[0]
    total = np.zeros(n_labels, np.float32)
    for i in range(first, last):
        n = 0
        while n < min(n_used, ids.shape[1]) and ids[i, n] >= 0:
            n += 1
        size = 0
        for a in range(n):
            size += indptr[ids[i, a] + 1] - indptr[ids[i, a]]
        met = np.empty(min(size, n_labels), np.int32)
        m = 0
        weights = np.float32(0.0)
        for a in range(n):
            weight = np.float32(np.exp(sharpness * (nearness[i, a] - nearness[i, 0])))
            weight = max(weight, _LEAST)
            weights += weight
            for p in range(indptr[ids[i, a]], indptr[ids[i, a] + 1]):
                label = indices[p]
                if total[label] == 0.0:
                    met[m] = label
                    m += 1
                total[label] += weight
        share = np.empty(m, np.float32)
        for b in range(m):
            share[b] = total[met[b]] / weights
            total[met[b]] = 0.0
        if label_weight != 0.0:
            cosine = np.empty(m, np.float32)
            best = np.float32(-np.inf)
            for b in range(m):
                cosine[b] = _dot(points[i], vectors[met[b]])
                best = max(best, cosine[b])
            for b in range(m):
                share[b] *= np.float32(np.exp(label_weight * (cosine[b] - best)))
        counts[i] = top_k_pairs(met[:m], share, k, labels[i], scores[i])
