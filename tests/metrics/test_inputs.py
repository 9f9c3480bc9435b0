"""Bad input: each a clear error that says what, where and what to do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, random_array

from longtail.errors import DataError, LongtailWarning, SettingsError
from longtail.metrics import calibration_error, evaluate, full_report
from longtail.metrics.thresholds import choose_thresholds

from .cases import to_csr

TRUTH = to_csr([{0: 1}, {1: 1, 2: 1}], 3)
SCORES = to_csr([{0: 0.5}, {2: 0.5, 0: 0.1}], 3)


def test_nan_names_the_row() -> None:
    with pytest.raises(DataError, match="row 2: scores holds NaN for label 1") as error:
        evaluate(to_csr([{0: 1}] * 4, 3), to_csr([{0: 1.0}, {}, {2: 0.1, 1: np.nan}, {}], 3))
    assert error.value.row == 2
    with pytest.raises(DataError, match="row 0: Y_true holds NaN for label 0"):
        evaluate(to_csr([{0: np.nan}], 3), to_csr([{}], 3))


def test_infinite_scores_rank() -> None:
    scores = to_csr([{0: np.inf, 1: 3.0}, {0: -np.inf, 1: -3.0}], 3)
    assert evaluate(TRUTH, scores, ks=[1])["P@1"] == 100


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (0, 3)])
def test_shapes_must_agree(shape: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=rf"Y_true is 2 x 3 and scores {shape[0]} x {shape[1]}"):
        evaluate(TRUTH, csr_array(shape))


@pytest.mark.parametrize("wrong", [np.zeros((2, 3)), [[0, 1]], None, coo_array(np.ones(3))])
def test_only_sparse_matrices(wrong: Any) -> None:
    with pytest.raises(DataError, match="scores must be a scipy sparse matrix"):
        evaluate(TRUTH, wrong)
    with pytest.raises(DataError, match="Y_true must be a scipy sparse matrix"):
        evaluate(wrong, SCORES)


def test_a_label_scored_twice() -> None:
    twice = csr_array((np.array([0.1, 0.9, 0.8], np.float32), [1, 2, 2], [0, 1, 3]), shape=(2, 3))
    with pytest.raises(DataError, match="row 1: a label is scored twice"):
        evaluate(TRUTH, twice)
    for measure in (choose_thresholds, calibration_error):
        with pytest.raises(DataError, match="row 1: a label is scored twice"):
            measure(TRUTH, twice)


def test_labels_out_of_range() -> None:
    broken = to_csr([{0: 0.5}, {2: 0.5}], 3)
    broken.indices[1] = 7
    with pytest.raises(DataError, match="scores is not a valid CSR matrix"):
        evaluate(TRUTH, broken)


def test_truth_without_any_label() -> None:
    with pytest.raises(DataError, match="no test point has a label"):
        evaluate(to_csr([{0: 0.0}, {}], 3), SCORES)
    with pytest.raises(DataError, match="no test point has a label"):
        evaluate(csr_array((0, 0)), csr_array((0, 0)))
    with pytest.raises(DataError, match="no test point has a label"):
        evaluate(TRUTH, SCORES, ignore=[(0, 0), (1, 1), (1, 2)])


@pytest.mark.parametrize("ks", [[], [0], [-1, 3], [1.5], ["1"], [[1, 2]], [True]])
def test_cut_offs(ks: Any) -> None:
    with pytest.raises(SettingsError, match="ks must be whole numbers from 1 to"):
        evaluate(TRUTH, SCORES, ks=ks)


def test_cut_offs_in_any_order() -> None:
    assert evaluate(TRUTH, SCORES, ks=[3, 1, 3]) == evaluate(TRUTH, SCORES, ks=[1, 3])


@pytest.mark.parametrize("weights", [[1.0, 2.0], [1.0, 2.0, 0.0], [1.0, -2.0, 1.0], [1.0, np.nan, 1.0], [1, np.inf, 1]])
def test_weights(weights: list[float]) -> None:
    with pytest.raises(DataError, match="inv_propensity"):
        evaluate(TRUTH, SCORES, inv_propensity=weights)


def test_one_source_of_weights() -> None:
    with pytest.raises(SettingsError, match="not both"):
        evaluate(TRUTH, SCORES, train_Y=TRUTH, inv_propensity=[1, 1, 1])
    with pytest.raises(DataError, match=r"shape \(4,\) for 3 labels"):
        evaluate(TRUTH, SCORES, train_Y=to_csr([{0: 1}], 4))


@pytest.mark.parametrize(
    ("ignore", "message"),
    [
        ([(0, 1), (2, 0)], r"ignore\[1\] = \(2, 0\) lies outside 2 points x 3 labels"),
        ([(0, 3)], r"ignore\[0\]"),
        ([(-1, 0)], r"ignore\[0\]"),
        ([0, 1], "shape"),
        ([(0, 1, 2)], "shape"),
        ([(0.5, 1.0)], "whole numbers"),
    ],
)
def test_pairs_to_ignore(ignore: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(TRUTH, SCORES, ignore=ignore)


def test_from_many_threads_at_once() -> None:
    rng = np.random.default_rng(0)
    truth = csr_array(random_array((500, 200), density=0.02, rng=rng))
    scores = csr_array(random_array((500, 200), density=0.2, rng=rng))
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda _: full_report(truth, scores, train_Y=truth), range(16)))
    assert all(report == reports[0] for report in reports)


def test_suggestions_of_other_labels_only_are_a_warning() -> None:
    with pytest.warns(LongtailWarning, match="0 of 2 suggested labels are among the 1 correct ones"):
        assert evaluate([["moss"]], [["x", "y"]], ks=[1])["P@1"] == 0
    assert evaluate([["moss"]], [["x"]], train_Y=[["x"]], ks=[1])["P@1"] == 0  # a wrong label, but one of these
    assert evaluate([["moss"]], [[]], ks=[1])["P@1"] == 0
