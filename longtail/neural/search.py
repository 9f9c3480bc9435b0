"""Search of label vectors, and exact scores of listed labels: what trained networks share in prediction.

Vectors and biases of labels are one inner-product search: the bias is one more coordinate of each vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.index import make_index
from longtail.kernels import listed as kernels
from longtail.kernels.combine import TopLabels
from longtail.kernels.pool import spread

ONE_BY_ONE = 2048  # labels that are searched one by one; more, in partitions
SHORTLIST = 100  # labels that a network alone scores per point, at least


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


class KnownLabels:
    """The labels that a network scores, and their numbers among all labels."""

    def __init__(self, label_ids: np.ndarray, n_labels: int) -> None:
        self.ids = label_ids
        self.position = np.full(n_labels, -1, np.int32)
        self.position[label_ids] = np.arange(len(label_ids), dtype=np.int32)

    def widened(self, n_labels: int) -> KnownLabels:
        """Return the same labels among more, which the network does not score."""
        return KnownLabels(self.ids, n_labels)

    def positions(self, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return where listed labels (N, S) are among those of the network, -1 for nowhere."""
        out = np.empty(labels.shape, np.int32)
        spread(lambda block: kernels.look_up(self.position, labels, *block, out), len(labels), n_jobs)
        return out

    def numbers(self, positions: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the label numbers of positions (N, S), -1 for none."""
        out = np.empty(positions.shape, np.int32)
        spread(lambda block: kernels.look_up(self.ids, positions, *block, out), len(positions), n_jobs)
        return out


def best_labels(scorer: Any, points: Any, k: int, n_jobs: int | None) -> TopLabels:
    """Return the k best labels per point by a scorer alone: its shortlist, scored exactly."""
    n = len(points.ptr) - 1
    encoded = scorer.encode(points, n_jobs)
    labels = scorer.shortlist(encoded, max(k, SHORTLIST), n_jobs)
    odds = scorer.log_odds(encoded, labels, n_jobs)
    best = TopLabels(np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.zeros(n, np.int32))
    spread(lambda block: kernels.best_listed(labels, odds, *block, best), n, n_jobs)
    return best


def score_listed(encoded: np.ndarray, vectors: np.ndarray, positions: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Return the inner products of points (N, d) with the vectors at their listed positions, (N, S)."""
    out = np.empty(positions.shape, np.float32)
    spread(lambda block: kernels.score_lists(encoded, vectors, positions, *block, out), len(encoded), n_jobs)
    return out


def search_labels(index: Any, encoded: np.ndarray, k: int, n_jobs: int | None) -> np.ndarray:
    """Return the positions of the k vectors of highest score per point, (N, k)."""
    k = min(k, len(index))
    if len(encoded) == 1:
        return index.search_one(encoded[0], k, trusted=index.metric == "ip")[0][None]
    return index.search(encoded, k, n_jobs=n_jobs)[0]
