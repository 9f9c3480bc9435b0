"""LabelText: what a label is called, for any ranker (DECAF, Mittal et al., WSDM 2021, Table 4).

The paper gives label text to trees and one-vs-all classifiers by one formula, with x a point and z a label's text, both
of length 1:

    s' = alpha s + (1 - alpha) sigma(<x, z>),    alpha by validation                        (``method="formula"``)

That says no more than that text helps, and the same for every label. Here, by default, a small model of chances is
learnt from held-out points instead, on the base's log odds, <x, z>, how much of the label's text the point has and how
much of the point's the label has, how near the point is to the mean of the label's points, and how many points the
label has (``method="learnt"``). Either way candidates come from the base and from text alone, and where validation
says that the base by itself is better, it stays by itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import SettingsError
from longtail.kernels.topk import csr_top_k_serial
from longtail.models.base import Arrays, Ranker
from longtail.models.blend import Blend, LabelSide, Part, best_of, hold_out, in_blocks, known, measures, told, union
from longtail.models.wrapper import Wrapper, check_base

METHODS = ("learnt", "formula")
_ALPHAS = tuple(np.linspace(0.0, 1.0, 11).tolist())
_ABOVE_ZERO, _BELOW_ONE = np.float32(1e-30), np.float32(1 - 2**-23)


class LabelText(Wrapper):
    """A ranker that also knows what labels are called.

    Parameters
    ----------
    base : Ranker
        What to give label text to; a copy of it is fitted.
    method : {"learnt", "formula"}
        A small model of chances, or the paper's formula.
    alpha : float, optional
        Weight of the base in the formula, from 0 to 1; by validation if not given.
    near : int
        Candidates by label text alone.
    depth : int
        Candidates from the base.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int
        Seed of the held-out part.

    Attributes
    ----------
    report_ : list of dict
        Measures of the base and of the whole on the held-out points; empty if there were too few.
    why_ : str
        What was chosen by them.
    alone_ : bool
        Whether the base was better by itself.
    alpha_ : float
        The weight that the formula uses.
    """

    kind: ClassVar[str] = "labeltext"
    report_: list[dict[str, Any]]
    why_: str
    alone_: bool
    alpha_: float

    def __init__(
        self,
        base: Any,
        method: str = "learnt",
        alpha: float | None = None,
        near: int = 20,
        depth: int = 50,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.base = base
        self.method = method
        self.alpha = alpha
        self.near = near
        self.depth = depth
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_settings(self) -> None:
        check_base(self.base, type(self).__name__)
        if self.method not in METHODS:
            raise SettingsError(f"method is {self.method!r}; choose one of {', '.join(METHODS)}")
        if self.alpha is not None and not 0 <= self.alpha <= 1:
            raise SettingsError(f"alpha is {self.alpha!r}; give a number from 0 to 1, or none to have it chosen")
        for name, least in (("near", 0), ("depth", 1)):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < least:
                raise SettingsError(f"{name} is {value!r}; give a whole number from {least}")

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Part | None) -> None:
        self._check_settings()
        self.alone_, self.report_, self.alpha_ = True, [], 1.0
        self.why_ = "the base alone, for want of label text or of points to hold out."
        if validation is not None:
            self._fit_base(X, Y, Z, validation)
            self._learn((X, Y), (validation[0], known(validation[1], Y)), Z)
            return
        part, held = hold_out(X, Y, self.random_state)
        if held[1].nnz:
            self._fit_base(*part, Z)
            self._learn(part, held, Z)
        self._fit_base(X, Y, Z)
        if not self.alone_:
            self.blend_.side = self._side(X, Y, Z)
        if Z is None:
            self.why_ += " No label text was given: give label_features, or use a layout that has label text."

    def _side(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> LabelSide:
        return LabelSide.of(X, Y, Z, self.n_jobs, centres=self.method == "learnt")

    def _learn(self, part: Part, held: Part, Z: csr_array | None) -> None:
        """Choose how base and text are put together, by points that the base has not seen."""
        self.blend_ = Blend(self._side(*part, Z), self.near, self.n_jobs)
        scores = self.base_.predict(held[0], self.depth)
        if self.method == "learnt":
            best, rows = best_of(self.blend_, held, [scores], part[1])
            self.alone_ = best is not None
            names = ["base", "learnt"]
        else:
            rows, names = self._choose_alpha(part, held, scores), ["base", "formula"]
            self.alone_ = self.alpha_ == 1
        self.report_ = [{"model": name} | row for name, row in zip(names, rows, strict=False)]
        if self.report_:
            self.why_ = told(self.report_, "the base alone" if self.alone_ else "base and label text together")

    def _choose_alpha(self, part: Part, held: Part, scores: csr_array) -> list[dict[str, float]]:
        """The weight that is best on the held-out points; measures at 1 and there."""
        if self.blend_.side.text is None or not held[1].nnz:
            self.alpha_ = 1.0
            return []
        tried = {}
        for alpha in {1.0, *(_ALPHAS if self.alpha is None else [self.alpha])}:
            tried[alpha] = measures(held[1], self._formula(held[0], scores, alpha, self.depth), part[1])
        best = max(sorted(tried, reverse=True), key=lambda alpha: tried[alpha]["goal"])
        self.alpha_ = best if self.alpha is None else self.alpha
        return [tried[1.0], tried[self.alpha_]]

    # Answering ---------------------------------------------------------------------------------------------------

    def _predict(self, X: csr_array, k: int) -> csr_array:
        if self.alone_:
            return self.base_.predict(X, k)
        depth = max(self.depth, k)

        def some(rows: csr_array) -> csr_array:
            found = self.base_.predict(rows, depth)
            if self.method == "formula":
                return self._formula(rows, found, self.alpha_, k)
            return self.blend_.predict(rows, [found], k)

        return in_blocks(X, some)

    def _formula(self, X: csr_array, scores: csr_array, alpha: float, k: int) -> csr_array:
        """Table 4's formula over the candidates of base and text; a label that the base did not find scores 0 there."""
        side = self.blend_.side
        pairs, keys = union([scores, side.nearest(X, self.near, self.n_jobs)])
        own = np.zeros(pairs.nnz)
        rows = np.repeat(np.arange(X.shape[0], dtype=np.int64), np.diff(scores.indptr))
        own[np.searchsorted(keys, rows * pairs.shape[1] + scores.indices)] = scores.data
        product = side.likeness(X, pairs, self.n_jobs)[0].astype(np.float64)
        mixed = alpha * own + (1 - alpha) / (1 + np.exp(-product))
        indptr, labels, best = csr_top_k_serial(pairs.indptr, pairs.indices, mixed, k)
        best = np.clip(best, _ABOVE_ZERO, _BELOW_ONE, dtype=np.float32)
        return csr_array((best, labels, indptr), shape=pairs.shape)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts = {"alone": self.alone_, "alpha_chosen": self.alpha_, "report": self.report_, "why": self.why_}
        return facts, {} if self.alone_ else self.blend_.arrays(), self._parts()

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self._restore_base(parts)
        self.alone_, self.alpha_ = facts["alone"], facts["alpha_chosen"]
        self.report_, self.why_ = facts["report"], facts["why"]
        if not self.alone_:
            self.blend_ = Blend.from_arrays(arrays, self.n_features_in_, self.near, self.n_jobs)
