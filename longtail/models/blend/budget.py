"""The time budget of a blend: estimate how long each member takes, and choose the members that fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from longtail import progress
from longtail.models.base import Ranker
from longtail.models.epoch_ranker import MOST_HELD_OUT, EpochRanker
from longtail.models.training_part import TrainingPart
from longtail.sparse import Pair

_log = logging.getLogger("longtail.models")

_ONE_IN = 16  # a trial fit uses one point in this many
_FEWEST_POINTS = 1000  # of a trial fit
_SAFETY = 1.15  # factor on all estimates
_COMBINING = 0.15  # share of the budget reserved for the predictions of held-out points and the combiner
_GROWTH = 1.1  # training time grows with the number of points to this power
_STEPS = 8  # training steps from which the time of a step is measured
_LONG_ONCE = 0.05  # share of a training from which what is done once is measured again
_FEWEST_EPOCHS = 2
_LOWERED = ("n_trees", "epochs")  # parameters that a budget may lower


class Budget:
    """Plans the fit of a blend so that it takes no more than a number of seconds.

    Parameters
    ----------
    seconds : float, optional
        Time limit; None for no limit.

    Attributes
    ----------
    binding : bool
        Whether members were changed because of the limit.
    remarks : list of str
        Sentences that say what was changed.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.start = time.perf_counter()
        self.binding = False
        self.remarks: list[str] = []
        self._expected: dict[int, float] = {}
        self._fitted: dict[int, float] = {}

    def left(self) -> float:
        """Return the seconds that are left."""
        if self.seconds is None:
            return np.inf
        return self.seconds - (time.perf_counter() - self.start)

    def plan(
        self, members: list[Ranker], part: TrainingPart, instead: Mapping[int, Ranker] = MappingProxyType({})
    ) -> list[Ranker]:
        """Return the members to fit, with lower settings or without some if necessary, and log the expected time.

        `instead` has cheaper rankers that may replace members, by the ``id`` of the member.
        """
        expected = {id(member): self._measure(member, part) for member in members}
        kept: list[Ranker] = []
        left = self.left() * (1 - _COMBINING)
        for member in members:
            cost = _SAFETY * expected[id(member)] * _n_trainings(member, part)
            changed = self._cheaper(member, cost, left)
            if changed is None and id(member) in instead:
                other = instead[id(member)]
                self.remarks.append(f"{other.kind} replaces {member.kind}, which would take about {cost:.0f} s.")
                member, cost = other, _SAFETY * self._measure(other, part) * _n_trainings(other, part)
                changed = self._cheaper(member, cost, left)
            if changed is None:
                if not kept and member is members[-1]:
                    changed = (member, cost)  # a blend needs at least one member
                else:
                    self.binding = True
                    self.remarks.append(f"{member.kind} was left out: it would take about {cost:.0f} s.")
                    continue
            member, cost = changed
            left -= cost
            self._expected[id(member)] = cost
            kept.append(member)
        total = sum(self._expected.values())
        _log.info(
            "Blend fits %s. Expected time: %s. A faster choice: bonsai.",
            ", ".join(member.kind for member in kept),
            _duration(total * (1 + _COMBINING)),
        )
        for remark in self.remarks:
            _log.info(remark)
        return kept

    def decisions(self, members: list[Ranker], kept: list[Ranker]) -> dict[str, Any]:
        """Return the result of :meth:`plan` as JSON values, for a checkpoint."""
        fits = [
            {
                "member": members.index(member),
                "params": {name: getattr(member, name) for name in _LOWERED if name in member._defaults()},
                "seconds": self._expected[id(member)],
            }
            for member in kept
        ]
        return {"fits": fits, "binding": self.binding, "remarks": self.remarks}

    def follow(self, decisions: dict[str, Any], members: list[Ranker]) -> list[Ranker]:
        """Return the members to fit, given the decisions of :meth:`plan`, which may be from before an interruption."""
        self.binding, self.remarks = decisions["binding"], decisions["remarks"]
        kept = []
        for fit in decisions["fits"]:
            member = members[fit["member"]].set_params(**fit["params"])
            self._expected[id(member)] = fit["seconds"]
            kept.append(member)
        return kept

    def _cheaper(self, member: Ranker, cost: float, left: float) -> tuple[Ranker, float] | None:
        """Return the member and its cost, with fewer trees or epochs if it takes too long; None if it still does."""
        if cost <= left:
            return member, cost
        params = member._defaults()
        trees = getattr(member, "n_trees", 1)
        if "n_trees" in params and trees and trees > 1 and cost / trees <= left:
            self.binding = True
            fewer = max(1, int(trees * left / cost))
            self.remarks.append(f"{member.kind} was fitted with {fewer} of {trees} trees.")
            return member.set_params(n_trees=fewer), cost * fewer / trees
        if "epochs" in params and hasattr(member, "settings"):
            epochs = member.settings().epochs
            fewer = int(epochs * left / cost)
            if fewer >= _FEWEST_EPOCHS:
                self.binding = True
                self.remarks.append(f"{member.kind} was trained for {fewer} of {epochs} epochs.")
                return member.set_params(epochs=fewer), cost * fewer / epochs
        return None

    def note(self, member: Ranker, seconds: float) -> None:
        """Record how long the fit of a member took."""
        self._fitted[id(member)] = seconds

    def fits_rest(self, members: list[Ranker], part: TrainingPart) -> bool:
        """Return whether there is time to learn from the held-out points; add a remark if there is not."""
        if self.seconds is None or part.rest is None:
            return True
        spent = time.perf_counter() - self.start
        n = len(part.rows)
        needed = sum(self._fitted.get(id(m), 0.0) * m._rest_share(n) / m._n_trainings(part) for m in members)
        if needed <= max(self.left(), 0.05 * spent):
            return True
        self.remarks.append("There was no time to fit members again to the held-out points.")
        return False

    def _measure(self, member: Ranker, part: TrainingPart) -> float:
        """Estimate the seconds of one training from trial fits to a few points."""
        n = len(part.rows)
        if self.seconds is None or member._rest_share(n) == 0:
            return 0.0
        if isinstance(member, EpochRanker):
            return self._measure_steps(member, part)
        size = min(n, max(_FEWEST_POINTS, n // _ONE_IN))
        self._seconds_for(member, part, size // 16)  # compiles kernels
        return self._seconds_for(member, part, size // 4) * (4 * n / size) ** _GROWTH

    def _measure_steps(self, member: EpochRanker, part: TrainingPart) -> float:
        """Estimate the seconds of a network's training: steps and metrics of all epochs, and what is done once."""
        n, settings = len(part.rows), member.settings()
        batch = member._batch_size(n)
        short = member._with_usual_choices().set_params(epochs=1, batch_size=batch, validation_fraction=0.0)
        held = part.held
        if held is not None and part.rest is not None:  # as many points as the member will hold out itself
            n_held = min(MOST_HELD_OUT, int(settings.validation_fraction * n))
            held = (held[0][:n_held], held[1][:n_held]) if n_held else None
        step, measuring, once = self._measure_parts(short, part, batch, held)
        if once > _LONG_ONCE * self._expected_of(member, n, batch, step, measuring, once):  # kernels may be new
            step, measuring, once = map(min, (step, measuring, once), self._measure_parts(short, part, batch, held))
        return self._expected_of(member, n, batch, step, measuring, once)

    def _measure_parts(
        self, short: EpochRanker, part: TrainingPart, batch: int, held: Pair | None
    ) -> tuple[float, float, float]:
        """Measure the seconds of a step, of the metrics after an epoch, and of what a training does once."""
        stamps: list[float] = []
        with progress.listen(lambda stage, share: stamps.append(time.perf_counter()) if "training" in stage else None):
            total = self._seconds_for(short, part, _STEPS * batch, held)
        gaps = np.diff(stamps)  # between steps; the last gap has the metrics after the epoch
        if len(gaps) < 3:  # too few points to tell the parts from each other
            return total / _STEPS, 0.0, total
        step, measuring = float(np.median(gaps[:-1][gaps[:-1] > 0])), float(gaps[-1])
        return step, measuring, max(0.0, total - step * _STEPS - measuring)

    @staticmethod
    def _expected_of(
        member: EpochRanker, n_points: int, batch: int, step: float, measuring: float, once: float
    ) -> float:
        epoch = step * max(1.0, n_points / batch) + measuring
        return epoch * member.settings().epochs + once

    @staticmethod
    def _seconds_for(member: Ranker, part: TrainingPart, n_points: int, held: Pair | None = None) -> float:
        """Return the seconds of a fit to `n_points`, without building the index of a network, which takes longer."""
        chosen = np.random.default_rng([0, 11]).permutation(len(part.rows))[: max(64, n_points)]
        sample = replace(part, rows=np.sort(part.rows[chosen]), rest=None, held=held, listed_elsewhere=True)
        begin = time.perf_counter()
        member.unfitted()._fit_part(sample)
        return time.perf_counter() - begin


def _n_trainings(member: Ranker, part: TrainingPart) -> float:
    """Return the number of trainings of a member in all."""
    return member._n_trainings(part) + (0.0 if part.rest is None else member._rest_share(len(part.rows)))


def _duration(seconds: float) -> str:
    if seconds < 10:
        return "a few seconds"
    return f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"
