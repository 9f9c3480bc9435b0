"""Tests of the row-sparse optimiser that torch has no twin for."""

from __future__ import annotations

import numpy as np

from longtail.neural.optimizers import RowOptimizer


def test_row_adagrad_keeps_the_direction_of_the_gradient_and_divides_by_what_the_row_has_seen() -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((6, 8)).astype(np.float32)
    expected = table.astype(np.float64)
    optimizer = RowOptimizer("row_adagrad", (6, 8), n_jobs=1)
    seen = np.zeros(6)
    for touched in ([0, 2, 5], [0, 1], [0, 2], [3, 5]):
        grad = rng.standard_normal((len(touched), 8)).astype(np.float32)
        optimizer.step(table, np.array(touched), grad, 0.1)
        for r, g in zip(touched, grad.astype(np.float64), strict=True):
            seen[r] += (g**2).mean()
            expected[r] -= 0.1 * g / np.sqrt(seen[r])
    np.testing.assert_allclose(table, expected, rtol=2e-4, atol=1e-5)


def test_row_adagrad_keeps_one_number_per_row() -> None:
    optimizer = RowOptimizer("row_adagrad", (6, 8))
    assert optimizer.m.shape == (1, 8)
    assert optimizer.v.shape == (6, 1)
    assert RowOptimizer.tables("row_adagrad") == 0
