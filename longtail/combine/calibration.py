"""Calibration: from the scores of one ranker to probabilities, in the order that the ranker has chosen.

Three steps turn a score into a probability. Each is learnt on held-out points, once for the first label of a point and
once for all others, because the first is correct more often than a lower one with the same score:

1. Platt scaling of the score (:mod:`longtail.combine.score_map`), so that step 2 starts near the right probability;
2. a logistic regression on these log odds and on the label's frequency, regularised towards no change: of rare labels
   with the same score, fewer are correct for one ranker and more for another;
3. a monotone function of any shape, fitted after labels are put back into the order of the ranker.

The shape comes last, because the score alone may have none: PfastreXML scores rare labels higher, so that of its
highest scores fewer are correct. In 25 trials on other training points (three data sets, 4,000 or 6,000 points, seven
models), the expected calibration error at 1 was 1.55 points (at most 3.8) with a shape in step 1 as well, fitted by
isotonic regression, and is 1.29 (at most 2.1) now. About half of these trials also served to choose between variants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.logistic import fit_logistic
from longtail.combine.score_map import ScoreMap, fit_by_rank, in_the_same_order, is_first
from longtail.sparse import Arrays, bounded_scores, entry_keys, logistic
from longtail.store.invariants import Rules, floats

_ENOUGH = 1000  # correct pairs, and as many wrong ones, from which isotonic regression is preferred
_NO_CHANGE = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])  # weights of the regression that leave log odds as they are
_MAPS = ("before_first_", "before_rest_", "after_first_", "after_rest_")


@dataclass(frozen=True)
class LabelFrequency:
    """How often labels occur, as the regression uses it."""

    often: np.ndarray  # (L,) log(1 + points of the label) / log(1 + all points)
    seldom: np.ndarray  # (L,) 1 / (1 + points of the label): separates 1 from 2 points, which a logarithm hardly does

    @classmethod
    def of(cls, label_counts: np.ndarray, n_points: int) -> Self:
        """Count from the number of points that each label has, and of all points."""
        return cls(np.log1p(label_counts) / np.log1p(max(n_points, 1)), 1 / (1 + np.asarray(label_counts, float)))


@dataclass(frozen=True)
class HeldOut:
    """Scores of points that a ranker was not fitted to, and what is correct."""

    scores: csr_array  # (N, L) in (0, 1), in each row from the highest to the lowest
    Y: csr_array  # (N, L) correct labels
    frequency: LabelFrequency  # in the points that the ranker was fitted to


@dataclass(frozen=True)
class Calibration:
    """What was learnt from held-out points; of each pair, the first part is for the first label of a point."""

    before: tuple[ScoreMap, ScoreMap]
    weights: np.ndarray  # (2, 6)
    after: tuple[ScoreMap, ScoreMap]

    @classmethod
    def fit(cls, held_out: Sequence[HeldOut], method: str = "auto") -> tuple[Self, str]:
        """Learn from held-out points, all of which have labels; return the method as well.

        Parameters
        ----------
        held_out : sequence of HeldOut
            Held-out points, one item per ranker that has scored them; each with at least one score.
        method : {"auto", "isotonic", "platt"}
            The monotone function of step 3. An isotonic one fits any shape but overfits few pairs (Niculescu-Mizil
            and Caruana, ICML 2005, found it better from about 1,000 on): "auto" chooses it from that number on.
        """
        raw = np.concatenate([part.scores.data for part in held_out])
        correct = np.concatenate([np.isin(entry_keys(part.scores), entry_keys(part.Y)) for part in held_out])
        if method == "auto":
            enough = min(np.count_nonzero(correct), np.count_nonzero(~correct)) >= _ENOUGH
            method = "isotonic" if enough else "platt"
        first = np.concatenate([is_first(part.scores) for part in held_out])
        groups = (first, ~first if not first.all() else first)
        before = fit_by_rank(raw, correct, first, "platt")
        fresh = cls(before, np.stack([_NO_CHANGE, _NO_CHANGE]), (ScoreMap.same(), ScoreMap.same()))
        design = np.concatenate([fresh._design(part.scores, part.frequency) for part in held_out])
        weights = np.stack([fit_logistic(design[group], correct[group], _NO_CHANGE) for group in groups])
        fresh = replace(fresh, weights=weights)
        if method == "isotonic":  # a second Platt scaling would change nothing
            ordered = np.concatenate([fresh.apply(part.scores, part.frequency).data for part in held_out])
            fresh = replace(fresh, after=fit_by_rank(ordered, correct, first, method))
        return fresh, method

    def apply(self, scores: csr_array, frequency: LabelFrequency) -> csr_array:
        """Return probabilities in place of scores; the order in rows stays."""
        first = is_first(scores)
        design = self._design(scores, frequency)
        odds = np.where(first, design @ self.weights[0], design @ self.weights[1])
        ordered = in_the_same_order(scores, _probabilities(odds))
        odds = np.where(first, self.after[0](ordered), self.after[1](ordered))
        mapped = in_the_same_order(scores, _probabilities(odds))
        return csr_array((mapped, scores.indices, scores.indptr), shape=scores.shape)

    def _design(self, scores: csr_array, frequency: LabelFrequency) -> np.ndarray:
        """Return the features of each score for the regression, (nnz, 6)."""
        first = is_first(scores)
        odds = np.where(first, self.before[0](scores.data), self.before[1](scores.data))
        often, seldom = frequency.often[scores.indices], frequency.seldom[scores.indices]
        return np.stack([np.ones_like(odds), odds, often, odds * often, seldom, odds * seldom], axis=1)

    # Storing -----------------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return what to store."""
        found = {"weights": self.weights}
        for prefix, one in zip(_MAPS, (*self.before, *self.after), strict=True):
            found |= one.arrays(prefix)
        return found

    @staticmethod
    def array_rules() -> Rules:
        """Declare what the arrays of :meth:`arrays` must be."""
        rules = Rules({"weights": floats("2 6", "f8")})
        for prefix in _MAPS:
            rules |= ScoreMap.array_rules(prefix)
        return rules

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Build what :meth:`arrays` took apart."""
        one, two, three, four = (ScoreMap.from_arrays(prefix, arrays) for prefix in _MAPS)
        return cls((one, two), np.array(arrays["weights"]), (three, four))


def _probabilities(odds: np.ndarray) -> np.ndarray:
    return bounded_scores(logistic(odds))
