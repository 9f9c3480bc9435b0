"""DECAF: label text inside one-vs-all classifiers (Mittal et al., WSDM 2021).

A point is the sum of its tokens' vectors through a residual block; the text of a label goes through the same token
table and a block of its own. A label's classifier combines its text's vector with a refinement vector that is the
label's alone, so that labels which share words learn from each other and a rare label is not left to its few points.

Choices made here. The paper trains in four modules (:mod:`longtail.neural.modules`) on a GPU. ``preset="paper"`` does
so. The default is made for a few cores: Module IV alone, scored against candidates that a batch shares, in one matrix
product; negatives are weighted by one over their chance of being drawn, to a power (`correction`). Labels are then
searched by their classifiers directly. Beside the network stand other views of the same points: a few shallow trees
(Bonsai) over sparse features, which know single words best; the labels of similar training points, which know every
rare label; and the labels whose text is most like the point. What held-out points teach mixes them with how often a
label occurs (:mod:`longtail.neural.mixing`), because sampled negatives leave it open how frequent labels compare with
rare ones; then the held-out points are learnt from, too.
"""

from __future__ import annotations

import shutil
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, eye_array

from longtail.engine import memory
from longtail.errors import ModelError
from longtail.kernels.rows import valid
from longtail.labels.neighbours import Neighbours
from longtail.linear.tree import label_vectors
from longtail.models.base import Arrays, Ranker, check_features
from longtail.models.bonsai import Bonsai
from longtail.models.label_tree import LabelTreeRanker
from longtail.models.parabel import Parabel
from longtail.models.views import Views, weight
from longtail.neural.ensemble import WIDTH, Ensemble
from longtail.neural.held_out import hold_out_at_random, labelled, seen
from longtail.neural.loop import fingerprint
from longtail.neural.mixing import Mix
from longtail.neural.modules import Plan, Training, unit
from longtail.neural.presets import make_plan, resolve
from longtail.neural.text_network import TextNetwork

_HELD = 5000  # points held out at most: the mix learns from them, and more of them pay until training misses them
_LISTED = 24  # labels of a training point that the linear view lists, to draw hard negatives from


class DECAF(Ranker):
    """Classifiers made of label text and refinement vectors.

    A parameter left at None has the value of the preset.

    Parameters
    ----------
    preset : {"fast", "paper"}
        What the other parameters are by default: what was best here for a few cores, or the paper's pipeline.
    dim : int, optional
        d, the length of token and label vectors.
    instances : int, optional
        Networks in the ensemble; they share Module I.
    classifier : {"both", "text", "refinement"}
        What a classifier is made of; one alone is the paper's DECAF-ẑ¹ or DECAF-ẑ².
    init : {"text", "random"}
        How refinement vectors start; "random" is DECAF-no-init.
    lite : bool
        Token vectors stay as Module I leaves them (DECAF-lite).
    shortlist : {"search", "clusters", "hnsw", "tree"}, optional
        Where the labels that are scored for a point come from: a search of the classifiers, the paper's clusters
        (Module II), a graph of their centroids, or a label tree (Parabel).
    n_clusters : int, optional
        Clusters of Modules I and II; by default the power of two next below an eighth of the labels.
    beam : int, optional
        Clusters opened for a point; by default as many as find 85 % of the labels of training points.
    n_trees : int, optional
        Trees of the linear view, 0 for none; by default three, or one where there are 20,000 labels.
    neighbours : int, optional
        Training points that vote in the view of neighbours; 0 for none.
    matches : int, optional
        Labels of the view of texts, those whose text is most like the point; 0 for none.
    mix : bool, optional
        Mix the views by held-out points.
    candidates : int, optional
        Labels drawn for each batch beside its own; with no more labels than this every point meets all of them.
    n_hard : int, optional
        Labels of each point's shortlist (or of the linear view's suggestions) that take part in a batch.
    shared : bool, optional
        A point learns from all candidates of its batch, or (the paper) from its own shortlist.
    correction : float, optional
        How far negatives are weighted by one over their chance of being a candidate, 0 to 1: less favours rare labels.
    forget : float, optional
        Chance of a label to be scored by its text alone in a batch.
    drop, keep : float, optional
        Dropout after each ReLU; chance of a feature to stay in input dropout.
    epochs, surrogate_epochs : int, optional
        Passes over the points in Modules II and IV, and in Module I, which 0 leaves out.
    batch_size, learning_rate, schedule, patience
        See :class:`longtail.neural.loop.LoopSettings`. By default a batch is about a hundredth of the points, from 32
        to 512.
    validation_fraction : float, optional
        Share of points held out for mixing and early stopping, 5,000 at most; 0 for none. Unused where `fit` is given a
        validation part.
    dtype : {"float32", "int8"}
        How token vectors and classifiers are kept; int8 is a quarter of the size.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch of each module, from which an interrupted run goes on; removed at the
        end.
    n_jobs : int, optional
        Threads of the kernels; all cores by default.
    random_state : int

    Attributes
    ----------
    history_ : list of dict
        Loss and held-out precision after each epoch of Module IV.
    """

    kind: ClassVar[str] = "decaf"
    history_: list[dict[str, float]]
    ensemble_: Ensemble
    views_: Views

    def __init__(
        self,
        preset: str = "fast",
        dim: int | None = None,
        instances: int | None = None,
        classifier: str = "both",
        init: str = "text",
        lite: bool = False,
        shortlist: str | None = None,
        n_clusters: int | None = None,
        beam: int | None = None,
        n_trees: int | None = None,
        neighbours: int | None = None,
        matches: int | None = None,
        mix: bool | None = None,
        candidates: int | None = None,
        n_hard: int | None = None,
        shared: bool | None = None,
        correction: float | None = None,
        forget: float | None = None,
        drop: float | None = None,
        keep: float | None = None,
        epochs: int | None = None,
        surrogate_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        schedule: str | None = None,
        patience: int = 3,
        validation_fraction: float | None = None,
        dtype: str = "float32",
        checkpoint: str | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.preset = preset
        self.dim = dim
        self.instances = instances
        self.classifier = classifier
        self.init = init
        self.lite = lite
        self.shortlist = shortlist
        self.n_clusters = n_clusters
        self.beam = beam
        self.n_trees = n_trees
        self.neighbours = neighbours
        self.matches = matches
        self.mix = mix
        self.candidates = candidates
        self.n_hard = n_hard
        self.shared = shared
        self.correction = correction
        self.forget = forget
        self.drop = drop
        self.keep = keep
        self.epochs = epochs
        self.surrogate_epochs = surrogate_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.dtype = dtype
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Learning ----------------------------------------------------------------------------------------------------

    def _fit(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: tuple[csr_array, csr_array] | None
    ) -> None:
        settings = resolve(self.get_params(deep=False), Y.shape[1])
        identity = ""
        if self.checkpoint is not None:
            params = {name: value for name, value in self.get_params().items() if name not in ("checkpoint", "n_jobs")}
            identity = fingerprint(params, X, Y, Z, *(validation or ()))
        fraction = settings["validation_fraction"]
        rows, spare = hold_out_at_random(Y, validation, fraction, self.random_state, _HELD)
        everything = np.concatenate([rows, spare]) if settings["mix"] else rows  # without a mix, spare points stay so
        counts = np.bincount(Y[everything].indices, minlength=Y.shape[1])
        labels = np.flatnonzero(counts).astype(np.int32)
        Y_seen = seen(Y, labels)
        plan = make_plan(settings, len(rows), len(labels))
        self._check_memory(plan, X.shape[1], len(labels))

        text = None if Z is None or not Z.nnz else unit(Z)
        views = self.views_ = Views(self._linear_view(settings), settings["neighbours"], settings["matches"])
        if text is not None and settings["matches"] and settings["classifier"] != "refinement":
            views.texts = Neighbours.of(text, csr_array(eye_array(len(counts), format="csr")))
        X_rows = X[rows]
        views.fit(X_rows, Y[rows])
        listed = None
        if views.linear is not None and (settings["n_hard"] or settings["shortlist"] == "tree"):
            listed = _padded(views.linear.predict(X_rows, _LISTED), labels)
        clustered = settings["surrogate_epochs"] or settings["shortlist"] == "clusters"
        held = (X[spare], Y_seen[spare]) if len(spare) else None
        if validation is not None:
            held = validation[0], seen(validation[1], labels)
        training = Training(
            X, rows, Y_seen[rows], None if text is None else text[labels],
            label_vectors(X_rows, Y_seen[rows], 256, self.n_jobs) if clustered else None,
            held and labelled(*held), listed, plan, identity,
        )  # fmt: skip
        surrogate = training.surrogate()
        trained = [training.ranker(number, surrogate) for number in range(settings["instances"])]
        self.history_ = [entry for _, history in trained for entry in history]
        mix = Mix.start(len(views), settings["mix"])
        if settings["mix"] and training.held is not None:
            seen_often = np.bincount(training.Y.indices, minlength=len(labels))
            draft = Ensemble(
                [training.instance(ranking, exact=True) for ranking, _ in trained], labels,
                weight(seen_often, len(rows)), seen_often == 0, mix, Y.shape[1],
            )  # fmt: skip
            told = views.ask(training.held[0], WIDTH, self.n_jobs)
            text_view = None if views.texts is None else len(told) - 1
            draft.fit_mix(*training.held, told, seen_often, training.text, text_view, self.n_jobs)
            if len(spare):
                for ranking, _ in trained:
                    training.absorb(ranking.network, spare, Y_seen[spare])
                views.fit(X[everything], Y[everything])
        instances = [training.instance(ranking).rounded(self.dtype) for ranking, _ in trained]
        often = weight(counts[labels], len(everything))
        self.ensemble_ = Ensemble(instances, labels, often, np.zeros(len(labels), bool), mix, Y.shape[1])
        if text is not None and self.ensemble_.instances[0].text is not None:
            unseen = np.flatnonzero((counts == 0) & (np.diff(text.indptr) > 0))
            self.ensemble_.append(text[unseen], unseen, Y.shape[1], self.n_jobs)
        if self.checkpoint is not None:
            shutil.rmtree(self.checkpoint, ignore_errors=True)

    def _linear_view(self, settings: dict[str, Any]) -> LabelTreeRanker | None:
        common: dict[str, Any] = {"n_jobs": self.n_jobs, "random_state": self.random_state}
        if settings["shortlist"] == "tree":
            return Parabel(n_trees=max(1, settings["n_trees"]), **common)
        return Bonsai(n_trees=settings["n_trees"], **common) if settings["n_trees"] else None

    def _check_memory(self, plan: Plan, n_features: int, n_labels: int) -> None:
        batch = plan.loop.batch_size
        candidates = min(n_labels, plan.candidates + batch * (8 + plan.n_hard))
        needed = TextNetwork.bytes_needed(n_features, n_labels, plan.network.dim, batch, candidates)
        memory.require(needed, "DECAF", "Lower dim, candidates or batch_size, or use fewer features (max_features).")

    def add_labels(self, label_features: Any) -> Self:
        """Append labels that have text but no points; they are suggested from now on.

        Parameters
        ----------
        label_features : sparse or dense matrix, (n, D)
            Text of the new labels, in the feature space of the points. A label without a single known word gets a
            number but is never suggested.
        """
        if not hasattr(self, "n_labels_"):
            raise ModelError("This DECAF has not been fitted. Call fit first, or load a saved model.")
        if self.ensemble_.instances[0].text is None:
            raise ModelError(
                "This DECAF was trained without label text and cannot score labels by theirs. "
                "Fit it with label_features, and with a classifier that uses them."
            )
        Z = unit(check_features(label_features, self.n_features_in_, "label_features"))
        some = np.flatnonzero(np.diff(Z.indptr))
        n_labels = self.n_labels_ + Z.shape[0]
        self.ensemble_.append(Z[some], self.n_labels_ + some, n_labels, self.n_jobs)
        if self.views_.texts is not None:
            own = csr_array(eye_array(Z.shape[0], n_labels, k=self.n_labels_, format="csr"))
            self.views_.texts = Neighbours.of(Z, own, before=self.views_.texts)
        self.n_labels_ = n_labels
        return self

    # Answering ---------------------------------------------------------------------------------------------------

    def _predict(self, X: csr_array, k: int) -> csr_array:
        jobs = 1 if X.shape[0] < 64 else self.n_jobs
        return self.ensemble_.answer(X, self.views_.ask(X, max(k, WIDTH), jobs), k, jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        if not valid(indices, values, self.n_features_in_):
            return None
        return self.ensemble_.answer_one(indices, values, self.views_.ask_one(indices, values, max(k, WIDTH)), k)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.ensemble_.state(self.dtype)
        views, more, parts = self.views_.state()
        return {"history": self.history_, "ensemble": facts, "views": views}, arrays | more, parts

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_ = facts["history"]
        self.ensemble_ = Ensemble.restored(facts["ensemble"], arrays, self.n_labels_)
        self.views_ = Views.restored(facts["views"], arrays, parts)


def _padded(suggested: csr_array, labels: np.ndarray) -> np.ndarray:
    """Suggestions as positions among `labels`, a row a point, -1 where there are fewer."""
    place = np.full(suggested.shape[1], -1, np.int32)
    place[labels] = np.arange(len(labels), dtype=np.int32)
    counts = np.diff(suggested.indptr)
    out = np.full((suggested.shape[0], max(1, counts.max(initial=0))), -1, np.int32)
    out[np.arange(out.shape[1]) < counts[:, None]] = place[suggested.indices]
    return out
