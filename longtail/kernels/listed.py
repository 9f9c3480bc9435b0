"""Compute exact scores of listed labels: the inner products of each point with the vectors of its labels."""

from __future__ import annotations

import numpy as np

from longtail.kernels.combine import FLOOR, probability
from longtail.kernels.compiling import njit
from longtail.kernels.prefetch import LINE_BYTES, prefetch
from longtail.kernels.search import dot_product
from longtail.kernels.topk import ABOVE_ZERO, BELOW_ONE, top_k_pairs

_AHEAD = 3  # how many labels ahead vectors are prefetched


@njit(cache=True, nogil=True, borrows=True)
def score_lists(points, vectors, lists, first, last, out):
    """Write out[i, a] = points[i] · vectors[lists[i, a]], or FLOOR if lists[i, a] is -1.

    The vectors are scattered in memory, so that each is prefetched while those before it are multiplied.
    """
    dim = np.int64(vectors.shape[1])
    for i in range(first, last):
        for a in range(lists.shape[1]):
            if a + _AHEAD < lists.shape[1] and lists[i, a + _AHEAD] >= 0:
                start = dim * np.int64(lists[i, a + _AHEAD])
                for j in range(start, start + dim, LINE_BYTES // 4):
                    prefetch(vectors, j)
            at = lists[i, a]
            out[i, a] = dot_product(points[i], vectors[at]) if at >= 0 else FLOOR


@njit(cache=True, nogil=True, borrows=True)
def look_up(position, labels, first, last, out):
    """Write out[i, a] = position[labels[i, a]], or -1 if there is no label."""
    for i in range(first, last):
        for a in range(labels.shape[1]):
            out[i, a] = position[labels[i, a]] if labels[i, a] >= 0 else np.int32(-1)


@njit(cache=True, nogil=True)
def best_listed(labels, odds, first, last, best):
    """Write the k labels with the highest log odds of each row, with their probabilities. Ties: the smaller label."""
    width, k = labels.shape[1], best.labels.shape[1]
    at = np.empty(k, np.int32)
    height = np.empty(k, np.float32)
    own = np.empty(width, np.int32)
    value = np.empty(width, np.float32)
    for i in range(first, last):
        n = 0
        for a in range(width):
            if labels[i, a] >= 0:
                own[n] = labels[i, a]
                value[n] = odds[i, a]
                n += 1
        n = top_k_pairs(own[:n], value[:n], k, at, height)
        best.counts[i] = n
        for a in range(n):
            best.labels[i, a] = at[a]
            chance = np.float32(probability(height[a]))
            best.scores[i, a] = min(max(chance, ABOVE_ZERO), BELOW_ONE)
