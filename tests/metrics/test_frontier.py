"""The frontier, B@k, the full report, and margins mapped to (0, 1)."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.metrics import balance_at_k, evaluate, frontier, full_report, inverse_propensity, to_unit

from . import oracle
from .cases import UNIT, Case, cases, to_csr

TRUTH = to_csr([{0: 1}, {1: 1}], 2)
SCORES = to_csr([{0: 0.5, 1: 0.3}, {0: 0.5, 1: 0.3}], 2)
WEIGHTS = np.array([1.0, 4.0])


@settings(max_examples=150, deadline=None)
@given(cases(scores=UNIT), st.integers(1, 5), st.integers(0, 7))
def test_agrees_with_the_oracle(case: Case, k: int, extra: int) -> None:
    train, w = case.matrix(case.train), oracle.propensity_weights(case.train, case.n_labels)
    ignore = np.array(case.ignore, np.int32).reshape(-1, 2)
    got = frontier(
        case.matrix(case.truth),
        case.matrix(case.scores),
        inverse_propensity(train),
        ks=[k],
        depth=k + extra,
        ignore=ignore,
    )
    truth, scores = oracle.drop(case.truth, case.ignore), oracle.drop(case.scores, case.ignore)
    assert [point["beta"] for point in got] == [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]
    for point in got:
        expected = oracle.frontier_point(truth, scores, w, k, point["beta"], k + extra)
        assert {key: point[key] for key in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_by_hand() -> None:
    # w^beta of the rare label 1 is 1/4 at -1, 2 at 1/2: it overtakes 0.5 once 0.3 * 4^beta > 0.5.
    got = frontier(TRUTH, SCORES, WEIGHTS, ks=[1], betas=[-1, 0, 0.5])
    assert got == [
        {"beta": -1.0, "P@1": 50.0, "PSP@1": 20.0},
        {"beta": 0.0, "P@1": 50.0, "PSP@1": 20.0},
        {"beta": 0.5, "P@1": 50.0, "PSP@1": 80.0},
    ]
    assert balance_at_k(got) == {"B@1": 65.0}


def test_only_the_best_take_part() -> None:
    scores = to_csr([{0: 0.5, 1: 0.3}, {0: 0.5, 1: 0.3}], 2)
    assert frontier(TRUTH, scores, WEIGHTS, ks=[1], betas=[1], depth=1)[0]["PSP@1"] == 20.0
    assert frontier(TRUTH, scores, WEIGHTS, ks=[1], betas=[1], depth=2)[0]["PSP@1"] == 80.0


def test_best_mean_is_taken_for_each_k_apart() -> None:
    curve = [
        {"beta": 0.0, "P@1": 60.0, "P@10": 20.0, "PSP@1": 20.0, "PSP@10": 10.0},
        {"beta": 1.0, "P@1": 40.0, "P@10": 15.0, "PSP@1": 30.0, "PSP@10": 20.0},
    ]
    assert balance_at_k(curve) == {"B@1": 40.0, "B@10": 17.5}


@settings(max_examples=50, deadline=None)
@given(cases(scores=UNIT))
def test_full_report_holds_all_the_parts(case: Case) -> None:
    truth, scores, train = case.matrix(case.truth), case.matrix(case.scores), case.matrix(case.train)
    w = inverse_propensity(train)
    ignore = np.array(case.ignore, np.int32).reshape(-1, 2)
    report = full_report(truth, scores, train_Y=train, ignore=ignore)
    curve = frontier(truth, scores, w, ignore=ignore)
    assert report == {**evaluate(truth, scores, train_Y=train, ignore=ignore), **balance_at_k(curve), "frontier": curve}
    assert report == full_report(truth, scores, inv_propensity=w, ignore=ignore)
    own = next(point for point in curve if point["beta"] == 0)
    assert {key: report[key] for key in own if key != "beta"} == {k: v for k, v in own.items() if k != "beta"}
    assert json.loads(json.dumps(report)) == report


def test_margins_are_refused_with_the_remedy() -> None:
    margins = to_csr([{0: 0.5}, {1: -1.5}], 2)
    with pytest.raises(DataError, match=r"row 1: the score -1\.5 of label 1 .* to_unit") as error:
        frontier(TRUTH, margins, WEIGHTS)
    assert error.value.row == 1
    with pytest.raises(DataError, match=r"row 0: the score 1\.5"):
        full_report(TRUTH, to_csr([{0: 1.5}, {}], 2), inv_propensity=WEIGHTS)
    assert frontier(TRUTH, to_unit(margins), WEIGHTS)


def test_to_unit_is_the_logistic_function_and_keeps_the_order() -> None:
    margins = csr_array(np.array([[-700.0, -30.0, -1.0, 1e-9, 2.0, 30.0, 36.0]]))
    unit = to_unit(margins)
    assert ((unit.data > 0) & (unit.data < 1)).all()
    assert (np.diff(unit.data) > 0).all()
    np.testing.assert_allclose(unit.data[2:5], 1 / (1 + np.exp(-margins.data[2:5])), rtol=1e-15)
    np.testing.assert_array_equal(unit.indices, margins.indices)
    stored_zero = to_csr([{1: 0.0}], 2)
    assert to_unit(stored_zero).data.tolist() == [0.5]


def test_settings_are_checked() -> None:
    with pytest.raises(SettingsError, match="depth"):
        frontier(TRUTH, SCORES, WEIGHTS, ks=[5], depth=3)
    for betas in ([], [np.nan], [np.inf]):
        with pytest.raises(SettingsError, match="betas"):
            frontier(TRUTH, SCORES, WEIGHTS, betas=betas)
    with pytest.raises(SettingsError, match="train_Y or inv_propensity"):
        full_report(TRUTH, SCORES)
    with pytest.raises(DataError, match="no points"):
        balance_at_k([])
