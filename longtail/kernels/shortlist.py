"""From shortlists to rankings: clusters to their labels, several lists to one, exact scores, two views mixed, the best.

Lists are rows of label numbers, -1 where there is none. All kernels are serial, release the interpreter lock and take a
range of rows: see :mod:`longtail.kernels.pool`. A row's answer does not depend on the rows beside it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from longtail.kernels.search import _dot
from longtail.kernels.topk import top_k_pairs

FLOOR = np.float32(-12.0)  # log odds of a label that a view does not list, and the least that it may give
OWN, OF_A_VIEW = 5, 7  # features of a pair: the network's, and those of each other view


@njit(cache=True, nogil=True)
def expand(clusters, ptr, members, first, last, out):
    """Labels of the clusters of each row, in the order of the clusters, until the row of `out` is full."""
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


@njit(cache=True, nogil=True)
def _position(row, n, label):
    """Where the label is among the first n of a row; n for nowhere. Rows are short: looking beats marking."""
    for a in range(n):
        if row[a] == label:
            return a
    return n


@njit(cache=True, nogil=True)
def unite(one, two_ptr, two_idx, place, first, last, out):
    """Labels of either list: of the row of `one`, then of the CSR row of `two` that are not in `one`.

    `place` maps the labels of `two` to those of `one`, -1 for none.
    """
    for i in range(first, last):
        n = 0
        for a in range(one.shape[1]):
            if one[i, a] >= 0:
                out[i, n] = one[i, a]
                n += 1
        listed = n
        for p in range(two_ptr[i], two_ptr[i + 1]):
            label = place[two_idx[p]] if two_idx[p] >= 0 else -1
            if label >= 0 and _position(out[i], listed, label) == listed:
                out[i, n] = label
                n += 1
        out[i, n:] = -1


@njit(cache=True, nogil=True)
def score(points, vectors, lists, first, last, out):
    """out[i, a] = points[i] · vectors[lists[i, a]]."""
    for i in range(first, last):
        for a in range(lists.shape[1]):
            label = lists[i, a]
            out[i, a] = _dot(points[i], vectors[label]) if label >= 0 else np.float32(-np.inf)


@njit(cache=True, nogil=True)
def _chance(log_odds):
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -60.0), 60.0)))


@njit(cache=True, nogil=True)
def _log_odds(chance):
    chance = min(max(chance, 1e-26), 1.0 - 1e-12)
    return math.log(chance / (1.0 - chance))


@njit(cache=True, nogil=True)
def weigh_by_clusters(points, cluster_vectors, cluster_of, lists, first, last, scores):
    """Log odds of σ(label) σ(its cluster) instead of the label's own (paper, "Prediction Pipeline")."""
    for i in range(first, last):
        for a in range(lists.shape[1]):
            if lists[i, a] >= 0:
                m = cluster_of[lists[i, a]]
                if m >= 0:
                    near = _dot(points[i], cluster_vectors[m])
                    scores[i, a] = _log_odds(_chance(scores[i, a]) * _chance(near))


@njit(cache=True, nogil=True)
def add_chances(scores, first, last, total):
    """total += σ(scores): an ensemble's score is the mean chance."""
    for i in range(first, last):
        for a in range(scores.shape[1]):
            total[i, a] += _chance(scores[i, a])


@njit(cache=True, nogil=True)
def mean_log_odds(total, n, first, last, scores):
    """Log odds of the mean of n chances."""
    for i in range(first, last):
        for a in range(scores.shape[1]):
            scores[i, a] = _log_odds(total[i, a] / n)


@njit(cache=True, nogil=True)
def own_features(lists, neural, weight, first, last, out):
    """What the mix sees of the network, the first five numbers of out[row - first, a].

    1, log odds, the label's weight (the log of how often it occurs), log odds times that, and the chance itself, which
    lets the mix trust high log odds more or less than low ones.
    """
    for i in range(first, last):
        for a in range(lists.shape[1]):
            if lists[i, a] >= 0:
                row = out[i - first, a]
                row[0] = 1.0
                row[1] = neural[i, a]
                row[2] = weight[lists[i, a]]
                row[3] = neural[i, a] * weight[lists[i, a]]
                row[4] = _chance(neural[i, a])


@njit(cache=True, nogil=True)
def view_features(lists, ptr, idx, val, sure, place, weight, column, first, last, out):
    """What the mix sees of another view, seven numbers from `column` on.

    Log odds, whether the view lists the label, log odds times the label's weight; how sure the view is of the point,
    and that times the first two; the chance itself.
    ptr, idx, val : chances of labels by point. place : maps its labels to those listed.
    """
    for i in range(first, last):
        n = 0
        while n < lists.shape[1] and lists[i, n] >= 0:
            n += 1
        for a in range(n):
            row = out[i - first, a, column:]
            row[0] = FLOOR
            row[1] = 0.0
            row[2] = FLOOR * weight[lists[i, a]]
            row[3] = sure[i]
            row[4] = FLOOR * sure[i]
            row[5] = 0.0
            row[6] = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            label = place[idx[p]]
            a = _position(lists[i], n, label)
            if label >= 0 and a < n:
                row = out[i - first, a, column:]
                odds = max(np.float32(_log_odds(np.float64(val[p]))), FLOOR)
                row[0] = odds
                row[1] = 1.0
                row[2] = odds * weight[label]
                row[4] = odds * sure[i]
                row[5] = sure[i]
                row[6] = val[p]


@njit(cache=True, nogil=True)
def mix(lists, rows, new, weights, alone, first, last, scores):
    """Log odds of the mixed views: weights · features, or alone · features for a label without training points."""
    for i in range(first, last):
        for a in range(lists.shape[1]):
            label = lists[i, a]
            total = -np.inf
            if label >= 0:
                own = alone if new[label] else weights
                total = 0.0
                for j in range(own.shape[0]):
                    total += own[j] * rows[i - first, a, j]
            scores[i, a] = np.float32(total)


@njit(cache=True, nogil=True)
def best(lists, scores, ids, k, first, last, out_labels, out_scores, out_n):
    """The k best of each row as (labels, chances in (0, 1)), `ids` naming the labels; ties by smaller number."""
    labels = np.empty(lists.shape[1], np.int32)
    values = np.empty(lists.shape[1], np.float32)
    found = np.empty(k, np.int32)
    height = np.empty(k, np.float32)
    for i in range(first, last):
        n = 0
        for a in range(lists.shape[1]):
            if lists[i, a] >= 0:
                labels[n] = ids[lists[i, a]]
                values[n] = scores[i, a]
                n += 1
        n = top_k_pairs(labels[:n], values[:n], k, found, height)
        out_n[i] = n
        for a in range(n):
            out_labels[i, a] = found[a]
            out_scores[i, a] = min(max(np.float32(_chance(height[a])), np.float32(1e-30)), np.float32(1.0 - 2.0**-23))
