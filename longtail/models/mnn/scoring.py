"""Prediction of MNN: labels ranked by cosine, by a vote of the nearest training points, or by both."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from longtail.errors import ModelError
from longtail.index import Index, array_rules, from_arrays
from longtail.index.ranking import as_matrix, top_k, weighted_vote
from longtail.kernels.encode import SparseRows
from longtail.neural.encoding import activate, sum_tokens
from longtail.params import SHARE, SHARPNESS, Integer, Number, OneOf
from longtail.sparse import Arrays, logistic, with_prefix, without_prefix
from longtail.store.facts import Record
from longtail.store.invariants import REMEDY, Rules, csr

WAYS = ("cosine", "knn", "both")
FACTS = Record(
    {
        "slope": Number(),
        "offset": Number(),
        "scoring": Record({"how": OneOf(*WAYS), "n_neighbors": Integer(1), "sharpness": SHARPNESS, "share": SHARE}),
        "labels": Record(),
    }
)
"""Constraints of the facts of a stored :class:`LabelScorer`."""
_FROM_COSINE = 100  # labels with the highest cosine that enter the mean with the vote


@dataclass(frozen=True)
class Scoring:
    """How labels are ranked.

    Parameters
    ----------
    how : {"cosine", "knn", "both"}
        By the cosine, by the vote of the nearest training points, or by a weighted mean of both.
    n_neighbors : int
        Number of points that vote.
    sharpness : float
        The weight of a vote is exp(sharpness · cosine).
    share : float
        Weight of the cosine in "both"; the vote has the rest.
    """

    how: str = "cosine"
    n_neighbors: int = 20
    sharpness: float = 10.0
    share: float = 0.5


class LabelScorer:
    """Label vectors and, if training points vote, these points and their labels.

    Parameters
    ----------
    labels : Index
        Index of label vectors by the cosine.
    slope, offset : float
        The probability of a label is the logistic function of ``slope * cosine + offset``.
    points : Index, optional
        Index of training points by the cosine.
    votes : csr_array, (points, labels), optional
        Labels of these points.
    scoring : Scoring, optional
        How labels are ranked; by the cosine by default.
    """

    def __init__(
        self,
        labels: Index,
        slope: float,
        offset: float,
        points: Index | None = None,
        votes: csr_array | None = None,
        scoring: Scoring | None = None,
    ) -> None:
        self.labels, self.slope, self.offset = labels, slope, offset
        self.points, self.votes = points, votes
        self.scoring = Scoring() if scoring is None else scoring

    def rank(self, h: np.ndarray, k: int, n_jobs: int | None = None) -> csr_array:
        """Return the k best labels of encoded points (n, d) with scores from 0 to 1, best first."""
        scoring = self.scoring
        near = None if scoring.how == "cosine" else self.nearest(h, scoring.n_neighbors, n_jobs)
        return self.rank_by(scoring, h, k, near, n_jobs)

    def nearest(self, h: np.ndarray, n: int, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the n nearest training points of each encoded point, and their cosines."""
        assert self.points is not None
        return self.points.search(h, min(n, len(self.points)), n_jobs=n_jobs)

    def rank_by(
        self,
        scoring: Scoring,
        h: np.ndarray,
        k: int,
        near: tuple[np.ndarray, np.ndarray] | None,
        n_jobs: int | None,
    ) -> csr_array:
        """Rank labels by the given scoring; `near` is what :meth:`nearest` returned, None for the cosine."""
        n_labels = len(self.labels)
        if near is None:
            return self._by_cosine(h, k, n_jobs)
        assert self.votes is not None
        ids, cosines = (part[:, : scoring.n_neighbors] for part in near)
        weights = np.exp(np.float32(scoring.sharpness) * (cosines - 1))
        if scoring.how == "knn":
            return weighted_vote(ids, weights, self.votes, k)
        share = np.float32(scoring.share)
        by_cosine = self._by_cosine(h, min(n_labels, max(k, _FROM_COSINE)), n_jobs)
        return top_k(csr_array(share * by_cosine + (1 - share) * weighted_vote(ids, weights, self.votes, n_labels)), k)

    def _by_cosine(self, h: np.ndarray, k: int, n_jobs: int | None) -> csr_array:
        ids, cosines = self.labels.search(h, min(k, len(self.labels)), n_jobs=n_jobs)
        probabilities = logistic(self.slope * cosines + self.offset)
        return as_matrix(ids, probabilities.astype(np.float32), len(self.labels))

    def join(self, before: LabelScorer, places: np.ndarray) -> None:
        """Add the voting points of an earlier scorer; `places` are the positions of its labels in this one."""
        if before.points is None or before.votes is None or self.points is None or self.votes is None:
            self.points = self.votes = None
            return
        old = before.votes
        wider = csr_array((old.data, places[old.indices], old.indptr), shape=(old.shape[0], len(self.labels)))
        self.points = before.points.extended(self.points.vectors)
        self.votes = csr_array(sparse.vstack([wider, self.votes], format="csr"))

    # State -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return facts (JSON values) and arrays to store."""
        facts: dict[str, Any] = {"slope": self.slope, "offset": self.offset, "scoring": asdict(self.scoring)}
        facts["labels"], own = self.labels.to_arrays()
        arrays = with_prefix("labels_", own)
        if self.points is not None and self.votes is not None:
            facts["points"], own = self.points.to_arrays()
            arrays |= with_prefix("points_", own)
            arrays |= {"votes_indptr": self.votes.indptr, "votes_indices": self.votes.indices}
        return facts, arrays

    @staticmethod
    def array_rules(facts: dict[str, Any], n_labels: str, width: str) -> Rules:
        """Declare the rules that the arrays of :meth:`to_arrays` must meet."""
        rules = array_rules(facts["labels"], n_labels, width).prefixed("labels_")
        if "points" in facts:
            rules |= array_rules(facts["points"], "points", width).prefixed("points_")
            rules |= csr("votes", "points", n_labels, data=False)
        elif facts["scoring"]["how"] != "cosine":
            raise ModelError(f"no points are stored that could vote. {REMEDY}")
        return rules

    @classmethod
    def from_arrays(cls, facts: dict[str, Any], arrays: Arrays) -> Self:
        """Restore what :meth:`to_arrays` returned. Arrays may be memory-mapped; other arrays are ignored."""
        labels = from_arrays(facts["labels"], without_prefix("labels_", arrays))
        points = votes = None
        if "points" in facts:
            points = from_arrays(facts["points"], without_prefix("points_", arrays))
            ones = np.ones(len(arrays["votes_indices"]), np.float32)
            shape = len(points), len(labels)
            votes = csr_array((ones, arrays["votes_indices"], arrays["votes_indptr"]), shape=shape)
        return cls(labels, facts["slope"], facts["offset"], points, votes, Scoring(**facts["scoring"]))


def encode_features(
    ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, table: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return f_x of points (eq. 7) from their CSR arrays, scaled to length 1, (N, d); 0 if no feature is known."""
    return activate(sum_tokens(SparseRows(ptr, idx, val), table, None, n_jobs), relu=False, normalize=True)[0]
