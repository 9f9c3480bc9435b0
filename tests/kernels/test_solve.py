"""The solver against plain NumPy: at the optimum the gradient of the primal vanishes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.kernels import solve


def problem(seed: int, n: int = 80, d: int = 25, rare: float = 0.2) -> tuple[csr_array, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, d + 1)) < 0.3, rng.random((n, d + 1)), 0)
    dense[0, d] = 0.5  # the last feature is in use, as it is after gathering
    X = csr_array(dense.astype(np.float32))
    truth = rng.normal(size=(d + 1, solve.LANES))
    margins = X @ truth + rng.normal(scale=0.3, size=(n, solve.LANES))
    signs = np.where(margins > np.quantile(margins, 1 - rare, axis=0), 1, -1).astype(np.float32)
    norms = (np.asarray(X.multiply(X).sum(axis=1)).ravel() + 1).astype(np.float32)
    return X, signs, norms


def margins(X: csr_array, weights: np.ndarray) -> np.ndarray:
    return X @ weights[:-1].astype(np.float64) + weights[-1]


@pytest.mark.parametrize(
    ("n", "rare"),
    [(80, 0.2), (6001, 0.2), (6001, 0.0005)],
    ids=["few points", "blocks of points", "few positives, which come first"],
)
@pytest.mark.parametrize("cost", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("lanes", [2, solve.LANES])
def test_squared_hinge_reaches_the_optimum(lanes: int, cost: float, n: int, rare: float) -> None:
    X, signs, norms = problem(1, n, rare=rare)
    signs = signs[:, :lanes].copy()
    weights = solve.squared_hinge(
        solve.SolverRows(X.indptr, X.indices, X.data, norms), signs, np.array([cost]), solve.Limits(1e-4, 200, 1.0), 0
    )[0]
    slack = np.maximum(0, 1 - signs * margins(X, weights))
    pull = signs * slack  # (n, lanes)
    gradient = weights - 2 * cost * np.vstack([X.T @ pull, pull.sum(axis=0)])
    rounding = 1e-5 * cost * slack.sum(axis=0).max()  # weights are sums over all points in single precision
    assert np.abs(gradient).max() < 5e-3 * np.abs(weights).max() + rounding


@pytest.mark.parametrize("solver", [solve.squared_hinge, solve.logistic])
def test_every_cost_of_several_is_solved(solver: Any) -> None:
    X, signs, norms = problem(4)
    costs = np.array([0.25, 0.5, 1.0])
    points, limits = solve.SolverRows(X.indptr, X.indices, X.data, norms), solve.Limits(1e-5, 400, 1.0)
    together = solver(points, signs, costs, limits, 0)
    for c in range(3):
        alone = solver(
            solve.SolverRows(X.indptr, X.indices, X.data, norms),
            signs,
            costs[c : c + 1],
            solve.Limits(1e-5, 400, 1.0),
            0,
        )[0]
        assert np.abs(together[c] - alone).max() < 2e-3 * np.abs(alone).max()


@pytest.mark.parametrize("cost", [1.0, 10.0])
def test_logistic_reaches_the_optimum(cost: float) -> None:
    X, signs, norms = problem(2)
    weights = solve.logistic(
        solve.SolverRows(X.indptr, X.indices, X.data, norms), signs, np.array([cost]), solve.Limits(1e-5, 400, 1.0), 0
    )[0]
    pull = signs / (1 + np.exp(signs * margins(X, weights)))
    gradient = weights - cost * np.vstack([X.T @ pull, pull.sum(axis=0)])
    assert np.abs(gradient).max() < 5e-3 * np.abs(weights).max()


@pytest.mark.parametrize("size", [1, 7])
def test_one_lockstep_pass_is_eight_plain_passes(size: int) -> None:
    X, signs, norms = problem(3)
    damp = np.float32(0.5)
    blocks = np.random.default_rng(0).permutation(-(-X.shape[0] // size)).astype(np.int32)
    order = [i for block in blocks for i in range(block * size, min((block + 1) * size, X.shape[0]))]
    weights = np.zeros((X.shape[1] + 1, solve.LANES), np.float32)
    beta, gap = np.zeros(signs.shape, np.float32), np.zeros(solve.LANES, np.float32)
    points = solve.SolverRows(X.indptr, X.indices, X.data, norms + damp)
    solve.lockstep_pass(points, signs, damp, blocks, size, weights.reshape(-1), beta, gap)

    dense = np.hstack([X.toarray(), np.ones((X.shape[0], 1))])
    for lane in range(solve.LANES):
        w, b = np.zeros(dense.shape[1]), np.zeros(len(dense))
        for i in order:
            y = signs[i, lane]
            new = b[i] - (dense[i] @ w - y + damp * b[i]) / (norms[i] + damp)
            new = new if new * y > 0 else 0.0
            w += (new - b[i]) * dense[i]
            b[i] = new
        np.testing.assert_allclose(weights[:, lane], w, atol=1e-4)
        np.testing.assert_allclose(beta[:, lane], b, atol=1e-4)


@pytest.mark.parametrize("solver", [solve.squared_hinge, solve.logistic])
def test_lanes_without_a_problem_stay_at_zero(solver: Any) -> None:
    X = csr_array(np.random.default_rng(0).random((20, 5)).astype(np.float32))
    signs = np.zeros((20, solve.LANES), np.float32)
    signs[:, 0] = np.where(np.arange(20) % 2, 1, -1)
    norms = (X.multiply(X).sum(axis=1) + 1).astype(np.float32)
    weights = solver(
        solve.SolverRows(X.indptr, X.indices, X.data, norms), signs, np.ones(1), solve.Limits(0.1, 5, 1.0), 0
    )[0]
    assert (weights[:, 0] != 0).any()
    assert (weights[:, 1:] == 0).all()


def test_points_without_features_are_solved_by_the_bias() -> None:
    empty = csr_array((4, 1), dtype=np.float32)
    signs = np.tile(np.array([[1], [-1], [-1], [-1]], np.float32), solve.LANES)
    points = solve.SolverRows(empty.indptr, empty.indices, empty.data, np.ones(4, np.float32))
    weights = solve.squared_hinge(points, signs, np.ones(1), solve.Limits(1e-4, 50, 1.0), 0)[0]
    assert weights.shape == (1, solve.LANES)
    assert (weights < 0).all()
