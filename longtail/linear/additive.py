"""Chances from a few features: logistic regression on bent lines, one a feature.

    log odds = bias + sum over j of g_j(f_j),    g_j(f) = a_j f + sum over knots t of b_jt max(f - t, 0)

Such a model bends where the data says so (a text that equals the label's is often the one thing it is not labelled
with), stays linear beyond what it has seen, so that a high score never ties with a higher one, and has some dozens of
parameters, which a few hundred held-out points settle. It is fitted by Newton's method, with a ridge on the bends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from longtail.kernels import match

_BLOCK = 1 << 16
_RIDGE = 2.0  # on bends, in units of a standard deviation of their feature; chosen on held-out points of tate


@dataclass
class AdditiveLogistic:
    """The fitted model."""

    bias: np.ndarray  # (1,)
    slopes: np.ndarray  # (F,)
    knot_ptr: np.ndarray  # (F + 1,)
    knots: np.ndarray
    bends: np.ndarray

    def __post_init__(self) -> None:
        # Arrays just fitted and arrays mapped from disk must look the same to the compiler, or it would compile twice.
        for entry in fields(self):
            array = np.asarray(getattr(self, entry.name))
            array.flags.writeable = False
            setattr(self, entry.name, array)

    @classmethod
    def fit(cls, features: np.ndarray, right: np.ndarray, n_knots: int = 6, rounds: int = 25) -> Self:
        """Learn from pairs.

        Parameters
        ----------
        features : float32 array, (pairs, F)
        right : bool array, (pairs,)
            Which pairs are right; where all or none are, nothing is learnt but how often that is.
        n_knots : int
            Knots of a feature at most, put where right pairs and all pairs have equal shares.
        """
        n_plain, n_right = features.shape[1], int(right.sum())
        rate = np.log((n_right + 0.5) / (len(right) - n_right + 0.5))
        if n_right in (0, len(right)):
            return cls(np.array([rate]), np.zeros(n_plain), np.zeros(n_plain + 1, np.int64), np.empty(0), np.empty(0))
        knots = [_place(features[:, j], right, n_knots) for j in range(n_plain)]
        knot_ptr = np.concatenate([[0], np.cumsum([len(some) for some in knots])])
        beyond = int(knot_ptr[-1])
        model = cls(np.array([rate]), np.zeros(n_plain), knot_ptr, np.concatenate([*knots, []]), np.zeros(beyond))
        scale = _deviations(features, model)
        penalty = np.concatenate([[0.0], np.full(n_plain, 0.01 * _RIDGE), np.full(beyond, _RIDGE)])
        w = best = np.concatenate([[rate], np.zeros(n_plain + beyond)])
        lowest = np.inf
        for _ in range(rounds):
            value, gradient, curvature = _derivatives(features, right, model, scale, w, penalty)
            if value > lowest:  # a step too far: half of it
                w = (w + best) / 2
                continue
            gain, lowest, best = lowest - value, value, w
            if gain < 1e-7 * value:
                break
            w = best - np.linalg.solve(curvature, gradient)
        found = best[1:] / scale
        return cls(best[:1], found[:n_plain], knot_ptr, model.knots, found[n_plain:])

    def log_odds(self, features: np.ndarray) -> np.ndarray:
        """Log odds of each pair, float64."""
        out = np.empty(len(features))
        match.bent_lines(
            features, self.bias[0], self.slopes, self.knot_ptr, self.knots, self.bends, 0, len(features), out
        )
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """What to store."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


def _place(column: np.ndarray, right: np.ndarray, n_knots: int) -> np.ndarray:
    """Knots of one feature: inner quantiles of the right pairs and of all pairs; none for a feature of two values."""
    low, high = column.min(), column.max()
    if len(np.unique(column[:1000])) <= 2 and len(np.unique(column)) <= 2:
        return np.empty(0)
    half = max(n_knots // 2, 1)
    shares = np.arange(1, half + 1) / (half + 1)
    some = [np.quantile(column, shares)] + ([np.quantile(column[right], shares)] if right.any() else [])
    found = np.unique(np.concatenate(some).astype(np.float64))
    found = found[(found > low) & (found < high)]
    apart = 1e-3 * float(high - low)
    return found[np.diff(found, prepend=-np.inf) > apart]


def _basis(features: np.ndarray, model: AdditiveLogistic) -> Iterator[tuple[slice, np.ndarray]]:
    """The columns of the linear problem, block by block: 1, the features, and what lies beyond each knot."""
    n_plain = features.shape[1]
    which = np.repeat(np.arange(n_plain), np.diff(model.knot_ptr))
    for begin in range(0, len(features), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        plain = features[rows].astype(np.float64)
        beyond = np.maximum(plain[:, which] - model.knots, 0.0)
        yield rows, np.hstack([np.ones((len(plain), 1)), plain, beyond])


def _deviations(features: np.ndarray, model: AdditiveLogistic) -> np.ndarray:
    """Standard deviation of each column; 1 where it does not vary."""
    first, second = 0.0, 0.0
    for _, basis in _basis(features, model):
        first, second = first + basis[:, 1:].sum(axis=0), second + (basis[:, 1:] ** 2).sum(axis=0)
    mean = first / len(features)
    found = np.sqrt(np.maximum(second / len(features) - mean**2, 0.0))
    return np.where(found > 1e-6, found, 1.0)


def _derivatives(
    features: np.ndarray,
    right: np.ndarray,
    model: AdditiveLogistic,
    scale: np.ndarray,
    w: np.ndarray,
    penalty: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Penalised loss, its gradient and its second derivative at w."""
    value, gradient, curvature = 0.5 * float(penalty @ w**2), penalty * w, np.diag(penalty + 1e-9)
    for rows, basis in _basis(features, model):
        basis[:, 1:] /= scale
        odds = basis @ w
        y = right[rows]
        value += float(np.logaddexp(0.0, np.where(y, -odds, odds)).sum())
        chance = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        gradient = gradient + basis.T @ (chance - y)
        curvature = curvature + basis.T @ (basis * (chance * (1 - chance))[:, None])
    return value, gradient, curvature
