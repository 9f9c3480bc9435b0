"""Correct trained networks on held-out points: shrink the vectors of rare tokens, and calibrate scores.

A token of a single training point takes as large steps as any other token, towards all labels of that point. A single
point is weak evidence, in particular for frequent labels. On some data this causes most of the wrong first labels, on
other data rare tokens are the best features. Held-out points show which is the case. They also show that networks are
overconfident: if all scores are nearly 1, re-ranking by label frequency has no effect.
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
_LEAST_GAIN = 0.2  # gain of nDCG@5 that a larger α needs
_COUNT_IN_TEXT = 0.5  # count of a token that occurs in label texts only
_BEST_LABELS = 50  # labels per held-out point, the best ones, from which slope and offset are learnt


@dataclass(frozen=True)
class Adjustment:
    """Corrections of trained networks.

    Attributes
    ----------
    rare : float
        α. When points are encoded, the vector of a token of n training points is multiplied by n / (n + α).
    slope, offset : float
        Linear map from the log odds of the networks to calibrated log odds.
    """

    rare: float = 0.0
    slope: float = 1.0
    offset: float = 0.0

    def tokens(self, vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return corrected token vectors (D, d); `counts` (D,) is from :func:`token_counts`."""
        if not self.rare:
            return vectors
        return vectors * (counts / (counts + np.float32(self.rare)))[:, None]

    def classifiers(self, vectors: np.ndarray) -> np.ndarray:
        """Return corrected classifiers (n, d + 1), whose last column has the biases."""
        scaled = vectors * np.float32(self.slope)
        scaled[:, -1] += np.float32(self.offset)
        return scaled

    def text(self, encoder: TextEncoder | None) -> TextEncoder | None:
        """Return the corrected encoder of label text, None for None."""
        if encoder is None:
            return None
        slope, offset = np.float32(self.slope), np.float32(self.offset)
        return replace(encoder, weight=encoder.weight * slope, bias=encoder.bias * slope + offset)


def token_counts(X: csr_array, rows: np.ndarray, text: csr_array | None) -> np.ndarray:
    """Return the number of these points with each token, (D,); tokens of label texts only count as half a point."""
    counts = np.bincount(X[rows].indices, minlength=X.shape[1]).astype(np.float32)
    if text is not None:
        counts[text.indices] = np.maximum(counts[text.indices], _COUNT_IN_TEXT)
    return counts


def learn_adjustment(
    networks: list[TrainedNetwork],
    counts: np.ndarray,
    X: csr_array,
    Y: csr_array,
    n_jobs: int | None,
    label_keys: np.ndarray | None = None,
) -> Adjustment:
    """Choose α by nDCG@5 on held-out points, then slope and offset by the logistic loss.

    Parameters
    ----------
    networks : list of TrainedNetwork
        The trained networks, without corrections.
    counts : array, (D,)
        Points per token, from :func:`token_counts`.
    X, Y : csr_array
        Held-out points and their labels, with one column per label of the networks.
    n_jobs : int, optional
        Number of threads; all cores by default.
    label_keys : array, (n,), optional
        As for :class:`longtail.models.decaf.trained.DecafScorer`.
    """
    n_labels, points = Y.shape[1], SparseRows.of(X)
    scorer = DecafScorer(networks, np.arange(n_labels, dtype=np.int32), n_labels, label_keys=label_keys)
    shortlist = scorer.shortlist(scorer.encode(points, n_jobs), min(SHORTLIST, n_labels), n_jobs)
    k = min(_BEST_LABELS, n_labels)
    best: tuple[float, float, TopLabels] | None = None
    for rare in _TRIED:
        tried = Adjustment(rare)
        encoders = [replace(n.encoder, tokens=tried.tokens(n.encoder.tokens, counts)) for n in networks]
        adjusted = [replace(n, encoder=encoder) for n, encoder in zip(networks, encoders, strict=True)]
        top = best_labels(_FixedShortlist(adjusted, shortlist, n_labels), points, k, n_jobs)
        ranked = from_top_k(top.labels, top.scores, top.counts, n_labels)
        quality = evaluate(Y, ranked, ks=(5,))["nDCG@5"]
        if best is None or quality > best[0] + _LEAST_GAIN:
            best = quality, rare, top
    assert best is not None
    _, rare, top = best
    filled = np.arange(k) < top.counts[:, None]
    rows, labels = np.nonzero(filled)[0], top.labels[filled]
    right = np.asarray(Y[rows, labels]).ravel() > 0
    probabilities = top.scores[filled].astype(np.float64)
    odds = np.log(probabilities / (1 - probabilities))
    slope, offset = fit_logistic(np.stack([odds, np.ones_like(odds)], axis=1), right, np.array([1.0, 0.0]))
    return Adjustment(rare, float(max(slope, 0.1)), float(offset))


class _FixedShortlist(DecafScorer):
    """A scorer with a given shortlist per point, so that different corrections are compared on the same labels."""

    def __init__(self, networks: list[TrainedNetwork], fixed: np.ndarray, n_labels: int) -> None:
        super().__init__(networks, np.arange(n_labels, dtype=np.int32), n_labels)
        self.fixed = fixed

    def shortlist(self, encoded: Any, width: int, n_jobs: int | None) -> np.ndarray:
        """Return the given shortlists."""
        return self.fixed
