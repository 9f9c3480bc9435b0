"""Prediction of DXML: the nearest training points vote for their labels (§3.4 and Alg. 2).

The paper finds k neighbours in the space of label vectors and averages their labels. Here near neighbours have more
weight. Two further similarities are used, which the space alone does not show: between the features of point and
neighbour, and between the point and the vector of a label. The weight of each, and the number of neighbours, are chosen
on held-out points (:mod:`longtail.models.dxml.training`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.index import Index, array_rules, from_arrays
from longtail.kernels import dense_knn as kernels
from longtail.kernels import pool
from longtail.kernels.encode import SparseRows
from longtail.kernels.topk import TopLabels
from longtail.params import SHARPNESS, Constraint, Integer
from longtail.sparse import (
    Arrays,
    bounded_scores,
    csr_arrays,
    csr_from_arrays,
    from_top_k,
    frozen,
    resized,
    unit_rows,
    with_prefix,
    without_prefix,
)
from longtail.store.facts import ROWS, Record
from longtail.store.invariants import Rules, csr, floats

FACTS: dict[str, Constraint] = {
    "index": Record(),
    "vote": Record(
        {
            "n_neighbors": Integer(1),
            "sharpness": SHARPNESS,
            "feature_weight": SHARPNESS,
            "label_weight": SHARPNESS,
        }
    ),
    "tried": ROWS,
}
"""Constraints of the facts of stored :class:`VotingPoints`."""


@dataclass(frozen=True)
class Vote:
    """How neighbours vote.

    Parameters
    ----------
    n_neighbors : int
        Number of neighbours that vote.
    sharpness : float
        A neighbour has the weight exp(sharpness * nearness). With 0 all have the same weight, as in the paper.
    feature_weight : float
        Nearness is the cosine in the space of label vectors plus `feature_weight` times the cosine of the features. If
        it is above 0, twice as many neighbours are searched, and the nearest of them by this sum vote.
    label_weight : float
        The share of the vote of a label is multiplied by exp(label_weight * cosine of its vector and the point).
    """

    n_neighbors: int = 30
    sharpness: float = 12.0
    feature_weight: float = 1.0
    label_weight: float = 2.0

    @property
    def n_searched(self) -> int:
        """Number of neighbours to search for."""
        return self.n_neighbors * (2 if self.feature_weight > 0 else 1)


@dataclass
class VotingPoints:
    """An index of training points in the space of label vectors, with their labels and the rule of the vote."""

    index: Index  # of vectors of length 1
    labels: csr_array  # (points, L)
    vectors: np.ndarray  # (L, d) label vectors
    vote: Vote
    features: csr_array | None = None  # (points, D), rows of length 1; None if the vote does not use them
    tried: list[dict[str, float]] = field(default_factory=list)  # the rules that were compared, with their nDCG

    def extended(self, points: np.ndarray, labels: csr_array, features: csr_array) -> VotingPoints:
        """Return the present points and further ones, which may have new labels; this object does not change."""
        old, own = resized(self.labels, n_columns=labels.shape[1]), self.features
        if own is not None:
            own = csr_array(vstack([own, unit_rows(features)], format="csr"))
        labels = csr_array(vstack([old, labels], format="csr"))
        return replace(self, index=self.index.extended(points), labels=labels, features=own)

    def rank(self, points: np.ndarray, features: csr_array, k: int, n_jobs: int | None = None) -> csr_array:
        """Return the k best labels of each point and their scores, as a matrix (N, L)."""
        near = kernels.Nearest(*self.index.search(points, self._n_searched(), n_jobs=n_jobs))
        return self.count_votes(self.vote, points, features, near, k, n_jobs)

    def rank_one(
        self, point: np.ndarray, indices: np.ndarray, values: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels of one point and their scores, computed on the calling thread."""
        ids, nearness = self.index.search_one(point, self._n_searched())
        x = SparseRows.single(indices, values)
        top = self._count(self.vote, point[None], x, kernels.Nearest(ids[None], nearness[None]), k, 1)
        n = top.counts[0]
        return top.labels[0, :n], bounded_scores(top.scores[0, :n])

    def count_votes(
        self,
        vote: Vote,
        points: np.ndarray,
        features: csr_array,
        near: kernels.Nearest,
        k: int,
        n_jobs: int | None,
    ) -> csr_array:
        """Count the votes of the neighbours `near` by the rule `vote`; return the k best labels as a matrix (N, L)."""
        x = SparseRows.of(features)
        top = self._count(vote, points, x, near, k, n_jobs)
        return from_top_k(top.labels, bounded_scores(top.scores), top.counts, self.labels.shape[1])

    def _n_searched(self) -> int:
        return min(self.vote.n_searched, len(self.index))

    def _count(
        self, vote: Vote, points: np.ndarray, x: SparseRows, near: kernels.Nearest, k: int, n_jobs: int | None
    ) -> TopLabels:
        n = len(points)
        near = kernels.Nearest(*(np.array(part[:, : vote.n_searched]) for part in near))
        top = TopLabels.empty(n, k)
        x, points = x.frozen(), frozen(points)
        voters = kernels.LabelledPoints(*map(frozen, (self.labels.indptr, self.labels.indices, self.vectors)))
        rule = kernels.VoteRule(vote.n_neighbors, np.float32(vote.sharpness), np.float32(vote.label_weight))
        own, known = self.features, None
        if own is not None and vote.feature_weight > 0:
            known = SparseRows.of(own).frozen()

        def work(block: tuple[int, int]) -> None:
            if known is not None and own is not None:
                kernels.add_feature_cosines(near, x, known, own.shape[1], vote.feature_weight, *block)
            kernels.vote_nearest(near, points, voters, rule, *block, top)

        pool.spread(work, n, n_jobs)
        return top

    # State -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return facts (JSON values) and arrays to store."""
        index, own = self.index.to_arrays()
        arrays = with_prefix("index_", own)
        arrays |= {"labels_indptr": self.labels.indptr, "labels_indices": self.labels.indices}
        arrays["label_vectors"] = self.vectors
        if self.features is not None:
            arrays |= csr_arrays("features", self.features)
        return {"index": index, "vote": asdict(self.vote), "tried": self.tried}, arrays

    @staticmethod
    def array_rules(facts: dict[str, Any], width: str, names: Container[str]) -> Rules:
        """Declare the rules that the arrays of :meth:`to_arrays` must meet."""
        rules = array_rules(facts["index"], "points", width).prefixed("index_")
        rules |= csr("labels", "points", "L", data=False) | Rules({"label_vectors": floats(f"L {width}")})
        return rules | csr("features", "points", "D", unit=True) if "features_data" in names else rules

    @classmethod
    def from_arrays(cls, facts: dict[str, Any], arrays: Arrays, n_labels: int, n_features: int) -> VotingPoints:
        """Restore what :meth:`to_arrays` returned; arrays may be memory-mapped."""
        index = from_arrays(facts["index"], without_prefix("index_", arrays))
        indices, indptr = arrays["labels_indices"], arrays["labels_indptr"]
        labels = csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(index), n_labels))
        features = csr_from_arrays("features", arrays, (len(index), n_features))
        return cls(index, labels, arrays["label_vectors"], Vote(**facts["vote"]), features, facts["tried"])
