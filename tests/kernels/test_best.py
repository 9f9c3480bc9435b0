"""Selection among numbers against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.kernels import best
from longtail.kernels.best import kth_highest
from longtail.kernels.compiling import njit
from longtail.kernels.maximum import larger

highest = njit(lambda values, first, last: best.highest(values, first, last))
reached = njit(lambda values, first, last, k, lanes: best.reached(values, first, last, k, lanes))


def test_kth_highest() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 100):
        for values in (rng.random(n, np.float32), rng.integers(0, 3, n).astype(np.float32), np.ones(n, np.float32)):
            for k in {1, 2, n // 2 + 1, n} & set(range(1, n + 1)):
                given = values.copy()
                assert kth_highest(given, k) == np.sort(values)[::-1][k - 1]
                assert sorted(given) == sorted(values)


def test_the_highest_of_a_range() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 31, 1000):
        values = rng.standard_normal(n, np.float32) - np.float32(5)  # all below zero
        for first, last in {(0, n), (n // 2, n), (0, n // 2 + 1)}:
            assert highest(values, first, last) == values[first:last].max()
    assert njit(lambda a, b: larger(a, b))(np.float32(-2), np.float32(-3)) == -2


@pytest.mark.parametrize("k", [1, 5, 64])
def test_at_least_k_values_reach_the_threshold_and_few_more(k: int) -> None:
    rng = np.random.default_rng(k)
    lanes = np.empty(best.n_lanes(k), np.float32)
    for n in (len(lanes), 2 * len(lanes) + 3, 20 * len(lanes) + 1):
        for values in (rng.standard_normal(n + 4, np.float32), rng.integers(0, 3, n + 4).astype(np.float32)):
            floor = reached(values, 3, n + 3, k, lanes)
            assert floor <= np.sort(values[3 : n + 3])[::-1][k - 1]
            assert (values[3 : n + 3] > floor).sum() <= 3 * len(lanes)
            assert floor in values


def test_sorting_puts_the_highest_first_and_equal_ones_by_item() -> None:
    rng = np.random.default_rng(2)
    sort = njit(lambda items, values, n: best.sort_descending(items, values, n))
    for n in (0, 1, 2, 11, 300, 2500):
        items = rng.permutation(n + 2).astype(np.int32)
        values = rng.integers(0, max(1, n // 3), n + 2).astype(np.float32)
        order = np.lexsort((items[:n], -values[:n]))
        expected = np.concatenate([items[:n][order], items[n:]]), np.concatenate([values[:n][order], values[n:]])
        sort(items, values, n)
        np.testing.assert_array_equal(items, expected[0])
        np.testing.assert_array_equal(values, expected[1])
