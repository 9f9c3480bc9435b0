"""MNN: features and label sets matched in one space (Zhao et al., Matching Neural Network, 2020).

A point is the weighted mean of the vectors of its features, a set of labels the mean of the vectors of its labels. Both
are trained so that the cosine of a point is high with its own labels and low with the labels of other points (eq. 1 to
11, in :mod:`longtail.models.mnn.network`). Distances between label sets are not needed, so that points with only rare
labels are as useful for training as others.

Choices made here. The paper does not say how labels are ranked. A label may be scored by the cosine of its vector with
the point, or by the vote of the nearest training points in that space, weighted by exp(sharpness · cosine). One of the
two, or a mean of both, is chosen on held-out points, and so is the number of neighbours. Negatives are the label sets
of other points of the batch, unless they are equal to the point's own. The number of negatives is chosen on held-out
points too.
"""

from __future__ import annotations

from copy import copy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from longtail.index import Index, make_index
from longtail.kernels import pool
from longtail.models.base import Ranker, data_bytes
from longtail.models.epoch_ranker import EpochRanker
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.mnn.presets import MNN_ADVANCED, MNN_PRESETS, NEGATIVES
from longtail.models.mnn.scoring import FACTS, WAYS, LabelScorer, Scoring, encode_features
from longtail.params import Integer, OneOf
from longtail.sparse import (
    Arrays,
    bounded_scores,
    label_counts,
    labelled_rows,
    take_labels,
    with_prefix,
    without_prefix,
)
from longtail.store import Stored
from longtail.store.facts import ROWS
from longtail.store.invariants import Rules, counts, floats, indices

if TYPE_CHECKING:
    from longtail.models.mnn.network import MatchingNetwork
    from longtail.models.mnn.training import MatchingLearner
    from longtail.models.training_part import TrainingPart
    from longtail.neural.loop import LoopSettings
    from longtail.sparse import Pair

_ARRAYS = ("features", "label_ids", "label_counts", "label_lengths")
_USUAL_NEIGHBORS = 20


class MNN(EpochRanker):
    """Matching network.

    Parameters whose default is None have the value of the preset; :meth:`settings` shows it.

    Parameters
    ----------
    preset : {"fast", "paper"}
        Values of the parameters that are None: our recipe for a few cores, or the paper's, which is incomplete.
    dim : int, optional
        Length of the vectors: 256. Longer vectors are slower and slightly more accurate.
    n_negatives : int, optional
        h, the number of negatives drawn per point, of which the nearest one counts. By default 1 or 5, whichever ranks
        held-out points better (1 without held-out points); paper 10. If it is given, training takes half as long.
    input_dropout : float, optional
        Probability of dropping a feature in training, 1 - p of eq. 5: 0.3; paper 0.5.
    scoring : {"auto", "cosine", "knn", "both"}, optional
        How labels are ranked: by the cosine, by a vote of the nearest training points, or by the mean of the two.
        "auto", the default, uses the best one on held-out points ("cosine" without them); paper "cosine".
    n_neighbors : int, optional
        Number of training points that vote. By default chosen on held-out points, or 20 without them.
    epochs : int, optional
        Number of passes over the training points, at most: 30.
    batch_size : int, optional
        Points per step: 256.
    learning_rate : float, optional
        Highest learning rate: 0.005; paper 0.001.
    validation_fraction : float
        Share of points held out for early stopping and for choosing how to score, 2,000 at most; 0 for none. Not used
        if `fit` is given validation points.
    refit : bool, optional
        Train again with the chosen settings on all points. By default if there are fewer than 20,000 points; paper
        False.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch, from which an interrupted run can be resumed; removed at the end.
    advanced : dict, optional
        Further parameters by name: ``margin`` (m, the cosine up to which a negative has no loss), ``optimizer``
        ("adam", "adagrad", "sgd", "momentum"), ``decay`` (weight decay of the vectors that a batch uses), ``schedule``
        and ``patience`` (:class:`longtail.neural.loop.LoopSettings`).
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of every random choice.

    Attributes
    ----------
    history_ : list of dict
        Loss, and metrics on training and held-out points, after each epoch. In the metrics, labels are ranked by the
        cosine, or by the vote if it is part of the chosen scoring.
    n_negatives_ : int
        The number of negatives in use.
    label_ids_ : array
        Labels with training points; the others are never suggested.
    scorer_ : LabelScorer
        Label vectors and, if they vote, training points; ``scorer_.scoring`` says how labels are ranked.
    """

    kind: ClassVar[str] = "mnn"
    _presets: ClassVar = MNN_PRESETS
    _advanced: ClassVar = MNN_ADVANCED
    _constraints: ClassVar = {"n_negatives": Integer(1), "scoring": OneOf("auto", *WAYS)}

    label_ids_: np.ndarray
    scorer_: LabelScorer
    n_negatives_: int
    label_counts_: np.ndarray
    label_lengths_: np.ndarray  # of the label vectors, which the scorer holds at length 1
    features_: np.ndarray  # (D, d); 0 for features without training points

    def __init__(
        self,
        preset: str = "fast",
        dim: int | None = None,
        n_negatives: int | None = None,
        input_dropout: float | None = None,
        scoring: str | None = None,
        n_neighbors: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.1,
        refit: bool | None = None,
        checkpoint: str | None = None,
        advanced: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.preset = preset
        self.dim = dim
        self.n_negatives = n_negatives
        self.input_dropout = input_dropout
        self.scoring = scoring
        self.n_neighbors = n_neighbors
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.checkpoint = checkpoint
        self.advanced = advanced
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Learning ----------------------------------------------------------------------------------------------------

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        from longtail.models.mnn.training import vote_history
        from longtail.models.raw_scores import calibrate

        settings, settled = self.settings(), getattr(self, "_settled", None)
        if settled is not None:
            settings.n_negatives = settled["n_negatives"]
        loop = self._loop(settings, settings.batch_size, settings.learning_rate)
        identity = self._identity(X, Y, *(validation or ()))
        # Words that occur in held-out points only are not removed from them (as_new=False). With removal, P@5 rose by
        # 0.9 but PSP@5 fell by 2.1, on 6,000 Tate titles with one seed.
        part = self._divide(X, Y, Z, validation, keep_labels=True, as_new=False)
        rows, self.label_ids_ = part.rows, np.unique(Y[part.rows].indices).astype(np.int32)
        Y, held = take_labels(Y, self.label_ids_), part.held_with(self.label_ids_)
        learner = self._best_of_negatives(settings, X, rows, Y[rows], held, loop, identity)
        scale = None if settled is None else settled.get("scale")
        slope, offset = scale or calibrate(learner.search, *(held or learner.sample()))
        self._set_scorer(learner, slope, offset)
        scoring = self._choose_scoring(settings, held) if settled is None else Scoring(**settled["scoring"])
        self.scorer_.scoring = scoring
        if scoring.how != "cosine":
            self.history_ = [vote_history(entry) for entry in self.history_]
        if validation is None and held is not None and self._trains_again(len(rows)):
            rows = labelled_rows(Y)
            again = replace(self._stage_loop(loop, "again"), stop=self._best_length())
            _, learner = self._train(settings, X, rows, Y[rows], None, again, identity)
            self._set_scorer(learner, slope, offset)
            self.scorer_.scoring = scoring
        self.label_counts_ = label_counts(learner.Y).astype(np.int32)
        if scoring.how == "cosine":
            self.scorer_.points = self.scorer_.votes = None
        self._remove_checkpoint()

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy with the number of negatives and the scoring that are best for this data.

        All copies of a wrapper need the same scoring, because cosines, votes and means of both have different scales.
        When MNN was calibrated with mixed copies, its expected calibration error at 1 on other training points of Tate
        titles was 4.3 points.
        """
        copy = self.unfitted()
        if self._has_choices():
            copy._settled = self._steps.value("choices", lambda: self._trial(X, Y))
        return copy

    def _has_choices(self) -> bool:
        settings = self.settings()
        chooses = settings.n_negatives is None or settings.scoring != "cosine"
        return bool(chooses and self.validation_fraction) and "_settled" not in self.__dict__

    def _n_trainings(self, part: TrainingPart) -> int:
        kinds = len(NEGATIVES) if self.settings().n_negatives is None and "_settled" not in self.__dict__ else 1
        given = part.rest is None and part.held is not None
        if not self._has_choices():
            return kinds if given else self._trainings_per_fit(len(part.rows))
        return kinds + self._trainings_per_fit(len(part.rows), validation=given)

    def _rest_share(self, n_points: int) -> float:
        return self._trainings_per_fit(n_points)

    def _trial(self, X: csr_array, Y: csr_array) -> dict[str, Any]:
        """Return what one training chooses."""
        return self.unfitted().set_params(refit=False, checkpoint=None).fit(X, Y)._choices()

    def _choices(self) -> dict[str, Any]:
        return {"n_negatives": self.n_negatives_, "scoring": asdict(self.scorer_.scoring)}

    def _scored_like(self, fitted: Ranker) -> Self:
        """Return an unfitted copy with the choices, the slope and the offset of the fitted ranker."""
        copy = self.unfitted()
        if isinstance(fitted, MNN):
            copy._settled = fitted._choices() | {"scale": (fitted.scorer_.slope, fitted.scorer_.offset)}
        return copy

    def _with_usual_choices(self) -> Self:
        settings, copy = self.settings(), self.unfitted()
        scoring = Scoring() if settings.scoring == "auto" else Scoring(settings.scoring)
        copy._settled = {"n_negatives": settings.n_negatives or NEGATIVES[0], "scoring": asdict(scoring)}
        return copy

    def _best_of_negatives(
        self,
        settings: Any,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        held: Pair | None,
        loop: LoopSettings,
        identity: str,
    ) -> MatchingLearner:
        """Train with each number of negatives to try; return the learner that ranks held-out points best.

        Its number of negatives is set in `settings`.
        """
        counts = (settings.n_negatives,) if settings.n_negatives is not None else NEGATIVES if held else NEGATIVES[:1]
        best: tuple[float, MatchingLearner] | None = None
        for n_negatives in counts:
            settings.n_negatives = n_negatives
            part = self._stage_loop(loop, f"first-{n_negatives}")
            history, learner = self._train(copy(settings), X, rows, Y, held, part, identity)
            quality = max(entry.get("monitor", 0.0) for entry in history)
            if best is None or quality > best[0]:
                best = quality, learner
                self.history_ = history
        assert best is not None
        self.n_negatives_ = settings.n_negatives = best[1].settings.n_negatives
        return best[1]

    def _train(
        self,
        settings: Any,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        held: Pair | None,
        loop: LoopSettings,
        identity: str = "",
    ) -> tuple[list[dict[str, float]], MatchingLearner]:
        """Train a new network; return the history and the learner."""
        from longtail.models.mnn.training import MatchingLearner
        from longtail.neural.loop import train

        rng = np.random.default_rng(self._seed)
        features, labels = (_random_vectors(n, settings.dim, rng) for n in (X.shape[1], Y.shape[1]))
        network = self._network(settings, features, labels)
        learner = MatchingLearner(network, X, rows, Y, held, settings)
        history = train(learner, len(rows), loop, identity)
        features[network.optimizers["features"].age == 0] = 0  # random vectors of untrained features would be noise
        return history, learner

    @learns_on_a_copy
    def partial_fit(self, X: Any, Y: Any, epochs: int = 1) -> Self:
        """Train further on new points, without starting again.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            New points, with the same features as the first ones.
        Y : sparse or dense matrix, (N, L')
            Their labels. It has all known columns; further columns are new labels.
        epochs : int
            Number of passes over the new points, at a quarter of `learning_rate`. No points are held out, and labels
            are ranked as before. If training points vote, the new ones vote too; the earlier ones keep their vectors.
        """
        if not hasattr(self, "n_labels_"):
            return self.fit(X, Y)
        from longtail.models.mnn.training import MatchingLearner, vote_history
        from longtail.neural.loop import train

        X, Y = self._check_further_points(X, Y)
        settings = self.settings()
        settings.n_negatives = self.n_negatives_
        # The values of the fit, even if the parameters have been changed since.
        settings.dim, settings.scoring = self.features_.shape[1], self.scorer_.scoring.how
        loop = self._loop(settings, settings.batch_size, settings.learning_rate / 4, epochs)
        loop = replace(loop, checkpoint=None, seed=self._seed + 1)
        labels = np.union1d(self.label_ids_, Y.indices).astype(np.int32)
        old = np.searchsorted(labels, self.label_ids_)
        rows = labelled_rows(Y)
        Y_seen = take_labels(Y, labels)[rows]
        rng = np.random.default_rng([self._seed, len(self.history_)])
        features = _random_vectors(X.shape[1], settings.dim, rng)
        known = np.flatnonzero(self.features_.any(axis=1))
        features[known] = self.features_[known]
        vectors = self._first_vectors(X[rows], Y_seen)
        vectors[old] = self.scorer_.labels.vectors * self.label_lengths_[:, None]
        network = self._network(settings, features, vectors)
        learner = MatchingLearner(network, X, rows, Y_seen, None, settings)
        history = train(learner, len(rows), loop)
        if self.scorer_.scoring.how != "cosine":
            history = [vote_history(entry) for entry in history]
        self.history_ = self.history_ + history
        untouched = network.optimizers["features"].age == 0
        untouched[known] = False
        features[untouched] = 0
        counts = label_counts(Y_seen).astype(np.int32)
        counts[old] += self.label_counts_
        self.label_ids_, self.label_counts_, self.n_labels_ = labels, counts, Y.shape[1]
        before = self.scorer_
        self._set_scorer(learner, before.slope, before.offset)
        self.scorer_.scoring = before.scoring
        self.scorer_.join(before, old)
        return self

    def _first_vectors(self, X: csr_array, Y: csr_array) -> np.ndarray:
        """Return initial vectors of new labels: the means of their points, as long as label vectors are on average."""
        means = Y.T @ self._encode(X)
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        return (means * (self.label_lengths_.mean() / np.maximum(lengths, 1e-6))).astype(np.float32)

    def _network(self, settings: Any, features: np.ndarray, labels: np.ndarray) -> MatchingNetwork:
        from longtail.models.mnn.network import MatchingNetwork

        return MatchingNetwork(features, labels, settings.optimizer, settings.decay, self.n_jobs)

    _less_memory: ClassVar[str] = "Lower dim, use fewer features (max_features, min_df), or set scoring=cosine."

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: the network with optimisers, the batch, and the vectors of voting points."""
        from longtail.models.mnn.network import MatchingNetwork

        settings, n_labels = self.settings(), int(np.count_nonzero(label_counts(Y)))
        sizes = X.shape[1], n_labels, settings.dim, settings.optimizer, settings.batch_size
        points = 0.0 if settings.scoring == "cosine" else 8.0 * X.shape[0] * settings.dim
        again = self._expects_to_train_again(X.shape[0])  # the first network is then still in memory
        first = 8.0 * (X.shape[1] + n_labels) * settings.dim if again else 0.0
        return 1.5 * data_bytes(X, Y) + MatchingNetwork.bytes_needed(*sizes) + first + points

    def _set_scorer(self, learner: MatchingLearner, slope: float, offset: float) -> None:
        """Set the scorer of a trained network, with training points unless labels are ranked by the cosine alone."""
        tables = learner.network.tables
        self.features_ = tables["features"]
        self.label_lengths_ = np.linalg.norm(tables["labels"], axis=1)
        self.scorer_ = LabelScorer(self._index(tables["labels"]), slope, offset)
        if learner.settings.scoring != "cosine":
            self.scorer_.points = self._index(self._encode(learner.X[learner.rows]))
            self.scorer_.votes = learner.Y

    def _index(self, vectors: np.ndarray) -> Index:
        return make_index(vectors, "cosine", random_state=self._seed, n_jobs=self.n_jobs)

    def _choose_scoring(self, settings: Any, held: Pair | None) -> Scoring:
        """Return the scoring that ranks the held-out points best."""
        from longtail.models.mnn.training import choose_scoring

        if held is None:
            way = "cosine" if settings.scoring == "auto" else settings.scoring
            return Scoring(way, settings.n_neighbors or _USUAL_NEIGHBORS)
        ways = WAYS if settings.scoring == "auto" else (settings.scoring,)
        return choose_scoring(self.scorer_, self._encode(held[0]), held[1], ways, settings.n_neighbors, self.n_jobs)

    # Prediction --------------------------------------------------------------------------------------------------

    def _encode(self, X: csr_array) -> np.ndarray:
        return encode_features(X.indptr, X.indices, X.data, self.features_, pool.threads_for(X.shape[0], self.n_jobs))

    def _predict(self, X: csr_array, k: int) -> csr_array:
        h = self._encode(X)
        scores = self.scorer_.rank(h, min(k, len(self.label_ids_)), pool.threads_for(len(h), self.n_jobs))
        unknown = np.flatnonzero(~h.any(axis=1))  # points without a known feature get the most frequent labels
        if len(unknown):
            rows = np.arange(len(h))
            rows[unknown] = len(h)
            scores = csr_array(sparse.vstack([scores, self._most_frequent(k)], format="csr"))[rows]
        scores = bounded_scores(scores.data), self.label_ids_[scores.indices], scores.indptr
        return csr_array(scores, shape=(len(h), self.n_labels_))

    def _most_frequent(self, k: int) -> csr_array:
        order = np.argsort(-self.label_counts_, kind="stable")[:k].astype(np.int32)
        share = (self.label_counts_[order] / (1 + self.label_counts_.sum())).astype(np.float32)
        return csr_array((share, order, np.array([0, len(order)])), shape=(1, len(self.label_ids_)))

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.scorer_.to_arrays()
        own = {name: getattr(self, f"{name}_") for name in _ARRAYS}
        known = {"history": self.history_, "n_negatives": self.n_negatives_, "scorer": facts}
        return known, own | with_prefix("scorer_", arrays), {}

    _facts: ClassVar = {"history": ROWS, "n_negatives": Integer(1), "scorer": FACTS}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        own = {
            "features": floats("D d"),
            "label_ids": indices("labels", below="L", distinct=True, dtypes="i4 i8"),
            "label_counts": counts("labels"),
            "label_lengths": floats("labels"),
        }
        return Rules(own) | LabelScorer.array_rules(stored.meta["scorer"], "labels", "d").prefixed("scorer_")

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_, self.n_negatives_ = facts["history"], facts["n_negatives"]
        for name in _ARRAYS:
            setattr(self, f"{name}_", arrays[name])
        self.scorer_ = LabelScorer.from_arrays(facts["scorer"], without_prefix("scorer_", arrays))


def _random_vectors(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Draw vectors of length about 1, (n, dim)."""
    return rng.standard_normal((n, dim), np.float32) / np.float32(np.sqrt(dim))
