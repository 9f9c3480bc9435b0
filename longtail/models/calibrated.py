"""Calibrated: probabilities for any ranker.

The scores of most rankers order labels well but are not probabilities: of the labels that a model scores 0.3, 40 % may
be correct. Calibration takes three steps. Copies of the base score points that they were not fitted to. From these
scores a function is learnt from score and label frequency to the share of correct labels
(:mod:`longtail.combine.calibration`). Then the base is fitted to all points. The ranking, and with it P@k, is that of
the base.

The points are divided into parts, and each copy scores one part after a fit to all others. All numbers below are the
expected calibration error at 1 on other training points, in percentage points:

- Copies are fitted to most of the points, so that they are nearly as good as the final base. Several copies score
  disjoint parts, because few scores make the error large by chance: with 4,000 held-out points even a perfect
  regression leaves 1.4 on average. One part of 15 % gave 2.0, ten parts give 1.4 (12 trials, three data sets, KNN and
  TextMatch).
- If points are few, all parts are scored. With 6,000 Debian packages and one tree of Parabel in five trials, three of
  four parts gave 1.6 (at most 2.4), all parts give 1.2 (at most 1.8).
- A base that needs no training has twenty parts: with TextMatch in six trials, 1.8 became 1.4.
- Words that no other text has are removed from held-out texts (:func:`longtail.data.split.as_new_points`), because a
  vocabulary would not have them if these texts were new. With TextMatch in six trials (36,000 training points, 9,000
  others, three data sets), 2.0 became 1.4. A base that holds out points itself must do the same: RankNet without it had
  4.1 instead of 1.4 with 6,000 points of tate.
- A base that calibrates its own scores on a few held-out points does so once, for all copies. DECAF has only 300 such
  points if it is fitted to 6,000: two copies fitted to 4,500 Debian packages learnt offsets of -1.1 and -1.5 in log
  odds.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.combine.calibration import Calibration, HeldOut, LabelFrequency
from longtail.metrics.thresholds import MOST_DECIDED, threshold_of_probabilities
from longtail.models.base import Arrays, Ranker
from longtail.models.wrapper import Wrapper, folds, score_folds
from longtail.params import Anything, Number, OneOf, Seed, optional
from longtail.sparse import Pair, label_counts, labelled_rows, select_labels
from longtail.store import Stored
from longtail.store.facts import WHOLE
from longtail.store.invariants import Rules
from longtail.store.invariants import counts as whole_numbers

_FEWEST_FOLDS, _MOST_FOLDS = 4, 10  # number of parts that the points are divided into
_FOLD = 5000, 10_000  # points per part: the number of parts is chosen for the first, and at most the second are scored
_FIXED_BYTES, _PAIR_BYTES = 40e6, 110.0  # memory of calibration, and of one held-out score; benchmarks/scale/run.py
_COPIES = 4  # parts that are scored, each by a copy of the base
_FREE_COPIES = 20  # number of parts for a base that needs no training; all are scored


class Calibrated(Wrapper):
    """Any ranker, with scores that are probabilities. The ranking is that of the base.

    Parameters
    ----------
    base : Ranker
        Ranker whose scores are calibrated; copies of it are fitted.
    method : {"auto", "isotonic", "platt"}
        Function from score to probability. "isotonic" fits any non-decreasing function and needs many held-out pairs;
        "platt" has two parameters and suits few pairs. "auto" chooses by the number of pairs.
    random_state : int, Generator, RandomState or None
        Seed of the held-out parts.

    Attributes
    ----------
    method_ : str
        The function in use: "isotonic", "platt", or "none" if there were no points to hold out.
    threshold_ : float or None
        Threshold with the best micro-F1 on the held-out points: what ``threshold="auto"`` means.

    Examples
    --------
    >>> from longtail import Bonsai, Calibrated
    >>> Calibrated(Bonsai(), method="platt")
    Calibrated(base=Bonsai(), method='platt')
    """

    kind: ClassVar[str] = "calibrated"
    _constraints: ClassVar = {
        "base": Anything("a ranker"),
        "method": OneOf("auto", "isotonic", "platt"),
        "random_state": Seed(),
    }
    method_: str
    calibration_: Calibration | None

    def __init__(self, base: Any, method: str = "auto", random_state: Any = 0) -> None:
        self.base = base
        self.method = method
        self.random_state = random_state

    def _copies(self) -> int:
        return 1 + (_COPIES if self._base_trains() else _FREE_COPIES)

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: fits of the base, and the scores of held-out points."""
        held_out = (self._copies() - 1) * min(_FOLD[1], X.shape[0] / self._n_folds(X.shape[0]))
        return super().memory_needed(X, Y, Z) + _FIXED_BYTES + _PAIR_BYTES * held_out * MOST_DECIDED

    def _base_trains(self) -> bool:
        return isinstance(self.base, Ranker) and self.base._rest_share(0) > 0

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        self.method_, self.calibration_, self.threshold_ = "none", None, None
        self._keep_frequency(label_counts(Y), X.shape[0])
        if validation is not None:
            self._fit_base(X, Y, Z, validation)
            some = self.base_.predict(validation[0], MOST_DECIDED)
            self._learn([_held_out_pairs(some, validation[1], self._label_counts, X.shape[0])])
            return
        recipe = self._tuned_base(X, Y, Z)
        parts = self._held_out_parts(Y)
        self._fit_base(X, Y, Z, recipe=recipe)  # first, because the copies take over its own calibration
        recipe = recipe._scored_like(self.base_)
        copies = [self._copy_of(recipe, f"part-{number + 1}") for number in range(len(parts))]
        scores = score_folds(copies, parts, X, Y, Z, MOST_DECIDED)
        self._learn(
            [
                _held_out_pairs(found, Y[held], self._label_counts - label_counts(Y[held]), X.shape[0] - len(held))
                for found, held in zip(scores, parts, strict=True)
            ]
        )

    def _n_folds(self, n_points: int) -> int:
        """Return the number of parts that the points are divided into."""
        n_folds = min(max(n_points // _FOLD[0], _FEWEST_FOLDS), _MOST_FOLDS)
        return min(n_folds if self._base_trains() else _FREE_COPIES, n_points)

    def _held_out_parts(self, Y: csr_array) -> list[np.ndarray]:
        """Return disjoint parts of the points, each to be scored by a copy that is fitted to all other points."""
        rng = np.random.default_rng([self._seed, 11])  # the rows may be sorted, so the first ones are no random sample
        parts = [
            np.sort(rng.permutation(part)[: _FOLD[1]])
            for part in folds(Y.shape[0], self._n_folds(Y.shape[0]), self._seed)
        ]
        parts = [part for part in parts if self._label_counts.sum() > label_counts(Y[part]).sum()]  # leave some labels
        return parts[: self._copies() - 1]

    def _keep_frequency(self, label_counts: np.ndarray, n_points: int) -> None:
        """Keep how often each label occurs in the training points."""
        self._label_counts, self._n_points = label_counts, n_points
        self._frequency = LabelFrequency.of(label_counts, n_points)

    def _learn(self, held_out: list[HeldOut]) -> None:
        """Learn the calibration and the threshold from scores of points that their rankers were not fitted to."""
        held_out = [pairs for pairs in held_out if pairs.scores.nnz]
        if not held_out:
            return
        self.calibration_, self.method_ = Calibration.fit(held_out, self.method)
        probabilities = [self.calibration_.apply(pairs.scores, pairs.label_frequency) for pairs in held_out]
        Y = vstack([pairs.Y for pairs in held_out], format="csr")
        self.threshold_ = threshold_of_probabilities(Y, vstack(probabilities, format="csr"))

    def _predict(self, X: csr_array, k: int) -> csr_array:
        raw = self.base_.predict(X, k)
        return raw if self.calibration_ is None else self.calibration_.apply(raw, self._frequency)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        learnt = {} if self.calibration_ is None else self.calibration_.arrays()
        facts = {"method_chosen": self.method_, "threshold": self.threshold_, "n_points": self._n_points}
        return facts, learnt | {"label_counts": self._label_counts}, self._parts()

    _facts: ClassVar = {
        "method_chosen": OneOf("isotonic", "platt", "none"),
        "threshold": optional(Number(0, 1)),
        "n_points": WHOLE,
    }

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        rules = Rules({"label_counts": whole_numbers("L")})
        return rules if stored.meta["method_chosen"] == "none" else rules | Calibration.array_rules()

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self._restore_base(parts)
        self.method_, self.threshold_ = facts["method_chosen"], facts["threshold"]
        self._keep_frequency(arrays["label_counts"], facts["n_points"])
        self.calibration_ = None if self.method_ == "none" else Calibration.from_arrays(arrays)


def _held_out_pairs(scores: csr_array, Y: csr_array, counts: np.ndarray, n_points: int) -> HeldOut:
    """Return the scores and labels from which calibration is learnt.

    `counts` (L,) and `n_points` describe the points that the scorer was fitted to. Labels that it does not know are
    left out, and so are points without other labels: after the base is fitted to all points there are no such labels.
    With them, ECE@1 on Debian packages was 3.6 instead of 1.6.
    """
    known = counts > 0
    Y = select_labels(Y, known)
    rows = labelled_rows(Y)
    return HeldOut(select_labels(scores[rows], known), Y[rows], LabelFrequency.of(counts, n_points))
