"""VectorKNN: the labels of the nearest training points, by dense vectors such as sentence embeddings.

The features of a point are one dense vector. Points are compared by the cosine. A neighbour votes for its labels with
the weight exp(sharpness × cosine), and the score of a label is its share of the votes. The search is exact up to about
4 million numbers, and partitioned beyond (:mod:`longtail.index`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.combine.candidates import CandidateList
from longtail.index import Index, array_rules, from_arrays, make_index
from longtail.index.dense_rows import dense_rows, nearest_rows
from longtail.kernels import dense_knn as kernels
from longtail.kernels import pool
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import threads_for
from longtail.kernels.topk import TopLabels
from longtail.models.base import Arrays, Ranker
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.training_part import TrainingPart
from longtail.params import SHARPNESS, Integer, Jobs
from longtail.sparse import bounded_scores, from_top_k, frozen, resized, with_prefix, without_prefix
from longtail.store import Stored
from longtail.store.facts import Record
from longtail.store.invariants import Rules, csr


class VectorKNN(Ranker):
    """Votes of the nearest training points by dense vectors.

    Parameters
    ----------
    n_neighbors : int
        Number of training points that vote. More of them suggest more labels and blur rare ones.
    sharpness : float
        How much more weight the nearest points have: the weight of a point is exp(sharpness × cosine). With 0 all
        neighbours have the same weight.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> from longtail import VectorKNN
    >>> VectorKNN(n_neighbors=10)
    VectorKNN(n_neighbors=10)
    """

    kind: ClassVar[str] = "vectorknn"
    takes_vectors: ClassVar[bool] = True
    _constraints: ClassVar = {"n_neighbors": Integer(1), "sharpness": SHARPNESS, "n_jobs": Jobs()}
    _facts: ClassVar = {"index": Record()}
    _less_memory: ClassVar[str] = "Use fewer points or shorter vectors. Sparse features are for knn."
    index_: Index
    labels_: csr_array

    def __init__(self, n_neighbors: int = 32, sharpness: float = 10.0, n_jobs: int | None = None) -> None:
        self.n_neighbors = n_neighbors
        self.sharpness = sharpness
        self.n_jobs = n_jobs

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: the vectors, their codes in the index, and temporary arrays to build it."""
        return 6.0 * X.shape[0] * X.shape[1] + 8.0 * Y.nnz

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Any) -> None:
        vectors = dense_rows(SparseRows.of(X), X.shape[1])
        self.index_ = make_index(vectors, "cosine", recall_k=self.n_neighbors, n_jobs=self.n_jobs)
        self.labels_ = Y

    @learns_on_a_copy
    def partial_fit(self, X: Any, Y: Any) -> Self:
        """Add points.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            New points, with the features of the first ones.
        Y : sparse or dense matrix, (N, L')
            Their labels. Columns beyond those known are new labels; there may be none, but never fewer.
        """
        if not hasattr(self, "n_labels_"):
            return self.fit(X, Y)
        X, Y = self._check_further_points(X, Y)
        self.index_ = self.index_.extended(dense_rows(SparseRows.of(X), X.shape[1]))
        old = resized(self.labels_, n_columns=Y.shape[1])
        self.labels_, self.n_labels_ = csr_array(vstack([old, Y], format="csr")), Y.shape[1]
        return self

    def _fit_rest(self, part: TrainingPart) -> None:
        self.partial_fit(part.X[part.rest], part.Y[part.rest])

    def _rest_share(self, n_points: int) -> float:
        return 0.0

    # Prediction --------------------------------------------------------------------------------------------------

    def _vote(self, points: SparseRows, k: int, n_jobs: int | None) -> tuple[TopLabels, np.ndarray]:
        """Return the labels with the largest shares of the votes, and the cosine of each point's nearest neighbour."""
        near = nearest_rows(self.index_, points, self.n_neighbors, n_jobs)
        top = TopLabels.empty(len(near.ids), k)
        own = self.labels_.indptr, self.labels_.indices, np.empty((self.n_labels_, 0), np.float32)
        voters = kernels.LabelledPoints(*map(frozen, own))
        rule = kernels.VoteRule(self.n_neighbors, np.float32(self.sharpness), np.float32(0))
        rows = frozen(np.empty((len(near.ids), 0), np.float32))
        pool.spread(lambda block: kernels.vote_nearest(near, rows, voters, rule, *block, top), len(near.ids), n_jobs)
        return top, np.clip(near.nearness[:, 0], 0, 1)

    def _candidates(self, points: SparseRows, k: int, n_jobs: int | None) -> CandidateList:
        top, nearest = self._vote(points, min(k, self.n_labels_), n_jobs)
        return CandidateList.of_top_k(top.labels, bounded_scores(top.scores), top.counts, nearest)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        top, _ = self._vote(SparseRows.of(X), k, threads_for(X.shape[0], self.n_jobs))
        return from_top_k(top.labels, bounded_scores(top.scores), top.counts, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        top, _ = self._vote(SparseRows.single(indices, values), k, 1)
        n = top.counts[0]
        return top.labels[0, :n], bounded_scores(top.scores[0, :n])

    # Storing -----------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        index, arrays = self.index_.to_arrays()
        arrays = with_prefix("index_", arrays)
        arrays |= {"labels_indptr": self.labels_.indptr, "labels_indices": self.labels_.indices}
        return {"index": index}, arrays, {}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        rules = array_rules(stored.meta["index"], "points", "D").prefixed("index_")
        return rules | csr("labels", "points", "L", data=False)

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.index_ = from_arrays(facts["index"], without_prefix("index_", arrays))
        indices, indptr = arrays["labels_indices"], arrays["labels_indptr"]
        shape = len(self.index_), self.n_labels_
        self.labels_ = csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=shape)
