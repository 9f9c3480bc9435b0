"""GLaS: an embedding classifier regularised towards label co-occurrence (Guo et al., NeurIPS 2019).

A point is the sum of its tokens' vectors, a label is a vector, and a score is their inner product. Such models overfit.
The paper's remedies are a regulariser that pulls the Gram matrix of the label vectors towards label co-occurrence
(eq. 3), input dropout (§3.3) and weight normalisation (§3.1).

Choices made here. The paper draws one positive label per point (Alg. 2, line 12). We take the mean over all positives,
which has the same expectation and less noise. If labels are few, all of them are candidates. Otherwise candidates are
the positives of the batch and labels drawn uniformly, and negatives are weighted to correct for their unequal
probabilities of being drawn. The regulariser acts on the directions of the label vectors drawn from the batch, whether
scores are normalised or not.

``preset="fast"`` starts label vectors at the mean of their points, because a label with one or two points gets too few
steps to get there from a random start. It leaves out the paper's ReLU, without which labels of held-out points of two
data sets were ranked better.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import store
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import threads_for
from longtail.models.base import Arrays, Ranker, data_bytes
from longtail.models.epoch_ranker import EpochRanker, usual_batch_size
from longtail.models.glas.presets import ADVANCED, PRESETS
from longtail.models.glas.trained import GlasScorer, SumEncoder
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.raw_scores import calibrate, probabilities
from longtail.models.training_part import TrainingPart
from longtail.params import NOT_NEGATIVE, Integer, OneOf
from longtail.sparse import Pair, from_top_k, label_counts, labelled_rows, take_labels
from longtail.store.facts import FINITE, ROWS, YES_NO, Record
from longtail.store.invariants import Rules

if TYPE_CHECKING:
    from longtail.models.glas.learner import EmbeddingLearner
    from longtail.models.glas.network import Network, NetworkSettings
    from longtail.neural.loop import LoopSettings

_RECALL_K = 20  # labels over which the recall of an approximate index is measured


class GLaS(EpochRanker):
    """Embedding classifier with the GLaS regulariser.

    A parameter that is None has the value of the preset.

    Parameters
    ----------
    preset : {"fast", "paper"}
        Values of the other parameters: the recipe that was best here for a few cores, or the published one (margin
        loss, ReLU, normalised vectors, random initial vectors).
    dim : int, optional
        Length of token and label vectors. Longer vectors are slower and slightly more accurate.
    loss : {"bce", "softmax", "margin"}, optional
        See :mod:`longtail.neural.losses`.
    regularizer : {"glas", "spreadout", "gravity", "none"}, optional
        See :mod:`longtail.models.glas.regularizers`.
    regularization : float, optional
        λ, the weight of the regulariser. The paper's 10 suits "softmax" and "margin", whose values are smaller.
    n_candidates : int, optional
        Number of labels drawn per batch, in addition to its positives. With no more labels than this, all labels are
        candidates. More candidates are slower and more accurate.
    dropout : float, optional
        Probability that a coordinate of an encoded point is left out of a step.
    input_dropout : float, optional
        Probability that a feature is left out of a step; 1 - ρ of the paper.
    epochs : int, optional
        Number of passes over the points, at most.
    batch_size : int, optional
        Points per step. By default about a hundredth of the points, from 32 to 512 (paper 4096), so that rare tokens
        take enough steps.
    learning_rate : float, optional
        Highest learning rate. By default 0.012 for batches of 512, and less for smaller ones, in proportion to the
        square root of their size.
    validation_fraction : float, optional
        Share of points held out for early stopping, 2,000 at most; 0 for none. Not used if `fit` is given validation
        points.
    refit : bool, optional
        Train again for the best number of epochs on all points, held-out ones included. By default if there are fewer
        than 20,000 points, in the paper never. Otherwise the network learns from the held-out points in a few epochs.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch, from which an interrupted run can be resumed; removed at the end.
    advanced : dict, optional
        Settings of the training recipe that only experiments need: ``affinity`` ("arithmetic", "geometric", "pmi",
        "jaccard": the measure of co-occurrence that "glas" regularises towards), ``relu``, ``normalize`` (the paper's
        weight normalisation of both layers, and points of length 1), ``scale`` (with ``normalize``, the length of label
        vectors at the start), ``start`` (length of label vectors at the start, in the direction of the mean of their
        points; 0 for short random ones), ``label_bias`` (a bias per label), ``correction`` (power, from 0 to 1, of the
        inverse probability by which negatives of "bce" are weighted), ``margin`` (c of eq. 1), ``n_hard`` (negatives of
        the margin loss), ``n_regularized`` (labels to regularise per batch), ``schedule``, ``patience``, ``optimizer``,
        ``decay``.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of every random choice.

    Attributes
    ----------
    history_ : list of dict
        Loss and precision in training and validation after each epoch.

    Examples
    --------
    >>> from longtail import GLaS
    >>> GLaS(preset="paper", epochs=3)
    GLaS(preset='paper', epochs=3)
    """

    kind: ClassVar[str] = "glas"
    _presets: ClassVar = PRESETS
    _advanced: ClassVar = ADVANCED
    _constraints: ClassVar = {
        "loss": OneOf("bce", "softmax", "margin"),
        "regularizer": OneOf("glas", "spreadout", "gravity", "none"),
        "regularization": NOT_NEGATIVE,
        "n_candidates": Integer(1),
    }
    scorer_: GlasScorer
    slope_: float
    offset_: float

    def __init__(
        self,
        preset: str = "fast",
        dim: int | None = None,
        loss: str | None = None,
        regularizer: str | None = None,
        regularization: float | None = None,
        n_candidates: int | None = None,
        dropout: float | None = None,
        input_dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | None = None,
        refit: bool | None = None,
        checkpoint: str | None = None,
        advanced: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.preset = preset
        self.dim = dim
        self.loss = loss
        self.regularizer = regularizer
        self.regularization = regularization
        self.n_candidates = n_candidates
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.checkpoint = checkpoint
        self.advanced = advanced
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Training ----------------------------------------------------------------------------------------------------

    def _fit_part(self, part: TrainingPart) -> None:
        """Train the network on the points that are not held out."""
        self.n_features_in_, self.n_labels_ = part.X.shape[1], part.Y.shape[1]
        labels = np.unique(part.Y[part.all_rows()].indices).astype(np.int32)
        Y, held = take_labels(part.Y, labels), part.held_with(labels)
        loop = self._stage_loop(self._loop_for(len(part.rows)), "first")
        network = self._network(part.X, part.rows, Y[part.rows])
        learner = self._learner(network, part.X, part.rows, Y[part.rows], held, loop.batch_size)
        self.history_ = self._train(learner, loop, self._identity(part.X, part.Y, *(part.held or ())))
        self.slope_, self.offset_ = getattr(self, "_settled", (1.0, 0.0))
        if self.settings().loss == "margin" and "_settled" not in self.__dict__:
            self.slope_, self.offset_ = calibrate(learner.search, *(held or learner.sample()))
        self._learner_ = learner
        self.scorer_ = self._make_scorer(learner, labels, part, exact=True)

    def _scored_like(self, fitted: Ranker) -> Self:
        """Return an unfitted copy with the slope and the offset of the fitted ranker, so that scores compare."""
        copy = self.unfitted()
        if isinstance(fitted, GLaS):
            copy._settled = fitted.slope_, fitted.offset_
        return copy

    def _fit_rest(self, part: TrainingPart) -> None:
        """Learn from the held-out points, and build the index."""
        from longtail.neural.loop import absorb

        learner, labels = self._learner_, self.scorer_.labels.ids
        if part.rest is not None:
            rows = np.sort(part.all_rows())
            Y = take_labels(part.Y, labels)
            loop = self._stage_loop(self._loop_for(len(part.rows)), "again")
            if self._trains_again(len(part.rows)) and learner.validation is not None:
                network = self._network(part.X, rows, Y[rows])
                learner = self._learner(network, part.X, rows, Y[rows], None, loop.batch_size)
                loop = replace(loop, stop=self._best_length(), stage="training on all points")
                self._train(learner, loop, self._identity(part.X, part.Y, *(part.held or ())))
            else:
                biases, unseen = learner.network.tables["c"], label_counts(learner.Y) == 0
                biases[unseen] = biases[~unseen].min()  # their own biases are too low to rise in a few epochs
                absorb(len(learner.rows), len(part.rest), partial(_joined, learner, part.rest, Y), loop)
        self.scorer_ = self._make_scorer(learner, labels, part, exact=False)
        del self._learner_
        self._remove_checkpoint()

    def _rest_share(self, n_points: int) -> float:
        return 1.0 if self._trains_again(n_points) else 0.15

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
            Number of passes over the new points, at a quarter of `learning_rate`. No points are held out.
        """
        if not hasattr(self, "n_labels_"):
            return self.fit(X, Y)
        from longtail.models.glas.network import Network
        from longtail.neural.loop import train

        X, Y = self._check_further_points(X, Y)
        loop = self._loop_for(X.shape[0], epochs)
        loop = replace(loop, rate=loop.rate / 4, checkpoint=None, seed=self._seed + 1)
        known = self.scorer_.labels.ids
        labels = np.union1d(known, Y.indices).astype(np.int32)  # new labels, and old ones that had no points
        Y_seen = take_labels(Y, labels)
        rng = np.random.default_rng([self._seed, len(self.history_)])
        tables = self.scorer_.network_tables()
        network_settings = replace(self._network_settings(), dim=tables["tokens"].shape[1])  # that of the fit
        network = Network(X.shape[1], len(labels), network_settings, self._prior(Y_seen), rng)
        network.adopt(tables, np.searchsorted(labels, known))
        self.n_labels_ = Y.shape[1]
        rows = labelled_rows(Y_seen)
        learner = self._learner(network, X, rows, Y_seen[rows], None, loop.batch_size)
        self.history_ = self.history_ + train(learner, len(rows), loop)
        self.scorer_ = self._make_scorer(learner, labels, None, exact=False)
        return self

    def _network(self, X: csr_array, rows: np.ndarray, Y: csr_array) -> Network:
        from longtail.models.glas.network import Network

        start = self.settings().start
        rng = np.random.default_rng(self._seed)
        network = Network(X.shape[1], Y.shape[1], self._network_settings(), self._prior(Y), rng)
        if start > 0:
            network.start_at_centroids(X, rows, Y, start)
        return network

    def _learner(
        self, network: Network, X: csr_array, rows: np.ndarray, Y: csr_array, held: Pair | None, batch_size: int
    ) -> EmbeddingLearner:
        from longtail.labels.cooccurrence import affinity
        from longtail.models.glas.learner import EmbeddingLearner, Recipe
        from longtail.models.glas.regularizers import REGULARIZERS
        from longtail.neural.batch import CandidateSampler
        from longtail.neural.losses import make_loss

        settings = self.settings()
        recipe = Recipe(
            make_loss(settings.loss, settings.correction, settings.margin, settings.n_hard, self.n_jobs),
            REGULARIZERS.get(settings.regularizer),
            settings.regularization,
            affinity(Y, settings.affinity) if settings.regularizer == "glas" else None,
            settings.n_regularized,
            1 - settings.input_dropout,
        )
        sampler = CandidateSampler(Y, settings.n_candidates, batch_size)
        return EmbeddingLearner(network, X, rows, Y, held, sampler, recipe)

    def _train(self, learner: EmbeddingLearner, loop: LoopSettings, identity: str = "") -> list[dict[str, float]]:
        """Train a new network."""
        from longtail.neural.loop import train

        history = train(learner, len(learner.rows), loop, identity)
        network = learner.network
        network.tables["E"][network.optimizers["E"].age == 0] = 0  # random vectors of untrained tokens would be noise
        return history

    def _loop_for(self, n_points: int, epochs: int | None = None) -> LoopSettings:
        """Return the settings of the training loop for `n_points` points."""
        settings = self.settings()
        size = self._batch_size(n_points)
        rate = settings.learning_rate
        if rate is None:
            rate = 0.012 * float(np.sqrt(size / 512))
        return self._loop(settings, size, rate, epochs)

    def _batch_size(self, n_points: int) -> int:
        return self.settings().batch_size or usual_batch_size(n_points, 4096 if self.preset == "paper" else 512)

    def _network_settings(self) -> NetworkSettings:
        from longtail.models.glas.network import NetworkSettings

        settings = self.settings()
        return NetworkSettings(
            settings.dim,
            settings.relu,
            settings.normalize,
            settings.optimizer,
            settings.decay,
            settings.scale,
            self.n_jobs,
            settings.dropout,
            1.0 if settings.start > 0 else 0.1,
            settings.label_bias,
        )

    _less_memory: ClassVar[str] = "Lower dim, or use fewer features (max_features, min_df)."

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: network with optimisers, batch, label affinities, and perhaps a first scorer."""
        from longtail.models.glas.network import Network

        settings, n_features = self.settings(), X.shape[1]
        n_labels = int(np.count_nonzero(label_counts(Y)))
        batch = self._batch_size(X.shape[0])
        candidates = min(n_labels, 2 * settings.n_candidates)
        network = Network.bytes_needed(n_features, n_labels, self._network_settings(), batch, candidates)
        pairs = float((np.diff(Y.indptr).astype(np.float64) ** 2).sum()) if settings.regularizer == "glas" else 0.0
        scorer = 0.0
        if self._expects_to_train_again(X.shape[0]):  # the scorer of the first training is then still in memory
            scorer = 4.0 * settings.dim * (n_features + 3 * n_labels)
        return 1.5 * data_bytes(X, Y) + network + 24 * min(pairs, float(n_labels) ** 2) + scorer

    def _prior(self, Y: csr_array) -> np.ndarray:
        """Return the initial label biases: for the logistic loss, the log odds of each label."""
        from longtail.neural.tables import prior_log_odds

        settings = self.settings()
        uses_log_odds = settings.loss == "bce" and settings.label_bias
        return prior_log_odds(Y) if uses_log_odds else np.zeros(Y.shape[1], np.float32)

    def _make_scorer(
        self, learner: EmbeddingLearner, labels: np.ndarray, part: TrainingPart | None, exact: bool
    ) -> GlasScorer:
        """Return the scorer for prediction. `exact` searches all labels; otherwise an index of many labels is tuned.

        The index is tuned on held-out points if there are any, because labels of training points are easier to find.
        """
        from longtail.index import make_index
        from longtail.neural.search import with_bias

        settings, tables = learner.network.settings, learner.network.scorer()
        vectors, scale = with_bias(tables["labels"], tables["label_bias"])
        encoder = SumEncoder(tables["tokens"], tables["bias"], settings.relu, settings.normalize, scale)
        listed = part is not None and part.listed_elsewhere
        if exact or listed:
            index = make_index(vectors, "ip", "exact")
        else:
            points = learner.sample()[0] if part is None or part.rest is None else part.X[part.rest]
            queries = encoder(SparseRows.of(points), self.n_jobs)
            tuned: dict[str, Any] = {"queries": queries, "random_state": self._seed, "n_jobs": self.n_jobs}
            index = make_index(vectors, "ip", "auto", recall_k=_RECALL_K, **tuned)
        return GlasScorer(encoder, index, labels, self.n_labels_, self.slope_)

    # Prediction --------------------------------------------------------------------------------------------------

    def _pair_scorer(self) -> GlasScorer:
        return self.scorer_

    def _predict(self, X: csr_array, k: int) -> csr_array:
        jobs, scorer = threads_for(X.shape[0], self.n_jobs), self.scorer_
        query = scorer.encode(SparseRows.of(X), jobs)
        positions, raw = scorer.index.search(query, min(k, len(scorer.index)), n_jobs=jobs)
        return from_top_k(scorer.labels.ids[positions], self._probabilities(raw), None, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        scorer = self.scorer_
        query = scorer.encode(SparseRows.single(indices, values), 1)
        positions, raw = scorer.index.search_one(query[0], min(k, len(scorer.index)))
        return scorer.labels.ids[positions], self._probabilities(raw[None])[0]

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        return probabilities(raw, self._setting("loss"), self.slope_, self.offset_)

    def _label_norms(self) -> np.ndarray:
        """Return the norm of each label's vector, NaN for labels without points."""
        norms = np.full(self.n_labels_, np.nan)
        norms[self.scorer_.labels.ids] = np.linalg.norm(self.scorer_.index.vectors[:, :-1], axis=1)
        return norms

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.scorer_.state()
        return facts | {"slope": self.slope_, "offset": self.offset_, "history": self.history_}, arrays, {}

    _facts: ClassVar = {
        "encoder": Record({"relu": YES_NO, "normalize": YES_NO, "scale": FINITE}),
        "index": Record(),
        "history": ROWS,
        "score_slope": FINITE,
        "slope": FINITE,
        "offset": FINITE,
    }

    @classmethod
    def _array_rules(cls, stored: store.Stored, parts: dict[str, Ranker]) -> Rules:
        return GlasScorer.array_rules(stored.meta)

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.slope_, self.offset_, self.history_ = facts["slope"], facts["offset"], facts["history"]
        self.scorer_ = GlasScorer.restored(facts, arrays, self.n_labels_)


def _joined(learner: EmbeddingLearner, rest: np.ndarray, Y: csr_array, known: np.ndarray) -> EmbeddingLearner:
    """Return a learner on the rows `rest` and on some `known` training points; `Y` has the labels of all points."""
    rows = np.sort(np.concatenate([learner.rows[known], rest]))
    return learner.on(rows, Y[rows])
