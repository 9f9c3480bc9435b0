"""GLaS: an embedding classifier whose label vectors are held to the labels' co-occurrence (Guo et al., NeurIPS 2019).

A point is the sum of its tokens' vectors, a label is a vector, a score is their inner product. Such models overfit; the
paper's cure is a regulariser that pulls the Gram matrix of label vectors to how often labels occur together (eq. 3),
input dropout (§3.3) and weight normalisation (§3.1).

Choices made here. The paper draws one positive label a point (Alg. 2, line 12); we take the mean over all of them,
which is the same in expectation and less noisy. Negatives are all labels while these are few, else the batch's own and
some drawn uniformly, with weights against the unequal chances. The regulariser acts on the directions of the label
vectors drawn for the batch, whether or not the scores are normalised. Label vectors start at the mean of their points:
a label with one or two points gets too few steps to find its way there from a random start. Points are not passed
through the paper's ReLU by default: on held-out points of two data sets they were ranked better without.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.index import Index, from_arrays, make_index
from longtail.index.ranking import as_matrix
from longtail.kernels.rows import valid
from longtail.labels.cooccurrence import HOWS, affinity
from longtail.models.base import Arrays, Ranker
from longtail.models.embedding import ABOVE_ZERO, BELOW_ONE, EmbeddingRanker
from longtail.neural.batch import CandidateSampler
from longtail.neural.held_out import Pair, seen
from longtail.neural.learner import EmbeddingLearner, calibrate
from longtail.neural.loop import LoopSettings, train
from longtail.neural.losses import LOSSES, Loss, bce, margin
from longtail.neural.network import Network, NetworkSettings, encode_all
from longtail.neural.optimizers import KINDS
from longtail.neural.regularizers import REGULARIZERS
from longtail.neural.search import queries, with_bias

_DEPTH = 20  # labels of which an approximate index is to find all but a few


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
    validation_fraction : float
        Share of points held out for early stopping, 2,000 at most; 0 for none. Unused where `fit` is given a validation
        part.
    refit : bool, optional
        Train once more, as long as was best, on the held-out points too; by default where there are fewer than 20,000.
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
    tokens_: np.ndarray  # (D, d)
    bias_: np.ndarray  # (d,)
    index_: Index  # label vectors with their biases, (seen labels, d + 1)
    bias_scale_: float  # see longtail.neural.search
    slope_: float
    offset_: float

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
        self._check_choices(choices, ("dim", "candidates", "n_hard"))
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
        loop = self._pace(X.shape[0], self.epochs)
        identity = self._identity(X, Y, validation)
        rows, Y, held = self._parts(X, Y, validation)
        self._check_memory(X.shape[1], Y.shape[1], loop.batch_size)
        self.history_ = self._train(self._network(X, rows, Y[rows]), X, rows, Y[rows], held, loop, identity)
        if self._trains_again(rows, held, validation):
            rows, calibration = np.flatnonzero(np.diff(Y.indptr)), (self.slope_, self.offset_)
            again = replace(loop, checkpoint=None, stop=self._best_length())
            self._train(self._network(X, rows, Y[rows]), X, rows, Y[rows], None, again, "")
            self.slope_, self.offset_ = calibration

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
            Passes over the new points, at a quarter of `learning_rate`. No part is held out.
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
        network.adopt(self._scorer(), old)
        self.label_ids_, self.n_labels_ = labels, Y.shape[1]
        some = np.flatnonzero(np.diff(Y_seen.indptr))
        calibration = self.slope_, self.offset_
        self.history_ = self.history_ + self._train(network, X, some, Y_seen[some], None, loop, "", fresh=False)
        self.slope_, self.offset_ = calibration
        return self

    def _train(
        self,
        network: Network,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        held: tuple[csr_array, csr_array] | None,
        loop: LoopSettings,
        identity: str,
        fresh: bool = True,
    ) -> list[dict[str, float]]:
        """Train the network and keep what prediction needs."""
        learner = EmbeddingLearner(
            network,
            X,
            rows,
            Y,
            held,
            CandidateSampler(Y, self.candidates, loop.batch_size),
            self._loss(),
            None if self.regularizer is None else REGULARIZERS[self.regularizer],
            self.weight,
            affinity(Y, self.affinity) if self.regularizer == "glas" else None,
            self.keep,
        )
        history = train(learner, len(rows), loop, identity)
        if fresh:  # nothing is known of tokens that were never met; they shall not be noise
            network.tables["E"][network.optimizers["E"].age == 0] = 0
        self._keep(network, learner.sample()[0])
        self.slope_, self.offset_ = 1.0, 0.0
        if self.loss == "margin":
            self.slope_, self.offset_ = calibrate(learner.search, *(held or learner.sample()))
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

    def _keep(self, network: Network, X: csr_array) -> None:
        """What prediction needs; an index of many labels is tuned on the points given."""
        tables = network.scorer()
        self.tokens_, self.bias_ = tables["tokens"], tables["bias"]
        vectors, self.bias_scale_ = with_bias(tables["labels"], tables["label_bias"])
        sample = queries(self._encode(X.indptr, X.indices, X.data), self.bias_scale_)
        self.index_ = make_index(
            vectors, "ip", queries=sample, recall_k=_DEPTH, random_state=self.random_state, n_jobs=self.n_jobs
        )

    def _scorer(self) -> Arrays:
        """What :meth:`Network.scorer` gave."""
        labels = self.index_.vectors
        biases = labels[:, -1] * np.float32(self.bias_scale_)
        return {"tokens": self.tokens_, "bias": self.bias_, "labels": labels[:, :-1], "label_bias": biases}

    def _loss(self) -> Loss:
        if self.loss == "margin":
            return partial(margin, c=self.margin, n_hard=self.n_hard, n_jobs=self.n_jobs)
        if self.loss == "bce":
            return partial(bce, correction=self.correction, n_jobs=self.n_jobs)
        return partial(LOSSES[self.loss], correction=self.correction)

    def _prior(self, Y: csr_array) -> np.ndarray:
        """Biases at the start: the log odds of each label for the logistic loss, which then need not be learnt."""
        if self.loss != "bce":
            return np.zeros(Y.shape[1], np.float32)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        chance = (counts + 0.5) / (Y.shape[0] + 1.0)
        return np.log(chance / (1 - chance))

    # Answering ---------------------------------------------------------------------------------------------------

    def _encode(self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray) -> np.ndarray:
        """Encoded points, (N, d), from the three arrays of their CSR."""
        jobs = 1 if len(ptr) < 64 else self.n_jobs
        return encode_all(ptr, idx, val, self.tokens_, self.bias_, self.relu, self.normalize, True, jobs)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        h = queries(self._encode(X.indptr, X.indices, X.data), self.bias_scale_)
        found, raw = self.index_.search(h, min(k, len(self.label_ids_)), n_jobs=1 if len(h) < 64 else self.n_jobs)
        return as_matrix(self.label_ids_[found], self._unit(raw), self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        if not valid(indices, values, self.n_features_in_):
            return None
        h = queries(self._encode(np.array([0, len(indices)], np.int32), indices, values), self.bias_scale_)
        found, raw = self.index_.search_one(h[0], min(k, len(self.label_ids_)))
        return self.label_ids_[found], self._unit(raw[None])[0]

    def _unit(self, raw: np.ndarray) -> np.ndarray:
        """Raw scores (N, k), the best first, as scores in (0, 1)."""
        if self.loss == "softmax":  # as softmax, but for the sum over all labels, which a search does not know
            best = raw[:, :1]
            chance = np.exp(raw - best) / (1 + np.exp(-np.clip(best, -30, 30)))
        else:
            chance = 1 / (1 + np.exp(-np.clip(self.slope_ * raw + self.offset_, -60, 60)))
        return np.clip(chance, ABOVE_ZERO, BELOW_ONE, dtype=np.float32)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts: dict[str, Any] = {"slope": self.slope_, "offset": self.offset_, "history": self.history_}
        facts["bias_scale"] = self.bias_scale_
        facts["index"], arrays = self.index_.to_arrays()
        arrays = {f"index_{name}": array for name, array in arrays.items()}
        return facts, {"label_ids": self.label_ids_, "tokens": self.tokens_, "bias": self.bias_, **arrays}, {}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.slope_, self.offset_, self.history_ = facts["slope"], facts["offset"], facts["history"]
        self.bias_scale_ = facts["bias_scale"]
        self.label_ids_, self.tokens_, self.bias_ = (arrays[name] for name in ("label_ids", "tokens", "bias"))
        index = {name.removeprefix("index_"): array for name, array in arrays.items() if name.startswith("index_")}
        self.index_ = from_arrays(facts["index"], index)
