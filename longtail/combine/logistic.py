"""Logistic regression by Newton's method, regularised towards given weights."""

from __future__ import annotations

import numpy as np

from longtail.kernels.blas import single_threaded
from longtail.sparse import logistic

_MOST_STEPS = 40
_SHORTEST_STEP = 1e-3  # as a share of the full Newton step


@single_threaded()  # products of a few columns: more threads of BLAS cost more than they gain
def fit_logistic(design: np.ndarray, right: np.ndarray, start: np.ndarray, ridge: float = 3.0) -> np.ndarray:
    """Return the weights that minimise the logistic loss plus ridge / 2 times the squared distance to `start`.

    Parameters
    ----------
    design : array, (n, F)
        Features, one row per example. They are scaled to the same root mean square, so that the ridge acts on all
        features alike.
    right : array, (n,)
        Which rows are positive.
    start : array, (F,)
        Weights to start from, and towards which the result is regularised: with few rows it stays near them.
    ridge : float
        Strength of the regularisation.
    """
    design = design.astype(np.float64)
    scale = np.sqrt(np.mean(design * design, axis=0)) if len(design) else np.ones(len(start))
    scale = np.where(scale > 0, scale, 1.0)
    design = design / scale
    right = right.astype(np.float64)
    centre = start * scale
    beta = centre.copy()

    def loss(beta: np.ndarray) -> float:
        margin = design @ beta
        distance = beta - centre
        return float(np.logaddexp(0, margin).sum() - right @ margin + 0.5 * ridge * distance @ distance)

    before = loss(beta)
    for _ in range(_MOST_STEPS):
        p = logistic(np.clip(design @ beta, -30, 30))
        gradient = design.T @ (p - right) + ridge * (beta - centre)
        hessian = (design * (p * (1 - p))[:, None]).T @ design + ridge * np.eye(len(beta))
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while length > _SHORTEST_STEP and not (after := loss(beta - length * step)) <= before:
            length /= 2
        if length <= _SHORTEST_STEP:
            break
        beta = beta - length * step
        if before - after < 1e-6 * (1 + abs(before)):
            break
        before = after
    return beta / scale
