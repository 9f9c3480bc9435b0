"""Regularisers of the label vectors (GLaS §3.2), computed over the labels drawn from a batch.

Each takes label vectors `V` (C, d) of length 1, encoded points `points` (B, d) and the affinity `U` (C, C) of the
labels. Each returns its value and the gradients with respect to V and to the points (None if it does not depend on
them).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Regularizer = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray | None]]


def glas(V: np.ndarray, points: np.ndarray, U: np.ndarray) -> tuple[float, np.ndarray, None]:
    r"""Pull the Gram matrix of label vectors towards the labels' co-occurrence (GLaS).

    Formula: :math:`\frac{1}{C^2} \| V V^T - U \|_F^2` (eq. 3).

    Use it by default: labels that occur together get similar vectors and learn from each other, all others are pushed
    apart.
    """
    gap = V @ V.T  # (C, C)
    gap -= U
    n = len(V) ** 2
    return float(np.vdot(gap, gap)) / n, (gap @ V) * np.float32(4 / n), None


def spreadout(V: np.ndarray, points: np.ndarray, U: np.ndarray) -> tuple[float, np.ndarray, None]:
    r"""Push all label vectors apart, towards right angles (spread-out).

    Formula: :math:`\frac{1}{C^2} \sum_{i \neq j} (v_i \cdot v_j)^2` (eq. 2; the diagonal is constant for unit vectors).

    Use it if labels hardly ever occur together.
    """
    gap = V @ V.T
    np.fill_diagonal(gap, 0)
    n = len(V) ** 2
    return float(np.vdot(gap, gap)) / n, (gap @ V) * np.float32(4 / n), None


def gravity(V: np.ndarray, points: np.ndarray, U: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    r"""Push all points and labels, whether related or not, towards right angles (gravity).

    Formula: :math:`\frac{1}{B C} \sum_{i, l} (\phi_i \cdot v_l)^2`.

    Reference: Krichene et al., 2018, with which GLaS is compared in Table 1. Use it to keep the scores of points and
    labels low that never occur together.
    """
    scores = points @ V.T  # (B, C)
    n = scores.size
    scale = np.float32(2 / n)
    return float(np.vdot(scores, scores)) / n, (scores.T @ points) * scale, (scores @ V) * scale


REGULARIZERS: dict[str, Regularizer] = {"glas": glas, "spreadout": spreadout, "gravity": gravity}
