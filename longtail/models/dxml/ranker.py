"""DXML: label vectors from a label graph, points mapped onto them, nearest neighbours vote (Zhang et al., ICMR 2018).

A graph joins labels that occur together (§3.2), and DeepWalk learns a vector for each label. A network with one hidden
layer maps a point onto the mean vector of its labels (§3.3). A new point gets the labels of the nearest training
points, which are searched in the nearest partitions only (§3.4, Alg. 2).

Choices made here. Walks follow edges in proportion to their weight; with many labels per point, the paper's unweighted
graph joins nearly all labels with each other. Label vectors are whitened, because those of skip-gram point in similar
directions. Label vectors, targets and outputs have length 1, so that the loss is nearly one minus the cosine. Several
networks, each with its own label vectors, are averaged. The rule by which neighbours vote
(:mod:`longtail.models.dxml.knn_vote`) is chosen on held-out points, which become neighbours afterwards.
``preset="paper"`` is the published recipe.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import DataError
from longtail.index import make_index
from longtail.kernels.encode import SparseRows
from longtail.models.base import Ranker, data_bytes
from longtail.models.dxml.embedding import embed_points
from longtail.models.dxml.knn_vote import FACTS, Vote, VotingPoints
from longtail.models.dxml.presets import (
    DXML_ADVANCED,
    DXML_PRESETS,
    EDGES,
    default_batch_size,
    default_rate,
    paper_widths,
)
from longtail.models.epoch_ranker import EpochRanker
from longtail.models.learning_copy import learns_on_a_copy
from longtail.params import Constraint, Integer, PathName, optional
from longtail.sparse import Arrays, csr_arrays, csr_from_arrays, labelled_rows, resized, with_prefix, without_prefix
from longtail.store import Stored
from longtail.store.facts import ROWS, YES_NO
from longtail.store.invariants import Rules, csr, floats

if TYPE_CHECKING:
    from longtail.models.training_part import TrainingPart
    from longtail.neural.loop import LoopSettings
    from longtail.sparse import Pair

_EDGES_KEPT = 16  # edges kept per label for display, the heaviest ones


class DXML(EpochRanker):
    """Nearest neighbours in a space of label vectors.

    Parameters whose default is None have the value of the preset; :meth:`settings` shows it.

    Parameters
    ----------
    preset : {"fast", "paper"}
        Values of the parameters that are None: our recipe for a few cores, or the published one.
    dim : int, optional
        ℓ, the number of coordinates of a label vector: 100; paper 100, or 300 from 10,000 labels on.
    n_networks : int, optional
        Number of networks whose cosines are averaged. More networks are slower and more accurate. By default 6 with
        fewer than 20,000 points, else 3; paper 1.
    hierarchy : str or list of pairs, optional
        Edges between labels, or a file of them, instead of co-occurrence; see
        :func:`longtail.models.dxml.label_graph.edge_graph`.
    n_neighbors : int, optional
        Number of training points that vote. By default chosen on held-out points.
    epochs : int, optional
        Number of passes over the training points, at most: 15; paper 70.
    batch_size : int, optional
        Points per step. By default about a fortieth of the points, from 32 to 256.
    learning_rate : float, optional
        Highest learning rate. By default 0.006 for batches of 256, and less for smaller ones, in proportion to the
        square root of their size; paper 0.015, where the loss is a sum over the batch.
    validation_fraction : float
        Share of points held out for early stopping and for choosing the rule of the vote, 2,000 at most; 0 for none.
        They become neighbours at the end. Not used if `fit` is given validation points.
    refit : bool, optional
        Train again with the chosen settings on all points, held-out ones included. By default if there are fewer than
        20,000 points.
    cache : str, optional
        Folder in which label vectors are stored for other processes. Within a process they are cached anyway.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch, from which an interrupted run can be resumed; removed at the end.
    advanced : dict, optional
        Further parameters by name, with the values of "fast" and "paper" where these differ:

        ``hidden``
            Width of the hidden layer: 512 with fewer than 20,000 points, else 256; paper 256, or 512 from 10,000 labels
            on.
        ``relu``
            Whether the hidden layer has a ReLU: True. False is the ablation of Fig. 2.
        ``weighted``
            Whether walks follow edges in proportion to the number of points that have both labels: True; paper False,
            all edges have the same probability.
        ``n_walks``
            Walks from each label: 10, or more if labels are few; paper 80.
        ``walk_length``, ``window``, ``hierarchical``
            Settings of DeepWalk, see :class:`longtail.models.dxml.deepwalk.WalkSettings`: 30, 2 (paper 5), False (paper
            True).
        ``whiten``
            Spread label vectors over all directions before points are mapped onto them: True; paper False.
        ``unit_targets``, ``summed``
            Scale the mean vector of a point's labels to length 1; use the gradient of the sum over a batch instead of
            the mean: True and False; paper False and True.
        ``optimizer``, ``decay``, ``schedule``, ``patience``
            "adam", 0, "linear", 5; paper "momentum", 0.0005, "constant", 5. See
            :class:`longtail.neural.loop.LoopSettings`.
        ``dropout``, ``input_dropout``
            Probability of dropping an output after the last layer, and a feature: 0 and 0.35; paper 0.5 and 0.
        ``idf``
            Weight features by inverse document frequency when neighbours are compared: by default if features are
            binary; paper False.
        ``sharpness``, ``feature_weight``, ``label_weight``
            See :class:`longtail.models.dxml.knn_vote.Vote`. By default chosen on held-out points; paper 0.
        ``n_partitions``, ``n_probe``, ``recall``
            m of §3.4 (1 to compare with all points); number of partitions to open; share of the true neighbours to
            find, from which `n_probe` is chosen if it is None. By default None (by the number of points), None and
            0.98; paper opens 1.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of every random choice.

    Attributes
    ----------
    history_ : list of dict
        Loss, and metrics on held-out points, after each epoch.
    neighbours_ : VotingPoints
        Index of the training points in the space of label vectors, and the rule by which they vote.
    edges_, label_vectors_ : csr_array, (L, L), and array, (L, dim)
        The heaviest edges of the label graph, and the label vectors of the first network before whitening.
    """

    kind: ClassVar[str] = "dxml"
    _presets: ClassVar = DXML_PRESETS
    _advanced: ClassVar = DXML_ADVANCED
    _constraints: ClassVar = {"hierarchy": optional(EDGES), "cache": optional(PathName())}

    neighbours_: VotingPoints
    edges_: csr_array
    label_vectors_: np.ndarray
    networks_: list[Arrays]
    idf_: np.ndarray | None
    relu_: bool

    def __init__(
        self,
        preset: str = "fast",
        dim: int | None = None,
        n_networks: int | None = None,
        hierarchy: Any = None,
        n_neighbors: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.2,
        refit: bool | None = None,
        cache: str | None = None,
        checkpoint: str | None = None,
        advanced: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.preset = preset
        self.dim = dim
        self.n_networks = n_networks
        self.hierarchy = hierarchy
        self.n_neighbors = n_neighbors
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.cache = cache
        self.checkpoint = checkpoint
        self.advanced = advanced
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Learning ----------------------------------------------------------------------------------------------------

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        from longtail.models.dxml import training
        from longtail.neural.batch import looks_binary, rarity

        settings = self._run_settings(Y.shape[1])
        vars(settings).update(getattr(self, "_settled", {}))
        loop = self._loop_for(settings, X.shape[0])
        identity = self._identity(X, Y, *(validation or ()))
        uses_idf = looks_binary(X) if settings.idf is None else settings.idf
        self.idf_ = rarity(X) if uses_idf else None
        self.relu_ = settings.relu
        part = self._divide(X, Y, Z, validation, keep_labels=True, as_new=False)
        rows, held = part.rows, part.held_with(np.arange(Y.shape[1]))
        vectors = self._learn_label_vectors(settings, Y[rows], X.shape[0])
        first = self._stage_loop(loop, "first")
        self.networks_, self.history_ = training.train_networks(
            settings, (X, rows, Y[rows]), vectors, held, first, identity
        )
        self.neighbours_ = self._make_voters(settings, X[rows], Y[rows], vectors, held)
        if part.rest is not None and held is not None:
            if self._trains_again(X.shape[0]):
                rows_again = labelled_rows(Y)
                vectors = self._learn_label_vectors(settings, Y, X.shape[0])
                again = replace(self._stage_loop(loop, "again"), epochs=self._best_length())
                self.networks_, _ = training.train_networks(
                    settings, (X, rows_again, Y[rows_again]), vectors, None, again, identity
                )
                chosen = self.neighbours_
                settings = SimpleNamespace(**(vars(settings) | vars(chosen.vote)))
                self.neighbours_ = self._make_voters(settings, X[rows_again], Y[rows_again], vectors, None)
                self.neighbours_.tried = chosen.tried
            else:
                X_rest = X[part.rest]
                self.neighbours_ = self.neighbours_.extended(self._embed(X_rest), Y[part.rest], self._weighed(X_rest))
        self._remove_checkpoint()

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy with the rule of the vote that is best for this data.

        Different rules score on different scales, so copies of a wrapper need the same one.
        """
        copy = self.unfitted()
        if self._has_choices():
            copy._settled = self._steps.value("vote", lambda: self._trial(X, Y))
        return copy

    def _has_choices(self) -> bool:
        settings = self.settings()
        chooses = any(getattr(settings, field.name) is None for field in fields(Vote))
        return bool(chooses and self.validation_fraction) and "_settled" not in self.__dict__

    def _n_trainings(self, part: TrainingPart) -> int:
        return self._has_choices() + self._trainings_per_fit(
            len(part.rows), validation=part.rest is None and part.held is not None
        )

    def _rest_share(self, n_points: int) -> float:
        return self._trainings_per_fit(n_points)

    def _trial(self, X: csr_array, Y: csr_array) -> dict[str, Any]:
        """Return the rule of the vote that one training chooses."""
        trial = self.unfitted().set_params(refit=False, checkpoint=None).fit(X, Y)
        return asdict(trial.neighbours_.vote)

    _less_memory: ClassVar[str] = (
        "Lower hidden (in advanced) or n_networks, or use fewer features (max_features, min_df)."
    )

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: networks, vectors of points and labels, and the label graph."""
        from longtail.models.dxml.training import bytes_needed

        settings = self._run_settings(Y.shape[1])
        return 1.5 * data_bytes(X, Y) + bytes_needed(settings, X, Y, with_graph=self.hierarchy is None)

    @learns_on_a_copy
    def partial_fit(self, X: Any, Y: Any, epochs: int = 1) -> Self:
        """Train further on new points, without starting again (§4.2).

        The networks are trained further on the new points, which then become neighbours. The earlier points keep their
        vectors: they lie in the space of the label vectors, which do not change. The vector of a new label is the mean
        of its points.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            New points, with the same features as the first ones.
        Y : sparse or dense matrix, (N, L')
            Their labels. It has all known columns; further columns are new labels.
        epochs : int
            Number of passes over the new points, at a tenth of `learning_rate`. With 0 the networks do not change.
        """
        if not hasattr(self, "n_labels_"):
            return self.fit(X, Y)
        from longtail.models.dxml.deepwalk import unit_vectors
        from longtail.models.dxml.training import train_networks

        X, Y = self._check_further_points(X, Y)
        rows = labelled_rows(Y)
        X, Y = X[rows], Y[rows]
        if Y.shape[1] > self.n_labels_:
            fresh, old = csr_array(Y.T)[self.n_labels_ :], self.label_vectors_
            means = unit_vectors(fresh @ self._embed(X))
            wider = np.concatenate([self.neighbours_.vectors, means])
            self.neighbours_ = replace(self.neighbours_, vectors=wider)
            self.label_vectors_ = np.concatenate([old, unit_vectors(fresh @ (Y[:, : self.n_labels_] @ old))])
            self.edges_ = resized(self.edges_, Y.shape[1], Y.shape[1])
            self.n_labels_ = Y.shape[1]
        if epochs:
            settings = self._run_settings(self.n_labels_)
            loop = self._loop_for(settings, X.shape[0], epochs)
            loop = replace(loop, rate=loop.rate / 10, checkpoint=None, seed=self._seed + 1)
            vectors = [unit_vectors(part) for part in np.split(self.neighbours_.vectors, len(self.networks_), axis=1)]
            self.networks_, history = train_networks(
                settings, (X, np.arange(X.shape[0]), Y), vectors, None, loop, before=self.networks_
            )
            self.history_ = self.history_ + history
        self.neighbours_ = self.neighbours_.extended(self._embed(X), Y, self._weighed(X))
        return self

    def _run_settings(self, n_labels: int) -> SimpleNamespace:
        """Return the settings of this run, with its seed and, in the paper's preset, sizes for `n_labels` labels."""
        settings = SimpleNamespace(**vars(self.settings()), seed=getattr(self, "_seed", 0))
        for name, value in paper_widths(n_labels).items() if self.preset == "paper" else ():
            if getattr(settings, name) is None:
                setattr(settings, name, value)
        return settings

    def _loop_for(self, settings: Any, n_points: int, epochs: int | None = None) -> LoopSettings:
        size = self._batch_size(n_points)
        rate = settings.learning_rate or default_rate(size)
        return self._loop(settings, size, rate, epochs)

    def _batch_size(self, n_points: int) -> int:
        return self.settings().batch_size or default_batch_size(n_points)

    def _with_usual_choices(self) -> Self:
        copy = self.unfitted()
        given = vars(self.settings())
        copy._settled = {name: usual if given[name] is None else given[name] for name, usual in asdict(Vote()).items()}
        return copy

    def _learn_label_vectors(self, settings: Any, Y: csr_array, n_points: int) -> list[np.ndarray]:
        """Learn label vectors for each network from the graph of the labels Y, which has no held-out points."""
        from longtail.models.dxml import training
        from longtail.models.dxml.deepwalk import whitened
        from longtail.models.dxml.label_graph import strongest

        graph = self._label_graph(settings, Y)
        self.edges_ = strongest(graph, _EDGES_KEPT)
        n_networks = training.count_networks(settings, n_points)
        vectors = training.learn_label_vectors(graph, settings, n_networks, self._seed, self.cache, self.n_jobs)
        self.label_vectors_ = vectors[0]
        return [whitened(part) for part in vectors] if settings.whiten else vectors

    def _label_graph(self, settings: Any, Y: csr_array) -> csr_array:
        from longtail.models.dxml.label_graph import cooccurrence_graph, edge_graph

        if self.hierarchy is None:
            return cooccurrence_graph(Y, settings.weighted)
        return edge_graph(self.hierarchy, Y.shape[1], weighted=settings.weighted)

    def _make_voters(
        self, settings: Any, X: csr_array, Y: csr_array, vectors: list[np.ndarray], held: Pair | None
    ) -> VotingPoints:
        """Build the index of the training points and choose the rule by which they vote."""
        from longtail.models.dxml.training import make_voters

        label_vectors = np.concatenate(vectors, axis=1) / np.float32(np.sqrt(len(vectors)))
        queries = None if held is None else (self._embed(held[0]), held[1], self._weighed(held[0]))
        return make_voters(self._embed(X), Y, label_vectors, self._weighed(X), queries, settings)

    # Prediction --------------------------------------------------------------------------------------------------

    def _weighed(self, X: csr_array) -> csr_array:
        """Weight features by inverse document frequency, to compare neighbours; networks learn better without it."""
        if self.idf_ is None:
            return X
        return csr_array((X.data * self.idf_[X.indices], X.indices, X.indptr), shape=X.shape)

    def _embed(self, X: csr_array) -> np.ndarray:
        return embed_points(self.networks_, SparseRows.of(X), self.relu_, self.n_jobs)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.neighbours_.rank(self._embed(X), self._weighed(X), k, self.n_jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        x = SparseRows.single(indices, values)
        point = embed_points(self.networks_, x, self.relu_, 1)[0]
        values = values if self.idf_ is None else values * self.idf_[indices]
        return self.neighbours_.rank_one(point, indices, values, k)

    def near_labels(self, label: int, k: int = 10) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the labels nearest to one label, best first: ``graph`` with edge weights, ``vectors`` with cosines."""
        if not 0 <= label < self.n_labels_:
            raise DataError(f"there is no label {label}", remedy=f"Labels are numbered from 0 to {self.n_labels_ - 1}")
        part = slice(*self.edges_.indptr[label : label + 2])
        edges = self.edges_.indices[part][:k], self.edges_.data[part][:k]
        index = make_index(self.label_vectors_, "cosine", "exact")
        ids, cosines = index.search_one(self.label_vectors_[label], k + 1)
        return {"graph": edges, "vectors": (ids[ids != label][:k], cosines[ids != label][:k])}

    # State -------------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.neighbours_.to_arrays()
        for at, tables in enumerate(self.networks_):
            arrays |= with_prefix(f"network{at}_", tables)
        arrays |= csr_arrays("edges", self.edges_) | {"near_labels": self.label_vectors_}
        if self.idf_ is not None:
            arrays["idf"] = self.idf_
        own = {"history": self.history_, "n_networks": len(self.networks_), "relu": self.relu_}
        return own | facts, arrays, {}

    _facts: ClassVar[dict[str, Constraint]] = FACTS | {"history": ROWS, "n_networks": Integer(1, 1000), "relu": YES_NO}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        n = stored.meta["n_networks"]
        rules = Rules()
        for at in range(n):
            h = f"hidden{at}"
            tables = {"W1": floats(f"D {h}"), "b1": floats(f"1 {h}"), "W2": floats(f"{h} d"), "b2": floats("1 d")}
            rules |= Rules(tables).prefixed(f"network{at}_")
        rules |= VotingPoints.array_rules(stored.meta, f"{n}*d", stored.arrays)
        rules |= csr("edges", "L", "L") | Rules({"near_labels": floats("L near")})
        return rules | Rules({"idf": floats("D")}) if "idf" in stored.arrays else rules

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_, self.relu_ = facts["history"], facts["relu"]
        self.neighbours_ = VotingPoints.from_arrays(facts, arrays, self.n_labels_, self.n_features_in_)
        self.networks_ = [without_prefix(f"network{at}_", arrays) for at in range(facts["n_networks"])]
        self.label_vectors_, self.idf_ = arrays["near_labels"], arrays.get("idf")
        edges = csr_from_arrays("edges", arrays, (self.n_labels_, self.n_labels_))
        assert edges is not None
        self.edges_ = edges
