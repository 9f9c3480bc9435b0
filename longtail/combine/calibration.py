"""Calibration: turn the scores of one ranker into probabilities, and keep the order of its labels.

Three steps turn a score into a probability. Each is learnt on held-out points, separately for the first label of a
point and for all others: of two labels with the same score, the one that is ranked first is correct more often.

1. Platt scaling of the score (:mod:`longtail.combine.score_map`), so that step 2 starts near the right probability.
2. Logistic regression on these log odds and on the label's frequency, regularised towards no change. Rare labels need
   it: compared with frequent labels of the same score, they are correct less often with one ranker and more often with
   another.
3. A monotone function of any shape, fitted after the labels are put back into the order of the ranker.

The function of any shape comes last, because the probability need not rise with the score alone. PfastreXML, for
example, scores rare labels higher, so that fewer of its highest scores are correct. In 25 trials (three data sets,
4,000 or 6,000 points, seven models), the expected calibration error at 1 on other training points is 1.29 points (at
most 2.1). With isotonic regression in step 1 as well it was 1.55 (at most 3.8). About half of these trials also served
to choose between variants.
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

_ENOUGH_FOR_ISOTONIC = 1000  # correct pairs, and as many wrong ones
_NO_CHANGE = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])  # weights of the regression that leave log odds as they are
_MAPS = ("before_first_", "before_rest_", "after_first_", "after_rest_")


@dataclass(frozen=True)
class LabelFrequency:
    """Two measures of how often labels occur, as features of the regression."""

    frequency: np.ndarray  # (L,) log(1 + points of the label) / log(1 + all points)
    rarity: np.ndarray  # (L,) 1 / (1 + points of the label): separates 1 from 2 points, which a logarithm hardly does

    @classmethod
    def of(cls, label_counts: np.ndarray, n_points: int) -> Self:
        """Compute both from the number of points of each label (L,) and of all points."""
        return cls(np.log1p(label_counts) / np.log1p(max(n_points, 1)), 1 / (1 + np.asarray(label_counts, float)))


@dataclass(frozen=True)
class HeldOut:
    """Scores of points that a ranker was not fitted to, and their correct labels."""

    scores: csr_array  # (N, L) in (0, 1), in each row from the highest to the lowest
    Y: csr_array  # (N, L) correct labels
    label_frequency: LabelFrequency  # in the points that the ranker was fitted to


@dataclass(frozen=True)
class Calibration:
    """The three learnt steps. Each has two parts: for the first label of a point, and for all other labels."""

    before: tuple[ScoreMap, ScoreMap]  # step 1
    weights: np.ndarray  # (2, 6), step 2
    after: tuple[ScoreMap, ScoreMap]  # step 3

    @classmethod
    def fit(cls, held_out: Sequence[HeldOut], method: str = "auto") -> tuple[Self, str]:
        """Learn from held-out points, all of which have labels; return the calibration and the method used.

        Parameters
        ----------
        held_out : sequence of HeldOut
            Held-out points, one item per ranker that scored them. Each has at least one score.
        method : {"auto", "isotonic", "platt"}
            The monotone function of step 3. "isotonic" fits any shape but overfits if pairs are few. "auto" uses it
            from 1,000 correct and as many wrong pairs on, about where Niculescu-Mizil and Caruana (ICML 2005) found it
            better.
        """
        raw = np.concatenate([part.scores.data for part in held_out])
        correct = np.concatenate([np.isin(entry_keys(part.scores), entry_keys(part.Y)) for part in held_out])
        if method == "auto":
            n_rarer = min(np.count_nonzero(correct), np.count_nonzero(~correct))
            method = "isotonic" if n_rarer >= _ENOUGH_FOR_ISOTONIC else "platt"
        first = np.concatenate([is_first(part.scores) for part in held_out])
        groups = (first, ~first if not first.all() else first)
        before = fit_by_rank(raw, correct, first, "platt")
        fitted = cls(before, np.stack([_NO_CHANGE, _NO_CHANGE]), (ScoreMap.same(), ScoreMap.same()))
        design = np.concatenate([fitted._design(part.scores, part.label_frequency) for part in held_out])
        weights = np.stack([fit_logistic(design[group], correct[group], _NO_CHANGE) for group in groups])
        fitted = replace(fitted, weights=weights)
        if method == "isotonic":  # a second Platt scaling would change nothing
            ordered = np.concatenate([fitted.apply(part.scores, part.label_frequency).data for part in held_out])
            fitted = replace(fitted, after=fit_by_rank(ordered, correct, first, method))
        return fitted, method

    def apply(self, scores: csr_array, label_frequency: LabelFrequency) -> csr_array:
        """Return probabilities in place of scores, in the same order in each row."""
        first = is_first(scores)
        design = self._design(scores, label_frequency)
        odds = np.where(first, design @ self.weights[0], design @ self.weights[1])
        ordered = in_the_same_order(scores, _probabilities(odds))
        odds = np.where(first, self.after[0](ordered), self.after[1](ordered))
        mapped = in_the_same_order(scores, _probabilities(odds))
        return csr_array((mapped, scores.indices, scores.indptr), shape=scores.shape)

    def _design(self, scores: csr_array, label_frequency: LabelFrequency) -> np.ndarray:
        """Return the features of each score for the regression, (nnz, 6)."""
        first = is_first(scores)
        odds = np.where(first, self.before[0](scores.data), self.before[1](scores.data))
        frequency, rarity = label_frequency.frequency[scores.indices], label_frequency.rarity[scores.indices]
        return np.stack([np.ones_like(odds), odds, frequency, odds * frequency, rarity, odds * rarity], axis=1)

    # Storing -----------------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return the arrays to store."""
        arrays = {"weights": self.weights}
        for prefix, score_map in zip(_MAPS, (*self.before, *self.after), strict=True):
            arrays |= score_map.arrays(prefix)
        return arrays

    @staticmethod
    def array_rules() -> Rules:
        """Declare the rules that the arrays of :meth:`arrays` must meet."""
        rules = Rules({"weights": floats("2 6", "f8")})
        for prefix in _MAPS:
            rules |= ScoreMap.array_rules(prefix)
        return rules

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Restore the calibration from what :meth:`arrays` returned."""
        before_first, before_rest, after_first, after_rest = (ScoreMap.from_arrays(prefix, arrays) for prefix in _MAPS)
        return cls((before_first, before_rest), np.array(arrays["weights"]), (after_first, after_rest))


def _probabilities(odds: np.ndarray) -> np.ndarray:
    return bounded_scores(logistic(odds))
