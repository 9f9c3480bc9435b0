"""Training of MNN: the training step, metrics after each epoch, and the choice of how labels are ranked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.index import Index, make_index
from longtail.index.ranking import weighted_vote
from longtail.metrics import evaluate
from longtail.models.mnn.network import MatchingNetwork, draw_negatives, set_numbers
from longtail.models.mnn.scoring import LabelScorer, Scoring, encode_features
from longtail.neural.batch import points
from longtail.neural.measured_learner import MeasuredLearner
from longtail.sparse import Pair

_MOST_VOTERS, _MOST_QUERIES = 20_000, 1000  # voting points, and points that they vote for, in metrics after an epoch
_NEIGHBOR_COUNTS = (10, 20, 40, 80, 160)  # values to choose from, here and below
_SHARPNESSES = (5.0, 10.0, 20.0)
_COSINE_SHARES = (0.25, 0.5, 0.75)


class MatchingLearner(MeasuredLearner):
    """Trains a matching network on points and their label sets.

    Parameters
    ----------
    network : MatchingNetwork
        The network to train.
    X, rows, Y, validation
        See :class:`longtail.neural.measured_learner.MeasuredLearner`.
    settings : namespace
        `n_negatives` (h), `margin` (m of eq. 10), `input_dropout` (1 - p of eq. 5) and `scoring` of
        :class:`longtail.models.mnn.MNN`. Unless `scoring` is "cosine", the vote of the nearest training points is
        measured too, and the better of the two rankings decides on early stopping.
    """

    def __init__(
        self,
        network: MatchingNetwork,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        validation: Pair | None,
        settings: Any,
    ) -> None:
        super().__init__(X, rows, Y, validation)
        self.network, self.settings, self.n_jobs = network, settings, network.n_jobs
        self._features = np.full(X.shape[1], -1, np.int32)
        self._labels = np.full(Y.shape[1], -1, np.int32)
        self._sets = set_numbers(Y)

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take one step on these training points and return the loss."""
        batch = points(self.X, self.rows[rows], self._features, unit=False)
        batch.drop(1 - self.settings.input_dropout, rng)
        batch.average()
        sets = points(self.Y, rows, self._labels, unit=False)
        sets.average()
        negatives = draw_negatives(self._sets[rows], self.settings.n_negatives, rng)
        return self.network.step(batch, sets, negatives, self.settings.margin, rate)

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k labels with the highest cosine for each point, and these cosines, (N, k) each."""
        index = make_index(self.network.tables["labels"], "cosine", "exact")
        return index.search(self._encoded(X), k, n_jobs=self.n_jobs)

    def measure(self) -> dict[str, float]:
        """Compute metrics with labels ranked by the cosine and, under names with ``vote_``, ranked by the vote."""
        metrics = super().measure()
        if self.settings.scoring == "cosine":
            return metrics
        voters = np.arange(0, len(self.rows), -(-len(self.rows) // _MOST_VOTERS))
        index = make_index(self._encoded(self.X[self.rows[voters]]), "cosine", "exact")
        labels = self.Y[voters]
        sample = voters[:: -(-len(voters) // _MOST_QUERIES)]
        own = np.searchsorted(voters, sample)
        by_part = {"train": self._measure_vote(index, labels, self.X[self.rows[sample]], self.Y[sample], own)}
        if self.validation is not None:
            X, Y = self.validation
            by_part["validation"] = self._measure_vote(index, labels, X[:_MOST_QUERIES], Y[:_MOST_QUERIES])
            metrics["monitor"] = max(metrics["monitor"], by_part["validation"]["nDCG@5"])
        for part, vote_metrics in by_part.items():
            names = [name for name in metrics if name.startswith(part)]
            metrics |= {f"vote_{name}": vote_metrics[name.partition("_")[2]] for name in names}
        return metrics

    def _measure_vote(
        self, index: Index, labels: csr_array, X: csr_array, Y: csr_array, own: np.ndarray | None = None
    ) -> dict[str, float]:
        """Compute metrics of the default vote. A point does not vote for itself: `own` is its position in the index."""
        usual = Scoring()
        ids, cosines = index.search(self._encoded(X), min(usual.n_neighbors + 1, len(index)), n_jobs=self.n_jobs)
        if own is not None:
            ids = np.where(ids == own[:, None], -1, ids)
        scores = weighted_vote(ids, np.exp(np.float32(usual.sharpness) * (cosines - 1)), labels, 5)
        return evaluate(Y, scores, train_Y=self.Y, ks=(1, 5))

    def _encoded(self, X: csr_array) -> np.ndarray:
        return encode_features(X.indptr, X.indices, X.data, self.network.tables["features"], self.n_jobs)


def vote_history(entry: dict[str, float]) -> dict[str, float]:
    """Return the metrics of an epoch, with those of the vote instead of those of the cosine."""
    plain = {key: value for key, value in entry.items() if not key.startswith("vote_")}
    return plain | {key.removeprefix("vote_"): value for key, value in entry.items() if key.startswith("vote_")}


def choose_scoring(
    scorer: LabelScorer,
    h: np.ndarray,
    Y: csr_array,
    ways: tuple[str, ...],
    n_neighbors: int | None = None,
    n_jobs: int | None = None,
) -> Scoring:
    """Choose the scoring with the highest nDCG@5 on held-out points.

    Parameters
    ----------
    scorer : LabelScorer
        Label vectors and voting points.
    h : array, (n, d)
        Encoded held-out points.
    Y : csr_array, (n, labels)
        Their labels.
    ways : tuple of str
        Ways of scoring to choose from.
    n_neighbors : int, optional
        Number of neighbours; by default it is chosen too.
    n_jobs : int, optional
        Number of threads; all cores by default.
    """
    tried: list[Scoring] = []
    for way in ways:
        variants = [Scoring(way)]
        if way != "cosine":
            counts = _NEIGHBOR_COUNTS if n_neighbors is None else (n_neighbors,)
            variants = [
                replace(one, n_neighbors=n, sharpness=s) for one in variants for n in counts for s in _SHARPNESSES
            ]
        if way == "both":
            variants = [replace(one, share=share) for one in variants for share in _COSINE_SHARES]
        tried += variants
    near = None if ways == ("cosine",) else scorer.nearest(h, n_neighbors or max(_NEIGHBOR_COUNTS), n_jobs)
    k = min(5, len(scorer.labels))

    def quality(scoring: Scoring) -> float:
        own = None if scoring.how == "cosine" else near
        return evaluate(Y, scorer.rank_by(scoring, h, k, own, n_jobs), ks=(5,))["nDCG@5"]

    return max(tried, key=quality)
