"""Monotone functions from the score of a label to the probability that it is correct.

- Isotonic: piecewise linear in log odds, with fifteen knots. Of all such non-decreasing functions, it is the one with
  the highest likelihood, slightly regularised towards one straight line.
- Platt: sigma(a logit(s) + b), a > 0 (Platt, 1999), on the log odds of the score.

Standard isotonic regression (Zadrozny and Elkan, KDD 2002) gives a step function. To make it continuous, the middles of
the steps have to be joined by straight lines, and then scores are not calibrated even on the pairs that it was fitted
to. With TextMatch and 4,000 EU laws in three trials, its expected calibration error at 1 was 1.1 to 3.3 points on these
pairs and 1.7 to 3.8 on others. Fitting the lines themselves by likelihood gives 0.9 to 1.3 points on others.
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

_KNOTS = 15
_OUTSIDE_KNOTS = 0.01  # share of the pairs below the first knot, and above the last one
_MOST_GROUPS = 4000  # groups of pairs with nearly equal scores; the likelihood is computed from their averages
_SMOOTHNESS = 3.0  # strength of the regularisation of the change of slope at each knot
_ENDS = np.array([-80.0, 80.0])  # log odds beyond those of any score


@dataclass(frozen=True)
class ScoreMap:
    """A non-decreasing function from score to probability, piecewise linear in log odds."""

    odds: np.ndarray  # (K,) log odds of scores, ascending
    log_odds: np.ndarray  # (K,) log odds of probabilities, ascending

    @classmethod
    def isotonic(cls, scores: np.ndarray, correct: np.ndarray) -> Self:
        """Fit non-decreasing straight lines between knots by maximum likelihood."""
        from scipy.optimize import minimize  # here and not above: prediction does not need it

        order = np.argsort(scores, kind="stable")
        odds, right = logit(scores[order]), correct[order].astype(np.float64)
        n_right = right.sum()
        mean = np.log((n_right + 0.5) / (len(right) - n_right + 0.5))
        knots = _knots(odds, right)
        if len(knots) < 2:
            return cls(knots, np.full(1, mean))
        group = np.arange(len(odds)) * min(len(odds), _MOST_GROUPS) // len(odds)
        sizes, n_correct = np.bincount(group), np.bincount(group, right)
        # The unknowns are the log odds at the first knot, then the rise from each knot to the next.
        sum_rises = np.tri(len(knots))
        design = _interpolation_weights(np.bincount(group, odds) / sizes, knots) @ sum_rises
        bends = np.diff(np.eye(len(knots)), 2, axis=0) @ sum_rises

        def loss(unknowns: np.ndarray) -> tuple[float, np.ndarray]:
            margin, bend = design @ unknowns, bends @ unknowns
            value = sizes @ np.logaddexp(0, margin) - n_correct @ margin + 0.5 * _SMOOTHNESS * bend @ bend
            return value, design.T @ (sizes / (1 + np.exp(-margin)) - n_correct) + _SMOOTHNESS * bends.T @ bend

        start = np.append(mean - 0.05 * len(knots), np.full(len(knots) - 1, 0.1))
        bounds = [(None, None)] + [(1e-6, None)] * (len(knots) - 1)
        optimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
        most = np.log(2 * len(odds))  # a finite sample shows no probability of 0 or 1
        return cls(knots, np.clip(sum_rises @ optimum.x, -most, most))

    @classmethod
    def platt(cls, scores: np.ndarray, correct: np.ndarray) -> Self:
        """Fit a slope and an offset of the log odds, regularised towards no change."""
        odds = logit(scores)
        design = np.stack([odds, np.ones_like(odds)], axis=1)
        slope, offset = fit_logistic(design, correct, np.array([1.0, 0.0]), ridge=1.0)
        return cls(_ENDS, max(slope, 1e-3) * _ENDS + offset)

    @classmethod
    def same(cls) -> Self:
        """Return the identity."""
        return cls(_ENDS, _ENDS)

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the log odds that a label with each score is correct."""
        return np.interp(logit(scores), self.odds, self.log_odds)

    @cached_property
    def knots(self) -> np.ndarray:
        """The knots as one array (2, K), for kernels."""
        return np.stack([self.odds, self.log_odds])

    def arrays(self, prefix: str) -> Arrays:
        """Return the arrays to store; their names begin with `prefix`."""
        return {f"{prefix}odds": self.odds, f"{prefix}log_odds": self.log_odds}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Arrays) -> Self:
        """Restore the map from what :meth:`arrays` returned."""
        return cls(np.array(arrays[f"{prefix}odds"]), np.array(arrays[f"{prefix}log_odds"]))

    @staticmethod
    def array_rules(prefix: str) -> Rules:
        """Declare the rules that the arrays of :meth:`arrays` must meet."""
        return Rules({f"{prefix}{name}": floats(f"{prefix}knots+1", "f8") for name in ("odds", "log_odds")})


def fit_by_rank(scores: np.ndarray, correct: np.ndarray, first: np.ndarray, method: str) -> tuple[ScoreMap, ScoreMap]:
    """Fit one map to the first labels of points and one to all other labels.

    Without other labels, both maps are fitted to the first ones.

    Parameters
    ----------
    scores, correct, first : arrays, (n,)
        Score of each pair, whether its label is correct, and whether it is the first label of its point.
    method : {"isotonic", "platt"}
        Function to fit: of any shape, or with two parameters.
    """
    fit = ScoreMap.isotonic if method == "isotonic" else ScoreMap.platt
    others = first if first.all() else ~first
    return fit(scores[first], correct[first]), fit(scores[others], correct[others])


def is_first(scores: csr_array) -> np.ndarray:
    """Return a mask (nnz,) of the first entry of each row."""
    first = np.zeros(scores.nnz, np.bool_)
    first[scores.indptr[:-1][np.diff(scores.indptr) > 0]] = True
    return first


def in_the_same_order(raw: csr_array, mapped: np.ndarray) -> np.ndarray:
    """Lower mapped scores slightly where the order of a row would otherwise change or become a tie.

    Parameters
    ----------
    raw : csr_array
        Scores before the mapping, in each row from the highest to the lowest.
    mapped : float32 array, (raw.nnz,)
        Positive scores after the mapping.

    Returns
    -------
    array
        Scores that do not rise within a row, and that fall wherever `raw` falls.
    """
    if not raw.nnz:
        return mapped
    first = is_first(raw)
    falls = np.append(False, raw.data[1:] < raw.data[:-1]) & ~first
    n_falls = np.cumsum(falls)
    # Positive floats have the same order as their bits read as integers, and the next lower float is one integer less.
    # A running minimum of bits + n_falls, minus n_falls, therefore falls by at least one float wherever `raw` falls.
    # Each row is shifted below all rows before it, so that the minimum starts anew there.
    shift = np.cumsum(first).astype(np.int64) << 33
    bits = mapped.view(np.int32).astype(np.int64)
    lowest = np.minimum.accumulate(bits + n_falls - shift)
    return (lowest - n_falls + shift).astype(np.int32).view(np.float32)


def _knots(odds: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Place knots at quantiles of `odds` (ascending), where right pairs in all weigh as much as wrong ones."""
    n_right = right.sum()
    weight = np.cumsum(np.where(right > 0, 1 / max(n_right, 1), 1 / max(len(right) - n_right, 1)))
    shares = np.linspace(_OUTSIDE_KNOTS, 1 - _OUTSIDE_KNOTS, _KNOTS)
    return np.unique(odds[np.minimum(np.searchsorted(weight / weight[-1], shares), len(odds) - 1)])


def _interpolation_weights(odds: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Return the weight of each knot when its values are interpolated linearly at `odds`, (n, K)."""
    inside = np.clip(odds, knots[0], knots[-1])
    left = np.minimum(np.searchsorted(knots, inside, side="right") - 1, len(knots) - 2)
    share = (inside - knots[left]) / (knots[left + 1] - knots[left])
    weights, rows = np.zeros((len(odds), len(knots))), np.arange(len(odds))
    weights[rows, left], weights[rows, left + 1] = 1 - share, share
    return weights


def logit(scores: np.ndarray) -> np.ndarray:
    """Return the log odds of scores in (0, 1), in double precision."""
    unit = np.clip(scores.astype(np.float64), 1e-30, 1 - 1e-12)
    return np.log(unit) - np.log1p(-unit)
