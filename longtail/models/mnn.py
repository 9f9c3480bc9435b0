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

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from longtail.engine import memory
from longtail.errors import DataError, SettingsError
from longtail.index import Index, from_arrays, make_index
from longtail.index.ranking import as_matrix, top_k, vote
from longtail.kernels.rows import valid
from longtail.metrics import evaluate
from longtail.models.base import Arrays, Ranker, check_features, check_labels
from longtail.neural.held_out import Pair, hold_out, measurable, seen, trains_again
from longtail.neural.learner import calibrate
from longtail.neural.loop import LoopSettings, fingerprint, train
from longtail.neural.matching import MatchingLearner, MatchingNetwork, encode_features
from longtail.neural.optimizers import KINDS

SCORINGS = ("cosine", "knn", "both")
_NEIGHBORS = (10, 20, 40, 80)  # to choose from
_SHARPNESS = (5.0, 10.0, 20.0)
_SHARES = (0.25, 0.5, 0.75)
_BLENDED = 100  # labels that the cosine gives to a mean with the vote
_BELOW_ONE = np.float32(1 - 2**-23)
_ABOVE_ZERO = np.float32(1e-30)


@dataclass(frozen=True)
class Scoring:
    """How labels are ranked: by `how`, with so many neighbours, and the share of the cosine in "both"."""

    how: str
    n_neighbors: int = 20
    sharpness: float = 10.0
    share: float = 0.5


class MNN(Ranker):
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
        Loss and precision in training and validation after each epoch, labels ranked by the cosine.
    scoring_ : Scoring
        How labels are ranked.
    """

    kind: ClassVar[str] = "mnn"
    history_: list[dict[str, float]]
    scoring_: Scoring
    label_ids_: np.ndarray  # labels with training points; the others are never suggested
    label_counts_: np.ndarray
    features_: np.ndarray  # (D, d); 0 for features without training points
    labels_: Index
    label_lengths_: np.ndarray  # of the label vectors, which the index holds at length 1
    points_: Index | None  # training points, where they vote, and
    votes_: csr_array | None  # their labels
    slope_: float
    offset_: float

    def __init__(
        self,
        dim: int = 256,
        n_negatives: int = 10,
        margin: float = 0.0,
        keep: float = 0.8,
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
        for name, known in (("scoring", ("auto", *SCORINGS)), ("optimizer", tuple(KINDS))):
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(known)}")
        for name in ("dim", "n_negatives", "n_neighbors"):
            value = getattr(self, name)
            if not (name == "n_neighbors" and value is None) and (not isinstance(value, int | np.integer) or value < 1):
                raise SettingsError(f"{name} is {value!r}; give a whole number from 1")
        if not -1 <= self.margin < 1:
            raise SettingsError(f"margin is {self.margin!r}; give a cosine, from -1 to below 1")
        if not 0 < self.keep <= 1:
            raise SettingsError(f"keep is {self.keep!r}; give a number above 0, up to 1")
        if not self.decay >= 0:
            raise SettingsError(f"decay is {self.decay!r}; give 0 or a number above it")
        if not 0 <= self.validation_fraction < 1:
            raise SettingsError(f"validation_fraction is {self.validation_fraction!r}; give 0, or a number below 1")

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        self._check_settings()
        loop = self._loop(self.epochs)
        identity = ""
        if self.checkpoint is not None:
            params = {name: value for name, value in self.get_params().items() if name not in ("checkpoint", "n_jobs")}
            identity = fingerprint(params, X, Y, *(validation or ()))
        rows, held = hold_out(X, Y, validation, self.validation_fraction, self.random_state)
        counts = np.bincount(Y[rows].indices, minlength=Y.shape[1])
        self.label_ids_ = np.flatnonzero(counts).astype(np.int32)
        Y = seen(Y, self.label_ids_)
        self._check_memory(X.shape[1], Y.shape[1], len(rows))
        held = measurable(held, self.label_ids_)
        self.history_, learner = self._train(X, rows, Y[rows], held, loop, identity)
        self.slope_, self.offset_ = calibrate(learner.search, *(held or learner.sample()))
        self._remember(X, rows, Y[rows])
        self.scoring_ = self._choose(held)
        if validation is None and held is not None and trains_again(self.refit, len(rows)):
            best = int(np.argmax([entry["monitor"] for entry in self.history_]))
            rows = np.flatnonzero(np.diff(Y.indptr))
            self._train(X, rows, Y[rows], None, replace(loop, checkpoint=None, stop=best + 1), "")
            self._remember(X, rows, Y[rows])
        self._forget()

    def _train(
        self, X: csr_array, rows: np.ndarray, Y: csr_array, held: Pair | None, loop: LoopSettings, identity: str
    ) -> tuple[list[dict[str, float]], MatchingLearner]:
        """Train from the start, and keep what prediction needs."""
        rng = np.random.default_rng(self.random_state)
        network = self._network(self._vectors(X.shape[1], rng), self._vectors(Y.shape[1], rng))
        learner = self._learner(network, X, rows, Y, held)
        history = train(learner, len(rows), loop, identity)
        encoder = network.encoders["features"]
        encoder.table[encoder.optimizer.age == 0] = 0  # nothing is known of these; they shall not be noise
        self._keep(network)
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
        X = check_features(X, self.n_features_in_)
        Y = check_labels(Y, X.shape[0])
        if Y.shape[1] < self.n_labels_:
            raise DataError(
                f"Y has {Y.shape[1]} labels, but the model knows {self.n_labels_}",
                remedy="Keep the old columns in their places and append new ones",
            )
        loop = self._loop(epochs)
        loop = replace(loop, rate=loop.rate / 4, checkpoint=None, seed=self.random_state + 1)
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
        vectors[old] = self.labels_.vectors * self.label_lengths_[:, None]
        network = self._network(features, vectors)
        learner = self._learner(network, X, rows, Y_seen, None)
        self.history_ = self.history_ + train(learner, len(rows), loop)
        untouched = network.encoders["features"].optimizer.age == 0
        untouched[known] = False
        features[untouched] = 0
        counts = np.bincount(Y_seen.indices, minlength=len(labels)).astype(np.int32)
        counts[old] += self.label_counts_
        self.label_ids_, self.label_counts_, self.n_labels_ = labels, counts, Y.shape[1]
        self._keep(network)
        if self.points_ is not None and self.votes_ is not None:
            held = self.votes_
            wider = csr_array((held.data, old[held.indices], held.indptr), shape=(held.shape[0], len(labels)))
            self.points_.add(self._encode(X[rows]))
            self.votes_ = csr_array(sparse.vstack([wider, Y_seen], format="csr"))
        return self

    def _first_vectors(self, X: csr_array, Y: csr_array) -> np.ndarray:
        """Where new labels start: at the mean of their points, as long as other labels' vectors are."""
        means = Y.T @ self._encode(X)
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        return (means * (self.label_lengths_.mean() / np.maximum(lengths, 1e-6))).astype(np.float32)

    def _loop(self, epochs: int) -> LoopSettings:
        settings = LoopSettings(
            epochs, self.batch_size, self.learning_rate, self.schedule, 0.0, self.patience, self.random_state,
            self.checkpoint,
        )  # fmt: skip
        settings.check()
        return settings

    def _vectors(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, self.dim), np.float32) / np.float32(np.sqrt(self.dim))

    def _network(self, features: np.ndarray, labels: np.ndarray) -> MatchingNetwork:
        return MatchingNetwork(features, labels, self.optimizer, self.decay, self.n_jobs)

    def _learner(
        self, network: MatchingNetwork, X: csr_array, rows: np.ndarray, Y: csr_array, held: Pair | None
    ) -> MatchingLearner:
        return MatchingLearner(network, X, rows, Y, held, self.n_negatives, self.margin, self.keep, self.n_jobs)

    def _check_memory(self, n_features: int, n_labels: int, n_points: int) -> None:
        needed = MatchingNetwork.bytes_needed(n_features, n_labels, self.dim, self.optimizer, self.batch_size)
        if self.scoring != "cosine":
            needed += 4 * n_points * self.dim
        memory.require(needed, "MNN", "Lower dim, use fewer features (max_features, min_df), or set scoring=cosine.")

    def _keep(self, network: MatchingNetwork) -> None:
        vectors = network.tables["labels"]
        self.features_ = network.tables["features"]
        self.label_lengths_ = np.linalg.norm(vectors, axis=1)
        self.labels_ = make_index(vectors, "cosine", random_state=self.random_state)
        self.points_ = self.votes_ = None

    # How labels are ranked ---------------------------------------------------------------------------------------

    def _remember(self, X: csr_array, rows: np.ndarray, Y: csr_array) -> None:
        """Keep training points to vote."""
        if self.scoring != "cosine":
            encoded = self._encode(X)[rows] if len(rows) < X.shape[0] else self._encode(X)
            self.points_ = make_index(encoded, "cosine", random_state=self.random_state)
            self.votes_ = Y

    def _forget(self) -> None:
        if self.scoring_.how == "cosine":
            self.points_ = self.votes_ = None

    def _choose(self, held: Pair | None) -> Scoring:
        """The way of scoring that ranks the held-out points best, by nDCG@5."""
        hows = SCORINGS if self.scoring == "auto" else (self.scoring,)
        if held is None:
            return Scoring("cosine" if self.scoring == "auto" else self.scoring, self.n_neighbors or 20)
        X, Y = held
        h, best, height = self._encode(X), Scoring(hows[0]), -1.0

        def tried(scoring: Scoring) -> float:
            nonlocal best, height
            scores = self._matrix(h, min(5, len(self.label_ids_)), scoring)
            found = evaluate(Y, scores, ks=(5,))["nDCG@5"]
            if found > height:
                best, height = scoring, found
            return found

        if "cosine" in hows:
            tried(Scoring("cosine"))
        if hows != ("cosine",):
            counts = _NEIGHBORS if self.n_neighbors is None else (self.n_neighbors,)
            for how in (how for how in hows if how != "cosine"):
                for n in counts:
                    for sharpness in _SHARPNESS:
                        for share in _SHARES if how == "both" else (0.5,):
                            tried(Scoring(how, n, sharpness, share))
        return best

    # Answering ---------------------------------------------------------------------------------------------------

    def _encode(self, X: csr_array) -> np.ndarray:
        return encode_features(X.indptr, X.indices, X.data, self.features_, 1 if X.shape[0] < 64 else self.n_jobs)

    def _matrix(self, h: np.ndarray, k: int, scoring: Scoring) -> csr_array:
        """Scores of encoded points, (n, seen labels), k a row and the best first."""
        n_labels, jobs = len(self.label_ids_), 1 if len(h) < 64 else self.n_jobs
        by_cosine = votes = None
        if scoring.how != "knn":
            wanted = k if scoring.how == "cosine" else min(n_labels, max(k, _BLENDED))
            ids, cosines = self.labels_.search(h, wanted, n_jobs=jobs)
            chance = 1 / (1 + np.exp(-np.clip(self.slope_ * cosines + self.offset_, -60, 60)))
            by_cosine = as_matrix(ids, chance.astype(np.float32), n_labels)
        if scoring.how != "cosine":
            assert self.points_ is not None
            assert self.votes_ is not None
            ids, cosines = self.points_.search(h, min(scoring.n_neighbors, len(self.points_)), n_jobs=jobs)
            weights = np.exp(np.float32(scoring.sharpness) * (cosines - 1))
            votes = vote(ids, weights, self.votes_, k if scoring.how == "knn" else n_labels)
        if by_cosine is None or votes is None:
            return votes if by_cosine is None else by_cosine
        share = np.float32(scoring.share)
        return top_k(csr_array(share * by_cosine + (1 - share) * votes), k)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        h = self._encode(X)
        scores = self._matrix(h, min(k, len(self.label_ids_)), self.scoring_)
        blank = np.flatnonzero(~h.any(axis=1))  # nothing is known of these points: the most frequent labels
        if len(blank):
            rows = np.arange(len(h))
            rows[blank] = len(h)
            scores = csr_array(sparse.vstack([scores, self._most_frequent(k)], format="csr"))[rows]
        chances = np.clip(scores.data, _ABOVE_ZERO, _BELOW_ONE, dtype=np.float32)
        return csr_array((chances, self.label_ids_[scores.indices], scores.indptr), shape=(len(h), self.n_labels_))

    def _most_frequent(self, k: int) -> csr_array:
        order = np.argsort(-self.label_counts_, kind="stable")[:k].astype(np.int32)
        share = (self.label_counts_[order] / (1 + self.label_counts_.sum())).astype(np.float32)
        return csr_array((share, order, np.array([0, len(order)])), shape=(1, len(self.label_ids_)))

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        return super()._rank(indices, values, k) if valid(indices, values, self.n_features_in_) else None

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts: dict[str, Any] = {"slope": self.slope_, "offset": self.offset_, "history": self.history_}
        facts["scoring"] = asdict(self.scoring_)
        arrays = {
            "features": self.features_,
            "label_ids": self.label_ids_,
            "label_counts": self.label_counts_,
            "label_lengths": self.label_lengths_,
        }
        facts["labels_index"], held = self.labels_.to_arrays()
        arrays |= {f"labels_{name}": array for name, array in held.items()}
        if self.points_ is not None and self.votes_ is not None:
            facts["points_index"], held = self.points_.to_arrays()
            arrays |= {f"points_{name}": array for name, array in held.items()}
            arrays |= {"votes_indptr": self.votes_.indptr, "votes_indices": self.votes_.indices}
        return facts, arrays, {}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.slope_, self.offset_, self.history_ = facts["slope"], facts["offset"], facts["history"]
        self.scoring_ = Scoring(**facts["scoring"])
        self.features_, self.label_ids_ = arrays["features"], arrays["label_ids"]
        self.label_counts_, self.label_lengths_ = arrays["label_counts"], arrays["label_lengths"]
        self.labels_ = from_arrays(facts["labels_index"], _named(arrays, "labels_"))
        self.points_ = self.votes_ = None
        if "points_index" in facts:
            self.points_ = from_arrays(facts["points_index"], _named(arrays, "points_"))
            ones = np.ones(len(arrays["votes_indices"]), np.float32)
            shape = len(self.points_), len(self.label_ids_)
            self.votes_ = csr_array((ones, arrays["votes_indices"], arrays["votes_indptr"]), shape=shape)


def _named(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
