"""The top-k kernels against a full sort in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from longtail.kernels.topk import csr_top_k_serial, fill_places, top_k_pairs, top_k_row

# Few distinct values, so that ties are the rule and not the exception.
VALUES = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e6, 1e6, width=32), st.just(-np.inf))


def best_first(ids: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """The twin: positions of the k best, by descending score, then ascending id."""
    return np.lexsort((ids, -scores))[: max(k, 0)]


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, max_size=400), st.integers(0, 20))
def test_row_equals_a_full_sort(values: list[float], k: int) -> None:
    scores = np.array(values, np.float32)
    idx, val = np.empty(k, np.int32), np.empty(k, np.float32)
    written = top_k_row(scores, k, idx, val)
    expected = best_first(np.arange(len(scores)), scores, k)
    assert written == len(expected)
    np.testing.assert_array_equal(idx[:written], expected)
    np.testing.assert_array_equal(val[:written], scores[expected])


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, max_size=60), st.integers(0, 20), st.randoms(use_true_random=False))
def test_pairs_equal_a_full_sort_in_any_order_of_ids(values: list[float], k: int, random) -> None:
    scores = np.array(values, np.float32)
    ids = np.array(random.sample(range(1000), len(scores)), np.int32)
    idx, val = np.empty(k, np.int32), np.empty(k, np.float32)
    written = top_k_pairs(ids, scores, k, idx, val)
    expected = best_first(ids, scores, k)
    assert written == len(expected)
    np.testing.assert_array_equal(idx[:written], ids[expected])
    np.testing.assert_array_equal(val[:written], scores[expected])


@pytest.mark.parametrize(("n", "k"), [(100_000, 1), (100_000, 5), (100_000, 100), (1000, 1000), (129, 1)])
def test_long_rows(n: int, k: int) -> None:
    rng = np.random.default_rng(n + k)
    for scores in (rng.normal(size=n), np.arange(n), -np.arange(n), rng.integers(0, 3, n)):
        scores = scores.astype(np.float32)
        idx, val = np.empty(k, np.int32), np.empty(k, np.float32)
        assert top_k_row(scores, k, idx, val) == k
        np.testing.assert_array_equal(idx, best_first(np.arange(n), scores, k))
        np.testing.assert_array_equal(val, scores[idx])


def test_row_is_callable_from_another_kernel() -> None:
    @njit
    def rows(scores: np.ndarray, k: int) -> np.ndarray:
        idx = np.empty((scores.shape[0], k), np.int32)
        val = np.empty((scores.shape[0], k), np.float32)
        for row in range(scores.shape[0]):
            top_k_row(scores[row], k, idx[row], val[row])
        return idx

    scores = np.random.default_rng(0).normal(size=(4, 300)).astype(np.float32)
    np.testing.assert_array_equal(rows(scores, 7), np.argsort(-scores, axis=1)[:, :7])


@pytest.mark.parametrize("kernel", [csr_top_k_serial])
@pytest.mark.parametrize("k", [0, 1, 3, 50])
def test_csr_rows(kernel: Callable, k: int) -> None:
    rng = np.random.default_rng(k)
    lengths = np.array([0, 1, 2, 3, 4, 0, 49, 50, 51, 200, 0])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.concatenate([rng.permutation(500)[:n] for n in lengths]).astype(np.int32)
    data = rng.integers(-3, 3, len(indices)).astype(np.float32)  # ties and stored zeros
    got_indptr, got_indices, got_data = kernel(indptr, indices, data, k)
    assert (got_indptr.dtype, got_indices.dtype, got_data.dtype) == (np.int32, np.int32, np.float32)
    np.testing.assert_array_equal(np.diff(got_indptr), np.minimum(lengths, k))
    for row in range(len(lengths)):
        part, got = slice(indptr[row], indptr[row + 1]), slice(got_indptr[row], got_indptr[row + 1])
        expected = best_first(indices[part], data[part], k)
        np.testing.assert_array_equal(got_indices[got], indices[part][expected])
        np.testing.assert_array_equal(got_data[got], data[part][expected])


@pytest.mark.parametrize("kernel", [csr_top_k_serial])
def test_csr_without_rows(kernel: Callable) -> None:
    indptr, indices, data = kernel(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, np.float32), 5)
    assert indptr.tolist() == [0]
    assert len(indices) == len(data) == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(0, 15), st.integers(1, 5))
def test_each_place_goes_to_the_label_that_is_worth_most_there(seed: int, n: int, k: int, n_places: int) -> None:
    rng = np.random.default_rng(seed)
    labels, chance = rng.permutation(20)[:n].astype(np.int32), rng.uniform(0.01, 0.99, n).astype(np.float32)
    gain = rng.uniform(0.5, 3, 20).astype(np.float32)
    plain = rng.uniform(0, 0.4, n_places).astype(np.float32)
    scale = rng.uniform(0.05, 0.2, n_places).astype(np.float32)
    chances = dict(zip(labels.tolist(), chance.copy(), strict=True))  # float32, so that near ties fall the same way
    expected, left = [], dict(chances)
    for j in range(min(k, n)):
        at = min(j, n_places - 1)
        values = {label: p * (plain[at] + scale[at] * gain[label]) for label, p in left.items()}
        expected.append(max(values, key=values.__getitem__))
        del left[expected[-1]]
    idx, val = np.empty(k, np.int32), np.empty(k, np.float32)
    written = fill_places(labels, chance, gain, plain, scale, k, idx, val)
    assert idx[:written].tolist() == expected
    own = np.array([chances[i] * (plain[0] + scale[0] * gain[i]) for i in expected])
    np.testing.assert_allclose(val[:written], np.minimum.accumulate(own), rtol=1e-4)
    assert (np.diff(val[:written]) < 0).all()
