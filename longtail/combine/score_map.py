"""Monotone functions from the score of a label to the probability that it is correct.

- Isotonic: the best non-decreasing step function (Zadrozny and Elkan, KDD 2002), smoothed by straight lines between the
  middles of its steps.
- Platt: sigma(a logit(s) + b), a > 0 (Platt, 1999), on the log odds of the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.logistic import fit_logistic
from longtail.sparse import Arrays
from longtail.store.invariants import Rules, floats

_PAIRS_PER_KNOT = 50  # pairs that are averaged before the regression, so that no probability rests on a few
_ENDS = np.array([-80.0, 80.0])  # log odds beyond those of any score


@dataclass(frozen=True)
class ScoreMap:
    """A non-decreasing function from score to probability: straight lines between knots, in log odds."""

    odds: np.ndarray  # (K,) log odds of scores, ascending
    log_odds: np.ndarray  # (K,) log odds of probabilities, ascending

    @classmethod
    def isotonic(cls, scores: np.ndarray, correct: np.ndarray) -> Self:
        """Fit isotonic regression, and put a knot into the middle of each of its steps."""
        from sklearn.isotonic import isotonic_regression  # here and not above: prediction does not need it

        distinct, inverse = np.unique(scores, return_inverse=True)
        counts, right = np.bincount(inverse), np.bincount(inverse, correct)
        # Averages of about so many pairs; equal scores, as a baseline has them, stay together.
        group = (np.cumsum(counts) - counts) // _PAIRS_PER_KNOT
        starts = np.flatnonzero(np.append(True, np.diff(group) > 0))
        weights = np.add.reduceat(counts, starts)
        share = np.add.reduceat(right, starts) / weights
        middle = np.add.reduceat(counts * distinct.astype(np.float64), starts)  # sums of the scores
        level = isotonic_regression(share, sample_weight=weights)
        steps = np.flatnonzero(np.append(True, np.diff(level) > 1e-12))
        sizes = np.add.reduceat(weights, steps)
        value = np.clip(level[steps], 0.5 / sizes, 1 - 0.5 / sizes)  # no share of a sample is certain
        return cls(logit(np.add.reduceat(middle, steps) / sizes), logit(np.maximum.accumulate(value)))

    @classmethod
    def platt(cls, scores: np.ndarray, correct: np.ndarray) -> Self:
        """Fit a slope and an offset of the log odds; few pairs change the scores little."""
        odds = logit(scores)
        design = np.stack([odds, np.ones_like(odds)], axis=1)
        slope, offset = fit_logistic(design, correct, np.array([1.0, 0.0]), ridge=1.0)
        return cls(_ENDS, max(slope, 1e-3) * _ENDS + offset)

    @classmethod
    def same(cls) -> Self:
        """Return the map that leaves probabilities as they are."""
        return cls(_ENDS, _ENDS)

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the log odds of each score being correct."""
        return np.interp(logit(scores), self.odds, self.log_odds)

    @cached_property
    def knots(self) -> np.ndarray:
        """The knots as kernels take them, (2, K)."""
        return np.stack([self.odds, self.log_odds])

    def arrays(self, prefix: str) -> Arrays:
        """Return the knots, to be stored under names that begin with `prefix`."""
        return {f"{prefix}odds": self.odds, f"{prefix}log_odds": self.log_odds}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Arrays) -> Self:
        """Build what :meth:`arrays` took apart."""
        return cls(np.array(arrays[f"{prefix}odds"]), np.array(arrays[f"{prefix}log_odds"]))

    @staticmethod
    def array_rules(prefix: str) -> Rules:
        """Declare what the arrays of :meth:`arrays` must be."""
        return Rules({f"{prefix}{name}": floats(f"{prefix}knots+1", "f8") for name in ("odds", "log_odds")})


def fit_by_rank(scores: np.ndarray, correct: np.ndarray, first: np.ndarray, method: str) -> tuple[ScoreMap, ScoreMap]:
    """Fit one map to the first labels of points, and one to all others; if there are none, to the first ones too.

    Parameters
    ----------
    scores, correct, first : arrays, (n,)
        Score of each pair, whether its label is correct, and whether that is the first label of its point.
    method : {"isotonic", "platt"}
    """
    fit = ScoreMap.isotonic if method == "isotonic" else ScoreMap.platt
    others = first if first.all() else ~first
    return fit(scores[first], correct[first]), fit(scores[others], correct[others])


def is_first(scores: csr_array) -> np.ndarray:
    """Mark the first entry of each row that has any."""
    first = np.zeros(scores.nnz, np.bool_)
    first[scores.indptr[:-1][np.diff(scores.indptr) > 0]] = True
    return first


def in_the_same_order(raw: csr_array, mapped: np.ndarray) -> np.ndarray:
    """Lower mapped scores by the smallest steps of float32 where a row's order would change or become a tie.

    Parameters
    ----------
    raw : csr_array
        Scores before the mapping, in each row from the highest to the lowest.
    mapped : float32 array, (raw.nnz,)
        Positive scores after it.

    Returns
    -------
    array
        Within each row never above the entry before it, and below it where `raw` is.
    """
    if not raw.nnz:
        return mapped
    first = is_first(raw)
    falls = np.append(False, raw.data[1:] < raw.data[:-1]) & ~first
    steps = np.cumsum(falls)  # distinct scores so far
    # The bits of positive floats order as integers do: one step is the next lower number. A running minimum of
    # (number + steps) starts afresh in each row, because every row is shifted below all rows before it.
    shift = np.cumsum(first).astype(np.int64) << 33
    bits = mapped.view(np.int32).astype(np.int64)
    lowest = np.minimum.accumulate(bits + steps - shift)
    return (lowest - steps + shift).astype(np.int32).view(np.float32)


def logit(scores: np.ndarray) -> np.ndarray:
    """Return log odds, in double precision."""
    unit = np.clip(scores.astype(np.float64), 1e-30, 1 - 1e-12)
    return np.log(unit) - np.log1p(-unit)
