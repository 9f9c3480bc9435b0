"""Calibrated: probabilities for any ranker.

The scores of most rankers order labels well but are not probabilities: of the labels that a model scores 0.3, 40 % may
be correct. Here a copy of the base scores held-out points, the function from score and label frequency to the share of
correct labels is learnt from these pairs (:mod:`longtail.combine.calibration`), and the base is fitted again to all
points. The ranking, and with it P@k, is that of the base.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.calibration import Calibration, LabelFrequency
from longtail.data.split import hold_out_points
from longtail.metrics.thresholds import MOST_DECIDED, threshold_of_probabilities
from longtail.models.base import Arrays, Ranker
from longtail.models.wrapper import Wrapper
from longtail.params import Anything, Number, OneOf, Seed, optional
from longtail.sparse import label_counts, labelled_rows, select_labels
from longtail.store import Stored
from longtail.store.facts import WHOLE
from longtail.store.invariants import Rules
from longtail.store.invariants import counts as whole_numbers

_HELD_OUT = 0.15, 2000, 10_000  # share of the points, and how many at least (a quarter, if that is less) and at most


class Calibrated(Wrapper):
    """Any ranker, with scores that are probabilities. The ranking stays that of the base.

    Parameters
    ----------
    base : Ranker
        Ranker whose scores are calibrated; a copy of it is fitted.
    method : {"auto", "isotonic", "platt"}
        Function from score to probability. Isotonic regression fits any shape and needs many held-out pairs; Platt
        scaling has two parameters. "auto" chooses by the number of pairs.
    random_state : int, Generator, RandomState or None
        Seed of the held-out part.

    Attributes
    ----------
    method_ : str
        The function that was chosen: isotonic, platt, or none if there were no points to hold out.
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
        "base": Anything(),
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
        return 2

    def _fit(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: tuple[csr_array, csr_array] | None
    ) -> None:
        self.method_, self.calibration_, self.threshold_ = "none", None, None
        self._keep_frequency(label_counts(Y), X.shape[0])
        if validation is not None:
            self._fit_base(X, Y, Z, validation)
            self._learn(*validation, self._label_counts, X.shape[0])
            return
        share, least, most = _HELD_OUT
        rows, held = hold_out_points(
            Y, share, [self._seed, 11], at_least=min(least, X.shape[0] // 4), at_most=most, labelled_only=False
        )
        recipe = self._tuned_base(X, Y, Z)
        if len(held) and Y[rows].nnz:
            self._fit_base(X[rows], Y[rows], Z, recipe=recipe)
            self._learn(X[held], Y[held], label_counts(Y[rows]), len(rows))
        self._fit_base(X, Y, Z, recipe=recipe)

    def _keep_frequency(self, label_counts: np.ndarray, n_points: int) -> None:
        """Keep how often each label occurs in the training points."""
        self._label_counts, self._n_points = label_counts, n_points
        self._frequency = LabelFrequency.of(label_counts, n_points)

    def _learn(self, X: csr_array, Y: csr_array, counts: np.ndarray, n_points: int) -> None:
        """Learn probabilities and the threshold from points that the base has not seen.

        Labels that are new to the base are left out, and so are points with no other label. They are labels at all only
        because these points have them: after the base is fitted to all points there are none. With them, ECE@1 on
        Debian packages was 3.6 instead of 1.6.
        """
        known = counts > 0
        Y, frequency = select_labels(Y, known), LabelFrequency.of(counts, n_points)
        rows = labelled_rows(Y)
        raw = select_labels(self.base_.predict(X[rows], MOST_DECIDED), known)
        if not raw.nnz:
            return
        self.calibration_, self.method_ = Calibration.fit(raw, Y[rows], frequency, self.method)
        self.threshold_ = threshold_of_probabilities(Y[rows], self.calibration_.apply(raw, frequency))

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
