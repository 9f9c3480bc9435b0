"""What trained networks share in prediction: search of label vectors, and scores of listed labels.

A label's score is the inner product of its vector with the point, plus its bias. To search by this score, the bias is
stored as one more coordinate of the vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.index import make_index
from longtail.kernels import listed as kernels
from longtail.kernels.combine import TopLabels
from longtail.kernels.pool import spread

ONE_BY_ONE = 2048  # number of labels up to which a search scores all of them; more are searched in partitions
SHORTLIST = 100  # labels to shortlist per point, at least, where a network predicts alone


def with_bias(labels: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, float]:
    """Append biases to label vectors as one more coordinate; return vectors (L, d + 1) and the scale of the queries.

    The inner product with :func:`queries` of this scale includes the bias. The stored bias is divided by the scale, and
    the last coordinate of a query is the scale. Without it, biases would often be far larger than the other
    coordinates, which would lose precision in 8-bit codes.
    """
    scale = 1.0
    if labels.size:
        typical = float(np.median(np.abs(labels).max(axis=1)))
        scale = max(1.0, float(np.abs(bias).max()) / max(typical, 1e-6))
    out = np.empty((labels.shape[0], labels.shape[1] + 1), np.float32)
    out[:, :-1] = labels
    out[:, -1] = bias / np.float32(scale)
    return out, scale


def queries(points: np.ndarray, scale: float) -> np.ndarray:
    """Return encoded points (N, d) as queries (N, d + 1), whose last coordinate is the scale."""
    out = np.empty((points.shape[0], points.shape[1] + 1), np.float32)
    out[:, :-1] = points
    out[:, -1] = scale
    return out


def top_labels(
    points: np.ndarray, labels: np.ndarray, bias: np.ndarray, k: int, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k labels with the highest ``points @ labels.T + bias`` exactly.

    Parameters
    ----------
    points : array, (N, d)
        Encoded points.
    labels : array, (L, d)
        Label vectors.
    bias : array, (L,)
        Label biases.
    k : int
        Number of labels per point, at most L.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    ids, scores : arrays, (N, k)
        Positions of labels and their scores, best first. Equal scores rank by smaller position.
    """
    vectors, scale = with_bias(labels, bias)
    return make_index(vectors, "ip", "exact").search(queries(points, scale), k, n_jobs=n_jobs)


class KnownLabels:
    """The labels that a network can score: positions in the network to label numbers, and back."""

    def __init__(self, label_ids: np.ndarray, n_labels: int) -> None:
        self.ids = label_ids
        self.position = np.full(n_labels, -1, np.int32)
        self.position[label_ids] = np.arange(len(label_ids), dtype=np.int32)

    def widened(self, n_labels: int) -> KnownLabels:
        """Return the same labels out of `n_labels` in all, of which the network cannot score the new ones."""
        return KnownLabels(self.ids, n_labels)

    def positions(self, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the positions of label numbers (N, S) in the network, -1 for labels that it cannot score."""
        out = np.empty(labels.shape, np.int32)
        spread(lambda block: kernels.look_up(self.position, labels, *block, out), len(labels), n_jobs)
        return out

    def numbers(self, positions: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the label numbers of positions (N, S); -1 stays -1."""
        out = np.empty(positions.shape, np.int32)
        spread(lambda block: kernels.look_up(self.ids, positions, *block, out), len(positions), n_jobs)
        return out


def best_labels(scorer: Any, points: Any, k: int, n_jobs: int | None) -> TopLabels:
    """Return the k best labels per point of a scorer without other members: its shortlist, scored exactly."""
    n = len(points.ptr) - 1
    encoded = scorer.encode(points, n_jobs)
    labels = scorer.shortlist(encoded, max(k, SHORTLIST), n_jobs)
    odds = scorer.log_odds(encoded, labels, n_jobs)
    best = TopLabels(np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.zeros(n, np.int32))
    spread(lambda block: kernels.best_listed(labels, odds, *block, best), n, n_jobs)
    return best


def score_listed(encoded: np.ndarray, vectors: np.ndarray, positions: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Return the inner products of encoded points (N, d) with the vectors at the listed positions, (N, S)."""
    out = np.empty(positions.shape, np.float32)
    spread(lambda block: kernels.score_lists(encoded, vectors, positions, *block, out), len(encoded), n_jobs)
    return out


def search_labels(index: Any, encoded: np.ndarray, k: int, n_jobs: int | None) -> np.ndarray:
    """Return the positions of the k vectors with the highest score per point, (N, k)."""
    k = min(k, len(index))
    if len(encoded) == 1:
        return index.search_one(encoded[0], k, trusted=index.metric == "ip")[0][None]
    return index.search(encoded, k, n_jobs=n_jobs)[0]
