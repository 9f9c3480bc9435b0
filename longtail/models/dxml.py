"""DXML: label vectors from a label graph, points mapped onto them, nearest neighbours vote (Zhang et al., ICMR 2018).

Labels that occur together are joined in a graph (§3.2), DeepWalk gives them vectors, a network with one hidden layer
maps a point onto the mean vector of its labels (§3.3), and a new point gets the labels of the training points that lie
nearest to it, looked for in the nearest partitions only (§3.4, Alg. 2).

Choices made here. Walks follow edges by their weight, because with many labels a point the paper's plain graph joins
nearly everything with everything; label vectors are whitened, because skip-gram's lie in a narrow cone. They are of
length 1, as targets and outputs are, so that the loss is nearly one minus a cosine. Some networks, each with label
vectors of its own, are averaged. Neighbours vote as :mod:`longtail.neural.neighbours` says, by settings chosen on
held-out points, which then join them. ``preset="paper"`` is the published recipe.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.data.split import FEW
from longtail.engine import memory
from longtail.errors import DataError, SettingsError
from longtail.index import make_index
from longtail.index.base import limit_blas
from longtail.kernels import pool
from longtail.kernels.rows import valid
from longtail.labels.deepwalk import WalkSettings, label_vectors, unit, whitened
from longtail.labels.graph import cooccurrence_graph, edge_graph, pairs_at_most, strongest, widened
from longtail.models.base import Arrays, Ranker, check_features, check_labels
from longtail.neural.batch import looks_binary, rarity
from longtail.neural.held_out import hold_out, labelled, trains_again
from longtail.neural.loop import LoopSettings, fingerprint, train
from longtail.neural.neighbours import GRID, Neighbours
from longtail.neural.optimizers import KINDS
from longtail.neural.regression import RegressionLearner, RegressionNetwork, RegressionSettings, embed

PAPER: dict[str, Any] = {  # §4.1; walks and epochs, which it leaves out, as its re-implementers chose them
    "weighted": False, "n_walks": 80, "window": 5, "whiten": False, "n_networks": 1, "hidden": 256, "epochs": 70,
    "optimizer": "momentum", "decay": 5e-4, "dropout": 0.5, "keep": 1.0, "schedule": "constant", "sharpness": 0.0,
    "feature_weight": 0.0, "label_weight": 0.0, "n_probe": 1, "idf": False,
}  # fmt: skip
_PAPER_RATE = 0.015
_WALKS = 20_000  # walks in all at least, for few labels
_EDGES = 16  # of each label, kept to be looked at


class DXML(Ranker):
    """Nearest neighbours in the space of label vectors.

    Parameters
    ----------
    dim : int
        ℓ, the length of a label vector.
    hidden : int, optional
        Width of the hidden layer; by default 512 for fewer than 20,000 points, else 256.
    relu : bool
        ReLU in the hidden layer, or a linear map (the ablation of Fig. 2).
    weighted : bool
        Walks follow edges by how many points have both labels; otherwise all edges are alike, as in the paper.
    hierarchy : str or list of pairs, optional
        Edges between labels, or a file of them, instead of co-occurrence; see :func:`longtail.labels.graph.edge_graph`.
    n_walks : int, optional
        Walks from each label; by default 10, or more where labels are few.
    walk_length, window, skip_gram
        Of DeepWalk; see :class:`longtail.labels.deepwalk.WalkSettings`.
    whiten : bool
        Spread label vectors over all directions before points are mapped onto them.
    n_networks : int, optional
        Networks trained side by side, whose cosines are averaged; by default 6 for fewer than 20,000 points, else 3.
    epochs, schedule, patience
        See :class:`longtail.neural.loop.LoopSettings`.
    batch_size : int, optional
        By default about a fortieth of the points, from 32 to 256.
    learning_rate : float, optional
        By default 0.006 for batches of 256, and less for smaller ones, as the square root of their size.
    optimizer : {"adam", "momentum", "adagrad", "sgd"}
    decay : float
        Weight decay of the rows a batch touches.
    dropout : float
        Chance of an output to be dropped, after the last layer.
    keep : float
        Chance of a feature to stay in input dropout.
    idf : bool, optional
        Where features are compared, weigh them by how rare they are; by default done where they are binary.
    n_neighbors, sharpness, feature_weight, label_weight : optional
        See :class:`longtail.neural.neighbours.Vote`; chosen on held-out points by default.
    n_partitions : int, optional
        m of §3.4, 1 to look for neighbours among all points; by default the square root of the number of points where
        there are many, else 1.
    n_probe : int, optional
        Partitions to open; by default as many as find `recall` of the neighbours of held-out points.
    recall : float
        Share of the true neighbours that partitions are to find.
    validation_fraction : float
        Share of points held out for choosing and early stopping, 2,000 at most; 0 for none. They join the neighbours in
        the end. Unused where `fit` is given a validation part.
    refit : bool, optional
        Train once more, with what was chosen, on the held-out points too; by default with fewer than 20,000 points.
    cache : str, optional
        Folder in which label vectors are kept for other processes; within this one they are kept anyhow.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch, from which an interrupted run goes on; removed at the end.
    preset : {"paper"}, optional
        Settings that are left at their defaults take the paper's values.
    n_jobs : int, optional
        Threads of the kernels; all cores by default.
    random_state : int

    Attributes
    ----------
    history_ : list of dict
        Loss, and precision on held-out points, after each epoch.
    neighbours_ : Neighbours
        Training points in the space of label vectors under search, and how they vote.
    edges_, label_vectors_ : csr_array, (L, L), and array, (L, dim)
        The heaviest edges of the label graph, and label vectors of the first network, not whitened.
    """

    kind: ClassVar[str] = "dxml"
    history_: list[dict[str, float]]
    neighbours_: Neighbours
    edges_: csr_array
    label_vectors_: np.ndarray
    networks_: list[Arrays]
    idf_: np.ndarray | None

    def __init__(
        self, dim: int = 100, hidden: int | None = None, relu: bool = True, weighted: bool = True,
        hierarchy: Any = None, n_walks: int | None = None, walk_length: int = 30, window: int = 2,
        skip_gram: str = "kernel", whiten: bool = True, n_networks: int | None = None, epochs: int = 15,
        batch_size: int | None = None, learning_rate: float | None = None, schedule: str = "linear", patience: int = 5,
        optimizer: str = "adam", decay: float = 0.0, dropout: float = 0.0, keep: float = 0.65, idf: bool | None = None,
        n_neighbors: int | None = None, sharpness: float | None = None, feature_weight: float | None = None,
        label_weight: float | None = None, n_partitions: int | None = None, n_probe: int | None = None,
        recall: float = 0.98, validation_fraction: float = 0.2, refit: bool | None = None, cache: str | None = None,
        checkpoint: str | None = None, preset: str | None = None, n_jobs: int | None = None, random_state: int = 0,
    ) -> None:  # fmt: skip
        self.dim, self.hidden = dim, hidden
        self.relu = relu
        self.weighted = weighted
        self.hierarchy = hierarchy
        self.n_walks = n_walks
        self.walk_length, self.window = walk_length, window
        self.skip_gram = skip_gram
        self.whiten = whiten
        self.n_networks = n_networks
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.patience = patience
        self.optimizer = optimizer
        self.decay = decay
        self.dropout = dropout
        self.keep = keep
        self.idf = idf
        self.n_neighbors = n_neighbors
        self.sharpness = sharpness
        self.feature_weight, self.label_weight = feature_weight, label_weight
        self.n_partitions, self.n_probe = n_partitions, n_probe
        self.recall = recall
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.cache, self.checkpoint = cache, checkpoint
        self.preset = preset
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Learning ----------------------------------------------------------------------------------------------------

    def _set(self, name: str) -> Any:
        """A setting, or the preset's where it is left at its default."""
        value = getattr(self, name)
        return PAPER.get(name, value) if self.preset == "paper" and value == self._defaults()[name] else value

    def _check_settings(self) -> None:
        if self.preset not in (None, "paper"):
            raise SettingsError(f"preset is {self.preset!r}; choose paper, or none")
        if self._set("optimizer") not in KINDS:
            raise SettingsError(f"optimizer is {self.optimizer!r}; choose one of {', '.join(KINDS)}")
        whole = ("hidden", "n_networks", "n_neighbors", "n_partitions", "n_probe")
        for names, fits, rule in (
            (whole, lambda v: isinstance(v, int | np.integer) and v >= 1, "a whole number from 1"),
            (("decay", "sharpness", "feature_weight", "label_weight"), lambda v: v >= 0, "0 or a number above it"),
            (("keep", "recall"), lambda v: 0 < v <= 1, "a number above 0, up to 1"),
            (("dropout", "validation_fraction"), lambda v: 0 <= v < 1, "0, or a number below 1"),
        ):
            for name in names:
                value = getattr(self, name)
                if not (value is None and self._defaults()[name] is None) and not fits(value):
                    raise SettingsError(f"{name} is {value!r}; give {rule}")
        self._walk_settings(1, 0).check()

    def _fit(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: tuple[csr_array, csr_array] | None
    ) -> None:
        self._check_settings()
        loop = self._loop(X.shape[0], self._set("epochs"))
        identity = ""
        if self.checkpoint is not None:
            params = {name: value for name, value in self.get_params().items() if name not in ("checkpoint", "n_jobs")}
            identity = fingerprint(params, X, Y, *(validation or ()))
        self._check_memory(X, Y)
        idf = self._set("idf")
        self.idf_ = rarity(X) if idf or (idf is None and looks_binary(X)) else None
        raw = self._learn_labels(Y)
        self.label_vectors_ = raw[0]
        vectors = [whitened(part) for part in raw] if self._set("whiten") else raw
        rows, held = hold_out(X, Y, validation, self.validation_fraction, self.random_state)
        held = held and labelled(*held)
        self.history_ = self._train(X, rows, Y[rows], vectors, held, loop, identity)
        self.neighbours_ = self._settle(X[rows], Y[rows], vectors, held)
        if validation is not None or held is None:
            return
        if trains_again(self.refit, X.shape[0]):
            some = np.flatnonzero(np.diff(Y.indptr))
            epochs = 1 + int(np.argmax([entry["monitor"] for entry in self.history_]))
            loop = replace(loop, epochs=epochs, checkpoint=self.checkpoint and f"{self.checkpoint}-again")
            self._train(X, some, Y[some], vectors, None, loop, identity)
            self.neighbours_ = self._settle(X[some], Y[some], vectors, None, self.neighbours_)
        else:
            self.neighbours_.add(self._embed(held[0]), held[1], self._weighed(held[0]))

    def partial_fit(self, X: Any, Y: Any, epochs: int = 1) -> Self:
        """Learn on from new points, without starting again (§4.2).

        The network is trained on with the new points, which then join the neighbours. Points that are there already
        stay where they are: the space is that of the label vectors, which do not move. A new label's vector is the
        mean of its points.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            New points, with the features of the first ones.
        Y : sparse or dense matrix, (N, L')
            Their labels. Columns beyond those known are new labels, appended; there may be none, but never fewer.
        epochs : int
            Passes over the new points, at a tenth of `learning_rate`; 0 leaves the network as it is.
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
        X, Y = labelled(X, Y) or (X[:0], Y[:0])
        if Y.shape[1] > self.n_labels_:
            fresh, old = csr_array(Y.T)[self.n_labels_ :], self.label_vectors_
            means = unit(fresh @ self._embed(X))
            self.neighbours_.vectors = np.concatenate([self.neighbours_.vectors, means])
            self.label_vectors_ = np.concatenate([old, unit(fresh @ (Y[:, : self.n_labels_] @ old))])
            self.edges_ = widened(self.edges_, Y.shape[1])
            self.n_labels_ = Y.shape[1]
        if epochs:
            loop = self._loop(X.shape[0], epochs)
            loop = replace(loop, rate=loop.rate / 10, checkpoint=None, seed=self.random_state + 1)
            vectors = [unit(part) for part in np.split(self.neighbours_.vectors, len(self.networks_), axis=1)]
            tables = self.networks_
            self.history_ = self.history_ + self._train(X, np.arange(X.shape[0]), Y, vectors, None, loop, tables=tables)
        self.neighbours_.add(self._embed(X), Y, self._weighed(X))
        return self

    def _train(
        self, X: csr_array, rows: np.ndarray, Y: csr_array, vectors: list[np.ndarray],
        held: tuple[csr_array, csr_array] | None, loop: LoopSettings, identity: str = "",
        tables: list[Arrays] | None = None,
    ) -> list[dict[str, float]]:  # fmt: skip
        """Train networks towards these label vectors, from `tables` on where given; gives the history."""
        rng = np.random.default_rng([self.random_state, loop.seed])
        jobs = self.n_jobs if len(vectors) == 1 else 1  # several are trained at once, each on a thread of its own
        settings = replace(self._network_settings(X.shape[0]), n_jobs=jobs)
        if tables:
            settings = replace(settings, hidden=tables[0]["W1"].shape[1])
        networks = [RegressionNetwork(X.shape[1], self.dim, settings, rng) for _ in vectors]
        for network, table in zip(networks, tables or [], strict=False):
            network.adopt(table)
        learner = RegressionLearner(networks, vectors, X, rows, Y, held, self._set("keep"), self.n_jobs)
        with limit_blas(jobs):
            history = train(learner, len(rows), loop, identity)
        self.networks_ = [network.tables for network in networks]
        return history

    def _settle(
        self, X: csr_array, Y: csr_array, vectors: list[np.ndarray], held: tuple[csr_array, csr_array] | None,
        chosen: Neighbours | None = None,
    ) -> Neighbours:  # fmt: skip
        """The training points under search, voting as others have been `chosen` to, where given."""
        settings = {name: self._set(name) if chosen is None else getattr(chosen.vote, name) for name in GRID}
        space = np.concatenate(vectors, axis=1) / np.float32(np.sqrt(len(vectors)))
        queries = None if held is None else (self._embed(held[0]), held[1], self._weighed(held[0]))
        kind = "auto" if self.n_partitions is None else "ivf" if self.n_partitions > 1 else "exact"
        found = Neighbours.settle(
            self._embed(X), Y, space, self._weighed(X), queries, settings, kind, self.n_jobs, recall=self.recall,
            n_partitions=self.n_partitions, n_probe=self._set("n_probe"), random_state=self.random_state,
        )  # fmt: skip
        found.tried = found.tried if chosen is None else chosen.tried
        return found

    def _members(self, n_points: int) -> int:
        """How many networks there are: of few points each leaves more open, and costs less."""
        return self._set("n_networks") or (6 if n_points < FEW else 3)

    def _walk_settings(self, n_labels: int, member: int) -> WalkSettings:
        n_walks = self._set("n_walks") or max(10, -(-_WALKS // n_labels))
        return WalkSettings(
            self.dim, n_walks, self.walk_length, self._set("window"), skip_gram=self.skip_gram,
            seed=self.random_state + 1000 * member,
        )  # fmt: skip

    def _learn_labels(self, Y: csr_array) -> list[np.ndarray]:
        """Label vectors of each network, from walks of its own on one graph."""
        weighted, edges = self._set("weighted"), self.hierarchy
        graph = cooccurrence_graph(Y, weighted) if edges is None else edge_graph(edges, Y.shape[1], weighted=weighted)
        self.edges_ = strongest(graph, _EDGES)
        settings = [self._walk_settings(graph.shape[0], member) for member in range(self._members(Y.shape[0]))]
        jobs = self.n_jobs if len(settings) == 1 else 1  # several are learnt at once, each on a thread of its own
        return pool.run(lambda one: label_vectors(graph, one, self.cache, jobs), settings, self.n_jobs)

    def _loop(self, n_points: int, epochs: int) -> LoopSettings:
        size = self.batch_size
        if size is None:
            size = int(np.clip(2 ** round(np.log2(max(1, n_points) / 40)), 32, 256))
        rate = self.learning_rate
        if rate is None:  # the paper's loss (eq. 3) is a sum over points, the one here their mean
            rate = _PAPER_RATE * size if self.preset == "paper" else 0.006 * float(np.sqrt(max(size, 1) / 256))
        schedule, seed = self._set("schedule"), self.random_state
        settings = LoopSettings(epochs, size, rate, schedule, 0.0, self.patience, seed, self.checkpoint)
        settings.check()
        return settings

    def _network_settings(self, n_points: int) -> RegressionSettings:
        hidden, dropout, optimizer, decay = map(self._set, ("hidden", "dropout", "optimizer", "decay"))
        hidden = hidden or (512 if n_points < FEW else 256)
        return RegressionSettings(hidden, self.relu, dropout, optimizer, decay, self.n_jobs)

    def _check_memory(self, X: csr_array, Y: csr_array) -> None:
        n_networks = self._members(X.shape[0])
        width = n_networks * self.dim
        needed = n_networks * RegressionNetwork.bytes_needed(X.shape[1], self._network_settings(X.shape[0]))
        needed += 4 * width * (2 * X.shape[0] + 2 * Y.shape[1])  # points under search, and label vectors
        needed += 24 * pairs_at_most(Y) if self.hierarchy is None else 0
        memory.require(needed, "DXML", "Lower hidden or n_networks, or use fewer features (max_features, min_df).")

    def _weighed(self, X: csr_array) -> csr_array:
        """Features as neighbours compare them; networks learn better from those given."""
        if self.idf_ is None:
            return X
        return csr_array((X.data * self.idf_[X.indices], X.indices, X.indptr), shape=X.shape)

    # Answering ---------------------------------------------------------------------------------------------------

    def _embed(self, X: csr_array) -> np.ndarray:
        return embed(self.networks_, X.indptr, X.indices, X.data, self.relu, self.n_jobs)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.neighbours_.rank(self._embed(X), self._weighed(X), k, self.n_jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        if not valid(indices, values, self.n_features_in_):
            return None
        bounds = np.array([0, len(indices)], np.int32)
        point = embed(self.networks_, bounds, indices, values, self.relu, 1)[0]
        values = values if self.idf_ is None else values * self.idf_[indices]
        return self.neighbours_.rank_one(point, indices, values, k)

    def near_labels(self, label: int, k: int = 10) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Labels near one: ``graph``, with weights of edges, and ``vectors``, with cosines; the nearest first."""
        if not 0 <= label < self.n_labels_:
            raise DataError(f"there is no label {label}", remedy=f"Labels are numbered from 0 to {self.n_labels_ - 1}")
        part = slice(*self.edges_.indptr[label : label + 2])
        edges = self.edges_.indices[part][:k], self.edges_.data[part][:k]
        index = make_index(self.label_vectors_, "cosine", "exact")
        ids, cosines = index.search_one(self.label_vectors_[label], k + 1)
        return {"graph": edges, "vectors": (ids[ids != label][:k], cosines[ids != label][:k])}

    # Keeping -----------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.neighbours_.to_arrays()
        for at, tables in enumerate(self.networks_):
            arrays |= {f"network{at}_{name}": table for name, table in tables.items()}
        arrays |= {f"edges_{name}": getattr(self.edges_, name) for name in ("data", "indices", "indptr")}
        arrays["near_labels"] = self.label_vectors_
        if self.idf_ is not None:
            arrays["idf"] = self.idf_
        return {"history": self.history_, "n_networks": len(self.networks_), **facts}, arrays, {}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_ = facts["history"]
        self.neighbours_ = Neighbours.from_arrays(facts, arrays, self.n_labels_, self.n_features_in_)
        names = ("W1", "b1", "W2", "b2")
        self.networks_ = [{name: arrays[f"network{at}_{name}"] for name in names} for at in range(facts["n_networks"])]
        self.label_vectors_, self.idf_ = arrays["near_labels"], arrays.get("idf")
        edges = tuple(arrays[f"edges_{name}"] for name in ("data", "indices", "indptr"))
        self.edges_ = csr_array(edges, shape=(self.n_labels_, self.n_labels_))
