"""Points against labels as sparse vectors: the best labels through an inverted index, and the products of given pairs.

All are serial, release the interpreter lock and take a range of rows: see :mod:`longtail.kernels.pool`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.kernels.topk import top_k_pairs


@njit(cache=True, nogil=True)
def _scale(x_val, begin, end):
    """One over the length of a row; 1 for a row of zeros."""
    square = 0.0
    for p in range(begin, end):
        square += np.float64(x_val[p]) * np.float64(x_val[p])
    return np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(1.0)


@njit(cache=True, nogil=True)
def search(x_ptr, x_idx, x_val, first, last, ptr, labels, values, n_labels, k, out_labels, out_scores, out_n):
    """The k best labels of rows first..last by their product with the row, among labels that share a feature with it.

    ptr (D + 1,), labels, values : the label vectors by features. Rows are scaled to length 1 first. out_* : (rows, k).
    """
    total, met = np.zeros(n_labels, np.float32), np.zeros(n_labels, np.bool_)
    items = np.empty(n_labels, np.int32)
    scores = np.empty(n_labels, np.float32)
    for row in range(first, last):
        scale = _scale(x_val, x_ptr[row], x_ptr[row + 1])
        n = 0
        for p in range(x_ptr[row], x_ptr[row + 1]):
            x = x_val[p] * scale
            for q in range(ptr[x_idx[p]], ptr[x_idx[p] + 1]):
                label = labels[q]
                if not met[label]:
                    met[label] = True
                    items[n] = label
                    n += 1
                total[label] += x * values[q]
        for a in range(n):
            scores[a] = total[items[a]]
            total[items[a]] = 0.0
            met[items[a]] = False
        at = row - first
        out_n[at] = top_k_pairs(items[:n], scores[:n], k, out_labels[at], out_scores[at])


@njit(cache=True, nogil=True)
def products(x_ptr, x_idx, x_val, first, last, pair_ptr, pair_labels, ptr, features, values, n_features, out):
    """Three likenesses of rows first..last to each of their paired labels, whose vectors are ptr, features, values.

    out (pairs, 3) gets the product with the row scaled to length 1, the share of the label's squared length that lies
    on features the row has, and the share of the row's that lies on features the label has.
    """
    dense = np.zeros(n_features, np.float32)
    for row in range(first, last):
        scale = _scale(x_val, x_ptr[row], x_ptr[row + 1])
        for p in range(x_ptr[row], x_ptr[row + 1]):
            dense[x_idx[p]] = x_val[p] * scale
        for a in range(pair_ptr[row], pair_ptr[row + 1]):
            label = pair_labels[a]
            product, length, covered, covers = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
            for q in range(ptr[label], ptr[label + 1]):
                x, v = dense[features[q]], values[q]
                length += v * v
                if x != 0.0:
                    product += x * v
                    covered += v * v
                    covers += x * x
            out[a, 0] = product
            out[a, 1] = covered / length if length > 0 else np.float32(0.0)
            out[a, 2] = covers
        for p in range(x_ptr[row], x_ptr[row + 1]):
            dense[x_idx[p]] = 0.0
