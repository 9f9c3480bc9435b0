"""KNN: the labels of the nearest training points, by sparse features.

It trains in seconds and can suggest every label that has a point, rare ones included, which makes it a good member of a
:class:`~longtail.models.blend.Blend`. Points are compared by the cosine of their heaviest features; each of the nearest
ones votes for its labels with a power of its similarity, and a label's score is its share of the votes. How much a
feature counts is learnt from the training points (:mod:`longtail.index.feature_weights`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.combine.candidates import CandidateList
from longtail.index.sparse_knn import SparseKNN
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import threads_for
from longtail.kernels.sparse_knn import Votes
from longtail.models.base import Arrays, Ranker, data_bytes
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.training_part import TrainingPart
from longtail.params import Integer, Jobs, OneOf, optional
from longtail.sparse import bounded_scores, from_top_k
from longtail.store import Stored
from longtail.store.facts import YES_NO
from longtail.store.invariants import Rules

if TYPE_CHECKING:
    from longtail.index.feature_weights import Powers


class KNN(Ranker):
    """Votes of the nearest training points.

    Parameters
    ----------
    n_neighbors : int
        Number of training points that vote. More of them suggest more labels and blur rare ones.
    feature_weights : {"learnt", "none"}
        Whether features are weighed by how rare they are and by how similar the labels of points are that share them,
        to powers chosen on held-out points. With "none", or with fewer than 500 labelled points, features count as they
        are given. ``partial_fit`` keeps the weights of the first fit.
    sharpness : int, optional
        Power of the similarity that is the weight of a vote. With a higher one the very nearest points decide. By
        default 2, 3 or 4, whichever ranks held-out points best; 2 where no weights are learnt.
    n_compared : int, optional
        Training points that a point is compared with, about: they are met by way of the features that they share with
        it, the rarest ones first. Fewer are faster. By default a quarter of the points, at least 16,384 and at most
        32,768.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> from longtail import KNN
    >>> KNN(n_neighbors=10)
    KNN(n_neighbors=10)
    """

    kind: ClassVar[str] = "knn"
    _constraints: ClassVar = {
        "n_neighbors": Integer(1),
        "feature_weights": OneOf("learnt", "none"),
        "sharpness": optional(Integer(1, 16)),
        "n_compared": optional(Integer(1)),
        "n_jobs": Jobs(),
    }
    points_: SparseKNN
    sharpness_: int
    _settled: Powers | None

    def __init__(
        self,
        n_neighbors: int = 32,
        feature_weights: str = "learnt",
        sharpness: int | None = None,
        n_compared: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.feature_weights = feature_weights
        self.sharpness = sharpness
        self.n_compared = n_compared
        self.n_jobs = n_jobs

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Any) -> None:
        from longtail.index.feature_weights import USUAL_SHARPNESS, weigh_features

        powers = self._settled if "_settled" in self.__dict__ else self._choose_powers(X, Y)
        self.sharpness_ = powers[2] if powers else int(self.sharpness or USUAL_SHARPNESS)
        weights = weigh_features(X, Y, powers, self.n_jobs) if powers else None
        self.points_ = SparseKNN.of(X, Y, weights=weights)

    def _choose_powers(self, X: csr_array, Y: csr_array) -> Powers | None:
        """Choose how features are weighed and how much the nearest points decide, or None for the usual."""
        from longtail.index.feature_weights import Trial, choose_powers

        if self.feature_weights == "none":
            return None

        def answers(trial: Trial, weights: np.ndarray, sharpness: int) -> csr_array:
            index = SparseKNN.of(trial.X, trial.Y, weights=weights)
            votes = self._votes_of(index, SparseRows.of(trial.X_held), 5, self.n_jobs, sharpness)
            return from_top_k(votes.labels, bounded_scores(votes.scores), votes.counts, Y.shape[1])

        with progress.stage("weighing features"):
            return choose_powers(X, Y, answers, self.n_jobs, None if self.sharpness is None else int(self.sharpness))

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy with the powers that are best for this data, so that scores of copies compare."""
        copy = self.unfitted()
        copy._settled = self._settled if "_settled" in self.__dict__ else self._choose_powers(X, Y)
        return copy

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit; measured by benchmarks/scale/run.py."""
        from longtail.index.feature_weights import FEWEST, MOST_TRIED

        if self.feature_weights == "none" or X.shape[0] < FEWEST:
            return super().memory_needed(X, Y, Z)
        trial = 5e6 * min(1.0, X.shape[0] / MOST_TRIED)
        return 2.2 * data_bytes(X, Y) + 97.0 * X.shape[1] + trial

    @learns_on_a_copy
    def partial_fit(self, X: Any, Y: Any) -> Self:
        """Add points, with the weights of features that the first fit learnt.

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
        self.points_ = SparseKNN.of(X, Y, before=self.points_)
        self.n_labels_ = Y.shape[1]
        return self

    def _fit_rest(self, part: TrainingPart) -> None:
        """Keep all points that are learnt from, in the order of the data: explanations name them by their row."""
        rows = np.sort(part.all_rows())
        every = len(rows) == part.X.shape[0]
        X, Y = (part.X, part.Y) if every else (part.X[rows], part.Y[rows])
        self.points_ = SparseKNN.of(X, Y, weights=self.points_.weights)

    def _rest_share(self, n_points: int) -> float:
        return 0.0

    # Prediction --------------------------------------------------------------------------------------------------

    def _candidates(self, points: SparseRows, k: int, n_jobs: int | None) -> CandidateList:
        votes = self._vote(points, min(k, self.n_labels_), n_jobs, in_order=False)
        return CandidateList.of_top_k(votes.labels, votes.scores, votes.counts, votes.top)

    def _vote(self, points: SparseRows, k: int, n_jobs: int | None, in_order: bool = True) -> Votes:
        return self._votes_of(self.points_, points, k, n_jobs, self.sharpness_, in_order)

    def _votes_of(
        self, index: SparseKNN, points: SparseRows, k: int, n_jobs: int | None, sharpness: int, in_order: bool = True
    ) -> Votes:
        return index.vote(
            points, self.n_neighbors, k, n_jobs, in_order=in_order, sharpness=sharpness, n_compared=self.n_compared
        )

    def _predict(self, X: csr_array, k: int) -> csr_array:
        votes = self._vote(SparseRows.of(X), k, threads_for(X.shape[0], self.n_jobs))
        return from_top_k(votes.labels, bounded_scores(votes.scores), votes.counts, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        votes = self._vote(SparseRows.single(indices, values), k, 1)
        n = votes.counts[0]
        return votes.labels[0, :n], bounded_scores(votes.scores[0, :n])

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts = {"weighed": bool(len(self.points_.weights)), "sharpness": self.sharpness_}
        return facts, self.points_.arrays(), {}

    _facts: ClassVar = {"weighed": YES_NO, "sharpness": Integer(1, 16)}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return SparseKNN.array_rules(weighed=stored.meta["weighed"])

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.sharpness_ = facts["sharpness"]
        self.points_ = SparseKNN(**arrays, n_labels=self.n_labels_)
