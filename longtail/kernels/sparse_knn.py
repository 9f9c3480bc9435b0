"""Votes of the nearest sparse points, found by an inverted index from features to the points that have them.

Serial, free of the interpreter lock, over a range of rows: see :mod:`longtail.kernels.pool`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.best import keep_best, kth_highest, reached, sort_descending
from longtail.kernels.compiling import njit

_SLACK = 1.00001  # on bounds of sums, which rounding may exceed
_LEAST_VOTE = np.finfo(np.float32).tiny  # squares of tiny similarities are 0, as is the total of a label without votes


class InvertedIndex(NamedTuple):
    """Stored points by feature, and their labels."""

    ptr: np.ndarray  # (D + 1,) where the points of each feature begin
    rows: np.ndarray  # numbers of points, ascending per feature
    values: np.ndarray
    peaks: np.ndarray  # (D,) the largest value of each feature; infinity, if any value of the index is negative
    label_ptr: np.ndarray  # (n + 1,) where the labels of each point begin
    labels: np.ndarray
    weights: np.ndarray  # (D,) what features of a query are multiplied by, or (0,) for 1


class VoteSettings(NamedTuple):
    """How neighbours are found and vote."""

    n_neighbors: int
    n_lanes: int  # of n_neighbors; see :func:`longtail.kernels.best.n_lanes`
    n_terms: int  # features of a query that take part at most, those of largest magnitude
    n_compared: int  # stored points met by way of its features, after which the most frequent ones are left out
    most_labels: int  # largest number of labels of a stored point
    shared: bool  # score by share of the votes, or by the highest similarity
    sharpness: int  # power of the similarity that is the weight of a vote
    in_order: bool  # whether the labels of a row are wanted from the best to the worst


class VoteScratch(NamedTuple):
    """Buffers of one thread, kept between calls; the first two are zeros, and zeros again at the end."""

    near: np.ndarray  # one per stored point
    total: np.ndarray  # one per label
    touched: np.ndarray  # (n_compared,) stored points that a query has met
    sums: np.ndarray  # (n_compared,) their similarities


class Votes(NamedTuple):
    """Where the results of each row go."""

    labels: np.ndarray  # (N, k)
    scores: np.ndarray  # (N, k)
    counts: np.ndarray  # (N,)
    top: np.ndarray  # (N,) the highest similarity


@njit(cache=True, nogil=True)
def heaviest(indptr, indices, data, n_terms):
    """Return rows scaled to length 1 and cut to their `n_terms` entries of largest magnitude, in the order they had."""
    n = indptr.shape[0] - 1
    out_ptr = np.zeros(n + 1, np.int64)
    for i in range(n):
        out_ptr[i + 1] = out_ptr[i] + min(n_terms, indptr[i + 1] - indptr[i])
    out_idx = np.empty(out_ptr[n], np.int32)
    out_val = np.empty(out_ptr[n], np.float32)
    for i in range(n):
        begin, end = indptr[i], indptr[i + 1]
        square = 0.0
        for p in range(begin, end):
            square += np.float64(data[p]) * np.float64(data[p])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)
        floor = np.float32(-1.0)
        spare = end - begin  # how many entries as large as the floor may stay
        if end - begin > n_terms:
            size = np.empty(end - begin, np.float32)
            for p in range(begin, end):
                size[p - begin] = abs(data[p])
            floor = kth_highest(size, n_terms)
            larger = 0
            for s in size:
                larger += s > floor
            spare = n_terms - larger
        c = out_ptr[i]
        for p in range(begin, end):
            size_p = abs(data[p])
            if size_p > floor or (size_p == floor and spare > 0):
                spare -= size_p == floor
                out_idx[c] = indices[p]
                out_val[c] = data[p] * scale
                c += 1
    return out_ptr, out_idx, out_val


@njit(cache=True, nogil=True, borrows=True)
def _query_terms(points, i, stored, settings, terms, weights):
    """Choose the features of point i to compare it by, those of the fewest stored points first; returns their number.

    They are the `n_terms` of largest magnitude; the most frequent of these are left out once the points with the others
    reach `n_compared`: they say least and cost most. Weights are those of the point scaled to length 1.
    """
    idx, val, begin, end = points.idx, points.val, points.ptr[i], points.ptr[i + 1]
    n_terms, most, post_ptr = settings.n_terms, settings.n_compared, stored.ptr
    weighed = len(stored.weights) > 0
    square = 0.0
    n = 0
    for p in range(begin, end):
        x = val[p] * stored.weights[idx[p]] if weighed else val[p]
        square += np.float64(x) * np.float64(x)
        if n == n_terms and abs(x) <= abs(weights[n - 1]):
            continue
        a = n if n < n_terms else n - 1
        n = min(n + 1, n_terms)
        while a > 0 and abs(weights[a - 1]) < abs(x):
            terms[a], weights[a] = terms[a - 1], weights[a - 1]
            a -= 1
        terms[a], weights[a] = idx[p], x
    scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)
    for a in range(n):  # by the number of points
        term, x = terms[a], weights[a] * scale
        size = post_ptr[term + 1] - post_ptr[term]
        b = a
        while b > 0 and post_ptr[terms[b - 1] + 1] - post_ptr[terms[b - 1]] > size:
            terms[b], weights[b] = terms[b - 1], weights[b - 1]
            b -= 1
        terms[b], weights[b] = term, x
    total = 0
    for a in range(n):
        size = post_ptr[terms[a] + 1] - post_ptr[terms[a]]
        if total > 0 and total + size > most:
            return a
        total += size
    return n


@njit(cache=True, nogil=True)
def add_agreements(ptr, rows, y_ptr, y_idx, y_val, most, first, last, sums, out):
    """Add the inner products of the labels of all pairs of points that have a feature, for features first..last.

    The labels of a point are a vector of length 1. A pair counts twice, as (a, b) and (b, a). Of a feature with more
    than `most` points, so many are taken, evenly spaced. sums (L,) : zeros, and zeros again at the end.
    """
    for feature in range(first, last):
        begin, size = ptr[feature], ptr[feature + 1] - ptr[feature]
        n = min(size, most)
        own, total = 0.0, 0.0
        for a in range(n):
            row = rows[begin + a * size // n]
            for p in range(y_ptr[row], y_ptr[row + 1]):
                sums[y_idx[p]] += y_val[p]
                own += np.float64(y_val[p]) * np.float64(y_val[p])
        for a in range(n):
            row = rows[begin + a * size // n]
            for p in range(y_ptr[row], y_ptr[row + 1]):
                total += np.float64(sums[y_idx[p]]) * np.float64(sums[y_idx[p]])
                sums[y_idx[p]] = 0.0
        out[feature] += max(0.0, total - own)


@njit(cache=True, nogil=True)
def write_peaks(ptr, values, peaks):
    """Write the largest value of each feature; infinity for all of them, if any value is negative."""
    for i in range(len(values)):
        if values[i] < 0:
            peaks[:] = np.inf
            return
    for feature in range(len(peaks)):
        peak = np.float32(0.0)
        for q in range(ptr[feature], ptr[feature + 1]):
            peak = max(peak, values[q])
        peaks[feature] = peak


@njit(cache=True, nogil=True, borrows=True)
def _bound_rest(terms, weights, n, peaks, bounds):
    """Write the highest similarity by terms a, a + 1, … n - 1 alone to bounds[a]; bounds[n] is 0."""
    bounds[n] = 0.0
    for a in range(n - 1, -1, -1):
        peak = np.float64(peaks[terms[a]])
        bounds[a] = bounds[a + 1] + (_SLACK * weights[a] * peak if weights[a] > 0 else np.inf)


@njit(cache=True, nogil=True)
def vote(points, stored, settings, scratch, first, last, out):
    """Write the labels with most votes of the neighbours of rows first..last.

    Neighbours are the `n_neighbors` points of highest similarity above zero. With `shared`, each votes for its labels
    with a power of its similarity, and a label gets its share of all votes; else it gets the highest similarity of a
    neighbour that has it.

    Features of few points come first. Once enough points have a higher similarity than the remaining features could
    give to any other point, no further point can become a neighbour. The remaining features, which most points have,
    are then added without keeping a list of the points that have them.
    """
    post_ptr, post_row, post_val = stored.ptr, stored.rows, stored.values
    y_ptr, y_idx = stored.label_ptr, stored.labels
    near, total, shared = scratch.near, scratch.total, settings.shared
    n_neighbors, most, k = settings.n_neighbors, settings.most_labels, out.labels.shape[1]
    terms = np.empty(settings.n_terms, np.int32)
    weights = np.empty(settings.n_terms, np.float32)
    bounds = np.empty(settings.n_terms + 1, np.float64)
    lanes = np.empty(settings.n_lanes, np.float32)
    labels = np.empty(most * n_neighbors, np.int32)
    votes = np.empty(most * n_neighbors, np.float32)
    touched, sums = scratch.touched, scratch.sums
    for i in range(first, last):
        n = _query_terms(points, i, stored, settings, terms, weights)
        _bound_rest(terms, weights, n, stored.peaks, bounds)
        left = 0  # stored points by way of features that are still to come
        for a in range(n):
            left += post_ptr[terms[a] + 1] - post_ptr[terms[a]]
        if left > touched.shape[0]:
            touched, sums = np.empty(left, np.int32), np.empty(left, np.float32)
        m, n_listing = 0, n
        for a in range(n):
            x = weights[a]
            for q in range(np.uint64(post_ptr[terms[a]]), np.uint64(post_ptr[terms[a] + 1])):
                row = np.uint64(post_row[q])
                s = near[row]
                touched[m] = row
                m += s == 0.0  # one whose sum comes to zero again is listed twice, which does no harm
                near[row] = s + x * post_val[q]
            left -= post_ptr[terms[a] + 1] - post_ptr[terms[a]]
            if m >= n_neighbors and left > m:  # else it would cost more than it can save
                n_above, bound = 0, np.float32(bounds[a + 1])
                for t in range(m):
                    n_above += near[np.uint64(touched[t])] > bound
                if n_above >= n_neighbors:
                    n_listing = a + 1
                    break
        for a in range(n_listing, n):
            x = weights[a]
            for q in range(np.uint64(post_ptr[terms[a]]), np.uint64(post_ptr[terms[a] + 1])):
                near[np.uint64(post_row[q])] += x * post_val[q]
        for t in range(m):
            row = np.uint64(touched[t])
            sums[t] = near[row]
            near[row] = 0.0
        for a in range(n_listing, n):
            for q in range(np.uint64(post_ptr[terms[a]]), np.uint64(post_ptr[terms[a] + 1])):
                near[np.uint64(post_row[q])] = 0.0
        floor = reached(sums, 0, m, n_neighbors, lanes) if m >= settings.n_lanes else np.float32(0.0)
        size = 0
        for t in range(m):
            row, s = touched[t], sums[t]
            touched[size], sums[size] = row, s
            size += (s > 0.0) & (s >= floor)
        size = keep_best(touched, sums, size, n_neighbors)
        sum_all = np.float32(0.0)
        top = np.float32(0.0)
        for t in range(1, size):  # votes are added in one order, whatever the order of the selection
            row, s, at = touched[t], sums[t], t
            while at > 0 and touched[at - 1] > row:
                touched[at], sums[at] = touched[at - 1], sums[at - 1]
                at -= 1
            touched[at], sums[at] = row, s
        n = 0
        for t in range(size):
            s = sums[t]
            v = s
            for _ in range(settings.sharpness - 1 if shared else 0):
                v *= s
            v = max(v, _LEAST_VOTE) if shared else min(s, np.float32(0.9999))
            sum_all += v
            top = max(top, s)
            for p in range(y_ptr[touched[t]], y_ptr[touched[t] + 1]):
                label = y_idx[p]
                if total[label] == 0.0:
                    labels[n] = label
                    n += 1
                total[label] = total[label] + v if shared else max(total[label], v)
        if not shared:
            sum_all = np.float32(1.0)
        for a in range(n):
            votes[a] = total[labels[a]] / sum_all
            total[labels[a]] = 0.0
        out.top[i] = top
        n = keep_best(labels, votes, n, k)
        if settings.in_order:
            sort_descending(labels, votes, n)
        out.counts[i] = n
        for a in range(n):
            out.labels[i, a], out.scores[i, a] = labels[a], votes[a]
