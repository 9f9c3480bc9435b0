"""The L1 logistic solver: its answers are optimal, as NumPy sees it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.kernels import sparse_logistic

N, D = 80, 30


def case(seed: int) -> tuple[csr_array, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((N, D), density=0.2, rng=rng, dtype=np.float32))
    X.data += 0.5
    signs = np.where(X @ rng.normal(size=D) + 0.3 * rng.normal(size=N) > 0, 1, -1).astype(np.float32)
    return X, signs, rng.uniform(0.5, 2.0, N).astype(np.float32)


def solve(X: csr_array, signs: np.ndarray, costs: np.ndarray, tolerance: float = 1e-3) -> np.ndarray:
    columns = sparse_logistic.to_columns(X.indptr, X.indices, X.data, X.shape[1])
    return sparse_logistic.solve(columns, signs, costs, tolerance, 100, 50)


def gradient(X: csr_array, signs: np.ndarray, costs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of the loss, with the bias as a last feature of value 1."""
    with_bias = np.hstack([X.toarray(), np.ones((X.shape[0], 1))])
    return with_bias.T @ (-costs * signs / (1 + np.exp(signs * (with_bias @ weights))))


def test_columns_hold_the_rows_and_a_bias() -> None:
    X, _, _ = case(0)
    starts, rows, values = sparse_logistic.to_columns(X.indptr, X.indices, X.data, D)
    expected = csr_array(np.hstack([X.toarray(), np.ones((N, 1), np.float32)])).tocsc()
    np.testing.assert_array_equal(starts, expected.indptr)
    np.testing.assert_array_equal(rows, expected.indices)
    np.testing.assert_array_equal(values, expected.data)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_the_weights_are_optimal(seed: int, scale: float) -> None:
    X, signs, costs = case(seed)
    weights = solve(X, signs, scale * costs)
    slope = gradient(X, signs, scale * costs, weights)
    zero = weights == 0
    assert zero.any()
    assert (np.abs(slope[zero]) < 1.02).all()
    np.testing.assert_allclose(slope[~zero], -np.sign(weights[~zero]), atol=0.02 * scale + 0.02)


def test_weak_costs_leave_all_weights_zero() -> None:
    X, signs, costs = case(0)
    assert not solve(X, signs, costs * np.float32(1e-4)).any()


def test_points_without_features_are_served_by_the_bias() -> None:
    X = csr_array((10, 3), dtype=np.float32)
    signs = np.array([1] * 8 + [-1] * 2, np.float32)
    weights = solve(X, signs, np.full(10, 5, np.float32))
    assert not weights[:3].any()
    assert 0 < weights[3] < np.log(4)  # the log-odds, drawn towards zero by the regulariser
