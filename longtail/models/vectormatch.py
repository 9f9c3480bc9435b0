"""VectorMatch: the labels whose text is nearest to the point, by dense vectors such as sentence embeddings.

The features of a point, and of the text of a label, are one dense vector each. The score of a label is the cosine of
the two. It needs label text and no training points. Labels without training points are suggested as well, and labels
can be added at any time.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.candidates import CandidateList
from longtail.errors import DataError
from longtail.index import Index, array_rules, from_arrays, make_index
from longtail.index.dense_rows import dense_rows, nearest_rows
from longtail.kernels.dense_knn import Nearest
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import threads_for
from longtail.models.base import Arrays, Ranker, check_features
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.training_part import TrainingPart
from longtail.params import Integer, Jobs
from longtail.sparse import bounded_scores, from_top_k, with_prefix, without_prefix
from longtail.store import Stored
from longtail.store.facts import Record
from longtail.store.invariants import Rules


class VectorMatch(Ranker):
    """Labels by the cosine of the vectors of their text and of the point.

    Parameters
    ----------
    n_matches : int
        Number of labels suggested per point, at most. More find more correct labels and are slower.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> from longtail import VectorMatch
    >>> VectorMatch(n_matches=20)
    VectorMatch(n_matches=20)
    """

    kind: ClassVar[str] = "vectormatch"
    takes_vectors: ClassVar[bool] = True
    _constraints: ClassVar = {"n_matches": Integer(1), "n_jobs": Jobs()}
    _facts: ClassVar = {"index": Record()}
    _less_memory: ClassVar[str] = "Use fewer labels or shorter vectors. Sparse features are for textmatch."
    index_: Index

    def __init__(self, n_matches: int = 50, n_jobs: int | None = None) -> None:
        self.n_matches = n_matches
        self.n_jobs = n_jobs

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: label vectors, their codes in the index, and temporary arrays to build it."""
        return 5.2 * Y.shape[1] * X.shape[1] + 1.6e7

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Any) -> None:
        if Z is None:
            raise DataError(
                "VectorMatch compares points with label text, and no label has text",
                remedy="Give label_features, or data whose labels have text",
            )
        vectors = dense_rows(SparseRows.of(Z), Z.shape[1])
        self.index_ = make_index(vectors, "cosine", recall_k=self.n_matches, n_jobs=self.n_jobs)

    @learns_on_a_copy
    def add_labels(self, label_features: Any) -> Self:
        """Append labels that have text only; they are suggested from now on.

        Parameters
        ----------
        label_features : sparse or dense matrix, (n, D)
            Vectors of the new labels.
        """
        self._check_ready()
        Z = check_features(label_features, self.n_features_in_, "label_features")
        self.index_ = self.index_.extended(dense_rows(SparseRows.of(Z), Z.shape[1]))
        self.n_labels_ += Z.shape[0]
        return self

    def _fit_rest(self, part: TrainingPart) -> None:
        """Do nothing: nothing is learnt from points."""

    def _rest_share(self, n_points: int) -> float:
        return 0.0

    # Prediction --------------------------------------------------------------------------------------------------

    def _match(self, points: SparseRows, k: int, n_jobs: int | None) -> tuple[Nearest, np.ndarray]:
        """Return the labels with the largest cosines, and their number per point."""
        near = nearest_rows(self.index_, points, min(k, self.n_matches, self.n_labels_), n_jobs)
        return near, np.count_nonzero(near.ids >= 0, axis=1)

    def _candidates(self, points: SparseRows, k: int, n_jobs: int | None) -> CandidateList:
        near, counts = self._match(points, k, n_jobs)
        certainty = np.clip(near.nearness[:, 0], 0, 1)
        return CandidateList.of_top_k(near.ids, bounded_scores(near.nearness), counts, certainty)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        near, counts = self._match(SparseRows.of(X), k, threads_for(X.shape[0], self.n_jobs))
        return from_top_k(near.ids, bounded_scores(near.nearness), counts, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        near, counts = self._match(SparseRows.single(indices, values), k, 1)
        return near.ids[0, : counts[0]], bounded_scores(near.nearness[0, : counts[0]])

    # Storing -----------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        index, arrays = self.index_.to_arrays()
        return {"index": index}, with_prefix("index_", arrays), {}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return array_rules(stored.meta["index"], "L", "D").prefixed("index_")

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.index_ = from_arrays(facts["index"], without_prefix("index_", arrays))
