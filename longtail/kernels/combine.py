"""Candidate lists to one ranking: their union, the features of each (point, label) pair, its probability, the k best.

Lists are rows of label numbers, -1 after the last. All kernels are serial, release the interpreter lock and take a
range of rows: see :mod:`longtail.kernels.pool`. The result of a row does not depend on the rows beside it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from longtail.kernels.best import keep_best
from longtail.kernels.compiling import njit
from longtail.kernels.likeness import Profile, compare_profile, fill_table, prefetch_label, table_size
from longtail.kernels.oblivious_trees import ROWS_AT_ONCE, ObliviousTrees, add_trees
from longtail.kernels.topk import TopLabels as TopLabels
from longtail.kernels.topk import top_k_pairs

FLOOR = np.float32(-12.0)  # log odds of a label that a member does not list, and the least that it may give
OF_ALL, OF_SCORER, OF_LISTER = 2, 3, 7  # features of a pair: of the label itself, and per scorer and lister
BEYOND = 0.01  # slope of a calibration beyond its knots
MOST, BELOW = np.float32(1.0 - 2.0**-23), np.float32(1.0 - 2.0**-23)  # highest score; factor to the next lower one
# Labels with the highest weighted sums, which the boosted trees score too. With 64 in the place of 24, 1 in 600 of the
# five best labels of Debian packages and 1 in 1,000 of Tate's would be another.
RERANKED = ROWS_AT_ONCE
# Of the other labels, so many without training points are scored by the trees as well: their sums say little. Without
# this, one in a thousand of the five best labels was another, and PSP@3 and PSP@5 of Tate were 0.3 and 0.4 lower.
MORE_UNSEEN = 8


class Lists(NamedTuple):
    """What the listers suggest for a batch of points."""

    starts: np.ndarray  # (V, N + 1) int64, where each lister's labels of each point begin
    labels: np.ndarray  # int32
    scores: np.ndarray  # float32, probabilities
    certainty: np.ndarray  # (V, N) float32, how sure each lister is of each point, 0 to 1


class Pairs(NamedTuple):
    """The candidates of a batch of points, and all that is known of them."""

    labels: np.ndarray  # (N, S) int32, -1 after the last
    odds: np.ndarray  # (M, N, S) float32, exact log odds by each scorer
    lists: Lists
    where: np.ndarray  # for each entry of `lists`, its position in the row of `labels`, -1 for none


class Known(NamedTuple):
    """What is known of labels apart from any member."""

    frequency: np.ndarray  # (L,) float32
    unseen: np.ndarray  # (L,) bool, labels that have text only
    profile: Profile


class Weights(NamedTuple):
    """A trained combiner."""

    seen: np.ndarray  # (features,) weights for labels with training points
    unseen: np.ndarray  # (features,) weights for labels that have text only
    share: float  # of the boosted trees in the log odds of labels with training points
    trees: ObliviousTrees  # for labels with training points
    unseen_trees: ObliviousTrees  # for labels that have text only
    first: np.ndarray  # (2, knots) calibration of the first label of a point, from log odds to log odds
    others: np.ndarray  # (2, knots) the same for all other labels


@njit(cache=True, nogil=True, borrows=True)
def probability(log_odds):
    """Return the logistic function."""
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -60.0), 60.0)))


@njit(cache=True, nogil=True, borrows=True)
def log_odds_of(chance):
    """Log odds of a probability, which is kept away from 0 and 1."""
    chance = min(max(chance, 1e-26), 1.0 - 1e-12)
    return math.log(chance / (1.0 - chance))


@njit(cache=True, nogil=True, borrows=True)
def calibrated(log_odds, knots):
    """Return log odds on the straight lines between (2, K) ascending knots; beyond them almost the value at the end.

    Almost: labels that differ before differ after it.
    """
    low, high = 0, knots.shape[1] - 1
    if log_odds <= knots[0, low]:
        return knots[1, low] + BEYOND * (log_odds - knots[0, low])
    if log_odds >= knots[0, high]:
        return knots[1, high] + BEYOND * (log_odds - knots[0, high])
    while high - low > 1:
        middle = (low + high) // 2
        if log_odds < knots[0, middle]:
            high = middle
        else:
            low = middle
    share = (log_odds - knots[0, low]) / (knots[0, high] - knots[0, low])
    return knots[1, low] + share * (knots[1, high] - knots[1, low])


@njit(cache=True, nogil=True, borrows=True)
def _label_slot(table, slots, label):
    """Position of a label in an open hash table, or where it would go.

    `slots` holds positions in `table`, -1 where it is free. Its length is a power of two and at least twice the number
    of labels.
    """
    mask = np.uint32(slots.shape[0] - 1)
    slot = (np.uint32(label) * np.uint32(2654435761) >> np.uint32(7)) & mask
    while slots[slot] >= 0 and table[slots[slot]] != label:
        slot = (slot + np.uint32(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def unite(own, lists, first, last, out, where):
    """Write the union of a row's candidates to `out`: those of `own`, then what the lists add.

    own (N, S) : label numbers, -1 for none. out (N, S + the most that lists hold). where : position in the row of
    `out` for each entry of the lists.
    """
    size = 16
    while size < 2 * out.shape[1]:
        size *= 2
    slots = np.empty(size, np.int32)
    for i in range(first, last):
        row = out[i]
        slots[:] = -1
        n = 0
        for a in range(own.shape[1]):
            if own[i, a] >= 0:
                slot = _label_slot(row, slots, own[i, a])
                if slots[slot] < 0:
                    row[n] = own[i, a]
                    slots[slot] = n
                    n += 1
        for v in range(lists.starts.shape[0]):
            for p in range(lists.starts[v, i], lists.starts[v, i + 1]):
                label = lists.labels[p]
                where[p] = -1
                if label >= 0:
                    slot = _label_slot(row, slots, label)
                    if slots[slot] < 0:
                        row[n] = label
                        slots[slot] = n
                        n += 1
                    where[p] = slots[slot]
        row[n:] = -1


@njit(cache=True, nogil=True, borrows=True)
def _listed_odds(score):
    """Log odds of a score that a lister gives."""
    return max(np.float32(log_odds_of(np.float64(score))), FLOOR)


@njit(cache=True, nogil=True, borrows=True)
def _row_features(pairs, frequency, i, places, out):
    """Write the features of candidates of row i, candidate a to out[places[a]]; places[a] is -1 to leave it out.

    Of the label: 1 and its frequency. Of a scorer: log odds, log odds times frequency, and the probability, by which
    high log odds can be trusted more or less than low ones. Of a lister: log odds, whether it lists the label, log odds
    times frequency; its certainty, log odds times that, whether it lists the label times that; the probability. Last,
    how alike point and label are: zeros here, see `_add_likeness`.
    """
    listed, lists = pairs.labels[i], pairs.lists
    n_scorers = pairs.odds.shape[0]
    after_scorers = OF_ALL + n_scorers * OF_SCORER
    after_listers = after_scorers + lists.starts.shape[0] * OF_LISTER
    for a in range(len(places)):
        if places[a] < 0:
            continue
        row = out[places[a]]
        often = frequency[listed[a]]
        row[0] = 1.0
        row[1] = often
        for m in range(n_scorers):
            c = OF_ALL + m * OF_SCORER
            odds = pairs.odds[m, i, a]
            row[c] = odds
            row[c + 1] = odds * often
            row[c + 2] = probability(odds)
        for v in range(lists.starts.shape[0]):
            c = after_scorers + v * OF_LISTER
            certain = lists.certainty[v, i]
            row[c] = FLOOR
            row[c + 1] = 0.0
            row[c + 2] = FLOOR * often
            row[c + 3] = certain
            row[c + 4] = FLOOR * certain
            row[c + 5] = 0.0
            row[c + 6] = 0.0
        row[after_listers:] = 0.0
    for v in range(lists.starts.shape[0]):
        c = after_scorers + v * OF_LISTER
        certain = lists.certainty[v, i]
        for p in range(lists.starts[v, i], lists.starts[v, i + 1]):
            if pairs.where[p] >= 0 and places[pairs.where[p]] >= 0:
                row = out[places[pairs.where[p]]]
                odds = _listed_odds(lists.scores[p])
                row[c] = odds
                row[c + 1] = 1.0
                row[c + 2] = odds * row[1]
                row[c + 4] = odds * certain
                row[c + 5] = certain
                row[c + 6] = lists.scores[p]


@njit(cache=True, nogil=True, borrows=True)
def _weighted_sums(pairs, known, weights, i, sums):
    """Write the weighted sum of the features of each candidate of row i, without likeness; returns their number.

    They are the sums of what `_row_features` writes, which takes three times as long for all candidates. Parts that
    all candidates share are summed once.
    """
    labels, lists, frequency = pairs.labels[i], pairs.lists, known.frequency
    n_scorers = pairs.odds.shape[0]
    after_scorers = OF_ALL + n_scorers * OF_SCORER
    constant, unseen_constant = weights.seen[0], weights.unseen[0]
    slope, unseen_slope = weights.seen[1], weights.unseen[1]  # per unit of frequency
    for v in range(lists.starts.shape[0]):  # as if no list had any label
        c = after_scorers + v * OF_LISTER
        certain = np.float64(lists.certainty[v, i])
        constant += FLOOR * weights.seen[c] + certain * (weights.seen[c + 3] + FLOOR * weights.seen[c + 4])
        unseen_constant += FLOOR * weights.unseen[c] + certain * (weights.unseen[c + 3] + FLOOR * weights.unseen[c + 4])
        slope += FLOOR * weights.seen[c + 2]
        unseen_slope += FLOOR * weights.unseen[c + 2]
    n = 0
    while n < labels.shape[0] and labels[n] >= 0:
        often = np.float64(frequency[labels[n]])
        if known.unseen[labels[n]]:
            total, own = unseen_constant + often * unseen_slope, weights.unseen
        else:
            total, own = constant + often * slope, weights.seen
        for m in range(n_scorers):
            c = OF_ALL + m * OF_SCORER
            odds = np.float64(pairs.odds[m, i, n])
            total += odds * (own[c] + often * own[c + 1]) + own[c + 2] * probability(odds)
        sums[n] = total
        n += 1
    for v in range(lists.starts.shape[0]):
        c = after_scorers + v * OF_LISTER
        certain = np.float64(lists.certainty[v, i])
        for p in range(lists.starts[v, i], lists.starts[v, i + 1]):
            place = pairs.where[p]
            if place >= 0:
                own = weights.unseen if known.unseen[labels[place]] else weights.seen
                often, score = np.float64(frequency[labels[place]]), np.float64(lists.scores[p])
                above = np.float64(_listed_odds(lists.scores[p]) - FLOOR)
                total = above * (own[c] + often * own[c + 2] + certain * own[c + 4])
                sums[place] += total + own[c + 1] + certain * own[c + 5] + score * own[c + 6]
    return n


@njit(cache=True, nogil=True, borrows=True)
def _n_unlike(pairs):
    """Return the number of features before those of likeness."""
    return OF_ALL + pairs.odds.shape[0] * OF_SCORER + pairs.lists.starts.shape[0] * OF_LISTER


@njit(cache=True, nogil=True)
def _add_likeness(points, i, profile, labels, n, first, out):
    """Write how alike point i and n labels are to the columns of out (n, features) from `first` on."""
    if out.shape[1] == first:
        return
    size = table_size(points, i)
    keys, values = np.empty(size, np.int32), np.empty(size, np.float32)
    for a in range(n):
        prefetch_label(profile, labels[a])
    fill_table(points, i, keys, values)
    for a in range(n):
        compare_profile(profile, labels[a], keys, values, out[a, first:])


@njit(cache=True, nogil=True)
def features(points, pairs, known, first, last, out):
    """Write the features of rows first..last, (rows, S, features), zeros where there is no label."""
    places = np.empty(pairs.labels.shape[1], np.int32)
    for i in range(first, last):
        n = 0
        for a in range(len(places)):
            n += pairs.labels[i, a] >= 0
            places[a] = a if pairs.labels[i, a] >= 0 else -1
        _row_features(pairs, known.frequency, i, places, out[i])
        _add_likeness(points, i, known.profile, pairs.labels[i], n, _n_unlike(pairs), out[i])
        out[i, n:] = 0.0


@njit(cache=True, nogil=True)
def rank(points, pairs, known, weights, first, last, best):
    """Write the k best labels of each row and their probabilities; ties go to the smaller label number.

    Log odds are a weighted sum of the features, with weights and boosted trees of their own for labels without training
    points. Where there are trees, the RERANKED labels of highest sum (k, if that is more) get `share` of the trees' log
    odds and the rest of the sum, and those without training points the trees' alone. So do the MORE_UNSEEN best of the
    other labels without training points. All further labels come after them. With trees for labels that have training
    points, only the labels that the trees score are compared with the point, which takes longer than all other
    features, and the sums go without it. Calibration comes last and leaves the order as it is.
    """
    width, n_features, k = pairs.labels.shape[1], weights.seen.shape[0], best.labels.shape[1]
    seen_trees, unseen_trees = weights.trees.features.shape[0] > 0, weights.unseen_trees.features.shape[0] > 0
    has_trees = seen_trees or unseen_trees
    n_unlike, unseen = _n_unlike(pairs), known.unseen
    n_leading = max(k, RERANKED if has_trees else 0)
    room = n_leading + MORE_UNSEEN
    sums = np.empty(width, np.float64)
    candidates = np.empty(width, np.int32)
    places = np.empty(width, np.int32)  # of the candidates among the leading ones, -1 for the others
    values = np.empty(width, np.float32)
    alike = np.empty((width if not seen_trees else 0, n_features), np.float32)
    labels = np.empty(room, np.int32)
    leading = np.empty((room, n_features), np.float32)
    by_trees, by_unseen_trees = np.empty(room, np.float64), np.empty(room, np.float64)
    at = np.empty(n_leading, np.int32)
    height = np.empty(n_leading, np.float32)
    for i in range(first, last):
        n = _weighted_sums(pairs, known, weights, i, sums)
        if not seen_trees:
            _add_likeness(points, i, known.profile, pairs.labels[i], n, n_unlike, alike)
            for a in range(n):
                own = weights.unseen if unseen[pairs.labels[i, a]] else weights.seen
                for j in range(n_unlike, n_features):
                    sums[a] += own[j] * alike[a, j]
        for a in range(n):
            candidates[a], values[a], places[a] = a, np.float32(sums[a]), -1
        n_candidates, n = n, keep_best(candidates, values, n, n_leading)
        n_first = n  # all labels with training points that are re-ranked are among these
        if unseen_trees:
            m = n
            for a in range(n, n_candidates):
                if unseen[pairs.labels[i, candidates[a]]]:
                    candidates[m], candidates[a] = candidates[a], candidates[m]
                    values[m], values[a] = values[a], values[m]
                    m += 1
            n += keep_best(candidates[n:m], values[n:m], m - n, MORE_UNSEEN)
        for b in range(n):
            labels[b], places[candidates[b]] = pairs.labels[i, candidates[b]], b
        if has_trees:
            _row_features(pairs, known.frequency, i, places[:n_candidates], leading)
            if seen_trees:
                _add_likeness(points, i, known.profile, labels, n, n_unlike, leading)
            else:
                for b in range(n):
                    for j in range(n_unlike, n_features):
                        leading[b, j] = alike[candidates[b], j]
            add_trees(leading, weights.trees, np.int64(0), n_first, by_trees)
            if unseen_trees:
                some = False
                for b in range(n):
                    some |= unseen[labels[b]]
                if some:
                    add_trees(leading, weights.unseen_trees, np.int64(0), n, by_unseen_trees)
        for b in range(n):
            if unseen[labels[b]]:
                if unseen_trees:
                    values[b] = np.float32(by_unseen_trees[b])
            elif seen_trees:
                values[b] = np.float32((1.0 - weights.share) * values[b] + weights.share * by_trees[b])
        n = top_k_pairs(labels[:n], values[:n], k, at, height)
        best.counts[i] = n
        most = MOST
        for a in range(n):
            best.labels[i, a] = at[a]
            odds = calibrated(np.float64(height[a]), weights.first if a == 0 else weights.others)
            if a > 0 and height[a] < height[a - 1]:
                most *= BELOW
            most = min(most, np.float32(probability(odds)))
            best.scores[i, a] = max(most, np.float32(1e-30))
