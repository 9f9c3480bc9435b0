"""Expected calibration error and the reliability curve against a naive oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.metrics import calibration_error, mark_rare_labels, reliability_curve

from . import oracle
from .cases import UNIT, Case, cases


@settings(max_examples=150, deadline=None)
@given(cases(scores=UNIT), st.integers(1, 4), st.integers(1, 12), st.booleans())
def test_agrees_with_the_oracle(case: Case, k: int, n_bins: int, some: bool) -> None:
    labels = np.arange(case.n_labels) % 2 == 0 if some else None
    ignore = np.array(case.ignore, np.int32).reshape(-1, 2)
    got = calibration_error(
        case.matrix(case.truth), case.matrix(case.scores), k, n_bins=n_bins, labels=labels, ignore=ignore
    )
    pairs = [
        (scores[label], label in oracle.labels_of(truth))
        for truth, scores in zip(
            oracle.drop(case.truth, case.ignore), oracle.drop(case.scores, case.ignore), strict=True
        )
        if oracle.labels_of(truth)
        for label in oracle.ranking(scores)[:k]
        if not some or label % 2 == 0
    ]
    bins: dict[int, list[tuple[float, bool]]] = {}
    for score, right in pairs:
        bins.setdefault(min(math.floor(score * n_bins), n_bins - 1), []).append((score, right))
    gaps = [abs(sum(s for s, _ in part) - sum(r for _, r in part)) for part in bins.values()]
    expected = 100 * sum(gaps) / len(pairs) if pairs else float("nan")
    assert got == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_the_curve_of_perfect_probabilities_is_the_diagonal() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.01, 0.99, (40_000, 1))
    truth = np.hstack([rng.random((40_000, 1)) < scores, np.ones((40_000, 1))])  # every point has a label
    scored = csr_array(np.hstack([scores, np.zeros((40_000, 1))]))
    curve = reliability_curve(csr_array(truth), scored)
    assert [point["low"] for point in curve] == [10.0 * b for b in range(10)]
    assert sum(point["pairs"] for point in curve) == 40_000
    assert all(abs(point["score"] - point["correct"]) < 3 for point in curve)
    assert calibration_error(csr_array(truth), scored) < 1


def test_rare_labels_are_the_last_fifth_of_the_volume() -> None:
    assert mark_rare_labels([50, 30, 10, 5, 4, 1, 0]).tolist() == [False] * 4 + [True] * 3


def test_bad_input_is_refused() -> None:
    one = csr_array([[1.0]])
    with pytest.raises(DataError, match="between 0 and 1"):
        calibration_error(one, csr_array([[2.0]]))
    with pytest.raises(DataError, match="one bool per label"):
        calibration_error(one, one, labels=np.array([True, False]))
    with pytest.raises(SettingsError, match="n_bins"):
        calibration_error(one, one, n_bins=0)
