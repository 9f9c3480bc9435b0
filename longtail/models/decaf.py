"""DECAF: label text inside one-vs-all classifiers (Mittal et al., WSDM 2021).

A point is the sum of its tokens' vectors through a residual block; the text of a label goes through the same token
table and a block of its own. A label's classifier combines its text's vector with a refinement vector that is the
label's alone, so that labels which share words learn from each other and a rare label is not left to its few points.

Choices made here. The paper trains in four modules (:mod:`longtail.neural.modules`) on a GPU. ``preset="paper"`` does
so. The default is made for a few cores: Module IV alone, scored against candidates that a batch shares, in one matrix
product; negatives are weighted by one over their chance of being drawn, to a power (`correction`). Labels are then
searched by their classifiers directly. Beside the network stand other views of the same points: a few shallow trees
(Bonsai) over sparse features, which know single words best; the labels of similar training points, which know every
rare label; and the labels whose text is most like the point. A logistic regression on held-out points mixes them with
how often a label occurs, because sampled negatives leave it open how frequent labels compare with rare ones; then the
held-out points are learnt from, too.
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
from longtail.models.glas import seen
from longtail.models.label_tree import LabelTreeRanker
from longtail.models.parabel import Parabel
from longtail.neural.ensemble import WIDTH, Ensemble, View
from longtail.neural.loop import fingerprint
from longtail.neural.mixing import Mix
from longtail.neural.modules import Plan, Training, unit
from longtail.neural.presets import PRESETS, make_plan, resolve
from longtail.neural.text_network import TextNetwork

_LISTED = 24  # labels of a training point that the linear view lists, to draw hard negatives from
_HELD = 2000  # points held out at most


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
        (Module II), a graph of neighbours, or a label tree (Parabel).
    n_clusters : int, optional
        Clusters of Modules I and II; by default the power of two next below an eighth of the labels.
    beam : int, optional
        Clusters opened for a point; by default as many as find 85 % of the labels of training points.
    n_trees : int, optional
        Trees of the linear view; 0 for none.
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
    validation_fraction : float
        Share of points held out for mixing and early stopping, 2,000 at most; 0 for none. Unused where `fit` is given a
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
    linear_: LabelTreeRanker | None
    neighbours_: Neighbours | None  # training points and their labels
    texts_: Neighbours | None  # texts of labels, and the labels themselves

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
        validation_fraction: float = 0.05,
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
        settings = resolve(self.get_params(deep=False))
        identity = ""
        if self.checkpoint is not None:
            params = {name: value for name, value in self.get_params().items() if name not in ("checkpoint", "n_jobs")}
            identity = fingerprint(params, X, Y, Z, *(validation or ()))
        rows, spare = self._hold_out(Y, validation)
        everything = np.concatenate([rows, spare]) if settings["mix"] else rows  # without a mix, spare points stay so
        counts = np.bincount(Y[everything].indices, minlength=Y.shape[1])
        labels = np.flatnonzero(counts).astype(np.int32)
        Y_seen = seen(Y, labels)
        plan = make_plan(settings, len(rows), len(labels))
        self._check_memory(plan, X.shape[1], len(labels))

        text = None if Z is None or not Z.nnz else unit(Z)
        self.linear_ = self._linear_view(settings)
        self.neighbours_ = Neighbours.of(X[rows], Y[rows]) if settings["neighbours"] else None
        self.texts_ = None
        if text is not None and settings["matches"] and settings["classifier"] != "refinement":
            self.texts_ = Neighbours.of(text, csr_array(eye_array(len(counts), format="csr")))
        listed = None
        if self.linear_ is not None:
            X_rows = X[rows]
            self.linear_.fit(X_rows, Y[rows])
            if settings["n_hard"] or settings["shortlist"] == "tree":
                listed = _padded(self.linear_.predict(X_rows, _LISTED), labels)
        clustered = settings["surrogate_epochs"] or settings["shortlist"] == "clusters"
        held = (X[spare], Y_seen[spare]) if len(spare) else None
        if validation is not None:
            held = validation[0], seen(validation[1], labels)
        training = Training(
            X, rows, Y_seen[rows], None if text is None else text[labels],
            label_vectors(X[rows], Y_seen[rows], 256, self.n_jobs) if clustered else None,
            _labelled(held), listed, plan, identity,
        )  # fmt: skip
        surrogate = training.surrogate()
        trained = [training.ranker(number, surrogate) for number in range(settings["instances"])]
        self.history_ = [entry for _, history in trained for entry in history]
        views = [self.linear_, self.neighbours_, self.texts_]
        mix = Mix.start(sum(view is not None for view in views), settings["mix"])
        if settings["mix"] and training.held is not None:
            seen_often = np.bincount(training.Y.indices, minlength=len(labels))
            draft = Ensemble(
                [training.instance(ranking, exact=True) for ranking, _ in trained], labels,
                _weight(seen_often, len(rows)), seen_often == 0, mix, Y.shape[1],
            )  # fmt: skip
            told = self._views(training.held[0], WIDTH, self.n_jobs)
            text_view = None if self.texts_ is None else len(told) - 1
            draft.fit_mix(*training.held, told, seen_often, training.text, text_view, self.n_jobs)
            if len(spare):
                for ranking, _ in trained:
                    training.absorb(ranking.network, spare, Y_seen[spare])
                X_all, Y_all = X[everything], Y[everything]
                if self.linear_ is not None:
                    self.linear_.fit(X_all, Y_all)
                if self.neighbours_ is not None:
                    self.neighbours_ = Neighbours.of(X_all, Y_all)
        instances = [training.instance(ranking).rounded(self.dtype) for ranking, _ in trained]
        weight = _weight(counts[labels], len(everything))
        self.ensemble_ = Ensemble(instances, labels, weight, np.zeros(len(labels), bool), mix, Y.shape[1])
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

    def _hold_out(self, Y: csr_array, validation: tuple[csr_array, csr_array] | None) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on, and rows held out: at random, so that they have rare labels as often as new points."""
        some = np.flatnonzero(np.diff(Y.indptr))  # a point without labels teaches nothing here
        n = 0 if validation is not None else int(min(self.validation_fraction * len(some), _HELD, len(some) - 1))
        order = np.random.default_rng(self.random_state).permutation(some)
        return np.sort(order[n:]), np.sort(order[:n])

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
        if self.texts_ is not None:
            own = csr_array(eye_array(Z.shape[0], n_labels, k=self.n_labels_, format="csr"))
            self.texts_ = Neighbours.of(Z, own, before=self.texts_)
        self.n_labels_ = n_labels
        return self

    # Answering ---------------------------------------------------------------------------------------------------

    def _predict(self, X: csr_array, k: int) -> csr_array:
        jobs = 1 if X.shape[0] < 64 else self.n_jobs
        return self.ensemble_.answer(X, self._views(X, max(k, WIDTH), jobs), k, jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        if not valid(indices, values, self.n_features_in_):
            return None
        views: list[View] = []
        ptr, width = np.array([0, len(indices)], np.int32), max(k, WIDTH)
        if self.linear_ is not None:
            found = self.linear_._rank(indices, values, min(width, self.linear_.n_labels_))
            assert found is not None
            views.append((np.array([0, len(found[0])], np.int32), *found, found[1][:1]))
        views += self._similar(ptr, indices, values, width, 1)
        return self.ensemble_.answer_one(indices, values, views, k)

    def _views(self, X: csr_array, k: int, n_jobs: int | None) -> list[View]:
        """What the other views say of some points."""
        views: list[View] = []
        if self.linear_ is not None:
            found = self.linear_.predict(X, k)
            sure = np.zeros(X.shape[0], np.float32)
            some = np.diff(found.indptr) > 0
            sure[some] = found.data[found.indptr[:-1][some]]
            views.append((found.indptr, found.indices, found.data, sure))
        return views + self._similar(X.indptr, X.indices, X.data, k, n_jobs)

    def _similar(self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, k: int, n_jobs: int | None) -> list[View]:
        """Labels of similar points, and labels of similar text."""
        views = []
        if self.neighbours_ is not None:
            views.append(self.neighbours_.vote(ptr, idx, val, self._setting("neighbours"), k, n_jobs))
        if self.texts_ is not None:
            most = self._setting("matches")
            views.append(self.texts_.vote(ptr, idx, val, most, min(k, most), n_jobs, shared=False))
        return views

    def _setting(self, name: str) -> Any:
        value = getattr(self, name)
        return PRESETS[self.preset][name] if value is None else value

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.ensemble_.state(self.dtype)
        facts["n_view_labels"] = {}
        for name, view in (("neighbours", self.neighbours_), ("texts", self.texts_)):
            if view is not None:
                arrays |= {f"{name}.{part}": array for part, array in view.arrays().items()}
                facts["n_view_labels"][name] = view.n_labels
        parts: dict[str, Ranker] = {} if self.linear_ is None else {"linear": self.linear_}
        return {"history": self.history_, "ensemble": facts}, arrays, parts

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_ = facts["history"]
        linear = parts.get("linear")
        assert linear is None or isinstance(linear, LabelTreeRanker)
        self.linear_ = linear
        self.ensemble_ = Ensemble.restored(facts["ensemble"], arrays, self.n_labels_)
        views: dict[str, Neighbours] = {}
        for name, n_labels in facts["ensemble"]["n_view_labels"].items():
            mark = f"{name}."
            held = {key.removeprefix(mark): array for key, array in arrays.items() if key.startswith(mark)}
            views[name] = Neighbours(**held, n_labels=n_labels)
        self.neighbours_, self.texts_ = views.get("neighbours"), views.get("texts")


def _labelled(held: tuple[csr_array, csr_array] | None) -> tuple[csr_array, csr_array] | None:
    """Points that have a label left; None where there are none."""
    if held is None:
        return None
    some = np.flatnonzero(np.diff(held[1].indptr))
    return (held[0][some], held[1][some]) if len(some) else None


def _weight(counts: np.ndarray, n_points: int) -> np.ndarray:
    """How often labels occur, as the mix sees it."""
    return (np.log1p(counts) / np.log1p(n_points)).astype(np.float32)


def _padded(suggested: csr_array, labels: np.ndarray) -> np.ndarray:
    """Suggestions as positions among `labels`, a row a point, -1 where there are fewer."""
    place = np.full(suggested.shape[1], -1, np.int32)
    place[labels] = np.arange(len(labels), dtype=np.int32)
    counts = np.diff(suggested.indptr)
    out = np.full((suggested.shape[0], max(1, counts.max(initial=0))), -1, np.int32)
    out[np.arange(out.shape[1]) < counts[:, None]] = place[suggested.indices]
    return out
