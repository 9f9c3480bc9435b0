"""From shortlists to rankings: clusters to their labels, several lists to one, exact scores, two views mixed, the best.

Lists are rows of label numbers, -1 where there is none. All kernels are serial, release the interpreter lock and take a
range of rows: see :mod:`longtail.kernels.pool`. A row's answer does not depend on the rows beside it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from longtail.kernels.boost import answer
from longtail.kernels.search import _dot
from longtail.kernels.topk import top_k_pairs

FLOOR = np.float32(-12.0)  # log odds of a label that a view does not list, and the least that it may give
OWN, OF_A_VIEW = 5, 7  # features of a pair: the network's, and those of each other view
JUDGED = 50  # labels that trees look at, too: those that lead by weights


@njit(cache=True, nogil=True, fastmath={"contract"})
def encode(ptr, idx, val, tokens, R, gate, first, last, out):
    """Points of length 1 through DECAF's token table and document block; out (N, d + 1) has 1 as its last number."""
    d = tokens.shape[1]
    v = np.empty(d, np.float32)
    for i in range(first, last):
        square = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            square += np.float64(val[p]) * np.float64(val[p])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(1.0)
        v[:] = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            x = val[p] * scale
            token = tokens[idx[p]]
            for j in range(d):
                v[j] += x * token[j]
        row = out[i]
        for j in range(d):
            row[j] = gate[j] * v[j]
        for a in range(d):
            x = v[a]
            if x > 0.0:
                weights = R[a]
                for j in range(d):
                    row[j] += x * weights[j]
        for j in range(d):
            row[j] = max(row[j], np.float32(0.0))
        row[d] = 1.0


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
def _slot(table, places, label):
    """Where a label is, or would be, in an open hash table; `places` says at which entry of `table` each slot looks.

    Slots hold -1 where they are free. There are at least twice as many as labels, and their number is a power of two.
    """
    mask = np.uint32(places.shape[0] - 1)
    slot = (np.uint32(label) * np.uint32(2654435761) >> np.uint32(7)) & mask
    while places[slot] >= 0 and table[places[slot]] != label:
        slot = (slot + np.uint32(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def unite(own, starts, idx, place, first, last, out, where):
    """Labels of any list: of the row of `own`, then those of the views that are not among them yet.

    own (N, S) : -1 for none. starts (V, N + 1), idx : labels of each view and row. place : maps the labels of views to
    those of `own`, -1 for none. out (N, S + the most that views list). where : for each of idx, at which entry of the
    row it is now, -1 for nowhere.
    """
    size = 16
    while size < 2 * out.shape[1]:
        size *= 2
    places = np.empty(size, np.int32)
    for i in range(first, last):
        row = out[i]
        places[:] = -1
        n = 0
        for a in range(own.shape[1]):
            if own[i, a] >= 0:
                row[n] = own[i, a]
                places[_slot(row, places, row[n])] = n
                n += 1
        for v in range(starts.shape[0]):
            for p in range(starts[v, i], starts[v, i + 1]):
                label = place[idx[p]] if idx[p] >= 0 else -1
                where[p] = -1
                if label >= 0:
                    slot = _slot(row, places, label)
                    if places[slot] < 0:
                        row[n] = label
                        places[slot] = n
                        n += 1
                    where[p] = places[slot]
        row[n:] = -1


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
def _features(listed, neural, weight, starts, val, where, sure, i, out):
    """What the mix sees of the labels of row i, (labels, 5 + 7 for each view); returns how many labels there are.

    Of the network: 1, log odds, the label's weight (the log of how often it occurs), log odds times that, and the
    chance itself, which lets the mix trust high log odds more or less than low ones. Of another view: log odds, whether
    it lists the label, log odds times the label's weight; how sure it is of the point, that times the first two; the
    chance itself.
    """
    n = 0
    while n < listed.shape[0] and listed[n] >= 0:
        row = out[n]
        often = weight[listed[n]]
        row[0] = 1.0
        row[1] = neural[n]
        row[2] = often
        row[3] = neural[n] * often
        row[4] = _chance(neural[n])
        for v in range(starts.shape[0]):
            c = OWN + v * OF_A_VIEW
            row[c] = FLOOR
            row[c + 1] = 0.0
            row[c + 2] = FLOOR * often
            row[c + 3] = sure[v, i]
            row[c + 4] = FLOOR * sure[v, i]
            row[c + 5] = 0.0
            row[c + 6] = 0.0
        n += 1
    for v in range(starts.shape[0]):
        c = OWN + v * OF_A_VIEW
        for p in range(starts[v, i], starts[v, i + 1]):
            if where[p] >= 0:
                row = out[where[p]]
                odds = max(np.float32(_log_odds(np.float64(val[p]))), FLOOR)
                row[c] = odds
                row[c + 1] = 1.0
                row[c + 2] = odds * row[2]
                row[c + 4] = odds * sure[v, i]
                row[c + 5] = sure[v, i]
                row[c + 6] = val[p]
    return n


@njit(cache=True, nogil=True)
def features(lists, neural, weight, starts, val, where, sure, first, last, out):
    """What the mix sees of rows first..last, (rows, width, features); nothing where there is no label."""
    for i in range(first, last):
        out[i, _features(lists[i], neural[i], weight, starts, val, where, sure, i, out[i]) :] = 0.0


@njit(cache=True, nogil=True)
def rank(
    lists, neural, weight, starts, val, where, sure, new, weights, alone, bias, asked, edges, leaves, share,
    ids, k, first, last, out_labels, out_scores, out_n,
):  # fmt: skip
    """The k best of each row as (labels, chances in (0, 1)), `ids` naming the labels; ties by smaller number.

    Log odds are weights · features, or alone · features for a label without training points. Where there are trees, the
    JUDGED best of the others (k, if that is more) have `share` of the trees' log odds and the rest of these; what comes
    after them cannot come before.
    lists (N, S) : labels, -1 after the last. neural (N, S) : the network's log odds. starts (V, N + 1), val, where :
    chances of labels by view and row, and their entries in `lists`. sure (V, N) : how sure each view is of each row.
    bias, asked, edges, leaves : the trees, see :func:`longtail.kernels.boost.answer`.
    """
    width = lists.shape[1]
    rows = np.empty((width, weights.shape[0]), np.float32)
    labels = np.empty(width, np.int32)
    values = np.empty(width, np.float32)
    some = max(k, JUDGED if asked.shape[0] else 0)
    found = np.empty(some, np.int32)
    height = np.empty(some, np.float32)
    leading = np.empty((some, weights.shape[0]), np.float32)
    judged = np.empty(some, np.float64)
    for i in range(first, last):
        n = _features(lists[i], neural[i], weight, starts, val, where, sure, i, rows)
        for a in range(n):
            label = lists[i, a]
            own = alone if new[label] else weights
            total = 0.0
            for j in range(own.shape[0]):
                total += own[j] * rows[a, j]
            labels[a] = a
            values[a] = np.float32(total)
        n = top_k_pairs(labels[:n], values[:n], some, found, height)
        if asked.shape[0]:
            for b in range(n):
                leading[b] = rows[found[b]]
            answer(leading, bias, asked, edges, leaves, 0, n, judged)
        for b in range(n):
            label = lists[i, found[b]]
            labels[b] = ids[label]
            values[b] = height[b]
            if asked.shape[0] and not new[label]:
                values[b] = np.float32((1.0 - share) * height[b] + share * judged[b])
        n = top_k_pairs(labels[:n], values[:n], k, found, height)
        out_n[i] = n
        for a in range(n):
            out_labels[i, a] = found[a]
            out_scores[i, a] = min(max(np.float32(_chance(height[a])), np.float32(1e-30)), np.float32(1.0 - 2.0**-23))
