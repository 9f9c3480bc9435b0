"""Several views of a label made one chance: a logistic regression on held-out points, and boosted trees beside it.

The network's log odds, those of other views and how often the label occurs are mixed so that the result is the chance
that the label is right. It is what puts frequent and rare labels on one scale: the one thing that sampled negatives
leave open. The regression's weights are held to a plain mean of the views, so that few held-out points move them
little. Trees (:mod:`longtail.labels.chances`) see what no weighted sum does, such as a view to be trusted only where
another is unsure. The two err differently, and a mean of their log odds ranks better than the regression does alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from longtail.kernels.shortlist import OF_A_VIEW, OWN
from longtail.labels.chances import Chances

_RIDGE = 3.0
_ROUNDS = 40
_WITNESSES = 0.25  # share of held-out points by which the number of trees is chosen
_TREES, _RATE = 300, 0.08  # many small steps: there are more features than in a blend of rankers
_FEWEST = 1000  # pairs that are right; with fewer, trees only remember them


@dataclass
class Mix:
    """How features of a pair of a point and a label become log odds.

    Attributes
    ----------
    weights : array, (5 + 7 for each view,)
        Of a label with training points; see :mod:`longtail.kernels.shortlist` for what they weigh.
    alone : array of the same length
        Of a label that has text only: the network's part, and that of the view of texts.
    trees : Chances, optional
        Whose log odds a label with training points has besides, where it is among the best by `weights`.
    share : float
        Of the trees in the log odds of such a label.
    """

    weights: np.ndarray
    alone: np.ndarray
    trees: Chances | None = None
    share: float = 0.9  # held-out points: better than a half on tate; on Debian packages P better, F within 0.1

    @classmethod
    def start(cls, n_views: int, shared: bool) -> Mix:
        """Before anything is known: the network's own log odds or, if `shared`, the mean of all views'."""
        weights = np.zeros(OWN + OF_A_VIEW * n_views)
        weights[1] = 1.0
        alone = weights.copy()
        if shared:
            weights[1] = weights[OWN::OF_A_VIEW] = 1 / (1 + n_views)
        return cls(weights, alone)

    def fit(self, rows: np.ndarray, right: np.ndarray, points: np.ndarray) -> None:
        """Learn from features (n, m) of pairs of a held-out point and a label, whether each is right, and its point."""
        self.weights = regress(rows, right, self.weights)
        self.trees = None
        if np.count_nonzero(right) >= _FEWEST:
            drawn = np.random.default_rng(0).random(points.max() + 1) < _WITNESSES
            asked = drawn[points]
            size = Chances.fit(rows[~asked], right[~asked], _TREES, _RATE).best_size(rows[asked], right[asked])
            self.trees = Chances.fit(rows, right, size, _RATE) if size else None

    def fit_alone(self, rows: np.ndarray, right: np.ndarray, text_view: int | None) -> None:
        """Learn the weights of labels that have text only; `text_view` is the number of the view of texts, if any."""
        columns = [0, 1]
        if text_view is not None:
            first = OWN + OF_A_VIEW * text_view
            columns += [first, first + 1, first + 4]
        self.alone[columns] = regress(rows[:, columns], right, self.alone[columns])

    def forest(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
        """The trees and their share as :func:`longtail.kernels.shortlist.rank` takes them."""
        trees = _NO_TREES if self.trees is None else self.trees
        return float(trees.bias[0]), trees.features, trees.edges, trees.values, self.share

    def state(self) -> dict[str, Any]:
        """What to store, as JSON values."""
        trees = None if self.trees is None else {name: part.tolist() for name, part in self.trees.arrays().items()}
        return {"mix": self.weights.tolist(), "alone": self.alone.tolist(), "trees": trees, "share": self.share}

    @classmethod
    def restored(cls, facts: dict[str, Any]) -> Self:
        """What :meth:`state` gave."""
        trees = None
        if facts["trees"] is not None:
            types = {name: part.dtype for name, part in _NO_TREES.arrays().items()}
            trees = Chances(**{name: np.array(part, types[name]) for name, part in facts["trees"].items()})
        return cls(np.array(facts["mix"]), np.array(facts["alone"]), trees, facts["share"])


_NO_TREES = Chances.fit(np.zeros((0, 1), np.float32), np.zeros(0, bool))


def regress(design: np.ndarray, right: np.ndarray, start: np.ndarray, ridge: float = _RIDGE) -> np.ndarray:
    """Logistic regression by Newton's method, held to `start`; features are scaled to one size for that."""
    design = design.astype(np.float64)
    scale = np.sqrt(np.mean(design * design, axis=0)) if len(design) else np.ones(len(start))
    scale = np.where(scale > 0, scale, 1.0)
    design = design / scale
    right = right.astype(np.float64)
    centre = start * scale
    beta = centre.copy()

    def value(beta: np.ndarray) -> float:
        margin = design @ beta
        gap = beta - centre
        return float(np.logaddexp(0, margin).sum() - right @ margin + 0.5 * ridge * gap @ gap)

    before = value(beta)
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (p - right) + ridge * (beta - centre)
        hessian = (design * (p * (1 - p))[:, None]).T @ design + ridge * np.eye(len(beta))
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while length > 1e-3 and not (after := value(beta - length * step)) <= before:
            length /= 2
        if length <= 1e-3:
            break
        beta = beta - length * step
        if before - after < 1e-6 * (1 + abs(before)):
            break
        before = after
    return beta / scale
