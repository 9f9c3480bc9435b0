"""DXML: label vectors from a label graph, points mapped onto them, nearest neighbours vote (Zhang et al., ICMR 2018).

Labels that occur together are joined in a graph (§3.2), DeepWalk gives them vectors, a network with one hidden layer
maps a point onto the mean vector of its labels (§3.3), and a new point gets the labels of the training points that lie
nearest to it, looked for in the nearest partitions only (§3.4, Alg. 2).

Choices made here. Walks follow edges by their weight, because with many labels a point the paper's plain graph joins
nearly everything with everything. Label vectors and targets have length 1, as outputs have, so that the loss is nearly
one minus a cosine. Neighbours vote by how near they are; their number and the sharpness of that weight are chosen on
held-out points, which then join the neighbours. ``preset="paper"`` is the published recipe.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.data.split import split
from longtail.engine import memory
from longtail.errors import DataError, SettingsError
from longtail.index import make_index
from longtail.kernels.rows import valid
from longtail.labels.deepwalk import WalkSettings, label_vectors, unit
from longtail.labels.graph import cooccurrence_graph, edge_graph, pairs_at_most, strongest
from longtail.models.base import Arrays, Ranker, check_features, check_labels
from longtail.neural.loop import LoopSettings, fingerprint, train
from longtail.neural.neighbours import Neighbours
from longtail.neural.optimizers import KINDS
from longtail.neural.regression import RegressionLearner, RegressionNetwork, RegressionSettings, embed

PAPER: dict[str, Any] = {  # §4.1; walks and epochs, which it leaves out, as its re-implementers chose them
    "weighted": False, "n_walks": 80, "walk_length": 30, "n_networks": 1, "epochs": 70, "optimizer": "momentum",
    "learning_rate": 0.015, "decay": 5e-4, "dropout": 0.5, "keep": 1.0, "schedule": "constant", "sharpness": 0.0,
    "n_probe": 1, "idf": False,
}  # fmt: skip
_SMALL = 1000  # labels: up to so many, the paper's small networks
_EDGES = 16  # of each label, kept to be looked at


class DXML(Ranker):
    """Nearest neighbours in the space of label vectors.

    Parameters
    ----------
    dim : int, optional
        ℓ, the length of a label vector; by default 100 for up to 1,000 labels, else 300.
    hidden : int, optional
        Width of the hidden layer; by default 256 for up to 1,000 labels, else 512.
    relu : bool
        ReLU in the hidden layer, or a linear map (the ablation of Fig. 2).
    weighted : bool
        Walks follow edges by how many points have both labels; otherwise all edges are alike, as in the paper.
    hierarchy : str or list of pairs, optional
        Edges between labels, or a file of them, instead of co-occurrence; see :func:`longtail.labels.graph.edge_graph`.
    n_walks, walk_length, window, skip_gram
        Of DeepWalk; see :class:`longtail.labels.deepwalk.WalkSettings`.
    n_networks : int
        Networks trained side by side, whose cosines are averaged.
    epochs, schedule, patience
        See :class:`longtail.neural.loop.LoopSettings`.
    batch_size : int, optional
        By default about a hundredth of the points, from 32 to 512.
    learning_rate : float, optional
        By default 0.004 for batches of 512, and less for smaller ones, as the square root of their size.
    optimizer : {"adam", "momentum", "adagrad", "sgd"}
    decay : float
        Weight decay of the rows a batch touches.
    dropout : float
        Chance of an output to be dropped, after the last layer.
    keep : float
        Chance of a feature to stay in input dropout.
    idf : bool, optional
        Weigh features by how rare they are; by default done where all values of X are the same, as of binary features.
    n_neighbours : int, optional
        k, chosen on held-out points by default.
    sharpness : float, optional
        A neighbour weighs exp(sharpness · cosine); 0 is a plain average. Chosen on held-out points by default.
    partitioned : bool, optional
        Look for neighbours in the nearest partitions, or among all points. By default in partitions where points are
        many.
    n_partitions : int, optional
        m of §3.4; by default the square root of the number of points.
    n_probe : int, optional
        Partitions to open; by default as many as find `recall` of the neighbours of held-out points.
    recall : float
        Share of the true neighbours that partitions are to find.
    validation_fraction : float
        Share of points held out for choosing and early stopping, 2,000 at most; 0 for none. They join the neighbours in
        the end. Unused where `fit` is given a validation part.
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
    label_vectors_ : array, (L, n_networks · dim)
    edges_ : csr_array, (L, L)
        The heaviest edges of the label graph.
    """

    kind: ClassVar[str] = "dxml"
    history_: list[dict[str, float]]
    neighbours_: Neighbours
    label_vectors_: np.ndarray
    edges_: csr_array
    networks_: list[Arrays]
    idf_: np.ndarray | None

    def __init__(
        self,
        dim: int | None = None,
        hidden: int | None = None,
        relu: bool = True,
        weighted: bool = True,
        hierarchy: Any = None,
        n_walks: int = 10,
        walk_length: int = 30,
        window: int = 5,
        skip_gram: str = "kernel",
        n_networks: int = 3,
        epochs: int = 20,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        schedule: str = "linear",
        patience: int = 5,
        optimizer: str = "adam",
        decay: float = 0.0,
        dropout: float = 0.2,
        keep: float = 0.8,
        idf: bool | None = None,
        n_neighbours: int | None = None,
        sharpness: float | None = None,
        partitioned: bool | None = None,
        n_partitions: int | None = None,
        n_probe: int | None = None,
        recall: float = 0.98,
        validation_fraction: float = 0.1,
        cache: str | None = None,
        checkpoint: str | None = None,
        preset: str | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.dim = dim
        self.hidden = hidden
        self.relu = relu
        self.weighted = weighted
        self.hierarchy = hierarchy
        self.n_walks = n_walks
        self.walk_length = walk_length
        self.window = window
        self.skip_gram = skip_gram
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
        self.n_neighbours = n_neighbours
        self.sharpness = sharpness
        self.partitioned = partitioned
        self.n_partitions = n_partitions
        self.n_probe = n_probe
        self.recall = recall
        self.validation_fraction = validation_fraction
        self.cache = cache
        self.checkpoint = checkpoint
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
        whole = ("dim", "hidden", "n_walks", "walk_length", "window", "n_networks", "n_neighbours", "n_partitions")
        for name in (*whole, "n_probe"):
            value, optional = getattr(self, name), self._defaults()[name] is None
            if not (value is None and optional) and (not isinstance(value, int | np.integer) or value < 1):
                raise SettingsError(f"{name} is {value!r}; give a whole number from 1")
        for name in ("decay", "sharpness"):
            if (value := getattr(self, name)) is not None and not value >= 0:
                raise SettingsError(f"{name} is {value!r}; give 0 or a number above it")
        for name in ("keep", "recall"):
            if not 0 < getattr(self, name) <= 1:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give a number above 0, up to 1")
        for name in ("dropout", "validation_fraction"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give 0, or a number below 1")
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
        some = np.flatnonzero(np.diff(Y.indptr))  # a point without labels is nobody's neighbour
        rows, held_rows = self._hold_out(Y, some, validation)
        self._check_memory(X, Y)
        self.idf_ = self._weights(X)
        X = self._weighed(X)
        graph = self._graph(Y)
        self.edges_ = strongest(graph, _EDGES)
        vectors = self._vectors(graph)
        held = validation if validation is not None else (X[held_rows], Y[held_rows])
        if validation is not None:
            held = self._weighed(held[0]), held[1]
        held = _with_labels(*held)

        rng = np.random.default_rng(self.random_state)
        networks = [RegressionNetwork(X.shape[1], part.shape[1], self._network_settings(), rng) for part in vectors]
        learner = RegressionLearner(networks, vectors, X, rows, Y[rows], held, self._set("keep"))
        self.history_ = train(learner, len(rows), loop, identity)
        self.networks_ = [network.tables for network in networks]
        self.label_vectors_ = np.concatenate(vectors, axis=1) / np.float32(np.sqrt(len(vectors)))
        self.neighbours_ = self._settle(X[rows], Y[rows], held)
        if len(held_rows):
            self.neighbours_.add(self._embed(X[held_rows]), Y[held_rows])

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
        X, Y = _with_labels(self._weighed(X), Y) or (X[:0], Y[:0])
        self._grow(X, Y)
        if epochs:
            loop = self._loop(X.shape[0], epochs)
            loop = replace(loop, rate=loop.rate / 10, checkpoint=None, seed=self.random_state + 1)
            rng = np.random.default_rng([self.random_state, len(self.history_)])
            vectors = np.split(self.label_vectors_, len(self.networks_), axis=1)
            vectors = [np.ascontiguousarray(part * np.float32(np.sqrt(len(vectors)))) for part in vectors]
            networks = [RegressionNetwork(X.shape[1], part.shape[1], self._network_settings(), rng) for part in vectors]
            for network, tables in zip(networks, self.networks_, strict=True):
                for name, table in network.tables.items():
                    table[...] = tables[name]
            learner = RegressionLearner(networks, vectors, X, np.arange(len(Y.indptr) - 1), Y, None, self._set("keep"))
            self.history_ = self.history_ + train(learner, X.shape[0], loop)
            self.networks_ = [network.tables for network in networks]
        self.neighbours_.add(self._embed(X), Y)
        return self

    def _grow(self, X: csr_array, Y: csr_array) -> None:
        """Make room for new labels, whose vectors are the means of their points."""
        known, n_labels = self.n_labels_, Y.shape[1]
        if n_labels > known:
            means = unit(csr_array(Y.T)[known:] @ self._embed(X))
            self.label_vectors_ = np.concatenate([self.label_vectors_, means])
            edges = self.edges_
            indptr = np.concatenate([edges.indptr, np.full(n_labels - known, edges.indptr[-1], edges.indptr.dtype)])
            self.edges_ = csr_array((edges.data, edges.indices, indptr), shape=(n_labels, n_labels))
            self.n_labels_ = n_labels

    def _settle(self, X: csr_array, Y: csr_array, held: tuple[csr_array, csr_array] | None) -> Neighbours:
        """The training points under search."""
        return Neighbours.settle(
            self._embed(X),
            Y,
            None if held is None else (self._embed(held[0]), held[1]),
            self.n_neighbours,
            self._set("sharpness"),
            {None: "auto", True: "ivf", False: "exact"}[self.partitioned],
            self.n_jobs,
            n_partitions=self.n_partitions,
            n_probe=self._set("n_probe"),
            recall=self.recall,
            random_state=self.random_state,
        )

    def _graph(self, Y: csr_array) -> csr_array:
        if self.hierarchy is not None:
            return edge_graph(self.hierarchy, Y.shape[1], weighted=self._set("weighted"))
        return cooccurrence_graph(Y, self._set("weighted"))

    def _walk_settings(self, n_labels: int, member: int) -> WalkSettings:
        return WalkSettings(
            dim=self.dim or (100 if n_labels <= _SMALL else 300),
            n_walks=self._set("n_walks"),
            length=self._set("walk_length"),
            window=self.window,
            skip_gram=self.skip_gram,
            seed=self.random_state + 1000 * member,
        )

    def _vectors(self, graph: csr_array) -> list[np.ndarray]:
        """Label vectors of each network, from walks of its own."""
        n_labels = graph.shape[0]
        return [
            label_vectors(graph, self._walk_settings(n_labels, member), self.cache, self.n_jobs)
            for member in range(self._set("n_networks"))
        ]

    def _loop(self, n_points: int, epochs: int) -> LoopSettings:
        size = self.batch_size
        if size is None:
            size = int(np.clip(2 ** round(np.log2(max(1, n_points) / 100)), 32, 512))
        rate = self._set("learning_rate")
        if rate is None:
            rate = 0.004 * float(np.sqrt(size / 512)) if size > 0 else 1.0
        settings = LoopSettings(
            epochs, size, rate, self._set("schedule"), 0.0, self.patience, self.random_state, self.checkpoint
        )
        settings.check()
        return settings

    def _network_settings(self) -> RegressionSettings:
        return RegressionSettings(
            self.hidden or (256 if self.n_labels_ <= _SMALL else 512),
            self.relu,
            self._set("dropout"),
            self._set("optimizer"),
            self._set("decay"),
            self.n_jobs,
        )

    def _check_memory(self, X: csr_array, Y: csr_array) -> None:
        n_networks = self._set("n_networks")
        width = n_networks * self._walk_settings(Y.shape[1], 0).dim
        needed = n_networks * RegressionNetwork.bytes_needed(X.shape[1], self._network_settings())
        needed += 4 * width * (2 * X.shape[0] + 2 * Y.shape[1])  # points under search, and label vectors
        needed += 24 * pairs_at_most(Y) if self.hierarchy is None else 0
        memory.require(needed, "DXML", "Lower hidden or n_networks, or use fewer features (max_features, min_df).")

    def _hold_out(
        self, Y: csr_array, some: np.ndarray, validation: tuple[csr_array, csr_array] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on, and rows to choose on."""
        if validation is not None or self.validation_fraction == 0:
            return some, some[:0]
        train_rows, held_rows = split(Y[some], min(self.validation_fraction, 2000 / len(some)), self.random_state)
        return some[train_rows], some[held_rows]

    def _weights(self, X: csr_array) -> np.ndarray | None:
        """Weight of each feature by its rarity, where wanted."""
        wanted = self._set("idf")
        if wanted is None:
            wanted = X.nnz > 0 and bool((X.data == X.data[0]).all())
        if not wanted:
            return None
        met = np.bincount(X.indices, minlength=X.shape[1])
        return (np.log((1 + X.shape[0]) / (1 + met)) + 1).astype(np.float32)

    def _weighed(self, X: csr_array) -> csr_array:
        if self.idf_ is None:
            return X
        return csr_array((X.data * self.idf_[X.indices], X.indices, X.indptr), shape=X.shape)

    # Answering ---------------------------------------------------------------------------------------------------

    def _embed(self, X: csr_array) -> np.ndarray:
        return embed(self.networks_, X.indptr, X.indices, X.data, self.relu, self.n_jobs)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.neighbours_.rank(self._embed(self._weighed(X)), k, self.n_jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        if not valid(indices, values, self.n_features_in_):
            return None
        if self.idf_ is not None:
            values = values * self.idf_[indices]
        bounds = np.array([0, len(indices)], np.int32)
        return self.neighbours_.rank_one(embed(self.networks_, bounds, indices, values, self.relu, 1)[0], k)

    def near_labels(self, label: int, k: int = 10) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Labels near one label: by the heaviest edges of the graph, and by the cosine of vectors.

        Returns
        -------
        dict
            ``graph``: labels and weights; ``vectors``: labels and cosines; the nearest first.
        """
        if not 0 <= label < self.n_labels_:
            raise DataError(f"there is no label {label}", remedy=f"Labels are numbered from 0 to {self.n_labels_ - 1}")
        edges = slice(self.edges_.indptr[label], min(self.edges_.indptr[label + 1], self.edges_.indptr[label] + k))
        index = make_index(self.label_vectors_, "cosine", "exact")
        ids, cosines = index.search_one(self.label_vectors_[label], k + 1)
        other = ids != label
        return {
            "graph": (self.edges_.indices[edges], self.edges_.data[edges]),
            "vectors": (ids[other][:k], cosines[other][:k]),
        }

    # Keeping -----------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.neighbours_.to_arrays()
        for at, tables in enumerate(self.networks_):
            arrays |= {f"network{at}_{name}": table for name, table in tables.items()}
        arrays |= {f"edges_{name}": getattr(self.edges_, name) for name in ("data", "indices", "indptr")}
        arrays["label_vectors"] = self.label_vectors_
        if self.idf_ is not None:
            arrays["idf"] = self.idf_
        return {"history": self.history_, "n_networks": len(self.networks_), **facts}, arrays, {}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_ = facts["history"]
        self.neighbours_ = Neighbours.from_arrays(facts, arrays, self.n_labels_)
        names = ("W1", "b1", "W2", "b2")
        self.networks_ = [{name: arrays[f"network{at}_{name}"] for name in names} for at in range(facts["n_networks"])]
        self.label_vectors_, self.idf_ = arrays["label_vectors"], arrays.get("idf")
        edges = tuple(arrays[f"edges_{name}"] for name in ("data", "indices", "indptr"))
        self.edges_ = csr_array(edges, shape=(self.n_labels_, self.n_labels_))


def _with_labels(X: csr_array, Y: csr_array) -> tuple[csr_array, csr_array] | None:
    """The points that have labels; None if none has."""
    some = np.flatnonzero(np.diff(Y.indptr))
    return (X[some], Y[some]) if len(some) else None
