"""The counting kernels against NumPy twins on dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.kernels.metrics import csr_is_in, csr_top_k_scaled, tally
from longtail.kernels.topk import csr_top_k_serial


def twin_of_tally(truth: np.ndarray, scores: np.ndarray, weights: np.ndarray, k: int) -> tuple[list, np.ndarray]:
    """Sums and right predictions at one k, of dense matrices; scores are minus infinity where nothing was predicted."""
    rows = np.arange(len(truth))[:, None]
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    hit = truth[rows, ranked] & np.isfinite(scores[rows, ranked])  # (N, k)
    discount = 1 / np.log2(np.arange(k) + 2)
    n_true = truth.sum(axis=1)
    keep = n_true > 0
    gain = np.where(hit, weights[ranked], 0)
    ideal = -np.sort(-np.where(truth, weights, 0), axis=1)[:, :k]
    ideal_dcg = np.cumsum(discount)[np.minimum(k, n_true[keep]) - 1]
    sums = [
        hit.sum(),
        gain.sum(),
        (gain @ discount).sum(),
        ideal.sum(),
        (ideal @ discount).sum(),
        ((hit @ discount)[keep] / ideal_dcg).sum(),
        (hit.sum(axis=1)[keep] / n_true[keep]).sum(),
    ]
    return sums, hit


def random_problem(seed: int) -> tuple[csr_array, csr_array, np.ndarray, np.ndarray]:
    """Truth, scores, the scores dense, weights."""
    rng = np.random.default_rng(seed)
    truth = csr_array(random_array((60, 30), density=0.08, rng=rng))  # some rows are empty
    scores = csr_array(random_array((60, 30), density=0.2, rng=rng))
    scores.data = np.round(scores.data, 1) - 0.5  # ties, zeros and negative scores
    dense = np.full(scores.shape, -np.inf)
    dense[scores.tocoo().coords] = scores.data
    return truth, scores, dense, rng.uniform(1, 9, 30)


@pytest.mark.parametrize("seed", range(5))
def test_tally(seed: int) -> None:
    truth, scores, dense, weights = random_problem(seed)
    ks = np.array([1, 4, 12])
    indptr, indices, _ = csr_top_k_serial(scores.indptr, scores.indices, scores.data, 12)
    sums, right_at, n_points, twice = tally(truth.indptr, truth.indices, indptr, indices, weights, ks)
    assert twice == -1
    assert n_points == np.count_nonzero(np.diff(truth.indptr))
    for j, k in enumerate(ks):
        expected, hit = twin_of_tally(truth.toarray() > 0, dense, weights, k)
        np.testing.assert_allclose(sums[j], expected, rtol=1e-12)
    rank = np.arange(12)
    filled = rank < np.diff(indptr)[:, None]  # (N, 12) where a row has a prediction of that rank
    np.testing.assert_array_equal(right_at, np.where(hit, rank + 1, 0)[filled])


def test_tally_reports_a_repeated_label() -> None:
    indptr = np.array([0, 1, 2, 4])
    args = (np.array([0, 1, 2, 3]), np.array([0, 1, 2]), indptr, np.array([0, 1, 2, 2]), np.ones(3))
    assert tally(*args, np.array([2]))[3] == 2
    assert tally(*args, np.array([1]))[3] == -1  # below the cut it changes nothing


@pytest.mark.parametrize("k", [1, 3, 40])
def test_top_k_scaled(k: int) -> None:
    _, scores, _, factors = random_problem(k)
    got = csr_top_k_scaled(scores.indptr, scores.indices, scores.data, factors, k)
    expected = csr_top_k_serial(scores.indptr, scores.indices, scores.data * factors[scores.indices], k)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])


def test_is_in() -> None:
    rng = np.random.default_rng(3)
    some = csr_array(random_array((40, 25), density=0.2, rng=rng))
    others = csr_array(random_array((40, 25), density=0.3, rng=rng))
    others.sort_indices()
    rows = np.repeat(np.arange(40), np.diff(some.indptr))
    expected = others.toarray()[rows, some.indices] != 0
    np.testing.assert_array_equal(csr_is_in(some.indptr, some.indices, others.indptr, others.indices), expected)
