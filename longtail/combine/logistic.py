"""Logistic regression by Newton's method, regularised towards given weights."""

from __future__ import annotations

import numpy as np

from longtail.kernels.blas import single_threaded
from longtail.sparse import logistic

_ROUNDS = 40


@single_threaded()  # products of a few columns: more threads of BLAS cost more than they gain
def fit_logistic(design: np.ndarray, right: np.ndarray, start: np.ndarray, ridge: float = 3.0) -> np.ndarray:
    """Return weights that minimise the logistic loss plus ridge / 2 times the squared distance to `start`.

    Parameters
    ----------
    design : array, (n, F)
        Features; they are scaled to one size, so that the ridge means the same for each.
    right : array, (n,)
        Which rows are positive.
    start : array, (F,)
        Weights to start from and to stay near: few rows move them little.
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
        gap = beta - centre
        return float(np.logaddexp(0, margin).sum() - right @ margin + 0.5 * ridge * gap @ gap)

    before = loss(beta)
    for _ in range(_ROUNDS):
        p = logistic(np.clip(design @ beta, -30, 30))
        gradient = design.T @ (p - right) + ridge * (beta - centre)
        hessian = (design * (p * (1 - p))[:, None]).T @ design + ridge * np.eye(len(beta))
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while length > 1e-3 and not (after := loss(beta - length * step)) <= before:
            length /= 2
        if length <= 1e-3:
            break
        beta = beta - length * step
        if before - after < 1e-6 * (1 + abs(before)):
            break
        before = after
    return beta / scale
