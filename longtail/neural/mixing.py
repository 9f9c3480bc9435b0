"""Two views of a label made one chance: logistic regression on held-out points.

The network's log odds, those of other views and how often the label occurs are mixed so that the result is the chance
that the label is right. It is what puts frequent and rare labels on one scale: the one thing that sampled negatives
leave open. Weights are held to a plain mean of the views, so that few held-out points move them little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.kernels.shortlist import OF_A_VIEW, OWN

_RIDGE = 3.0
_ROUNDS = 40


@dataclass
class Mix:
    """How features of a pair of a point and a label become log odds.

    Attributes
    ----------
    weights : array, (5 + 7 for each view,)
        Of a label with training points; see :mod:`longtail.kernels.shortlist` for what they weigh.
    alone : array of the same length
        Of a label that has text only: the network's part, and that of the view of texts.
    """

    weights: np.ndarray
    alone: np.ndarray

    @classmethod
    def start(cls, n_views: int, shared: bool) -> Mix:
        """Before anything is known: the network's own log odds or, if `shared`, the mean of all views'."""
        weights = np.zeros(OWN + OF_A_VIEW * n_views)
        weights[1] = 1.0
        alone = weights.copy()
        if shared:
            weights[1] = weights[OWN::OF_A_VIEW] = 1 / (1 + n_views)
        return cls(weights, alone)

    def fit(self, rows: np.ndarray, right: np.ndarray) -> None:
        """Learn the weights from features (n, m) of pairs of a held-out point and a label, and whether it is right."""
        self.weights = regress(rows, right, self.weights)

    def fit_alone(self, rows: np.ndarray, right: np.ndarray, text_view: int | None) -> None:
        """Learn the weights of labels that have text only; `text_view` is the number of the view of texts, if any."""
        columns = [0, 1]
        if text_view is not None:
            first = OWN + OF_A_VIEW * text_view
            columns += [first, first + 1, first + 4]
        self.alone[columns] = regress(rows[:, columns], right, self.alone[columns])


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
