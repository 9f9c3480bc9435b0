"""MNN: features and label sets matched in one space (Zhao et al., Matching Neural Network, 2020).

A point is the weighted mean of its features' vectors, a set of labels the mean of theirs; both are learnt so that a
point lies near its own labels, by the cosine, and far from the labels of other points (eq. 1 to 11, in
:mod:`longtail.neural.matching`). No distance between label sets is ever needed, so points with rare labels only teach
as much as others.

Choices made here. The paper does not say how labels are ranked. A label may be scored by the cosine of its own vector
with the point, or by the vote of the training points nearest to the point in that space, weighted by
exp(sharpness · cosine); which, and with how many neighbours, is decided on held-out points, as is a mean of the two.
Negatives are the label sets of other points of the batch; a point with the very same labels is none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.index import Index, make_index
from longtail.kernels.rows import valid
from longtail.models.base import Arrays, Ranker
from longtail.models.embedding import ABOVE_ZERO, BELOW_ONE, EmbeddingRanker
from longtail.neural.held_out import Pair, seen
from longtail.neural.learner import calibrate
from longtail.neural.loop import LoopSettings, train
from longtail.neural.matching import MatchingLearner, MatchingNetwork, by_vote, encode_features
from longtail.neural.optimizers import KINDS
from longtail.neural.scoring import HOWS, LabelScorer, Scoring

_ARRAYS = ("features", "label_ids", "label_counts", "label_lengths")


class MNN(EmbeddingRanker):
    """Matching network.

    Parameters
    ----------
    dim : int
        Length of the vectors.
    n_negatives : int
        h, the negatives drawn for a point, of which the nearest counts.
    margin : float
        m, the cosine up to which a negative costs nothing.
    keep : float
        p, the chance of a feature to stay in feature dropout.
    scoring : {"auto", "cosine", "knn", "both"}
        How labels are ranked: by the cosine, by a vote of neighbours, by the mean of the two, or by whichever is best
        on held-out points ("cosine" where there are none).
    n_neighbors : int, optional
        Training points that vote; by default chosen on held-out points, 20 where there are none.
    epochs, batch_size, learning_rate, schedule, patience
        See :class:`longtail.neural.loop.LoopSettings`.
    optimizer : {"adam", "adagrad", "sgd"}
    decay : float
        Weight decay of the vectors a batch touches.
    validation_fraction : float
        Share of points held out for early stopping and for choosing how to score, 2,000 at most; 0 for none. Unused
        where `fit` is given a validation part.
    refit : bool, optional
        Train once more, with what was chosen, on all points; by default where there are fewer than 20,000.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch, from which an interrupted run goes on; removed at the end.
    n_jobs : int, optional
        Threads of the kernels; all cores by default.
    random_state : int

    Attributes
    ----------
    history_ : list of dict
        Loss and precision in training and validation after each epoch, labels ranked by the cosine or, if points
        vote in the end, by their vote.
    scorer_ : LabelScorer
        Label vectors and, where they vote, training points; ``scorer_.scoring`` says how labels are ranked.
    """

    kind: ClassVar[str] = "mnn"
    scorer_: LabelScorer
    label_counts_: np.ndarray
    label_lengths_: np.ndarray  # of the label vectors, which the scorer holds at length 1
    features_: np.ndarray  # (D, d); 0 for features without training points

    def __init__(
        self,
        dim: int = 256,
        n_negatives: int = 1,
        margin: float = 0.0,
        keep: float = 0.7,
        scoring: str = "auto",
        n_neighbors: int | None = None,
        epochs: int = 30,
        batch_size: int = 256,
        learning_rate: float = 0.005,
        schedule: str = "linear",
        patience: int = 10,
        optimizer: str = "adam",
        decay: float = 0.0,
        validation_fraction: float = 0.1,
        refit: bool | None = None,
        checkpoint: str | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.dim = dim
        self.n_negatives = n_negatives
        self.margin = margin
        self.keep = keep
        self.scoring = scoring
        self.n_neighbors = n_neighbors
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.patience = patience
        self.optimizer = optimizer
        self.decay = decay
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Learning ----------------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        counts = ("dim", "n_negatives") if self.n_neighbors is None else ("dim", "n_negatives", "n_neighbors")
        self._check_choices({"scoring": ("auto", *HOWS), "optimizer": tuple(KINDS)}, counts)
        if not -1 <= self.margin < 1:
            raise SettingsError(f"margin is {self.margin!r}; give a cosine, from -1 to below 1")
        if not 0 < self.keep <= 1:
            raise SettingsError(f"keep is {self.keep!r}; give a number above 0, up to 1")
        if not self.decay >= 0:
            raise SettingsError(f"decay is {self.decay!r}; give 0 or a number above it")

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        self._check_settings()
        loop = self._loop(self.epochs, self.batch_size, self.learning_rate)
        identity = self._identity(X, Y, validation)
        rows, Y, held = self._parts(X, Y, validation)
        self._check_memory(X.shape[1], Y.shape[1], len(rows))
        self.history_, learner = self._train(X, rows, Y[rows], held, loop, identity)
        chance = calibrate(learner.search, *(held or learner.sample()))
        self._keep(learner, *chance)
        self.scorer_.scoring = scoring = self._choose(held)
        if scoring.how != "cosine":  # the curves are those of what ranks labels
            self.history_ = [by_vote(entry) for entry in self.history_]
        if self._trains_again(rows, held, validation):
            rows = np.flatnonzero(np.diff(Y.indptr))
            again = replace(loop, checkpoint=None, stop=self._best_length())
            _, learner = self._train(X, rows, Y[rows], None, again, "")
            self._keep(learner, *chance)
            self.scorer_.scoring = scoring
        if scoring.how == "cosine":
            self.scorer_.points = self.scorer_.votes = None

    def _train(
        self, X: csr_array, rows: np.ndarray, Y: csr_array, held: Pair | None, loop: LoopSettings, identity: str
    ) -> tuple[list[dict[str, float]], MatchingLearner]:
        """Train from the start."""
        rng = np.random.default_rng(self.random_state)
        network = self._network(self._vectors(X.shape[1], rng), self._vectors(Y.shape[1], rng))
        learner = self._learner(network, X, rows, Y, held)
        history = train(learner, len(rows), loop, identity)
        encoder = network.encoders["features"]
        encoder.table[encoder.optimizer.age == 0] = 0  # nothing is known of these; they shall not be noise
        self.label_counts_ = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int32)
        return history, learner

    def partial_fit(self, X: Any, Y: Any, epochs: int = 1) -> Self:
        """Learn on from new points, without starting again.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            New points, with the features of the first ones.
        Y : sparse or dense matrix, (N, L')
            Their labels. Columns beyond those known are new labels, appended; there may be none, but never fewer.
        epochs : int
            Passes over the new points, at a quarter of `learning_rate`. No part is held out, and how labels are ranked
            stays as it was. Where training points vote the new ones join them; those of before keep the vectors that
            they had.
        """
        if not hasattr(self, "n_labels_"):
            return self.fit(X, Y)
        X, Y = self._more(X, Y)
        loop = self._loop(epochs, self.batch_size, self.learning_rate / 4)
        loop = replace(loop, checkpoint=None, seed=self.random_state + 1)
        labels = np.union1d(self.label_ids_, Y.indices).astype(np.int32)
        old = np.searchsorted(labels, self.label_ids_)
        rows = np.flatnonzero(np.diff(Y.indptr))
        Y_seen = seen(Y, labels)[rows]
        self._check_memory(X.shape[1], len(labels), len(rows))
        rng = np.random.default_rng([self.random_state, len(self.history_)])
        features = self._vectors(X.shape[1], rng)
        known = np.flatnonzero(self.features_.any(axis=1))
        features[known] = self.features_[known]
        vectors = self._first_vectors(X[rows], Y_seen)
        vectors[old] = self.scorer_.labels.vectors * self.label_lengths_[:, None]
        network = self._network(features, vectors)
        learner = self._learner(network, X, rows, Y_seen, None)
        history = train(learner, len(rows), loop)
        voted = self.scorer_.scoring.how != "cosine"
        self.history_ = self.history_ + ([by_vote(entry) for entry in history] if voted else history)
        untouched = network.encoders["features"].optimizer.age == 0
        untouched[known] = False
        features[untouched] = 0
        counts = np.bincount(Y_seen.indices, minlength=len(labels)).astype(np.int32)
        counts[old] += self.label_counts_
        self.label_ids_, self.label_counts_, self.n_labels_ = labels, counts, Y.shape[1]
        before = self.scorer_
        self._keep(learner, before.slope, before.offset)
        self.scorer_.scoring = before.scoring
        self.scorer_.join(before, old)
        return self

    def _first_vectors(self, X: csr_array, Y: csr_array) -> np.ndarray:
        """Where new labels start: at the mean of their points, as long as other labels' vectors are."""
        means = Y.T @ self._encode(X)
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        return (means * (self.label_lengths_.mean() / np.maximum(lengths, 1e-6))).astype(np.float32)

    def _vectors(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, self.dim), np.float32) / np.float32(np.sqrt(self.dim))

    def _network(self, features: np.ndarray, labels: np.ndarray) -> MatchingNetwork:
        return MatchingNetwork(features, labels, self.optimizer, self.decay, self.n_jobs)

    def _learner(
        self, network: MatchingNetwork, X: csr_array, rows: np.ndarray, Y: csr_array, held: Pair | None
    ) -> MatchingLearner:
        return MatchingLearner(
            network, X, rows, Y, held, self.n_negatives, self.margin, self.keep, self.n_jobs, self.scoring != "cosine"
        )

    def _check_memory(self, n_features: int, n_labels: int, n_points: int) -> None:
        needed = MatchingNetwork.bytes_needed(n_features, n_labels, self.dim, self.optimizer, self.batch_size)
        if self.scoring != "cosine":
            needed += 4 * n_points * self.dim
        memory.require(needed, "MNN", "Lower dim, use fewer features (max_features, min_df), or set scoring=cosine.")

    def _keep(self, learner: MatchingLearner, slope: float, offset: float) -> None:
        """What prediction needs: vectors and, unless the cosine alone is wanted, the training points."""
        tables = learner.network.tables
        self.features_ = tables["features"]
        self.label_lengths_ = np.linalg.norm(tables["labels"], axis=1)
        self.scorer_ = LabelScorer(self._index(tables["labels"]), slope, offset)
        if self.scoring != "cosine":
            self.scorer_.points = self._index(self._encode(learner.X[learner.rows]))
            self.scorer_.votes = learner.Y

    def _index(self, vectors: np.ndarray) -> Index:
        return make_index(vectors, "cosine", random_state=self.random_state, n_jobs=self.n_jobs)

    def _choose(self, held: Pair | None) -> Scoring:
        """The way of scoring that ranks the held-out points best."""
        if held is None:
            return Scoring("cosine" if self.scoring == "auto" else self.scoring, self.n_neighbors or 20)
        hows = HOWS if self.scoring == "auto" else (self.scoring,)
        found = self.scorer_.best(self._encode(held[0]), held[1], hows, self.n_neighbors, self.n_jobs)
        return max(found, key=lambda scoring: found[scoring])

    # Answering ---------------------------------------------------------------------------------------------------

    def _encode(self, X: csr_array) -> np.ndarray:
        return encode_features(X.indptr, X.indices, X.data, self.features_, 1 if X.shape[0] < 64 else self.n_jobs)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        h = self._encode(X)
        scores = self.scorer_.rank(h, min(k, len(self.label_ids_)), 1 if len(h) < 64 else self.n_jobs)
        blank = np.flatnonzero(~h.any(axis=1))  # nothing is known of these points: the most frequent labels
        if len(blank):
            rows = np.arange(len(h))
            rows[blank] = len(h)
            scores = csr_array(sparse.vstack([scores, self._most_frequent(k)], format="csr"))[rows]
        chances = np.clip(scores.data, ABOVE_ZERO, BELOW_ONE, dtype=np.float32)
        return csr_array((chances, self.label_ids_[scores.indices], scores.indptr), shape=(len(h), self.n_labels_))

    def _most_frequent(self, k: int) -> csr_array:
        order = np.argsort(-self.label_counts_, kind="stable")[:k].astype(np.int32)
        share = (self.label_counts_[order] / (1 + self.label_counts_.sum())).astype(np.float32)
        return csr_array((share, order, np.array([0, len(order)])), shape=(1, len(self.label_ids_)))

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        return super()._rank(indices, values, k) if valid(indices, values, self.n_features_in_) else None

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.scorer_.to_arrays()
        return (
            {"history": self.history_, "scorer": facts},
            {name: getattr(self, f"{name}_") for name in _ARRAYS} | {f"scorer_{key}": arrays[key] for key in arrays},
            {},
        )

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_ = facts["history"]
        for name in _ARRAYS:
            setattr(self, f"{name}_", arrays[name])
        held = {name.removeprefix("scorer_"): array for name, array in arrays.items() if name.startswith("scorer_")}
        self.scorer_ = LabelScorer.from_arrays(facts["scorer"], held)
