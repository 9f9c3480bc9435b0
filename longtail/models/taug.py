"""TAug: frequent and rare labels learnt apart, the rare ones from more points (§3.3 of "Improving tail label prediction
for extreme multi-label learning", submitted to ICLR 2021).

The ⌊τL⌋ most frequent labels are the head, the others the tail. One copy of the base is fitted to the points that have
head labels, with these alone; another to those that have tail labels, with these alone and with `n_aug` altered copies
of each point: some features left out, the values of some exchanged. A rare label then never competes with a frequent
one for the same classifier, and has more to learn from.

What the paper leaves open is how the two are put together: each was fitted to its own points, so their scores are on
scales of their own, and the tail's copy has never met a point without tail labels. Here, unless ``rest=False``, such
points are part of a side as well, under one label more, "none of these"; and unless ``whole=False`` a third copy,
fitted to all points and labels as the base itself would be, has its say. A small model of chances is learnt from
held-out points, on the copies' log odds and what is known of the label: its count, its text, the mean of its points
(:mod:`longtail.models.blend`). Scores are then multiplied by the inverse propensity of the label to the power `tilt`,
as far as that costs no more than a point of P@1 on the held-out points: the purpose is the tail. With ``tilt=0`` scores
are chances.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.data.augment import augmented
from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.kernels import pool
from longtail.kernels.topk import csr_top_k_serial
from longtail.labels.head_tail import head, only
from longtail.metrics import inverse_propensity
from longtail.models.base import Arrays, Ranker
from longtail.models.blend import Blend, LabelSide, Part, hold_out, in_blocks, known, measures
from longtail.models.wrapper import Wrapper, check_base

_TILTS = (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0)
_PRICE = 1.0  # points of P@1 that tilting may cost on the held-out points
_TAU = 0.1
_NEAR = 20  # candidates by label text
_ABOVE_ZERO = np.float32(1e-30)


class TAug(Wrapper):
    """Head and tail labels learnt apart, the tail from augmented points.

    Parameters
    ----------
    base : Ranker
        What to fit twice; copies of it are fitted.
    tau : float, optional
        Share of labels that are head labels. By default a tenth, and with few labels what comes nearest to it and
        leaves neither side empty.
    n_aug : int
        Altered copies of each point of the tail.
    keep : float
        Chance of a feature to stay in a copy.
    swap : float
        Share of a copy's features whose values are exchanged.
    rest : bool
        Whether each side also learns to tell the points that have none of its labels; the paper's do not.
    whole : bool
        Whether a copy fitted to all labels is heard, too; the paper has none.
    tilt : float, optional
        Power of the inverse propensity that scores are multiplied with; by validation if not given.
    depth : int
        Candidates from each side.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int
        Seed of the copies and of the held-out part.

    Attributes
    ----------
    base_, tail_, whole_ : Ranker
        The fitted copies for head labels, for tail labels and for all of them; the last may be None.
    tilt_ : float
        The power in use.
    why_ : str
        How that was chosen.
    report_ : list of dict
        Measures on the held-out points at each tilt tried; empty if there were too few.
    """

    kind: ClassVar[str] = "taug"
    tail_: Ranker | None  # None for a single label, which has no other side
    whole_: Ranker | None
    tilt_: float
    report_: list[dict[str, Any]]
    why_: str

    def __init__(
        self,
        base: Any,
        tau: float | None = None,
        n_aug: int = 4,
        keep: float = 0.7,
        swap: float = 0.3,
        rest: bool = True,
        whole: bool = True,
        tilt: float | None = None,
        depth: int = 50,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.base = base
        self.tau = tau
        self.n_aug = n_aug
        self.keep = keep
        self.swap = swap
        self.rest = rest
        self.whole = whole
        self.tilt = tilt
        self.depth = depth
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_settings(self) -> None:
        check_base(self.base, type(self).__name__)
        for name, least in (("n_aug", 0), ("depth", 1)):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < least:
                raise SettingsError(f"{name} is {value!r}; give a whole number from {least}")
        if not 0 < self.keep <= 1:
            raise SettingsError(f"keep is {self.keep!r}; give a number above 0, up to 1")
        if not 0 <= self.swap <= 1:
            raise SettingsError(f"swap is {self.swap!r}; give a number from 0 to 1")
        if self.tilt is not None and not 0 <= self.tilt <= 1:
            raise SettingsError(f"tilt is {self.tilt!r}; give a number from 0 to 1, or none to have it chosen")

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Part | None) -> None:
        self._check_settings()
        is_head = self._head(Y)
        self.report_, self.tilt_, self.why_ = [], self.tilt or 0.0, ""
        if is_head is None:
            self._fit_base(X, Y, Z, validation)
            self.tail_ = self.whole_ = None
            return
        if validation is None:
            part, held = hold_out(X, Y, self.random_state)
        else:
            part, held = (X, Y), (validation[0], known(validation[1], Y))
        self.blend_ = Blend(LabelSide(np.empty(0)), _NEAR, self.n_jobs)
        if held[1].nnz and only(part[1], is_head).nnz and only(part[1], ~is_head).nnz:
            self._fit_sides(*part, Z, is_head)
            self._keep_labels(*part, Z)
            self._integrate(part, held)
            if validation is not None:
                return
        self._fit_sides(X, Y, Z, is_head)
        self._keep_labels(X, Y, Z)

    def _head(self, Y: csr_array) -> np.ndarray | None:
        """Which labels are head labels; None where there is but one label and `tau` was not asked for."""
        if self.tau is not None:
            return head(Y, self.tau)
        n_seen = len(np.unique(Y.indices))
        return head(Y, np.clip(_TAU, 1 / n_seen, 1 - 0.5 / n_seen)) if n_seen > 1 else None

    def _fit_sides(self, X: csr_array, Y: csr_array, Z: csr_array | None, is_head: np.ndarray) -> None:
        """A copy of the base for each side, at once where memory allows, and one for both."""
        base = check_base(self.base, type(self).__name__)
        wide = Z if Z is None or not self.rest else _resized(Z, Y.shape[1] + 1)  # "none of these" has no text

        def fit(tail: bool) -> Ranker:
            side = only(Y, ~is_head if tail else is_head)
            rows = np.flatnonzero(np.diff(side.indptr))
            some = X[rows], side[rows]
            if tail:
                some = augmented(*some, self.n_aug, self.keep, self.swap, self.random_state)
            if self.rest:
                some = _with_rest(*some, X[np.flatnonzero(np.diff(side.indptr) == 0)])
            return base.unfitted().fit(*some, label_features=wide)

        free, held_twice = memory.available(), 8.0 * X.nnz * 6 * (2 + self.n_aug)
        at_once = self.n_jobs if free is None or free > held_twice else 1
        self.base_, self.tail_ = pool.run(fit, (False, True), at_once)
        self.whole_ = base.unfitted().fit(X, Y, label_features=Z) if self.whole else None

    def _integrate(self, part: Part, held: Part) -> None:
        """Learn the common scale, and how far to tilt, from points that neither copy has seen."""
        some = np.flatnonzero(np.diff(held[1].indptr))
        X, Y = held[0][some], held[1][some]
        scores = self.blend_.learn(X, Y, self._found(X, self.depth))
        for tilt in _TILTS if self.tilt is None else sorted({0.0, self.tilt}):
            row = measures(Y, self._tilted(scores, tilt, self.depth), part[1])
            self.report_.append({"model": f"tilt {tilt:g}", "tilt": tilt} | row)
        if self.tilt is None:
            enough = self.report_[0]["P@1"] - _PRICE
            self.tilt_ = max(row["tilt"] for row in self.report_ if row["P@1"] >= enough)
        plain, used = self.report_[0], next(row for row in self.report_ if row["tilt"] == self.tilt_)
        self.why_ = (
            f"a tilt of {self.tilt_:g}: on held-out points PSP@1 goes from {plain['PSP@1']:.2f} to {used['PSP@1']:.2f} "
            f"and P@1 from {plain['P@1']:.2f} to {used['P@1']:.2f}."
        )

    def _keep_labels(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> None:
        """What is known of labels from the points in use."""
        self.blend_.side = LabelSide.of(X, Y, Z, self.n_jobs)
        weights = inverse_propensity(Y)
        self.weights_ = (weights / weights.max()).astype(np.float32)

    # Answering ---------------------------------------------------------------------------------------------------

    def _found(self, X: csr_array, depth: int) -> list[csr_array]:
        assert self.tail_ is not None
        sides = self.base_, self.tail_
        whole = [] if self.whole_ is None else [self.whole_.predict(X, depth)]
        if not self.rest:
            return [side.predict(X, depth) for side in sides] + whole
        real = np.arange(self.n_labels_ + 1) < self.n_labels_
        found = [only(side.predict(X, depth + 1), real) for side in sides]
        shape = X.shape[0], self.n_labels_
        return [csr_array((one.data, one.indices, one.indptr), shape=shape) for one in found] + whole

    def _predict(self, X: csr_array, k: int) -> csr_array:
        if self.tail_ is None:
            return self.base_.predict(X, k)
        depth = max(self.depth, k)
        return in_blocks(
            X, lambda rows: self._tilted(self.blend_.predict(rows, self._found(rows, depth), 2 * depth), self.tilt_, k)
        )

    def _tilted(self, scores: csr_array, tilt: float, k: int) -> csr_array:
        """The k best by score times inverse propensity to the power `tilt`, the greatest of these counting as 1."""
        raised = np.maximum(scores.data * self.weights_[scores.indices] ** np.float32(tilt), _ABOVE_ZERO)
        indptr, labels, best = csr_top_k_serial(scores.indptr, scores.indices, raised, k)
        return csr_array((best, labels, indptr), shape=scores.shape)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts = {"tilt_chosen": self.tilt_, "report": self.report_, "why": self.why_}
        if self.tail_ is None:
            return facts, {}, self._parts()
        more = {"tail": self.tail_} | ({} if self.whole_ is None else {"all": self.whole_})
        return facts, self.blend_.arrays() | {"weights": self.weights_}, self._parts() | more

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self._restore_base(parts)
        self.tail_, self.whole_ = parts.get("tail"), parts.get("all")
        self.tilt_, self.report_, self.why_ = facts["tilt_chosen"], facts["report"], facts["why"]
        if self.tail_ is not None:
            self.weights_ = arrays["weights"]
            self.blend_ = Blend.from_arrays(arrays, self.n_features_in_, _NEAR, self.n_jobs)


def _with_rest(X: csr_array, Y: csr_array, others: csr_array) -> tuple[csr_array, csr_array]:
    """Points and labels, followed by other points under one label more."""
    n, n_labels = others.shape[0], Y.shape[1]
    rest = csr_array((np.ones(n, np.float32), np.full(n, n_labels), np.arange(n + 1)), shape=(n, n_labels + 1))
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], n_labels + 1))
    return csr_array(vstack([X, others], format="csr")), csr_array(vstack([wide, rest], format="csr"))


def _resized(Z: csr_array, n_rows: int) -> csr_array:
    """Label text with empty rows at the end."""
    indptr = np.append(Z.indptr, np.full(n_rows - Z.shape[0], Z.indptr[-1], Z.indptr.dtype))
    return csr_array((Z.data, Z.indices, indptr), shape=(n_rows, Z.shape[1]))
