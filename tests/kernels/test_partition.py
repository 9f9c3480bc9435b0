"""The nDCG partition, step by step against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.kernels import partition
from longtail.kernels.csr import Csr

N, L = 60, 15


def case(seed: int) -> tuple[csr_array, np.ndarray, np.ndarray, np.ndarray]:
    """Labels, their worth, discounts, and starting sides."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((N, L)) < 0.2).astype(np.float32)
    Y[np.arange(N), rng.integers(L, size=N)] = 1
    discounts = (1 / np.log2(np.arange(2, L + 2))).astype(np.float32)
    worth = rng.uniform(0.2, 1.0, L).astype(np.float32) if seed else np.ones(L, np.float32)
    return csr_array(Y), worth, discounts, rng.integers(2, size=N).astype(np.int8)


def side_discounts(
    Y: np.ndarray, worth: np.ndarray, ideal: np.ndarray, here: np.ndarray, discounts: np.ndarray
) -> np.ndarray:
    """Discount of each label in the best ranking for the points `here`; labels of the others alone come last."""
    sums = (Y * worth * ideal[:, None])[here].sum(axis=0)
    others = (Y * worth)[~here].sum(axis=0)
    found = np.zeros(L)
    found[np.lexsort((np.arange(L), -others, -np.round(sums, 5)))] = discounts
    return found


@pytest.mark.parametrize("seed", range(6))
def test_it_ends_where_no_point_gains_by_moving(seed: int) -> None:
    Y, worth, discounts, sides = case(seed)
    points = np.arange(N, dtype=np.int32)
    ideal = partition.ideal_gains(Y.indptr, discounts)
    dense = Y.toarray()
    np.testing.assert_allclose(ideal, 1 / np.array([discounts[: int(size)].sum() for size in dense.sum(1)]), rtol=1e-5)
    total, scratch = np.zeros(L, np.float32), np.empty((2, L), np.float32)

    def mean_gain() -> float:
        by_side = [side_discounts(dense, worth, ideal, sides == s, discounts) for s in (0, 1)]
        return float(np.mean(ideal * (dense * worth * np.stack(by_side)[sides]).sum(axis=1)))

    before = mean_gain()
    ones = partition.partition(
        points,
        Csr(Y.indptr, Y.indices, Y.data),
        partition.LabelGains(worth, ideal, discounts),
        sides,
        total,
        scratch,
        50,
    )
    assert ones == sides.sum()
    assert not total.any()
    assert mean_gain() > before
    here, there = (side_discounts(dense, worth, ideal, sides == s, discounts) for s in (0, 1))
    gain = (dense * worth * (there - here)).sum(axis=1)
    assert (gain[sides == 1] > -1e-4).all()
    assert (gain[sides == 0] < 1e-4).all()


def test_points_of_two_kinds_are_told_apart() -> None:
    Y = csr_array(np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0).astype(np.float32))
    discounts = (1 / np.log2(np.arange(2, 6))).astype(np.float32)
    sides = np.random.default_rng(0).integers(2, size=40).astype(np.int8)
    ideal = partition.ideal_gains(Y.indptr, discounts)
    gains = partition.LabelGains(np.ones(4, np.float32), ideal, discounts)
    points, labels = np.arange(40, dtype=np.int32), Csr(Y.indptr, Y.indices, Y.data)
    total, scratch = np.zeros(4, np.float32), np.empty((2, 4), np.float32)
    ones = partition.partition(points, labels, gains, sides, total, scratch, 50)
    assert ones == 20
    assert len(set(sides[:20])) == len(set(sides[20:])) == 1
