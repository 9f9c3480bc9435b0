"""Auto: tries what is worth trying within a time budget, blends what helps, and says what it did and why.

A small part of the points is held out. Candidates are tried in order: each is first fitted to a small sample, from
which its time is estimated, and to all other points if that fits into the budget. The blend of candidates that is best
on the held-out points is looked for one candidate after the other (:mod:`longtail.models.blend`); its members are then
fitted again, to all points, as far as time is left. Whoever wants to add a candidate adds a line to ``CANDIDATES``.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.data.split import FEW
from longtail.errors import LongtailError, SettingsError
from longtail.models.base import Arrays, Ranker
from longtail.models.blend import Blend, LabelSide, Part, alone_on, best_of, hold_out, known
from longtail.models.ensemble import Ensemble


@dataclass(frozen=True)
class Facts:
    """What a candidate may be chosen by."""

    n_points: int
    n_features: int
    n_labels: int
    has_text: bool

    @classmethod
    def of(cls, X: csr_array, Y: csr_array, Z: csr_array | None) -> Facts:
        return cls(X.shape[0], X.shape[1], Y.shape[1], Z is not None)


@dataclass(frozen=True)
class Candidate:
    """A ranker worth trying.

    Parameters
    ----------
    target : str
        Module and class, imported when it is tried.
    params : dict
        What differs from its defaults.
    growth : float
        Power of the number of points with which its training time grows.
    unless : callable, optional
        From facts about the data to why it is not worth trying, or None.
    """

    target: str
    params: dict[str, Any] = field(default_factory=dict)
    growth: float = 1.1
    unless: Callable[[Facts], str | None] = lambda facts: None

    def make(self, random_state: int, n_jobs: int | None) -> Ranker:
        """A fresh one."""
        module, _, name = self.target.partition(":")
        cls = getattr(importlib.import_module(module), name)
        shared = {"random_state": random_state, "n_jobs": n_jobs}
        return cls(**{key: value for key, value in shared.items() if key in cls._defaults()} | self.params)


def _few_features(facts: Facts) -> str | None:
    return "it is for few features" if facts.n_features > 5000 else None


def _few_points(facts: Facts) -> str | None:
    return "it is for few points" if facts.n_points >= FEW else None


CANDIDATES = {  # in the order of trying: the surest first
    "bonsai": Candidate("longtail.models.bonsai:Bonsai"),
    "decaf": Candidate("longtail.models.decaf:DECAF", growth=0.65),  # more points, larger batches: steps stay as many
    "glas": Candidate("longtail.models.glas:GLaS", {"mix": False}, growth=0.65),  # likewise; the blend mixes
    "fastxml": Candidate("longtail.models.fastxml:FastXML", unless=_few_features),
    "mnn": Candidate("longtail.models.mnn:MNN", growth=1.0, unless=_few_points),
    "dxml": Candidate("longtail.models.dxml:DXML", growth=1.0, unless=_few_points),
    "dismec": Candidate("longtail.models.dismec:DiSMEC", growth=1.6),  # labels grow with points
}
_DEPTH = 50  # candidates from each ranker
_NEAR = 20  # candidates by label text
_GAIN = 0.05  # what a further member must add to the mean of the goals
_SAFETY = 1.25  # estimates are stretched by this
_SAMPLE = 16  # a sample is one point in so many
_SMALLEST = 1000  # points of a sample at least


@dataclass(eq=False)
class _Tried:
    """A candidate that was fitted to the points that are not held out."""

    name: str
    candidate: Candidate
    ranker: Ranker
    found: csr_array  # its scores for the held-out points
    seconds: float
    n_points: int

    def seconds_for(self, n_points: int) -> float:
        return self.seconds * (n_points / self.n_points) ** self.candidate.growth


class Auto(Ranker):
    """The best of our rankers for this data, or a blend of them, found within a time budget.

    Parameters
    ----------
    seconds : float
        Time that training may take, as far as estimates hold.
    candidates : list of str, optional
        Names out of ``longtail.models.auto.CANDIDATES``; all by default.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int
        Seed of every candidate and of the held-out part. Which candidates fit into the budget depends on the machine,
        and with them the model.

    Attributes
    ----------
    ranker_ : Ranker
        What was chosen, fitted.
    report_ : list of dict
        What was tried: measures on the held-out points and seconds, or why it was not.
    why_ : str
        What was chosen and why.
    """

    kind: ClassVar[str] = "auto"
    ranker_: Ranker
    report_: list[dict[str, Any]]
    why_: str

    def __init__(
        self,
        seconds: float = 600.0,
        candidates: Sequence[str] | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.seconds = seconds
        self.candidates = candidates
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_settings(self) -> list[str]:
        if not self.seconds > 0:
            raise SettingsError(f"seconds is {self.seconds!r}; give a number above 0")
        names = list(CANDIDATES) if self.candidates is None else self.candidates
        if isinstance(names, str) or not names or any(name not in CANDIDATES for name in names):
            raise SettingsError(
                f"candidates is {self.candidates!r}; give names out of {', '.join(CANDIDATES)}, or none for all"
            )
        return list(names)

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Part | None) -> None:
        names = self._check_settings()
        self.report_, self.why_ = [], ""
        start = time.perf_counter()
        left = lambda: self.seconds - (time.perf_counter() - start)  # noqa: E731
        if validation is None:
            part, held = hold_out(X, Y, self.random_state)
        else:
            part, held = (X, Y), (validation[0], known(validation[1], Y))
        if not held[1].nnz:
            self._without_choice(names[0], X, Y, Z)
            return
        tried = self._try(names, part, held, Z, left)
        chosen, blend, rows = self._choose(tried, part, held, Z)
        n_again = 0 if validation is not None else self._fit_again(chosen, X, Y, Z, left)
        if n_again == len(chosen):
            blend.side = LabelSide.of(X, Y, Z, self.n_jobs)
        self.ranker_ = Ensemble.assembled([one.ranker for one in chosen], blend, rows, self.n_jobs, self.random_state)
        self._explain(chosen, rows, n_again, validation is not None)

    def _without_choice(self, name: str, X: csr_array, Y: csr_array, Z: csr_array | None) -> None:
        self.ranker_ = CANDIDATES[name].make(self.random_state, self.n_jobs).fit(X, Y, label_features=Z)
        self.report_ = [{"model": name, "chosen": True}]
        self.why_ = f"{name}, the first candidate: there are too few points to hold some out and compare."

    # Trying ------------------------------------------------------------------------------------------------------

    def _try(
        self, names: list[str], part: Part, held: Part, Z: csr_array | None, left: Callable[[], float]
    ) -> list[_Tried]:
        """Every candidate for which there is time, fitted."""
        tried: list[_Tried] = []
        facts = Facts.of(*part, Z)
        for name in names:
            candidate = CANDIDATES[name]
            why = candidate.unless(facts)
            try:
                if why is None:
                    with progress.stage(f"trying {name}"):
                        tried += self._try_one(name, candidate, part, held, Z, left, first=not tried)
            except LongtailError as error:  # of memory, say
                why = str(error)
            if why is not None:
                self.report_.append({"model": name, "skipped": why})
        if not tried:
            raise SettingsError(
                "No candidate could be trained: "
                + "; ".join(f"{row['model']}: {row['skipped']}" for row in self.report_ if "skipped" in row)
            )
        return tried

    def _try_one(
        self,
        name: str,
        candidate: Candidate,
        part: Part,
        held: Part,
        Z: csr_array | None,
        left: Callable[[], float],
        first: bool,
    ) -> list[_Tried]:
        """The candidate, fitted, if there is time; the first one is fitted to fewer points rather than not at all."""
        X, Y = part
        n = X.shape[0]
        rng = np.random.default_rng([self.random_state, 11])
        size = max(_SMALLEST, n // _SAMPLE)
        rows = np.arange(n)
        if n > 2 * size:
            sample = np.sort(rng.permutation(n)[:size])
            for some in (sample[:: max(1, size // 64)], sample):  # a few points first, so that kernels are compiled
                begin = time.perf_counter()
                candidate.make(self.random_state, self.n_jobs).fit(X[some], Y[some], label_features=Z)
                spent = time.perf_counter() - begin
            expected = _SAFETY * spent * (n / size) ** candidate.growth
            if expected > left():
                if not first:
                    self.report_.append(
                        {"model": name, "skipped": f"would take about {expected:.0f} s; {left():.0f} s are left"}
                    )
                    return []
                share = (0.8 * max(left(), spent) / expected) ** (1 / candidate.growth)
                rows = np.sort(rng.permutation(n)[: max(size, int(share * n))])
        begin = time.perf_counter()
        X, Y = (X, Y) if len(rows) == n else (X[rows], Y[rows])
        ranker = candidate.make(self.random_state, self.n_jobs).fit(X, Y, label_features=Z)
        spent = time.perf_counter() - begin
        return [_Tried(name, candidate, ranker, ranker.predict(held[0], _DEPTH), spent, len(rows))]

    # Choosing ----------------------------------------------------------------------------------------------------

    def _choose(
        self, tried: list[_Tried], part: Part, held: Part, Z: csr_array | None
    ) -> tuple[list[_Tried], Blend, list[dict[str, Any]]]:
        """The members of a blend: the best alone, then whoever adds enough, in the order of what they are alone."""
        side = LabelSide.of(*part, Z, self.n_jobs)

        def judged(some: list[_Tried], keep: bool = False) -> tuple[Blend, list[dict[str, float]]]:
            blend = Blend(side, near=_NEAR, n_jobs=self.n_jobs)
            return blend, best_of(blend, held, [one.found for one in some], part[1], keep=keep)[1]

        alone = {one.name: alone_on(held, one.found, part[1]) for one in tried}
        chosen: list[_Tried] = []
        goal = -np.inf
        with progress.stage("blending") as done:
            for one in sorted(tried, key=lambda one: -alone[one.name]["goal"]):
                found = judged([*chosen, one])[1][-1]["goal"]
                if found >= goal + _GAIN:
                    chosen.append(one)
                    goal = found
                done(1 / (len(tried) + 1))
            blend, rows = judged(chosen, keep=True)
        for one in tried:
            fewer = {} if one.n_points == part[0].shape[0] else {"points": one.n_points}
            self.report_.append(
                {"model": one.name, **alone[one.name], "seconds": one.seconds, "chosen": one in chosen, **fewer}
            )
        return chosen, blend, rows

    def _fit_again(
        self, chosen: list[_Tried], X: csr_array, Y: csr_array, Z: csr_array | None, left: Callable[[], float]
    ) -> int:
        """Fit members to all points, as far as there is time; how many were."""
        done = 0
        for one in chosen:
            if _SAFETY * one.seconds_for(X.shape[0]) < left():
                with progress.stage(f"fitting {one.name} to all points"):
                    one.ranker = one.candidate.make(self.random_state, self.n_jobs).fit(X, Y, label_features=Z)
                done += 1
        return done

    def _explain(self, chosen: list[_Tried], rows: list[dict[str, Any]], n_again: int, given: bool) -> None:
        names = " + ".join(one.name for one in chosen)
        self.report_.append({"model": f"blend of {names}", **rows[-1], "chosen": True})
        best = max(rows[:-1], key=lambda row: row["goal"])
        self.why_ = (
            f"{names}, blended with what is known of labels: the mean of P and F at 1 and 5 on the held-out points is "
            f"{rows[-1]['goal']:.2f}, against {best['goal']:.2f} of the best member alone. "
        )
        if given:
            self.why_ += "Members were fitted to all training points, the held-out part being given."
        elif n_again == len(chosen):
            self.why_ += "Members were then fitted to all points."
        else:
            self.why_ += f"There was time to fit {n_again} of {len(chosen)} members again to all points."

    # Answering ---------------------------------------------------------------------------------------------------

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.ranker_.predict(X, k)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        return self.ranker_._rank(indices, values, k)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {"report": self.report_, "why": self.why_}, {}, {"ranker": self.ranker_}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.report_, self.why_, self.ranker_ = facts["report"], facts["why"], parts["ranker"]


def best(
    X: Any,
    Y: Any,
    *,
    label_features: Any = None,
    validation: Any = None,
    seconds: float = 600.0,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> Auto:
    """The best ranker for some data that can be found within a time budget.

    Parameters
    ----------
    X, Y, label_features, validation
        As for ``fit`` of any ranker.
    seconds : float
        Time that it may take, as far as estimates hold.
    n_jobs : int, optional
    random_state : int

    Returns
    -------
    Auto
        Fitted; ``why_`` says what was chosen and why, ``report_`` what was tried.

    Examples
    --------
    >>> ranker = longtail.best(data.X, data.Y, label_features=data.Z, seconds=60)
    >>> print(ranker.why_)
    """
    model = Auto(seconds, n_jobs=n_jobs, random_state=random_state)
    return model.fit(X, Y, label_features=label_features, validation=validation)
