"""Label vectors and biases in one inner-product search: the bias is one more coordinate of each vector."""

from __future__ import annotations

import numpy as np

from longtail.index import make_index


def with_bias(labels: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, float]:
    """Return vectors (L, d + 1) whose inner product with :func:`queries` includes the bias, and the scale for that.

    The bias is divided by the scale, and the query has the scale as its last coordinate: biases are often far larger
    than the other coordinates, and eight-bit codes would lose the precision of these.
    """
    scale = 1.0
    if labels.size:
        usual = float(np.median(np.abs(labels).max(axis=1)))
        scale = max(1.0, float(np.abs(bias).max()) / max(usual, 1e-6))
    out = np.empty((labels.shape[0], labels.shape[1] + 1), np.float32)
    out[:, :-1] = labels
    out[:, -1] = bias / np.float32(scale)
    return out, scale


def queries(points: np.ndarray, scale: float) -> np.ndarray:
    """Return points (N, d) as queries (N, d + 1)."""
    out = np.empty((points.shape[0], points.shape[1] + 1), np.float32)
    out[:, :-1] = points
    out[:, -1] = scale
    return out


def top_labels(
    points: np.ndarray, labels: np.ndarray, bias: np.ndarray, k: int, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k labels of the highest ``points @ labels.T + bias``, exactly.

    Parameters
    ----------
    points : array, (N, d)
        Encoded points.
    labels : array, (L, d)
        Label vectors.
    bias : array, (L,)
        Label biases.
    k : int
        At most L.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    found, scores : arrays, (N, k)
        Positions of labels and their scores, the best first, ties by smaller position.
    """
    vectors, scale = with_bias(labels, bias)
    return make_index(vectors, "ip", "exact").search(queries(points, scale), k, n_jobs=n_jobs)
