"""Chances from a few features of a pair of point and label: boosted trees, learnt from held-out points.

Trees are shallow and oblivious (:mod:`longtail.kernels.boost`). They find by themselves that text counts for more where
a label is rare, or that a text equal to the label's is often the one thing a point is not labelled with, and some
thousand points settle them. How many trees there are is chosen by points that they have not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from longtail.kernels import boost
from longtail.store.flat import FlatArrays

_DEPTH = 4
_RATE = 0.15
TREES = 120
_RIDGE = 5.0
_EDGES = 63  # of a feature, at most


@dataclass
class Chances(FlatArrays):
    """Trees that give the log odds of a pair being right."""

    bias: np.ndarray  # (1,)
    features: np.ndarray  # (T, d)
    edges: np.ndarray  # (T, d): a pair with more of the feature goes right
    values: np.ndarray  # (T, 2^d)

    @classmethod
    def fit(cls, pairs: np.ndarray, right: np.ndarray, n_trees: int = TREES, rate: float = _RATE) -> Self:
        """Learn from pairs (n, F) and which of them are right; where all or none are, only how often that is.

        Fewer than `n_trees` are grown where no further tree helps; each corrects a share `rate` of what is left.
        """
        n_right = int(right.sum())
        usual = np.log((n_right + 0.5) / (len(right) - n_right + 0.5))
        features = np.zeros((n_trees, _DEPTH), np.int32)
        edges = np.full((n_trees, _DEPTH), np.inf, np.float32)  # an infinite edge sends every pair left
        values = np.zeros((n_trees, 1 << _DEPTH))
        grown = 0
        if 0 < n_right < len(right):
            limits = [_limits(pairs[:, f], right) for f in range(pairs.shape[1])]
            bins = np.empty(pairs.shape, np.uint8)
            for f, some in enumerate(limits):
                bins[:, f] = np.searchsorted(some, pairs[:, f], side="left")  # a value that equals an edge stays left
            n_bins = np.array([len(some) + 1 for some in limits])
            odds, grad, hess = np.full(len(right), usual), np.empty(len(right)), np.empty(len(right))
            asked = np.zeros(_DEPTH, np.int64)
            while grown < n_trees:
                boost.derivatives(odds, right, grad, hess)
                deep = boost.grow(
                    bins, n_bins, odds, grad, hess, _DEPTH, rate, _RIDGE, features[grown], asked, values[grown]
                )
                if deep == 0:
                    break
                for level in range(deep):
                    edges[grown, level] = limits[features[grown, level]][asked[level]]
                values[grown] = np.repeat(values[grown, : 1 << deep], 1 << (_DEPTH - deep))
                grown += 1
        return cls(np.array([usual]), features[:grown], edges[:grown], values[:grown])

    def first(self, n_trees: int) -> Self:
        """The model of the first trees alone."""
        return type(self)(self.bias, self.features[:n_trees], self.edges[:n_trees], self.values[:n_trees])

    def best_size(self, pairs: np.ndarray, right: np.ndarray) -> int:
        """With how many trees these pairs, not learnt from, are judged best."""
        odds = np.full(len(right), self.bias[0])
        losses = [_loss(odds, right)]
        step = np.empty(len(right))
        for t in range(len(self.features)):
            one = slice(t, t + 1)
            boost.answer(pairs, 0.0, self.features[one], self.edges[one], self.values[one], 0, len(pairs), step)
            odds += step
            losses.append(_loss(odds, right))
        return int(np.argmin(losses))

    def log_odds(self, pairs: np.ndarray) -> np.ndarray:
        """Log odds of each pair, float64."""
        out = np.empty(len(pairs))
        boost.answer(pairs, self.bias[0], self.features, self.edges, self.values, 0, len(pairs), out)
        return out


def _limits(column: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Edges between the steps of a feature: quantiles of the right pairs and of all pairs, half and half."""
    shares = np.arange(1, _EDGES // 2 + 1) / (_EDGES // 2 + 1)
    return np.unique(
        np.concatenate([np.quantile(column, shares), np.quantile(column[right], shares)]).astype(np.float32)
    )


def _loss(odds: np.ndarray, right: np.ndarray) -> float:
    return float(np.logaddexp(0.0, np.where(right, -odds, odds)).mean())
