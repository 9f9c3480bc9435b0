"""GLaS: an embedding classifier whose label vectors are held to the labels' co-occurrence (Guo et al., NeurIPS 2019).

A point is the sum of its tokens' vectors, a label is a vector, a score is their inner product. Such models overfit; the
paper's cure is a regulariser that pulls the Gram matrix of label vectors to how often labels occur together (eq. 3),
input dropout (§3.3) and weight normalisation (§3.1).

Choices made here. The paper draws one positive label a point (Alg. 2, line 12); we take the mean over all of them,
which is the same in expectation and less noisy. Negatives are all labels while these are few, else the batch's own and
some drawn uniformly, with weights against the unequal chances. The regulariser acts on the directions of the label
vectors drawn for the batch, whether or not the scores are normalised. Label vectors start at the mean of their points:
a label with one or two points gets too few steps to find its way there from a random start. Points are not passed
through the paper's ReLU by default: on held-out points of two data sets they were ranked better without. Nor does the
network answer alone by default (`mix`): trees over sparse features and similar training points know what one vector a
point cannot hold, and held-out points say what each is worth (:mod:`longtail.models.mixed`).
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.index import Index
from longtail.index.ranking import as_matrix
from longtail.kernels.rows import valid
from longtail.labels.cooccurrence import HOWS, affinity
from longtail.models.base import Arrays, Ranker
from longtail.models.bonsai import Bonsai
from longtail.models.embedding import EmbeddingRanker, chances
from longtail.models.mixed import Mixed
from longtail.models.views import Views
from longtail.neural import embedded
from longtail.neural.batch import CandidateSampler
from longtail.neural.held_out import Pair, hold_out_at_random, measurable, seen
from longtail.neural.instance import Instance
from longtail.neural.learner import EmbeddingLearner, absorb, calibrate
from longtail.neural.loop import LoopSettings, train
from longtail.neural.losses import LOSSES, make_loss
from longtail.neural.network import Network, NetworkSettings
from longtail.neural.optimizers import KINDS
from longtail.neural.regularizers import REGULARIZERS


class GLaS(EmbeddingRanker):
    """Embedding classifier with the GLaS regulariser.

    Parameters
    ----------
    dim : int
        d, the length of token and label vectors.
    loss : {"bce", "softmax", "margin"}
        See :mod:`longtail.neural.losses`.
    regularizer : {"glas", "spreadout", "gravity"}, optional
        See :mod:`longtail.neural.regularizers`.
    affinity : {"arithmetic", "geometric", "pmi", "jaccard"}
        Co-occurrence that "glas" holds label vectors to; see :mod:`longtail.labels.cooccurrence`.
    weight : float
        λ, the weight of the regulariser. The paper's 10 suits "softmax" and "margin", whose values are smaller.
    keep : float
        ρ, the chance of a feature to stay in input dropout.
    dropout : float
        Share of an encoded point's numbers that are left out of a step.
    relu : bool
        ReLU after the sum of tokens, or a linear encoder.
    start : float
        Length of label vectors at the start, in the direction of the mean of their points, so that a label with few
        points begins near them; 0 for random short ones, which are better with `relu`.
    normalize : bool
        Points and label vectors to length 1, with one shared trainable length.
    scale : float
        That length at the start.
    candidates : int
        With no more labels than this each point meets all of them; else so many drawn ones and those of its batch.
    correction : float
        How far drawn negatives are weighted by one over their chance of being drawn, 0 to 1.
    epochs, schedule, patience
        See :class:`longtail.neural.loop.LoopSettings`.
    batch_size : int, optional
        By default about a hundredth of the points, from 32 to 512: few points need small batches to be stepped on
        often enough.
    learning_rate : float, optional
        By default 0.012 for batches of 512, and less for smaller ones, as the square root of their size.
    optimizer : {"adam", "adagrad", "sgd"}
    decay : float
        Weight decay of the vectors a batch touches.
    margin : float
        c of eq. 1.
    n_hard : int
        Negatives of the margin loss: the highest so many.
    mix : bool
        Mix the network with other views of the points, weighed by held-out points; without, it is the paper's model.
    n_trees : int
        Trees of the linear view (Bonsai); 0 for none.
    neighbours : int
        Training points that vote in the view of neighbours; 0 for none.
    validation_fraction : float
        Share of points held out for early stopping and mixing, 2,000 at most; 0 for none. Unused where `fit` is given a
        validation part.
    refit : bool, optional
        Train once more, as long as was best, on the held-out points too; by default where there are fewer than 20,000.
        Where not, a mix has the network learn from them in a few steps.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch, from which an interrupted run goes on; removed at the end.
    n_jobs : int, optional
        Threads of the kernels; all cores by default.
    random_state : int

    Attributes
    ----------
    history_ : list of dict
        Loss and precision in training and validation after each epoch.
    """

    kind: ClassVar[str] = "glas"
    instance_: Instance  # the network
    slope_: float
    offset_: float
    mixed_: Mixed  # where views are mixed

    def __init__(
        self,
        dim: int = 512,
        loss: str = "bce",
        regularizer: str | None = "glas",
        affinity: str = "arithmetic",
        weight: float = 100.0,
        keep: float = 0.9,
        dropout: float = 0.2,
        relu: bool = False,
        start: float = 4.0,
        normalize: bool = False,
        scale: float = 16.0,
        candidates: int = 4096,
        correction: float = 0.4,
        epochs: int = 12,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        schedule: str = "linear",
        patience: int = 5,
        optimizer: str = "adam",
        decay: float = 0.0,
        margin: float = 0.3,
        n_hard: int = 10,
        mix: bool = True,
        n_trees: int = 3,
        neighbours: int = 32,
        validation_fraction: float = 0.05,
        refit: bool | None = None,
        checkpoint: str | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.dim = dim
        self.loss = loss
        self.regularizer = regularizer
        self.affinity = affinity
        self.weight = weight
        self.keep = keep
        self.dropout = dropout
        self.relu = relu
        self.start = start
        self.normalize = normalize
        self.scale = scale
        self.candidates = candidates
        self.correction = correction
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.patience = patience
        self.optimizer = optimizer
        self.decay = decay
        self.margin = margin
        self.n_hard = n_hard
        self.mix = mix
        self.n_trees = n_trees
        self.neighbours = neighbours
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Learning ----------------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        choices = {
            "loss": tuple(LOSSES),
            "regularizer": (*REGULARIZERS, None),
            "affinity": HOWS,
            "optimizer": tuple(KINDS),
        }
        self._check_choices(choices, ("dim", "candidates", "n_hard"), ("n_trees", "neighbours"))
        for name in ("weight", "decay", "margin", "correction", "start"):
            if not getattr(self, name) >= 0:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give 0 or a number above it")
        if not 0 < self.keep <= 1:
            raise SettingsError(f"keep is {self.keep!r}; give a number above 0, up to 1")
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout is {self.dropout!r}; give 0, or a number below 1")
        if not self.scale > 0:
            raise SettingsError(f"scale is {self.scale!r}; give a number above 0")

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        self._check_settings()
        loop = replace(self._pace(X.shape[0], self.epochs), keep_checkpoint=True)
        identity = self._identity(X, Y, validation)
        rows, Y_seen, held = self._parts(X, Y, validation)
        everything = np.flatnonzero(np.diff(Y_seen.indptr))
        self._check_memory(X.shape[1], Y_seen.shape[1], loop.batch_size)
        learner = self._learner(self._network(X, rows, Y_seen[rows]), X, rows, Y_seen[rows], held, loop.batch_size)
        self.history_ = self._train(learner, loop, identity)
        self.slope_, self.offset_ = 1.0, 0.0
        if self.loss == "margin":
            self.slope_, self.offset_ = calibrate(learner.search, *(held or learner.sample()))
        if self.mix:
            self._learn_mix(learner, Y[rows])
        if self._trains_again(rows, held, validation):
            network = self._network(X, everything, Y_seen[everything])
            learner = self._learner(network, X, everything, Y_seen[everything], None, loop.batch_size)
            self._train(learner, replace(loop, checkpoint=None, stop=self._best_length()))
        elif self.mix and len(everything) > len(rows):
            absorb(learner, np.setdiff1d(everything, rows), Y_seen, loop)
        if self.mix and len(everything) > len(rows):
            self.mixed_.fit(X[everything], Y[everything])
        self._keep(learner)
        if self.checkpoint is not None:
            shutil.rmtree(self.checkpoint, ignore_errors=True)

    def _parts(self, X: csr_array, Y: csr_array, validation: Pair | None) -> tuple[np.ndarray, csr_array, Pair | None]:
        if not self.mix:
            return super()._parts(X, Y, validation)
        rows, spare = hold_out_at_random(Y, validation, self.validation_fraction, self.random_state)
        self.label_ids_ = np.unique(Y.indices).astype(np.int32)  # in the end held-out points are learnt from, too
        held = (X[spare], Y[spare]) if len(spare) else validation
        return rows, seen(Y, self.label_ids_), measurable(held, self.label_ids_)

    def _learn_mix(self, learner: EmbeddingLearner, Y: csr_array) -> None:
        """Train the other views, and learn from held-out points what each is worth. Y has all labels."""
        linear = Bonsai(self.n_trees, n_jobs=self.n_jobs, random_state=self.random_state) if self.n_trees else None
        self.mixed_ = Mixed(Views(linear, self.neighbours))
        self.mixed_.fit(learner.X[learner.rows], Y)
        self._keep(learner, exact=True)
        if learner.validation is not None:
            self.mixed_.learn(*learner.validation, self.n_jobs)

    def _network(self, X: csr_array, rows: np.ndarray, Y: csr_array) -> Network:
        rng = np.random.default_rng(self.random_state)
        network = Network(X.shape[1], Y.shape[1], self._network_settings(), self._prior(Y), rng)
        if self.start > 0:
            network.start_at_centroids(X, rows, Y, self.start)
        return network

    def partial_fit(self, X: Any, Y: Any, epochs: int = 1) -> Self:
        """Learn on from new points, without starting again.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            New points, with the features of the first ones.
        Y : sparse or dense matrix, (N, L')
            Their labels. Columns beyond those known are new labels, appended; there may be none, but never fewer.
        epochs : int
            Passes over the new points, at a quarter of `learning_rate`. No part is held out. In a mix new points join
            the neighbours; trees and weights stay as they are.
        """
        if not hasattr(self, "n_labels_"):
            return self.fit(X, Y)
        X, Y = self._more(X, Y)
        loop = self._pace(X.shape[0], epochs)
        loop = replace(loop, rate=loop.rate / 4, checkpoint=None, seed=self.random_state + 1)
        fresh = np.setdiff1d(Y.indices, self.label_ids_)  # new labels, and old ones that had no points
        labels = np.union1d(self.label_ids_, fresh).astype(np.int32)
        self._check_memory(X.shape[1], len(labels), loop.batch_size)
        Y_seen = seen(Y, labels)
        rng = np.random.default_rng([self.random_state, len(self.history_)])
        network = Network(X.shape[1], len(labels), self._network_settings(), self._prior(Y_seen), rng)
        old = np.searchsorted(labels, self.label_ids_)
        network.adopt(embedded.scorer(self.instance_), old)
        self.label_ids_, self.n_labels_ = labels, Y.shape[1]
        some = np.flatnonzero(np.diff(Y_seen.indptr))
        learner = self._learner(network, X, some, Y_seen[some], None, loop.batch_size)
        self.history_ = self.history_ + train(learner, len(some), loop)
        if self.mix:
            self.mixed_.join(X[some], Y[some])
        self._keep(learner)
        return self

    def _learner(
        self, network: Network, X: csr_array, rows: np.ndarray, Y: csr_array, held: Pair | None, batch_size: int
    ) -> EmbeddingLearner:
        return EmbeddingLearner(
            network,
            X,
            rows,
            Y,
            held,
            CandidateSampler(Y, self.candidates, batch_size),
            make_loss(self.loss, self.correction, self.margin, self.n_hard, self.n_jobs),
            None if self.regularizer is None else REGULARIZERS[self.regularizer],
            self.weight,
            affinity(Y, self.affinity) if self.regularizer == "glas" else None,
            self.keep,
        )

    def _train(self, learner: EmbeddingLearner, loop: LoopSettings, identity: str = "") -> list[dict[str, float]]:
        """Train from the start."""
        history = train(learner, len(learner.rows), loop, identity)
        network = learner.network  # nothing is known of tokens that were never met; they shall not be noise
        network.tables["E"][network.optimizers["E"].age == 0] = 0
        return history

    def _pace(self, n_points: int, epochs: int) -> LoopSettings:
        size = self.batch_size
        if size is None:
            size = int(np.clip(2 ** round(np.log2(n_points / 100)), 32, 512))
        rate = self.learning_rate
        if rate is None:
            rate = 0.012 * float(np.sqrt(size / 512)) if size > 0 else 1.0
        return self._loop(epochs, size, rate)

    def _network_settings(self) -> NetworkSettings:
        return NetworkSettings(
            self.dim, self.relu, self.normalize, self.optimizer, self.decay, self.scale, self.n_jobs, self.dropout,
            tokens=1.0 if self.start > 0 else 0.1,
        )  # fmt: skip

    def _check_memory(self, n_features: int, n_labels: int, batch_size: int) -> None:
        candidates = min(n_labels, 2 * self.candidates)
        needed = Network.bytes_needed(n_features, n_labels, self._network_settings(), batch_size, candidates)
        memory.require(needed, "GLaS", "Lower dim, or use fewer features (max_features, min_df).")

    def _keep(self, learner: EmbeddingLearner, exact: bool = False) -> None:
        """What prediction needs; an index of many labels is tuned on training points, unless all are looked at."""
        sample, listed = None if exact else learner.sample()[0], self.mix and len(self.mixed_.views) > 0
        self.instance_ = embedded.answering(learner.network, self._slope(), sample, self.random_state, listed)
        if self.mix:
            self.mixed_.settle(self.instance_, self.label_ids_)

    def _slope(self) -> float:
        """Of the network's scores in a mix; else it comes in the end, with the offset."""
        return self.slope_ if self.mix else 1.0

    def _prior(self, Y: csr_array) -> np.ndarray:
        """Biases at the start: the log odds of each label for the logistic loss, which then need not be learnt."""
        if self.loss != "bce":
            return np.zeros(Y.shape[1], np.float32)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        chance = (counts + 0.5) / (Y.shape[0] + 1.0)
        return np.log(chance / (1 - chance))

    # Answering ---------------------------------------------------------------------------------------------------

    def _predict(self, X: csr_array, k: int) -> csr_array:
        jobs = 1 if X.shape[0] < 64 else self.n_jobs
        if self.mix:
            return self.mixed_.answer(X, k, jobs)
        query = self.instance_.encoder(X.indptr, X.indices, X.data, jobs)
        found, raw = self._index.search(query, min(k, len(self.label_ids_)), n_jobs=jobs)
        return as_matrix(self.label_ids_[found], self._chances(raw), self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        if not valid(indices, values, self.n_features_in_):
            return None
        if self.mix:
            return self.mixed_.answer_one(indices, values, k)
        query = self.instance_.encoder(np.array([0, len(indices)], np.int32), indices, values, 1)
        found, raw = self._index.search_one(query[0], min(k, len(self.label_ids_)))
        return self.label_ids_[found], self._chances(raw[None])[0]

    @property
    def _index(self) -> Index:
        assert self.instance_.index is not None
        return self.instance_.index

    def _chances(self, raw: np.ndarray) -> np.ndarray:
        return chances(raw, self.loss, self.slope_, self.offset_)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = embedded.state(self.instance_)
        facts |= {"slope": self.slope_, "offset": self.offset_, "history": self.history_}
        arrays["label_ids"] = self.label_ids_
        if not self.mix:
            return facts, arrays, {}
        facts["mixed"], more, parts = self.mixed_.state()
        return facts, arrays | more, parts

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.slope_, self.offset_, self.history_ = facts["slope"], facts["offset"], facts["history"]
        self.label_ids_ = arrays["label_ids"]
        self.instance_ = embedded.restored(facts, arrays, self.relu, self.normalize, self._slope())
        if self.mix:
            self.mixed_ = Mixed.restored(facts["mixed"], arrays, parts)
            self.mixed_.settle(self.instance_, self.label_ids_)
