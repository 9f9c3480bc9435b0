"""Contents of a report beyond the metrics: labels found and missed, confusions, intervals of differences.

All functions take the true labels Y and scores (N, L) whose rows go from the highest to the lowest score, without
points that have no label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array

from longtail.sparse import entry_keys, entry_rows, label_counts, ones_like, select_entries

_RESAMPLES = 1000
_BLOCK_COUNTS = 10_000_000  # counts of resampled points held at a time
_LEAST_TRUE = 5  # test points of a label that is called well or badly predicted


def top_entries(scores: csr_array, k: int) -> csr_array:
    """Keep the first k entries of each row."""
    position = np.arange(scores.nnz) - np.repeat(scores.indptr[:-1], np.diff(scores.indptr))
    return select_entries(scores, position < k)


def correct_entries(Y: csr_array, top: csr_array) -> np.ndarray:
    """Return which stored entries of `top` are true labels, (nnz,)."""
    return np.isin(entry_keys(top), entry_keys(Y))


def labels_with_counts(counts: np.ndarray) -> csr_array:
    """Return labels of points in which each label occurs so often: what metrics take as training labels."""
    ends = np.concatenate([[0], np.cumsum(counts)])
    rows = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
    shape = (int(counts.max(initial=0)), len(counts))
    return csr_array(csc_array((np.ones(len(rows), np.float32), rows, ends), shape=shape))


class LabelResult(NamedTuple):
    """How one label fared in the top five: test points that have it, times suggested, times suggested correctly."""

    label: int
    true: int
    suggested: int
    correct: int

    @property
    def f1(self) -> float:
        """F1 in percent."""
        return 200 * self.correct / max(self.true + self.suggested, 1)


def best_and_worst(Y: csr_array, scores: csr_array, n: int) -> tuple[list[LabelResult], list[LabelResult]]:
    """Return the labels with the highest and with the lowest F1 in the top five; of the worst, the most frequent.

    Where labels are few, the worst are those that are not among the best.
    """
    top = top_entries(scores, 5)
    right = select_entries(top, correct_entries(Y, top))
    true, suggested, correct = label_counts(Y), label_counts(top), label_counts(right)
    known = np.flatnonzero(true >= min(_LEAST_TRUE, true.max(initial=0)))
    known = known[true[known] > 0]
    f1 = 2 * correct[known] / np.maximum(true[known] + suggested[known], 1)
    best, ascending = known[np.lexsort((-true[known], -f1))[:n]], known[np.lexsort((-true[known], f1))]
    worst = ascending[~np.isin(ascending, best)][:n]

    def results(labels: np.ndarray) -> list[LabelResult]:
        return [LabelResult(int(j), int(true[j]), int(suggested[j]), int(correct[j])) for j in labels]

    return results(best), results(worst)


def confusions(Y: csr_array, scores: csr_array, n: int) -> list[tuple[int, int, int]]:
    """Return the most frequent pairs (missed label, label suggested instead, number of points).

    A point with m labels counts with its top m, five at most: what stands there in the place of a true label.
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
    """What each point adds to a metric: the metric of any set of points is 100 * sum(gained) / sum(possible)."""

    gained: np.ndarray
    possible: np.ndarray


def point_gains(Y: csr_array, scores: csr_array, weights: np.ndarray | None, k: int) -> PointGains:
    """Split P@k, or PSP@k with inverse propensities as weights, into the gains of points."""
    n, top = Y.shape[0], top_entries(scores, k)
    right = select_entries(top, correct_entries(Y, top))
    if weights is None:
        return PointGains(np.diff(right.indptr).astype(float), np.full(n, float(k)))
    gained = np.bincount(entry_rows(right), weights[right.indices], n)
    order = np.lexsort((-weights[Y.indices], entry_rows(Y)))  # the k heaviest labels of each point
    position = np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], np.diff(Y.indptr))
    heaviest = np.where(position < k, weights[Y.indices[order]], 0.0)
    return PointGains(gained, np.bincount(entry_rows(Y), heaviest, n))


def bootstrap_difference(one: PointGains, other: PointGains) -> tuple[float, float, float]:
    """Return the difference of a metric, one minus other, and its 95 % interval over resampled points."""
    rng, n = np.random.default_rng(0), len(one.gained)
    difference = one.gained - other.gained
    differences = []
    block = max(1, min(_RESAMPLES, _BLOCK_COUNTS // max(n, 1)))
    for start in range(0, _RESAMPLES, block):
        times = rng.multinomial(n, np.full(n, 1 / n), size=min(block, _RESAMPLES - start))
        differences.append(100 * (times @ difference) / np.maximum(times @ one.possible, 1e-12))
    low, high = np.percentile(np.concatenate(differences), [2.5, 97.5])
    return 100 * float(difference.sum() / max(one.possible.sum(), 1e-12)), float(low), float(high)


def choose_examples(Y: csr_array, rare: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    """Choose points at random, half of them among those with a rare label, in ascending order."""
    rng = np.random.default_rng(seed)
    with_rare = np.unique(entry_rows(Y)[rare[Y.indices]])
    chosen = rng.choice(with_rare, min(n // 2, len(with_rare)), replace=False)
    others = np.setdiff1d(np.arange(Y.shape[0]), chosen)
    return np.sort(np.append(chosen, rng.choice(others, min(n - len(chosen), len(others)), replace=False)))
