"""Kernels of DECAF's prediction: encode documents, expand clusters to their labels, and average several networks.

All kernels are serial, release the interpreter lock and process a range of rows: see :mod:`longtail.kernels.pool`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.combine import log_odds_of, probability
from longtail.kernels.compiling import njit
from longtail.kernels.search import dot_product


class DocumentBlock(NamedTuple):
    """Token table and document block, with the gates multiplied into the weights."""

    tokens: np.ndarray  # (D, d)
    R: np.ndarray  # (d, d)
    gate: np.ndarray  # (d,)
    least: np.float32  # lower bound of the output: 0 for a ReLU, minus infinity for none


@njit(cache=True, nogil=True, fastmath={"contract"})
def encode_documents(points, block, first, last, out):
    """Scale points to length 1 and encode them as rows of out (N, d + 1). The last column is 1, for the biases."""
    ptr, idx, val = points.ptr, points.idx, points.val
    tokens, R, gate, least = block.tokens, block.R, block.gate, block.least
    d = tokens.shape[1]
    v = np.empty(d, np.float32)
    active = np.empty(d, np.int32)
    for i in range(first, last):
        square = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            square += np.float64(val[p]) * np.float64(val[p])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(1.0)
        for j in range(d):  # a slice takes longer to compile
            v[j] = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            x = val[p] * scale
            token = tokens[idx[p]]
            for j in range(d):
                v[j] += x * token[j]
        row = out[i]
        for j in range(d):
            row[j] = gate[j] * v[j]
        n = 0
        for a in range(d):  # without a jump, which would be as often taken as not
            active[n] = a
            n += v[a] > 0.0
        whole = n // 4 * 4
        for p in range(0, whole, 4):  # four at once, so that the row is loaded and stored less often
            a0, a1, a2, a3 = active[p], active[p + 1], active[p + 2], active[p + 3]
            x0, x1, x2, x3 = v[a0], v[a1], v[a2], v[a3]
            for j in range(d):
                row[j] = row[j] + x0 * R[a0, j] + x1 * R[a1, j] + x2 * R[a2, j] + x3 * R[a3, j]
        for p in range(whole, n):
            a, x = active[p], v[active[p]]
            for j in range(d):
                row[j] += x * R[a, j]
        for j in range(d):
            row[j] = max(row[j], least)
        row[d] = 1.0


@njit(cache=True, nogil=True, borrows=True)
def expand_clusters(clusters, ptr, members, first, last, out):
    """Write the labels of each row's clusters to `out`, in the order of the clusters, until the row is full."""
    width = out.shape[1]
    for i in range(first, last):
        n = 0
        for a in range(clusters.shape[1]):
            m = clusters[i, a]
            if m < 0:
                break
            for p in range(ptr[m], ptr[m + 1]):
                if n < width:
                    out[i, n] = members[p]
                    n += 1
        out[i, n:] = -1


@njit(cache=True, nogil=True, borrows=True)
def weigh_by_clusters(encoded, cluster_vectors, cluster_of, lists, first, last, odds):
    """Replace the log odds of each label by those of σ(label) σ(its cluster) (paper, "Prediction Pipeline").

    lists (N, S) : positions of labels, -1 for none.
    """
    for i in range(first, last):
        for a in range(lists.shape[1]):
            if lists[i, a] >= 0:
                m = cluster_of[lists[i, a]]
                if m >= 0:
                    near = dot_product(encoded[i], cluster_vectors[m])
                    odds[i, a] = log_odds_of(probability(odds[i, a]) * probability(near))


@njit(cache=True, nogil=True, borrows=True)
def add_probabilities(odds, first, last, total):
    """Add σ(odds) to `total`, as the score of an ensemble is the mean probability."""
    for i in range(first, last):
        for a in range(odds.shape[1]):
            total[i, a] += probability(odds[i, a])


@njit(cache=True, nogil=True, borrows=True)
def mean_log_odds(total, n, first, last, odds):
    """Write the log odds of the mean of n probabilities."""
    for i in range(first, last):
        for a in range(odds.shape[1]):
            odds[i, a] = log_odds_of(total[i, a] / n)
