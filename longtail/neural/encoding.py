"""Points as the sum of their features' vectors: encoding for prediction, and what follows the sum.

This file is all that prediction needs; steps of training are in :mod:`longtail.neural.tables` and in the networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.kernels.encode import encode_whole
from longtail.kernels.pool import spread

_SMALLEST_LENGTH = np.float32(1e-12)


def activate(h: np.ndarray, relu: bool, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
    """Apply ReLU and scaling to length 1, where wanted, to sums `h` (B, d), in place.

    Returns
    -------
    h, length : arrays, (B, d) and (B, 1)
        The result, and the length of each row before it was scaled.
    """
    if relu:
        np.maximum(h, 0, out=h)
    length = np.sqrt(np.einsum("ij,ij->i", h, h))[:, None] + _SMALLEST_LENGTH
    if normalize:
        h /= length
    return h, length


def through_length(grad: np.ndarray, unit: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the gradient before scaling to length 1 from the gradient after it: the part along the vector vanishes."""
    along = np.einsum("ij,ij->i", grad, unit)[:, None]
    return (grad - along * unit) / length


def sum_tokens(points: Any, tokens: np.ndarray, bias: np.ndarray | None, n_jobs: int | None) -> np.ndarray:
    """Return the bias plus the weighted sum of the token vectors of each point scaled to length 1, (N, d).

    Parameters
    ----------
    points : NamedTuple of (ptr, idx, val)
    tokens : array, (D, d)
    bias : array, (d,), optional
    n_jobs : int, optional
    """
    h = np.empty((len(points.ptr) - 1, tokens.shape[1]), np.float32)
    start = np.zeros(tokens.shape[1], np.float32) if bias is None else bias
    spread(lambda block: encode_whole(*points, tokens, start, True, *block, h), len(h), n_jobs)
    return h
