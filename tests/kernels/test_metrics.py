"""The counting kernels against NumPy twins on dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.kernels.metrics import csr_is_in, tally
from longtail.kernels.topk import csr_top_k_serial


def twin_of_tally(truth: np.ndarray, scores: np.ndarray, weights: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts and sums at one k; ``truth`` and ``scores`` dense, minus infinity where nothing was predicted."""
    rows = np.arange(len(truth))[:, None]
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    hit = truth[rows, ranked] & np.isfinite(scores[rows, ranked])  # (N, k)
    discount = 1 / np.log2(np.arange(k) + 2)
    n_true = truth.sum(axis=1)
    keep = n_true > 0
    ideal = -np.sort(-np.where(truth, weights, 0), axis=1)[:, :k]
    ideal_dcg = np.cumsum(discount)[np.minimum(k, np.maximum(n_true, 1)) - 1]
    correct = np.bincount(ranked[hit & keep[:, None]], minlength=truth.shape[1])
    sums = [
        ((hit @ discount) / ideal_dcg)[keep].sum(),
        (hit.sum(axis=1)[keep] / n_true[keep]).sum(),
        ideal.sum(),
        (np.where(hit, weights[ranked], 0) @ discount).sum(),
        (ideal @ discount).sum(),
    ]
    return correct, np.array(sums)


@pytest.mark.parametrize("seed", range(5))
def test_tally(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = csr_array(random_array((60, 30), density=0.08, rng=rng))  # some rows are empty
    scores = csr_array(random_array((60, 30), density=0.2, rng=rng))
    scores.data = np.round(scores.data, 1) - 0.5  # ties, zeros and negative scores
    weights, ks = rng.uniform(1, 9, 30), np.array([1, 4, 12])
    dense = np.full(scores.shape, -np.inf)
    dense[scores.tocoo().coords] = scores.data
    ranked_indptr, ranked_indices, _ = csr_top_k_serial(scores.indptr, scores.indices, scores.data, 12)
    correct, sums, n_points, twice = tally(truth.indptr, truth.indices, ranked_indptr, ranked_indices, weights, ks)
    assert twice == -1
    assert n_points == np.count_nonzero(np.diff(truth.indptr))
    for j, k in enumerate(ks):
        expected_correct, expected_sums = twin_of_tally(truth.toarray() > 0, dense, weights, k)
        np.testing.assert_array_equal(correct[: j + 1].sum(axis=0), expected_correct)
        np.testing.assert_allclose(sums[j], expected_sums, rtol=1e-12)


def test_tally_reports_a_repeated_label() -> None:
    indptr = np.array([0, 1, 2, 4])
    args = (np.array([0, 1, 2, 3]), np.array([0, 1, 2]), indptr, np.array([0, 1, 2, 2]), np.ones(3))
    assert tally(*args, np.array([2]))[3] == 2
    assert tally(*args, np.array([1]))[3] == -1  # below the cut it changes nothing


def test_is_in() -> None:
    rng = np.random.default_rng(3)
    some = csr_array(random_array((40, 25), density=0.2, rng=rng))
    others = csr_array(random_array((40, 25), density=0.3, rng=rng))
    others.sort_indices()
    rows = np.repeat(np.arange(40), np.diff(some.indptr))
    expected = others.toarray()[rows, some.indices] != 0
    np.testing.assert_array_equal(csr_is_in(some.indptr, some.indices, others.indptr, others.indices), expected)
