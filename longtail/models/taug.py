"""TAug: head and tail labels trained apart, the tail from augmented points.

Reference: §3.3 of "Improving tail label prediction for extreme multi-label learning", submitted to ICLR 2021.

The ⌊τL⌋ most frequent labels are the head, the others the tail. Two copies of the base are fitted, one per side. The
head's copy sees head labels and the points that have some. The tail's copy sees tail labels and the points that have
some, and in addition `n_aug` altered copies of each point, in which some features are left out and some values are
exchanged. So a rare label does not compete with frequent ones, and has more points to learn from.

The paper does not say how to combine the two. ``preset="paper"`` takes the plain union: each label has the score of its
own side. But the sides are fitted to different points, so that their scores have different scales, and the tail's copy
never sees a point without tail labels. ``preset="fast"`` therefore adds the other points to each side as an extra class
"none of these" (`rest`), and trains a combiner on held-out points (:mod:`longtail.combine`).

At the end, scores are multiplied by the inverse propensity of the label to the power `tilt`. The power is the largest
one that costs no more than one point of P@1 on the held-out points. With ``tilt=0`` scores are probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.combine.candidates import CandidateList
from longtail.combine.combiner import Combiner
from longtail.combine.label_profile import LabelProfile, frequencies
from longtail.combine.predictor import CandidatePredictor
from longtail.combine.selection import held_out_metrics
from longtail.data.augment import augmented
from longtail.engine import current, memory
from longtail.index.ranking import top_k
from longtail.kernels import pool
from longtail.labels.head_tail import head
from longtail.metrics import inverse_propensity
from longtail.models.base import Arrays, Ranker, data_bytes
from longtail.models.presets import PresetRanker
from longtail.models.wrapper import Wrapper
from longtail.params import (
    DROPOUT,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Anything,
    Boolean,
    Integer,
    Jobs,
    Number,
    Seed,
    optional,
)
from longtail.sparse import LEAST_SCORE, Pair, label_counts, labelled_rows, resized, select_labels
from longtail.store import Stored
from longtail.store.facts import ROWS, Text
from longtail.store.invariants import Rules, floats

_TILTS = (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0)
_MOST_LOST = 1.0  # points of P@1 that the tilt may cost on the held-out points
_MANY_LABELS_FROM = {"fast": 100_000, "paper": 10_000}  # from here on τ is 0.01; the paper uses 0.1 for 3,993 labels


class Side(NamedTuple):
    """A copy of the base to be fitted, and whether it gets the tail labels or the head labels."""

    copy: Ranker
    tail: bool


class TAug(Wrapper, PresetRanker):
    """Head and tail labels trained apart, the tail from augmented points.

    A parameter that is None has the value of the preset.

    Parameters
    ----------
    base : Ranker
        Ranker to fit twice; copies of it are fitted.
    preset : {"fast", "paper"}
        Values of the other parameters: with a combiner trained on held-out points, or with the paper's plain union.
    tau : float, optional
        Share of labels that are head labels. By default 0.1, or 0.01 from 100,000 labels on (paper: from 10,000). With
        few labels it is changed as little as possible so that neither side is empty.
    n_aug : int, optional
        Number of altered copies of each point of the tail. More copies are slower.
    dropout : float, optional
        Probability that a feature is left out of a copy.
    swap : float, optional
        Share of a copy's features whose values are exchanged with each other.
    tilt : float, optional
        Power of the inverse propensity by which scores are multiplied. A higher power ranks rare labels higher, at a
        cost in P@1. In the fast preset it is chosen on held-out points, in the paper's it is 0.
    n_candidates : int
        Number of candidates per point from each side.
    propensity_a, propensity_b : float
        A and B of the propensity model. Use 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon, and the defaults
        elsewhere.
    advanced : dict, optional
        Settings that only experiments need: ``rest`` (add the other points to each side as an extra "none of these"
        class), ``combine`` (train a combiner, or take the plain union), ``whole`` (also train a copy on all labels and
        use its scores), ``text`` (let the combiner use label text and the mean of a label's points). The paper has none
        of the four.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of the copies and of the held-out part.

    Attributes
    ----------
    base_, tail_, whole_ : Ranker
        The fitted copies for head labels, for tail labels and for all labels; the last is None unless ``whole`` is set.
    tilt_ : float
        The power in use.
    why_ : str
        Why this power was chosen.
    report_ : list of dict
        Metrics on the held-out points for each power tried; empty if there were too few points.

    Examples
    --------
    >>> from longtail import Bonsai, TAug
    >>> TAug(Bonsai(), preset="paper")
    TAug(base=Bonsai(), preset='paper')
    """

    kind: ClassVar[str] = "taug"
    _presets: ClassVar = {
        "fast": {
            "n_aug": 4,
            "dropout": 0.3,
            "swap": 0.3,
            "tilt": None,
            "rest": True,
            "combine": True,
            "whole": False,
            "text": False,
        },
        "paper": {
            "n_aug": 4,
            "dropout": 0.3,
            "swap": 0.3,
            "tilt": 0.0,
            "rest": False,
            "combine": False,
            "whole": False,
            "text": False,
        },
    }
    _advanced: ClassVar = {"rest": Boolean(), "combine": Boolean(), "whole": Boolean(), "text": Boolean()}
    _constraints: ClassVar = {
        "base": Anything("a ranker"),
        "tau": optional(Number(0, 1, above=True, below=True)),
        "n_aug": Integer(0),
        "dropout": DROPOUT,
        "swap": SHARE,
        "tilt": SHARE,
        "n_candidates": Integer(1),
        "propensity_a": NOT_NEGATIVE,
        "propensity_b": POSITIVE,
        "n_jobs": Jobs(),
        "random_state": Seed(),
    }
    predictor_: CandidatePredictor
    tail_: Ranker | None  # None for a single label, which has no other side
    whole_: Ranker | None
    tilt_: float
    report_: list[dict[str, Any]]
    why_: str

    def __init__(
        self,
        base: Any,
        preset: str = "fast",
        tau: float | None = None,
        n_aug: int | None = None,
        dropout: float | None = None,
        swap: float | None = None,
        tilt: float | None = None,
        n_candidates: int = 50,
        propensity_a: float = 0.55,
        propensity_b: float = 1.5,
        advanced: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.base = base
        self.preset = preset
        self.tau = tau
        self.n_aug = n_aug
        self.dropout = dropout
        self.swap = swap
        self.tilt = tilt
        self.n_candidates = n_candidates
        self.propensity_a = propensity_a
        self.propensity_b = propensity_b
        self.advanced = advanced
        self.n_jobs = n_jobs
        self.random_state = random_state

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy around a tuned base, with the tilt that is best for this data.

        Copies with different tilts would score on different scales. When TAug was calibrated with such copies, its
        expected calibration error at 1 on other training points of Tate titles was 3.3 points instead of 2.1.
        """
        copy = super().tuned(X, Y, Z)
        if copy.settings().tilt is None:
            copy.tilt = self._steps.value("tilt", lambda: copy.unfitted().fit(X, Y, label_features=Z).tilt_)
        return copy

    def _copies(self) -> int:
        settings = self.settings()
        each = 3 if settings.whole else 2
        return 2 * each if settings.combine or settings.tilt is None else each

    # Training ----------------------------------------------------------------------------------------------------

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        settings = self.settings()
        self.report_, self.tilt_, self.why_ = [], settings.tilt or 0.0, ""
        is_head = self._head(Y)
        if is_head is None:
            self._fit_base(X, Y, Z, validation)
            self.tail_ = self.whole_ = None
            return
        recipe = self._tuned_base(X, Y, Z)
        part, held = (X, Y), validation
        if validation is None:
            rows, rest = self._hold_out(Y)
            part, held = (X[rows], Y[rows]), (X[rest], Y[rest])
        assert held is not None
        needs_held_out = settings.combine or settings.tilt is None
        has_both_sides = select_labels(part[1], is_head).nnz and select_labels(part[1], ~is_head).nnz
        self._set_predictor(*part, Z, None)
        Y_known = select_labels(held[1], label_counts(part[1]) > 0)
        if needs_held_out and Y_known.nnz and has_both_sides:
            self._fit_sides(recipe, *part, Z, is_head, "part")
            rows = labelled_rows(Y_known)
            self._learn_from_held_out(part[1], (held[0][rows], Y_known[rows]))
            if validation is not None:
                return
        self._fit_sides(recipe, X, Y, Z, is_head, "all")
        self._set_predictor(X, Y, Z, self.predictor_.combiner)

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: both sides at the same time, the tail with its altered copies."""
        copies = (2 + self.settings().n_aug) / 3  # with the share of tail points in benchmarks/scale/run.py
        side = self._checked_base().memory_needed(X, Y, Z) + 2 * data_bytes(X, Y, Z)
        return 2 * side + data_bytes(X, Y) * copies

    def _head(self, Y: csr_array) -> np.ndarray | None:
        """Select the head labels; None if there is only one label and `tau` is not given."""
        if self.tau is not None:
            return head(Y, self.tau)
        n_seen = len(np.unique(Y.indices))
        usual = 0.1 if n_seen < _MANY_LABELS_FROM[self.preset] else 0.01
        return head(Y, np.clip(usual, 1 / n_seen, 1 - 0.5 / n_seen)) if n_seen > 1 else None

    def _fit_sides(
        self, recipe: Ranker, X: csr_array, Y: csr_array, Z: csr_array | None, is_head: np.ndarray, points: str
    ) -> None:
        """Fit a copy of the base per side, in parallel if memory allows, and with ``whole`` one to all labels.

        `points` names these points in a checkpoint.
        """
        settings = self.settings()
        sides = [Side(self._copy_of(recipe, f"{points}-{name}"), name == "tail") for name in ("head", "tail")]
        free, needed = memory.available(), 8.0 * X.nnz * 6 * (2 + settings.n_aug)
        n_jobs = self.n_jobs if free is None or free > needed else 1
        shared = X, Y, Z, is_head, settings, self._seed
        if (
            current().remote and recipe._shares_tasks
        ):  # each on the whole cluster: the tail takes far longer than the head
            self.base_, self.tail_ = (_fit_side(side, *shared) for side in sides)
        else:
            self.base_, self.tail_ = current().map(_fit_side, sides, shared, n_jobs=n_jobs, uses_whole_machine=True)
        self.whole_ = None
        if settings.whole:
            self.whole_ = self._copy_of(recipe, f"{points}-whole").fit(X, Y, label_features=Z)

    def _learn_from_held_out(self, Y_train: csr_array, held: Pair) -> None:
        """Train the combiner and choose the tilt, on points that no copy was fitted to."""
        X, Y = held
        settings = self.settings()
        if settings.combine:
            layout = self.predictor_.layout(len(self._listing(X[:1], 1)))
            pairs = self.predictor_.collect(X, Y, self._listing, self.n_jobs)
            scores = pairs.cross_scored(layout, Y.shape, self.n_candidates)
            self.predictor_ = replace(self.predictor_, combiner=pairs.train(layout, Y_train, Y, None))
        else:
            scores = self._united(X, self.n_candidates)
        for tilt in _TILTS if settings.tilt is None else sorted({0.0, settings.tilt}):
            tilted = self._tilted(scores, tilt, self.n_candidates)
            row = held_out_metrics(Y, tilted, Y_train, (self.propensity_a, self.propensity_b))
            self.report_.append({"model": f"tilt {tilt:g}", "tilt": tilt} | row)
        if settings.tilt is None:
            lowest = self.report_[0]["P@1"] - _MOST_LOST
            self.tilt_ = max(row["tilt"] for row in self.report_ if row["P@1"] >= lowest)
        plain, used = self.report_[0], next(row for row in self.report_ if row["tilt"] == self.tilt_)
        self.why_ = (
            f"A tilt of {self.tilt_:g}: on held-out points PSP@1 goes from {plain['PSP@1']:.2f} to {used['PSP@1']:.2f} "
            f"and P@1 from {plain['P@1']:.2f} to {used['P@1']:.2f}."
        )

    def _set_predictor(self, X: csr_array, Y: csr_array, Z: csr_array | None, combiner: Combiner | None) -> None:
        """Set the predictor and the label weights for these points; without a combiner it has an untrained one."""
        settings = self.settings()
        profile = LabelProfile.of(X, Y, Z, self.n_jobs) if settings.text else LabelProfile()
        predictor = CandidatePredictor(
            [], frequencies(Y), label_counts(Y) == 0, profile, width=max(2, self.n_candidates)
        )
        untrained = Combiner.untrained(predictor.layout(3 if settings.whole else 2))
        self.predictor_ = replace(predictor, combiner=combiner or untrained)
        counts = np.append(label_counts(Y), 0)  # weights are relative to a label without points, real or not
        weights = inverse_propensity(counts=counts, n_points=Y.shape[0], A=self.propensity_a, B=self.propensity_b)
        self.weights_ = (weights[:-1] / weights[-1]).astype(np.float32)

    # Prediction --------------------------------------------------------------------------------------------------

    def _sides(self, X: csr_array, k: int) -> list[csr_array]:
        """Return the scores of each copy, at most k per point."""
        assert self.tail_ is not None
        sides = self.base_, self.tail_
        whole = [] if self.whole_ is None else [self.whole_.predict(X, k)]
        if self.tail_.n_labels_ == self.n_labels_:  # fitted without `rest`, which may have been changed since
            return [side.predict(X, k) for side in sides] + whole
        is_label = np.arange(self.n_labels_ + 1) < self.n_labels_  # all columns but "none of these"
        scores = [select_labels(side.predict(X, k + 1), is_label) for side in sides]
        shape = X.shape[0], self.n_labels_
        return [csr_array((one.data, one.indices, one.indptr), shape=shape) for one in scores] + whole

    def _listing(self, X: csr_array, k: int) -> list[CandidateList]:
        return [CandidateList.of_scores(scores) for scores in self._sides(X, k)]

    def _united(self, X: csr_array, k: int) -> csr_array:
        """Return the plain union of both sides: each label with the score of its own side, best first."""
        head_scores, tail_scores, *_ = self._sides(X, k)
        total = csr_array(head_scores + tail_scores)
        total.sort_indices()
        return top_k(total, k)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        if self.tail_ is None:
            return self.base_.predict(X, k)
        depth = 2 * max(self.n_candidates, k)
        if not self._setting("combine"):
            return self._tilted(self._united(X, depth), self.tilt_, k)
        jobs = pool.threads_for(X.shape[0], self.n_jobs)
        scores = self.predictor_.predict(X, lambda rows, _: self._listing(rows, depth // 2), depth, jobs)
        return self._tilted(scores, self.tilt_, k)

    def _tilted(self, scores: csr_array, tilt: float, k: int) -> csr_array:
        """Return the k best labels by score times relative inverse propensity to the power `tilt`.

        Inverse propensities are relative to that of a label without points, not to the largest one of the data. The
        latter depends on whether every label has a point, so that scores would be higher after a fit to all points than
        after a fit to some of them, from which calibration learns.
        """
        raised = np.maximum(scores.data * self.weights_[scores.indices] ** np.float32(tilt), LEAST_SCORE)
        return top_k(csr_array((raised, scores.indices, scores.indptr), shape=scores.shape), k)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts = {"tilt_chosen": self.tilt_, "report": self.report_, "why": self.why_}
        if self.tail_ is None:
            return facts, {}, self._parts()
        more, arrays = self.predictor_.state()
        parts = {"tail": self.tail_} | ({} if self.whole_ is None else {"all": self.whole_})
        return facts | more, arrays | {"weights": self.weights_}, self._parts() | parts

    _facts: ClassVar = {"tilt_chosen": Number(), "report": ROWS, "why": Text()}

    @classmethod
    def _labels_of_part(cls, name: str, part: Any, stored: Stored) -> int:
        """Return the number of labels of a copy; with `rest`, head and tail have one more: "none of these"."""
        is_side = "tail" in stored.meta["parts"] and name != "all"
        return stored.meta["n_labels"] + (is_side and cls._stored_settings(stored).rest)

    @classmethod
    def _stored_settings(cls, stored: Stored) -> SimpleNamespace:
        params = {name: value for name, value in stored.meta["params"].items() if name != "base"}
        model = cls(base=None, **params)  # type: ignore[arg-type]
        super(Wrapper, model).check_params()  # the base is a part, which was checked already
        return model.settings()

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        if "tail" not in stored.meta["parts"]:
            return Rules()
        listers = 3 if "all" in stored.meta["parts"] else 2
        rules = CandidatePredictor.array_rules(stored.meta, stored.arrays, 0, listers)
        return rules | Rules({"weights": floats("L", above=0)})

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self._restore_base(parts)
        self.tail_, self.whole_ = parts.get("tail"), parts.get("all")
        self.tilt_, self.report_, self.why_ = facts["tilt_chosen"], facts["report"], facts["why"]
        if self.tail_ is not None:
            self.weights_ = arrays["weights"]
            self.predictor_ = CandidatePredictor.restored(facts, arrays, [], self.n_features_in_)
            self.predictor_.width = self.n_candidates


def _fit_side(
    side: Side,
    X: csr_array,
    Y: csr_array,
    Z: csr_array | None,
    is_head: np.ndarray,
    settings: SimpleNamespace,
    seed: int,
) -> Ranker:
    """Fit the copy of one side to its points."""
    own = select_labels(Y, ~is_head if side.tail else is_head)
    rows = labelled_rows(own)
    points = X[rows], own[rows]
    if side.tail:
        points = augmented(*points, settings.n_aug, 1 - settings.dropout, settings.swap, seed)
    if settings.rest:
        points = _with_rest(*points, X[np.flatnonzero(np.diff(own.indptr) == 0)])
        Z = None if Z is None else resized(Z, Y.shape[1] + 1)  # "none of these" has no text
    return side.copy.fit(*points, label_features=Z)


def _with_rest(X: csr_array, Y: csr_array, others: csr_array) -> tuple[csr_array, csr_array]:
    """Append points `others` under one more label, "none of these"."""
    n, n_labels = others.shape[0], Y.shape[1]
    rest = csr_array((np.ones(n, np.float32), np.full(n, n_labels), np.arange(n + 1)), shape=(n, n_labels + 1))
    wide = resized(Y, n_columns=n_labels + 1)
    return csr_array(vstack([X, others], format="csr")), csr_array(vstack([wide, rest], format="csr"))
