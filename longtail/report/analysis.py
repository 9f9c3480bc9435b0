"""Compute the contents of a report beyond the metrics: best and worst labels, confusions, confidence intervals.

All functions expect true labels Y and scores (N, L). The rows of the scores must be sorted from the highest to the
lowest score, and every point must have at least one label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array

from longtail.sparse import entry_keys, entry_rows, label_counts, ones_like, select_entries

_RESAMPLES = 1000
_MAX_COUNTS = 10_000_000  # counts of resampled points that are in memory at a time
_MIN_TRUE = 5  # a label with fewer test points is not listed among the best and worst labels


def top_entries(scores: csr_array, k: int) -> csr_array:
    """Keep the first k entries of each row."""
    position = np.arange(scores.nnz) - np.repeat(scores.indptr[:-1], np.diff(scores.indptr))
    return select_entries(scores, position < k)


def correct_entries(Y: csr_array, top: csr_array) -> np.ndarray:
    """Return a mask of the stored entries of `top` that are true labels, (nnz,)."""
    return np.isin(entry_keys(top), entry_keys(Y))


def labels_with_counts(counts: np.ndarray) -> csr_array:
    """Make a label matrix with the given number of points per label, for metrics that need training labels."""
    indptr = np.concatenate([[0], np.cumsum(counts)])
    rows = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
    shape = (int(counts.max(initial=0)), len(counts))
    return csr_array(csc_array((np.ones(len(rows), np.float32), rows, indptr), shape=shape))


class LabelResult(NamedTuple):
    """Counts of one label: test points that have it, suggestions in the top five, and correct ones among these."""

    label: int
    true: int
    suggested: int
    correct: int

    @property
    def f1(self) -> float:
        """F1 in percent."""
        return 200 * self.correct / max(self.true + self.suggested, 1)


def best_and_worst(Y: csr_array, scores: csr_array, n: int) -> tuple[list[LabelResult], list[LabelResult]]:
    """Return the n labels with the highest and the n labels with the lowest F1 in the top five.

    Of labels with the same F1, the most frequent come first. If there are few labels, the worst are those that are not
    among the best.
    """
    top = top_entries(scores, 5)
    right = select_entries(top, correct_entries(Y, top))
    true, suggested, correct = label_counts(Y), label_counts(top), label_counts(right)
    known = np.flatnonzero(true >= min(_MIN_TRUE, true.max(initial=0)))
    known = known[true[known] > 0]
    f1 = 2 * correct[known] / np.maximum(true[known] + suggested[known], 1)
    best, ascending = known[np.lexsort((-true[known], -f1))[:n]], known[np.lexsort((-true[known], f1))]
    worst = ascending[~np.isin(ascending, best)][:n]

    def results(labels: np.ndarray) -> list[LabelResult]:
        return [LabelResult(int(j), int(true[j]), int(suggested[j]), int(correct[j])) for j in labels]

    return results(best), results(worst)


def confusions(Y: csr_array, scores: csr_array, n: int) -> list[tuple[int, int, int]]:
    """Return the n most frequent triples (missed label, wrong label suggested instead, number of points).

    Of a point with m labels, only the top m suggestions are examined, and at most five: the wrong ones among them take
    the ranks that the missed labels should have.
    """
    top = top_entries(scores, 5)
    sizes = np.diff(Y.indptr)
    position = np.arange(top.nnz) - np.repeat(top.indptr[:-1], np.diff(top.indptr))
    top = select_entries(top, position < sizes[entry_rows(top)])
    right = correct_entries(Y, top)
    correct = entry_keys(select_entries(top, right))
    missed = ones_like(select_entries(Y, ~np.isin(entry_keys(Y), correct)))
    pairs = csr_array(missed.T @ ones_like(select_entries(top, ~right)))  # (L, L), only pairs that occur are stored
    order = np.argsort(-pairs.data, kind="stable")[:n]
    rows = entry_rows(pairs)
    return [(int(rows[at]), int(pairs.indices[at]), int(pairs.data[at])) for at in order]


class PointGains(NamedTuple):
    """The contribution of each point to a metric, which for any set of points is 100 * sum(gained) / sum(possible)."""

    gained: np.ndarray
    possible: np.ndarray


def point_gains(Y: csr_array, scores: csr_array, weights: np.ndarray | None, k: int) -> PointGains:
    """Split P@k into the contributions of points, or PSP@k if `weights` are inverse propensities."""
    n, top = Y.shape[0], top_entries(scores, k)
    right = select_entries(top, correct_entries(Y, top))
    if weights is None:
        return PointGains(np.diff(right.indptr).astype(float), np.full(n, float(k)))
    gained = np.bincount(entry_rows(right), weights[right.indices], n)
    order = np.lexsort((-weights[Y.indices], entry_rows(Y)))  # the k heaviest labels of each point
    position = np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], np.diff(Y.indptr))
    heaviest = np.where(position < k, weights[Y.indices[order]], 0.0)
    return PointGains(gained, np.bincount(entry_rows(Y), heaviest, n))


def bootstrap_difference(first: PointGains, second: PointGains) -> tuple[float, float, float]:
    """Return the metric of `first` minus that of `second`, and its 95 % bootstrap interval over resampled points."""
    rng, n = np.random.default_rng(0), len(first.gained)
    difference = first.gained - second.gained
    differences = []
    block = max(1, min(_RESAMPLES, _MAX_COUNTS // max(n, 1)))
    for start in range(0, _RESAMPLES, block):
        counts = rng.multinomial(n, np.full(n, 1 / n), size=min(block, _RESAMPLES - start))
        differences.append(100 * (counts @ difference) / np.maximum(counts @ first.possible, 1e-12))
    low, high = np.percentile(np.concatenate(differences), [2.5, 97.5])
    return 100 * float(difference.sum() / max(first.possible.sum(), 1e-12)), float(low), float(high)


def choose_examples(Y: csr_array, rare: np.ndarray, n: int) -> np.ndarray:
    """Choose n points at random, half of them from the points with a rare label. Return them in ascending order."""
    rng = np.random.default_rng(0)
    with_rare = np.unique(entry_rows(Y)[rare[Y.indices]])
    chosen = rng.choice(with_rare, min(n // 2, len(with_rare)), replace=False)
    others = np.setdiff1d(np.arange(Y.shape[0]), chosen)
    return np.sort(np.append(chosen, rng.choice(others, min(n - len(chosen), len(others)), replace=False)))
