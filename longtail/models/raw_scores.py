"""Turn raw scores of a network into probabilities by a slope and an offset, learnt from some points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.logistic import fit_logistic
from longtail.sparse import bounded_scores, logistic

_BEST_LABELS = 50  # labels per point, the best ones, from which slope and offset are learnt


def calibrate(
    search: Callable[[csr_array, int], tuple[np.ndarray, np.ndarray]], X: csr_array, Y: csr_array
) -> tuple[float, float]:
    """Learn the slope and offset that turn raw scores into log odds.

    Parameters
    ----------
    search : callable
        Given points and k, returns the k best labels and their raw scores, (N, k) each.
    X, Y : csr_array
        Points and their labels. Give held-out points if there are any.
    """
    k = min(_BEST_LABELS, Y.shape[1])
    labels, raw = search(X, k)
    rows = np.repeat(np.arange(len(labels)), k)
    right = np.asarray(Y[rows, labels.ravel()]).ravel() > 0
    scores = raw.ravel().astype(np.float64)
    design = np.stack([scores, np.ones_like(scores)], axis=1)
    slope, offset = fit_logistic(design, right, np.array([0.0, 0.0]), ridge=1e-3)
    return float(max(slope, 1e-3)), float(offset)


def probabilities(raw: np.ndarray, loss: str, slope: float, offset: float) -> np.ndarray:
    """Turn raw scores (N, k), best first, of a network trained with `loss` into scores in (0, 1)."""
    if loss == "softmax":  # softmax relative to the best label: a search does not compute the sum over all labels
        best = raw[:, :1]
        return bounded_scores(np.exp(raw - best) / (1 + np.exp(-np.clip(best, -30, 30))))
    return bounded_scores(logistic(slope * raw + offset))
