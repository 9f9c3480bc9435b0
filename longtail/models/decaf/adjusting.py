"""Correct trained networks on held-out points: shrink rare tokens, recalibrate scores.

A token that one training point has is stepped as far as any other, towards the labels of that point, the frequent ones
included, of which one point says little. On some data that is the cause of most wrong first labels, on other data rare
tokens are the best that there is; held-out points tell one from the other. Their scores also show that a network is
overconfident: a re-ranking by label frequency cannot move labels whose scores are all nearly 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.logistic import fit_logistic
from longtail.kernels.combine import TopLabels
from longtail.kernels.encode import SparseRows
from longtail.metrics import evaluate
from longtail.models.decaf.trained import DecafScorer, TextEncoder, TrainedNetwork
from longtail.neural.search import SHORTLIST, best_labels
from longtail.sparse import from_top_k

_TRIED = (0.0, 1.0, 3.0)  # values of α
_LEAST_GAIN = 0.2  # of nDCG@5, for which rare tokens are trusted less
_OF_TEXT = 0.5  # points that a token of label texts alone counts as
_LEARNT_FROM = 50  # best labels per held-out point that slope and offset are learnt from


@dataclass(frozen=True)
class Adjustment:
    """What is changed in trained networks.

    Attributes
    ----------
    rare : float
        α: the vector of a token that n training points have is multiplied by n / (n + α) where points are encoded.
    slope, offset : float
        What turns the log odds of the networks into those of held-out points.
    """

    rare: float = 0.0
    slope: float = 1.0
    offset: float = 0.0

    def tokens(self, vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return token vectors (D, d) for points; `counts` (D,) as from :func:`token_counts`."""
        if not self.rare:
            return vectors
        return vectors * (counts / (counts + np.float32(self.rare)))[:, None]

    def classifiers(self, vectors: np.ndarray) -> np.ndarray:
        """Return classifiers (n, d + 1), whose last numbers are biases."""
        scaled = vectors * np.float32(self.slope)
        scaled[:, -1] += np.float32(self.offset)
        return scaled

    def text(self, encoder: TextEncoder | None) -> TextEncoder | None:
        """Return what makes classifiers of label text alone."""
        if encoder is None:
            return None
        slope, offset = np.float32(self.slope), np.float32(self.offset)
        return replace(encoder, weight=encoder.weight * slope, bias=encoder.bias * slope + offset)


def token_counts(X: csr_array, rows: np.ndarray, text: csr_array | None) -> np.ndarray:
    """Return how many of these points have each token, (D,); tokens of label texts alone count as half a point."""
    counts = np.bincount(X[rows].indices, minlength=X.shape[1]).astype(np.float32)
    if text is not None:
        counts[text.indices] = np.maximum(counts[text.indices], _OF_TEXT)
    return counts


def learn_adjustment(
    networks: list[TrainedNetwork],
    counts: np.ndarray,
    X: csr_array,
    Y: csr_array,
    n_jobs: int | None,
    label_keys: np.ndarray | None = None,
) -> Adjustment:
    """Choose α by nDCG@5, then slope and offset by the logistic loss.

    Parameters
    ----------
    networks : list of TrainedNetwork
        As they were trained.
    counts : array, (D,)
        From :func:`token_counts`.
    X, Y : csr_array
        Held-out points and their labels, those of the networks.
    n_jobs : int, optional
        Threads.
    label_keys : array, (n,), optional
        As for :class:`longtail.models.decaf.trained.DecafScorer`.
    """
    n_labels, points = Y.shape[1], SparseRows.of(X)
    scorer = DecafScorer(networks, np.arange(n_labels, dtype=np.int32), n_labels, label_keys=label_keys)
    listed = scorer.shortlist(scorer.encode(points, n_jobs), min(SHORTLIST, n_labels), n_jobs)
    k = min(_LEARNT_FROM, n_labels)
    best: tuple[float, float, TopLabels] | None = None
    for rare in _TRIED:
        changed = Adjustment(rare)
        encoders = [replace(n.encoder, tokens=changed.tokens(n.encoder.tokens, counts)) for n in networks]
        tried = [replace(n, encoder=encoder) for n, encoder in zip(networks, encoders, strict=True)]
        found = best_labels(_Listed(tried, listed, n_labels), points, k, n_jobs)
        ranked = from_top_k(found.labels, found.scores, found.counts, n_labels)
        value = evaluate(Y, ranked, ks=(5,))["nDCG@5"]
        if best is None or value > best[0] + _LEAST_GAIN:
            best = value, rare, found
    assert best is not None
    _, rare, found = best
    listed_pairs = np.arange(k) < found.counts[:, None]
    rows, labels = np.nonzero(listed_pairs)[0], found.labels[listed_pairs]
    right = np.asarray(Y[rows, labels]).ravel() > 0
    chances = found.scores[listed_pairs].astype(np.float64)
    odds = np.log(chances / (1 - chances))
    slope, offset = fit_logistic(np.stack([odds, np.ones_like(odds)], axis=1), right, np.array([1.0, 0.0]))
    return Adjustment(rare, float(max(slope, 0.1)), float(offset))


class _Listed(DecafScorer):
    """Networks that score labels listed before."""

    def __init__(self, networks: list[TrainedNetwork], listed: np.ndarray, n_labels: int) -> None:
        super().__init__(networks, np.arange(n_labels, dtype=np.int32), n_labels)
        self.listed = listed

    def shortlist(self, encoded: Any, width: int, n_jobs: int | None) -> np.ndarray:
        """Return the lists."""
        return self.listed
