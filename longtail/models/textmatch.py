"""TextMatch: the labels whose text is most similar to the point. It needs label text and no training points.

The text of a label and a point are compared by the cosine of their heaviest features. Labels without training points
are suggested as well, and labels can be added at any time.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, eye_array

from longtail.combine.candidates import CandidateList
from longtail.errors import DataError
from longtail.index.sparse_knn import SparseKNN
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import threads_for
from longtail.models.base import Arrays, Ranker, check_features
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.training_part import TrainingPart
from longtail.params import Integer, Jobs, optional
from longtail.sparse import bounded_scores, from_top_k
from longtail.store import Stored
from longtail.store.invariants import Rules


class TextMatch(Ranker):
    """Labels by the similarity of their text to the point.

    Parameters
    ----------
    n_matches : int
        Number of labels suggested per point, at most. More find more correct labels and are slower.
    n_compared : int, optional
        Labels that a point is compared with, about: they are met by way of the features that they share with it, the
        rarest ones first. Fewer are faster. By default a quarter of the labels, at least 16,384 and at most 32,768.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> from longtail import TextMatch
    >>> TextMatch(n_matches=20)
    TextMatch(n_matches=20)
    """

    kind: ClassVar[str] = "textmatch"
    _data_copies: ClassVar[float] = 0.4
    _constraints: ClassVar = {"n_matches": Integer(1), "n_compared": optional(Integer(1)), "n_jobs": Jobs()}
    texts_: SparseKNN

    def __init__(self, n_matches: int = 50, n_compared: int | None = None, n_jobs: int | None = None) -> None:
        self.n_matches = n_matches
        self.n_compared = n_compared
        self.n_jobs = n_jobs

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Any) -> None:
        if Z is None:
            raise DataError(
                "TextMatch compares points with label text, and no label has text that shares a word with the points",
                remedy="Give label_features, or data whose labels have text",
            )
        self.texts_ = SparseKNN.of(Z, csr_array(eye_array(Z.shape[0], format="csr")))

    @learns_on_a_copy
    def add_labels(self, label_features: Any) -> Self:
        """Append labels that have text only; they are suggested from now on.

        Parameters
        ----------
        label_features : sparse or dense matrix, (n, D)
            Text of the new labels, in the feature space of the points.
        """
        self._check_ready()
        Z = check_features(label_features, self.n_features_in_, "label_features")
        n_labels = self.n_labels_ + Z.shape[0]
        own = csr_array(eye_array(Z.shape[0], n_labels, k=self.n_labels_, format="csr"))
        self.texts_, self.n_labels_ = SparseKNN.of(Z, own, before=self.texts_), n_labels
        return self

    def _fit_rest(self, part: TrainingPart) -> None:
        """Do nothing: nothing is learnt from points."""

    def _rest_share(self, n_points: int) -> float:
        return 0.0

    # Prediction --------------------------------------------------------------------------------------------------

    def _candidates(self, points: SparseRows, k: int, n_jobs: int | None) -> CandidateList:
        votes = self._vote(points, k, n_jobs, in_order=False)
        return CandidateList.of_top_k(votes.labels, votes.scores, votes.counts, votes.top)

    def _vote(self, points: SparseRows, k: int, n_jobs: int | None, in_order: bool = True) -> Any:
        k = min(k, self.n_matches, self.n_labels_)
        return self.texts_.vote(points, k, k, n_jobs, shared=False, in_order=in_order, n_compared=self.n_compared)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        votes = self._vote(SparseRows.of(X), k, threads_for(X.shape[0], self.n_jobs))
        return from_top_k(votes.labels, bounded_scores(votes.scores), votes.counts, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        votes = self._vote(SparseRows.single(indices, values), k, 1)
        n = votes.counts[0]
        return votes.labels[0, :n], bounded_scores(votes.scores[0, :n])

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {}, self.texts_.arrays(), {}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return SparseKNN.array_rules()

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.texts_ = SparseKNN(**arrays, n_labels=self.n_labels_)
