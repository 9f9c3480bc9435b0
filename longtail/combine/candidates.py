"""The two kinds of members of a combination: listers return candidate lists, scorers score any (point, label) pair."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.encode import SparseRows


class CandidateList(NamedTuple):
    """Labels that one member suggests for a batch of points."""

    ptr: np.ndarray  # (N + 1,) where the labels of each point begin
    labels: np.ndarray  # int32
    scores: np.ndarray  # float32 in (0, 1)
    certainty: np.ndarray  # (N,) float32, how reliable the member's list of each point is, 0 to 1

    @classmethod
    def of_scores(cls, scores: csr_array) -> Self:
        """Build the list from scores that ``predict`` returned; the certainty is a point's highest score."""
        certainty = np.zeros(scores.shape[0], np.float32)
        filled = np.diff(scores.indptr) > 0
        certainty[filled] = scores.data[scores.indptr[:-1][filled]]
        return cls(scores.indptr, scores.indices, scores.data, certainty)

    @classmethod
    def of_top_k(cls, labels: np.ndarray, scores: np.ndarray, counts: np.ndarray, certainty: np.ndarray) -> Self:
        """Build the list from labels and scores (N, k), of which row i has ``counts[i]``."""
        if len(counts) == 1:
            n = counts[0]
            return cls(np.array([0, n], np.int32), labels[0, :n], scores[0, :n], certainty)
        ptr = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=ptr[1:])
        filled = np.arange(labels.shape[1]) < counts[:, None]
        return cls(ptr, labels[filled], scores[filled], certainty)

    @classmethod
    def of_one(cls, labels: np.ndarray, scores: np.ndarray) -> Self:
        """Build the list of one point from its labels and their scores, best first."""
        certainty = scores[:1] if len(scores) else np.zeros(1, np.float32)
        return cls(np.array([0, len(labels)], np.int32), labels, scores, certainty)


class PairScorer(Protocol):
    """A member that scores any pair of point and label, such as a network."""

    labels: Any  # the labels that it can score: longtail.neural.search.KnownLabels

    def encode(self, points: SparseRows, n_jobs: int | None) -> Any:
        """Encode points once, for all methods below."""

    def shortlist(self, encoded: Any, width: int, n_jobs: int | None) -> np.ndarray:
        """Return candidate labels, (N, about `width`), -1 for none."""

    def log_odds(self, encoded: Any, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the log odds of listed labels (N, S), float32. Where a label is -1 the value is arbitrary."""

    def text_log_odds(self, encoded: Any, rows: np.ndarray, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the log odds of pairs (row, label) by the label's text alone, as if it had no training points."""
