"""LabelText: label text for any ranker (DECAF, Mittal et al., WSDM 2021, Table 4).

The paper gives label text to trees and one-vs-all classifiers by one formula, with x a point and z a label's text, both
of length 1:

    s' = alpha s + (1 - alpha) sigma(<x, z>),    alpha by validation                        (``method="formula"``)

The constant (1 - alpha) / 2 is subtracted, so that text without a common word adds nothing. The formula treats all
labels alike.

By default (``method="learnt"``) a combiner (:mod:`longtail.combine`) is trained on held-out points instead. Its
features are the base's scores, how much of the label's text the point has and the reverse, the similarity of the point
to the mean of the label's points, and the label's frequency.

With both methods, candidates come from the base and from a search by text alone. If the base alone ranks held-out
points better, it is used without text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.candidates import CandidateList
from longtail.combine.combiner import Combiner
from longtail.combine.label_profile import LabelProfile, frequencies
from longtail.combine.predictor import CandidatePredictor, pack
from longtail.combine.selection import LABELS_MEASURED, describe_choice, held_out_metrics
from longtail.index.ranking import top_k
from longtail.kernels.combine import unite
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import spread, threads_for
from longtail.models.base import Arrays, Ranker
from longtail.models.textmatch import TextMatch
from longtail.models.wrapper import Wrapper
from longtail.params import NOT_NEGATIVE, POSITIVE, SHARE, Anything, Integer, Jobs, OneOf, Seed, optional
from longtail.sparse import (
    Pair,
    bounded_scores,
    entry_rows,
    label_counts,
    labelled_rows,
    logistic,
    select_entries,
    select_labels,
)
from longtail.store import Stored
from longtail.store.facts import ROWS, YES_NO, Text
from longtail.store.invariants import Rules

_ALPHAS = tuple(np.linspace(0.0, 1.0, 11).tolist())


class LabelText(Wrapper):
    """Any ranker, combined with the text of labels.

    Parameters
    ----------
    base : Ranker
        Ranker to give label text to; a copy of it is fitted.
    method : {"learnt", "formula"}
        How base and text are combined: by a combiner trained on held-out points, or by the paper's formula.
    alpha : float, optional
        Weight of the base in the formula, from 0 to 1. By default the best value on held-out points.
    n_matches : int
        Number of candidates per point that are found by label text alone.
    n_candidates : int
        Number of candidates per point from the base.
    propensity_a, propensity_b : float
        A and B of the propensity model, in the metrics by which the base and the combination are compared. Use 0.5 and
        0.4 for Wikipedia, 0.6 and 2.6 for Amazon, and the defaults elsewhere.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of the held-out part.

    Attributes
    ----------
    report_ : list of dict
        Metrics of the base and of the combination on the held-out points; empty if there were too few.
    why_ : str
        What was chosen, and why.
    alone_ : bool
        Whether the base is used without text.
    alpha_ : float
        The weight of the base in the formula.

    Examples
    --------
    >>> from longtail import Bonsai, LabelText
    >>> LabelText(Bonsai(), method="formula")
    LabelText(base=Bonsai(), method='formula')
    """

    kind: ClassVar[str] = "labeltext"
    _constraints: ClassVar = {
        "base": Anything("a ranker"),
        "method": OneOf("learnt", "formula"),
        "alpha": optional(SHARE),
        "n_matches": Integer(1),
        "n_candidates": Integer(1),
        "propensity_a": NOT_NEGATIVE,
        "propensity_b": POSITIVE,
        "n_jobs": Jobs(),
        "random_state": Seed(),
    }
    report_: list[dict[str, Any]]
    why_: str
    alone_: bool
    alpha_: float
    matcher_: TextMatch
    predictor_: CandidatePredictor

    def __init__(
        self,
        base: Any,
        method: str = "learnt",
        alpha: float | None = None,
        n_matches: int = 20,
        n_candidates: int = 50,
        propensity_a: float = 0.55,
        propensity_b: float = 1.5,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.base = base
        self.method = method
        self.alpha = alpha
        self.n_matches = n_matches
        self.n_candidates = n_candidates
        self.propensity_a = propensity_a
        self.propensity_b = propensity_b
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _copies(self) -> int:
        return 2

    # Training ----------------------------------------------------------------------------------------------------

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        self.alone_, self.report_, self.alpha_ = True, [], 1.0
        self.why_ = "The base alone, because there is no label text or no point to hold out."
        if Z is None or not Z.nnz:
            self._fit_base(X, Y, Z, validation)
            self.why_ += " No label text was given: give label_features, or use a data format that has label text."
            return
        known = label_counts(Y) > 0
        Z = select_entries(Z, known[entry_rows(Z)])  # labels without training points are not suggested
        self.matcher_ = TextMatch(self.n_matches, n_jobs=self.n_jobs).fit(X, Y, label_features=Z)
        if validation is not None:
            self._fit_base(X, Y, Z, validation)
            self._learn((X, Y), validation, Z)
            return
        rows, rest = self._hold_out(Y)
        recipe = self._tuned_base(X, Y, Z)
        if len(rest) and Y[rows].nnz:
            self.base_ = self._copy_of(recipe, "part").fit(X[rows], Y[rows], label_features=Z)
            self._learn((X[rows], Y[rows]), (X[rest], Y[rest]), Z)
        self.base_ = self._copy_of(recipe, "base").fit(X, Y, label_features=Z)
        if not self.alone_:
            self.predictor_ = replace(self._predictor(X, Y, Z), combiner=self.predictor_.combiner)

    def _predictor(self, X: csr_array, Y: csr_array, Z: csr_array) -> CandidatePredictor:
        profile = LabelProfile.of(X, Y, Z, self.n_jobs, centroids=self.method == "learnt")
        predictor = CandidatePredictor([], frequencies(Y), label_counts(Y) == 0, profile, width=self.n_candidates)
        return replace(predictor, combiner=Combiner.untrained(predictor.layout(2)))

    def _learn(self, part: Pair, held: Pair, Z: csr_array) -> None:
        """Learn how to combine base and text, on held-out points that the base was not fitted to."""
        X, Y = part
        self.predictor_ = self._predictor(X, Y, Z)
        known = label_counts(Y) > 0
        rows = labelled_rows(select_labels(held[1], known))
        if not len(rows):
            return
        X_held, Y_held = held[0][rows], held[1][rows]
        Y_known = select_labels(Y_held, known)
        propensity = self.propensity_a, self.propensity_b
        alone = held_out_metrics(Y_known, self.base_.predict(X_held, self.n_candidates), Y, propensity)
        if self.method == "formula":
            by_alpha = {1.0: alone}
            for alpha in _ALPHAS if self.alpha is None else (self.alpha,):
                scores = self._formula(X_held, alpha, LABELS_MEASURED)
                by_alpha[alpha] = held_out_metrics(Y_known, scores, Y, propensity)
            best = max(sorted(by_alpha, reverse=True), key=lambda alpha: by_alpha[alpha]["goal"])
            self.alpha_ = best if self.alpha is None else self.alpha
            self.alone_, together = self.alpha_ == 1, by_alpha[self.alpha_]
        else:
            layout = self.predictor_.layout(2)
            pairs = self.predictor_.collect(X_held, Y_held, self._listing, self.n_jobs)
            scores = pairs.cross_scored(layout, Y_held.shape, LABELS_MEASURED)
            together = held_out_metrics(Y_known, scores, Y, propensity)
            self.alone_ = together["goal"] < alone["goal"]
            self.predictor_ = replace(self.predictor_, combiner=pairs.train(layout, Y, Y_held, 1))
        self.report_ = [{"model": "base"} | alone, {"model": self.method} | together]
        self.why_ = describe_choice(self.report_, "The base alone" if self.alone_ else "Base and label text")

    # Prediction --------------------------------------------------------------------------------------------------

    def _listing(self, X: csr_array, k: int) -> list[CandidateList]:
        points, jobs = SparseRows.of(X), threads_for(X.shape[0], self.n_jobs)
        return [self.base_._candidates(points, k, jobs), self.matcher_._candidates(points, k, jobs)]

    def _predict(self, X: csr_array, k: int) -> csr_array:
        if self.alone_:
            return self.base_.predict(X, k)
        if self.method == "formula":
            return self._formula(X, self.alpha_, k)
        return self.predictor_.predict(X, self._listing, k, threads_for(X.shape[0], self.n_jobs))

    def _formula(self, X: csr_array, alpha: float, k: int) -> csr_array:
        """Apply the formula of Table 4 to the candidates of base and text; labels that the base does not list score 0.

        sigma(0) = 0.5 is subtracted from the score of every label, which does not change the order. Otherwise labels
        without a common word with the point would have high scores, and re-ranking by inverse propensity, which
        multiplies scores, would put any rare label first.
        """
        points, jobs = SparseRows.of(X), threads_for(X.shape[0], self.n_jobs)
        n = X.shape[0]
        lists = pack(self._listing(X, max(k, self.n_candidates)), n)
        most = int(np.diff(lists.starts, axis=1).max(axis=1, initial=0).sum())
        labels, where = np.empty((n, most), np.int32), np.empty(len(lists.labels), np.int32)
        spread(lambda block: unite(np.empty((n, 0), np.int32), lists, *block, labels, where), n, jobs)
        own = np.zeros(labels.shape)
        rows = np.repeat(np.arange(n), np.diff(lists.starts[0]))
        first = lists.starts[0, -1]
        own[rows, where[:first]] = lists.scores[:first]
        product = self.predictor_.profile.likeness(points, labels, jobs)[:, :, 0].astype(np.float64)
        mixed = alpha * own + (1 - alpha) * (logistic(product) - 0.5)
        filled = labels >= 0
        ptr = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int32)
        best = top_k(csr_array((mixed[filled], labels[filled], ptr), shape=(n, self.n_labels_)), k)
        return csr_array((bounded_scores(best.data), best.indices, best.indptr), shape=best.shape)

    def _fitted_parts(self) -> Iterable[Ranker]:
        return (self.base_,) if self.alone_ else (self.base_, self.matcher_)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts = {"alone": self.alone_, "alpha_chosen": self.alpha_, "report": self.report_, "why": self.why_}
        if self.alone_:
            return facts, {}, self._parts()
        more, arrays = self.predictor_.state()
        return facts | more, arrays, self._parts() | {"matcher": self.matcher_}

    _facts: ClassVar = {"alone": YES_NO, "alpha_chosen": SHARE, "report": ROWS, "why": Text()}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        if stored.meta["alone"]:
            return Rules()
        return CandidatePredictor.array_rules(stored.meta, stored.arrays, 0, 2)

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self._restore_base(parts)
        self.alone_, self.alpha_ = facts["alone"], facts["alpha_chosen"]
        self.report_, self.why_ = facts["report"], facts["why"]
        if not self.alone_:
            matcher = parts["matcher"]
            assert isinstance(matcher, TextMatch)
            self.matcher_ = matcher
            self.predictor_ = CandidatePredictor.restored(facts, arrays, [], self.n_features_in_)
            self.predictor_.width = self.n_candidates
