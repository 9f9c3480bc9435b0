"""Regularisers of the label vectors (GLaS §3.2), each over the labels drawn for a batch.

Each takes unit label vectors `V` (C, d), encoded points `points` (B, d) and the affinity `U` (C, C) of the labels. Each
returns the value and its gradients with respect to V and to the points (None where it does not depend on them).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Regularizer = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray | None]]


def glas(V: np.ndarray, points: np.ndarray, U: np.ndarray) -> tuple[float, np.ndarray, None]:
    r"""Pull the Gram matrix of label vectors towards the labels' co-occurrence (GLaS).

    Formula: :math:`\frac{1}{C^2} \| V V^T - U \|_F^2` (eq. 3).

    Use it by default: related labels share what is learnt about them, all others are kept apart.
    """
    gap = V @ V.T  # (C, C)
    gap -= U
    n = len(V) ** 2
    return float(np.vdot(gap, gap)) / n, (gap @ V) * np.float32(4 / n), None


def spreadout(V: np.ndarray, points: np.ndarray, U: np.ndarray) -> tuple[float, np.ndarray, None]:
    r"""Push all label vectors towards right angles (spread-out).

    Formula: :math:`\frac{1}{C^2} \sum_{i \neq j} (v_i \cdot v_j)^2` (eq. 2; the diagonal is constant for unit vectors).

    Use it where labels hardly occur together.
    """
    gap = V @ V.T
    np.fill_diagonal(gap, 0)
    n = len(V) ** 2
    return float(np.vdot(gap, gap)) / n, (gap @ V) * np.float32(4 / n), None


def gravity(V: np.ndarray, points: np.ndarray, U: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    r"""Push points and labels in general, related or not, towards right angles (gravity).

    Formula: :math:`\frac{1}{B C} \sum_{i, l} (\phi_i \cdot v_l)^2`.

    Reference: Krichene et al., 2018, which GLaS compares with in Table 1. Use it to keep scores of points and labels
    that were never seen together low.
    """
    scores = points @ V.T  # (B, C)
    n = scores.size
    scale = np.float32(2 / n)
    return float(np.vdot(scores, scores)) / n, (scores.T @ points) * scale, (scores @ V) * scale


REGULARIZERS: dict[str, Regularizer] = {"glas": glas, "spreadout": spreadout, "gravity": gravity}
