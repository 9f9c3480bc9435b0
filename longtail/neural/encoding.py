"""Encoding of points as the sum of their features' vectors, for prediction.

Training steps are in :mod:`longtail.neural.tables` and in the networks; prediction needs none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.kernels.encode import encode_whole
from longtail.kernels.pool import spread

_SMALLEST_LENGTH = np.float32(1e-12)


def activate(h: np.ndarray, relu: bool, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
    """Apply a ReLU and scale rows to length 1, each if wanted, in place.

    Parameters
    ----------
    h : array, (B, d)
        Sums of token vectors.
    relu, normalize : bool
        Whether to apply the ReLU, and whether to scale.

    Returns
    -------
    h, length : arrays, (B, d) and (B, 1)
        The result, and the length of each row before scaling.
    """
    if relu:
        np.maximum(h, 0, out=h)
    length = np.sqrt(np.einsum("ij,ij->i", h, h))[:, None] + _SMALLEST_LENGTH
    if normalize:
        h /= length
    return h, length


def through_length(grad: np.ndarray, unit: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Propagate a gradient back through the scaling to length 1, which removes its part along the vector."""
    along = np.einsum("ij,ij->i", grad, unit)[:, None]
    return (grad - along * unit) / length


def sum_tokens(points: Any, tokens: np.ndarray, bias: np.ndarray | None, n_jobs: int | None) -> np.ndarray:
    """Return the bias plus the weighted sum of the token vectors of each point, (N, d).

    Parameters
    ----------
    points : NamedTuple of (ptr, idx, val)
        Points; their values, scaled to length 1, are the weights.
    tokens : array, (D, d)
        Token vectors.
    bias : array, (d,), optional
        Added to each sum.
    n_jobs : int, optional
        Number of threads; all cores by default.
    """
    h = np.empty((len(points.ptr) - 1, tokens.shape[1]), np.float32)
    start = np.zeros(tokens.shape[1], np.float32) if bias is None else bias
    spread(lambda block: encode_whole(*points, tokens, start, True, *block, h), len(h), n_jobs)
    return h
