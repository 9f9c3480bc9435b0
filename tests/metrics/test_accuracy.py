"""evaluate: against the oracle, and against figures worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

from longtail.metrics import evaluate, inverse_propensity

from . import oracle
from .cases import Case, cases, to_csr


@settings(max_examples=200, deadline=None)
@given(cases(), st.lists(st.integers(1, 15), min_size=1, max_size=3))
def test_agrees_with_the_oracle(case: Case, ks: list[int]) -> None:
    got = evaluate(
        case.matrix(case.truth),
        case.matrix(case.scores),
        train_Y=case.matrix(case.train),
        ks=ks,
        ignore=np.array(case.ignore, np.int32).reshape(-1, 2),
    )
    w = oracle.propensity_weights(case.train, case.n_labels)
    truth, scores = oracle.drop(case.truth, case.ignore), oracle.drop(case.scores, case.ignore)
    expected: dict[str, float] = {}
    for k in ks:
        expected |= oracle.evaluate(truth, scores, w, k)
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-9)


# Two points with labels and one without. Ranked: 2, 0, 1 / 3, 1 / whatever.
TRUTH = to_csr([{0: 1, 1: 1}, {1: 1}, {}], 4)
SCORES = to_csr([{0: 0.5, 1: 0.4, 2: 0.9}, {1: 0.2, 3: 0.6}, {0: 1.0}], 4)


def test_by_hand() -> None:
    second, third = 1 / math.log2(3), 1 / 2  # discounts of ranks 2 and 3
    w = np.array([1.0, 2.0, 4.0, 8.0])
    expected = {
        "P@1": 0.0,
        "P@3": (2 / 3 + 1 / 3) / 2,
        "nDCG@1": 0.0,
        "nDCG@3": ((second + third) / (1 + second) + second / 1) / 2,
        "PSP@1": 0.0,
        "PSP@3": (1 + 2 + 2) / (2 + 1 + 2),
        "PSnDCG@1": 0.0,
        "PSnDCG@3": (1 * second + 2 * third + 2 * second) / (2 * 1 + 1 * second + 2 * 1),
        "R@1": 0.0,
        "R@3": (2 / 2 + 1 / 1) / 2,
        "C@1": 0.0,
        "C@3": 2 / 2,
    }
    got = evaluate(TRUTH, SCORES, inv_propensity=w, ks=(1, 3))
    assert list(got) == list(expected)
    assert got == pytest.approx({key: 100 * value for key, value in expected.items()})
    assert all(type(value) is float for value in got.values())


def test_perfect_ranking_scores_full_marks_except_precision() -> None:
    got = evaluate(TRUTH, TRUTH, inv_propensity=np.arange(1.0, 5.0))
    assert got["P@1"] == 100
    assert got["P@5"] == pytest.approx(100 * (2 / 5 + 1 / 5) / 2)  # divided by k though the points have 2 and 1 labels
    assert got["nDCG@5"] == got["R@5"] == got["C@5"] == got["PSP@5"] == pytest.approx(100)
    # Label 0 and 1 are tied in the truth taken as scores: the lighter one comes first, by index.
    assert got["PSP@1"] == pytest.approx(100 * (1 + 2) / (2 + 2))


def test_ties_go_to_the_smaller_label_whatever_the_order_of_storage() -> None:
    truth = to_csr([{1: 1}], 3)
    for row in ({1: 0.5, 2: 0.5}, {2: 0.5, 1: 0.5}):
        assert evaluate(truth, to_csr([row], 3), ks=[1])["P@1"] == 100
    for row in ({0: 0.5, 1: 0.5}, {1: 0.5, 0: 0.5}):
        assert evaluate(truth, to_csr([row], 3), ks=[1])["P@1"] == 0


def test_a_stored_zero_is_a_prediction_but_not_a_label() -> None:
    truth = to_csr([{0: 0, 1: 1}], 3)
    assert evaluate(truth, to_csr([{1: 0.0, 0: -1.0}], 3), ks=[1])["P@1"] == 100
    assert evaluate(truth, to_csr([{0: 0.5}], 3), ks=[1])["P@1"] == 0
    assert evaluate(truth, to_csr([{1: 0.5}], 3), ks=[1])["R@1"] == 100


def test_without_propensities_the_scored_metrics_are_left_out() -> None:
    got = evaluate(TRUTH, SCORES, ks=[3])
    assert list(got) == ["P@3", "nDCG@3", "R@3", "C@3"]
    with_weights = evaluate(TRUTH, SCORES, ks=[3], train_Y=TRUTH)
    assert got.items() <= with_weights.items()


def test_train_labels_and_their_propensities_are_one() -> None:
    train = csr_array(np.random.default_rng(0).integers(0, 2, (30, 4)))
    by_train = evaluate(TRUTH, SCORES, train_Y=train)
    assert by_train == evaluate(TRUTH, SCORES, inv_propensity=inverse_propensity(train))
    assert list(by_train) == [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG", "R", "C") for k in (1, 3, 5)]


def test_ignored_pairs_leave_truth_and_predictions() -> None:
    got = evaluate(TRUTH, SCORES, ks=[1], ignore=[(0, 2), (0, 1), (1, 1)])
    # Point 0 keeps label 0, now ranked first; point 1 has no label left and no longer counts.
    assert got == {"P@1": 100.0, "nDCG@1": 100.0, "R@1": 100.0, "C@1": 100.0}
    assert evaluate(TRUTH, SCORES, ignore=[]) == evaluate(TRUTH, SCORES)


def test_coverage_is_over_the_labels_of_the_truth() -> None:
    truth = to_csr([{0: 1}, {0: 1}, {7: 1}], 1000)
    scores = to_csr([{0: 1.0}, {0: 1.0}, {8: 1.0}], 1000)
    assert evaluate(truth, scores, ks=[1])["C@1"] == 50


def test_no_predictions_at_all() -> None:
    got = evaluate(TRUTH, csr_array((3, 4), dtype=np.float32), train_Y=TRUTH)
    assert set(got.values()) == {0.0}


@pytest.mark.parametrize("form", [csr_matrix, csc_array, coo_array])
def test_any_sparse_form(form: type) -> None:
    assert evaluate(form(TRUTH), form(SCORES)) == evaluate(TRUTH, SCORES)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float64])
def test_any_type_of_truth(dtype: type) -> None:
    assert evaluate(TRUTH.astype(dtype), SCORES.astype(np.float64)) == evaluate(TRUTH, SCORES)


def test_inputs_are_left_as_they_were() -> None:
    truth, scores = to_csr([{2: 1, 0: 0, 1: 1}], 3), to_csr([{2: 0.1, 0: 0.7}], 3)
    before = [array.copy() for matrix in (truth, scores) for array in (matrix.indptr, matrix.indices, matrix.data)]
    evaluate(truth, scores, train_Y=truth, ignore=[(0, 1)])
    after = [array for matrix in (truth, scores) for array in (matrix.indptr, matrix.indices, matrix.data)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
