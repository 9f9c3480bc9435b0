"""Inverse propensities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.metrics import inverse_propensity

from . import oracle
from .cases import Case, cases, to_csr


@settings(max_examples=100, deadline=None)
@given(cases())
def test_agrees_with_the_oracle(case: Case) -> None:
    train = case.matrix(case.train)
    for A, B in ((0.55, 1.5), (0.5, 0.4), (0.6, 2.6)):
        got = inverse_propensity(train, A, B)
        assert got.tolist() == pytest.approx(oracle.propensity_weights(case.train, case.n_labels, A, B))


def test_by_hand() -> None:
    train = to_csr([{0: 1, 2: 1}] + [{0: 1, 1: 0}] * 99, 3)  # N = 100, N_l = 100, 0, 1
    C = (math.log(100) - 1) * 2.5**0.55
    expected = [1 + C * 101.5**-0.55, 1 + C * 1.5**-0.55, 1 + C * 2.5**-0.55]
    got = inverse_propensity(train)
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert got[2] == pytest.approx(math.log(100))  # once seen: the factors of B cancel
    assert got.dtype == np.float64


@pytest.mark.parametrize("n_points", [1, 2])
def test_too_few_points_for_the_formula_weigh_all_labels_alike(n_points: int) -> None:
    assert inverse_propensity(to_csr([{0: 1}] * n_points, 3)).tolist() == [1, 1, 1]


def test_duplicate_entries_are_one_label() -> None:
    twice = csr_array((np.ones(4, np.int8), [0, 0, 1, 0], [0, 3, 4, 4]), shape=(3, 2))
    once = csr_array((np.ones(3, np.int8), [0, 1, 0], [0, 2, 3, 3]), shape=(3, 2))
    np.testing.assert_array_equal(inverse_propensity(twice), inverse_propensity(once))


def test_counts_give_the_same_weights_as_the_matrix() -> None:
    train = to_csr([{0: 1, 2: 1}] + [{0: 1, 1: 0}] * 99, 3)
    np.testing.assert_array_equal(inverse_propensity(counts=[100, 0, 1], n_points=100), inverse_propensity(train))


def test_bad_input() -> None:
    with pytest.raises(DataError, match="no training points"):
        inverse_propensity(csr_array((0, 3)))
    for wrong in ({}, {"counts": [1]}, {"n_points": 3}, {"Y_train": csr_array((3, 3)), "counts": [1], "n_points": 3}):
        with pytest.raises(SettingsError, match="Y_train"):
            inverse_propensity(**wrong)  # type: ignore[arg-type]
    for counts in ([[1, 2]], [-1], [4]):
        with pytest.raises(DataError, match="one number from 0 to n_points"):
            inverse_propensity(counts=counts, n_points=3)
    with pytest.raises(DataError, match="Y_train must be a scipy sparse matrix"):
        inverse_propensity(np.ones((3, 2)))  # type: ignore[arg-type]
    for A, B in ((-1, 1.5), (0.5, 0), (math.nan, 1)):
        with pytest.raises(SettingsError, match="A >= 0 and B > 0"):
            inverse_propensity(csr_array((3, 3)), A, B)
