"""Splits keep every label in train, and hold out no fewer points than they could."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from longtail.data.split import as_new_points, hold_out_points, split
from longtail.errors import SettingsError


def plain_split(Y: csr_array, fraction: float, seed: int) -> list[int]:
    """The twin: held rows by sets and counters."""
    rows = [set(Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()) for i in range(Y.shape[0])]
    left = {label: sum(label in row for row in rows) for label in range(Y.shape[1])}
    held: list[int] = []
    for row in np.random.default_rng(seed).permutation(Y.shape[0]):
        if len(held) < round(fraction * Y.shape[0]) and all(left[label] > 1 for label in rows[row]):
            held.append(int(row))
            for label in rows[row]:
                left[label] -= 1
    return sorted(held)


def labels(n: int, n_labels: int, density: float, seed: int) -> csr_array:
    Y = csr_array(random_array((n, n_labels), density=density, rng=np.random.default_rng(seed), dtype=np.float32))
    Y.data[:] = 1
    return Y


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 60),
    st.integers(1, 30),
    st.floats(0, 0.4),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 99),
)
def test_every_label_stays_in_train(n: int, n_labels: int, density: float, fraction: float, seed: int) -> None:
    Y = labels(n, n_labels, density, seed)
    train, held = split(Y, fraction, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate((train, held))), np.arange(n))
    np.testing.assert_array_equal(Y[train].sum(axis=0) > 0, Y.sum(axis=0) > 0)
    assert held.tolist() == plain_split(Y, fraction, seed)


def test_points_without_labels_may_be_held_out() -> None:
    train, held = split(csr_array((10, 3), dtype=np.float32), 0.3)
    assert (len(train), len(held)) == (7, 3)


def test_repeated_entries_count_once() -> None:
    Y = csr_array((np.ones(3, np.float32), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(2, 1))
    for seed in range(10):
        train, held = split(Y, 0.9, random_state=seed)
        assert (len(train), len(held)) == (1, 1)
    assert Y.nnz == 3  # the caller's matrix is left alone


def test_seeds() -> None:
    Y = labels(500, 20, 0.1, 0)
    same = [split(Y, 0.2, random_state=1)[1].tolist() for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != split(Y, 0.2, random_state=2)[1].tolist()


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2, float("nan")])
def test_refuses_fractions_out_of_range(fraction: float) -> None:
    with pytest.raises(SettingsError, match="fraction"):
        split(labels(5, 2, 0.5, 0), fraction)


def test_random_draws_ignore_labels() -> None:
    Y = labels(300, 40, 0.03, 0)
    train, held = hold_out_points(Y, 0.25, 3)
    assert held.tolist() == sorted(np.random.default_rng(3).permutation(300)[:75].tolist())
    np.testing.assert_array_equal(np.sort(np.concatenate((train, held))), np.arange(300))
    assert (Y[train].sum(axis=0) == 0).any()  # some label has lost its last point
    assert train.dtype == held.dtype == np.int64


@pytest.mark.parametrize("keep_labels", [False, True])
def test_points_without_labels_can_be_left_out_of_both_parts(keep_labels: bool) -> None:
    Y = labels(200, 10, 0.05, 1)
    some = np.flatnonzero(np.diff(Y.indptr))
    assert len(some) < 200
    train, held = hold_out_points(Y, 0.2, 5, keep_labels=keep_labels, labelled_only=True)
    np.testing.assert_array_equal(np.sort(np.concatenate((train, held))), some)
    if keep_labels:
        expected = some[split(Y[some], 0.2, 5)[1]]
    else:
        expected = np.sort(np.random.default_rng(5).permutation(some)[: int(0.2 * len(some))])
    np.testing.assert_array_equal(held, expected)


@pytest.mark.parametrize(
    ("n", "options", "expected"),
    [
        (100, {}, 10),
        (100, {"at_least": 25}, 25),
        (100, {"at_most": 4}, 4),
        (100, {"at_least": 25, "at_most": 20}, 20),
        (100, {"at_least": 1000}, 99),
        (1, {"at_least": 5}, 0),
        (0, {"at_least": 5}, 0),
    ],
)
def test_bounds_on_the_number_of_points(n: int, options: dict[str, int], expected: int) -> None:
    train, held = hold_out_points(labels(n, 3, 0.5, 0), 0.1, **options)
    assert (len(train), len(held)) == (n - expected, expected)


def test_every_kind_of_random_state() -> None:
    Y = labels(100, 5, 0.3, 0)
    for same in (7, np.int64(7), [7, 1]):
        np.testing.assert_array_equal(hold_out_points(Y, 0.3, same)[1], hold_out_points(Y, 0.3, same)[1])
    for make in (np.random.default_rng, np.random.RandomState):
        np.testing.assert_array_equal(hold_out_points(Y, 0.3, make(7))[1], hold_out_points(Y, 0.3, make(7))[1])
    assert len(hold_out_points(Y, 0.3, None)[1]) == 30


@pytest.mark.parametrize("fraction", [-0.1, 1.0, "half"])
def test_hold_out_points_refuses_fractions_out_of_range(fraction: Any) -> None:
    with pytest.raises(SettingsError, match="fraction is"):
        hold_out_points(labels(5, 2, 0.5, 0), fraction)


def test_held_out_points_lose_the_words_that_a_vocabulary_of_the_others_lacks() -> None:
    # Words: of points 0 and 1; of point 0; of points 1 and 2; of point 0 and label 0; of point 0 and label 1.
    X = csr_array(np.array([[2, 4, 0, 2, 1], [3, 0, 4, 0, 0], [0, 0, 5, 0, 0]], np.float32) / 5)
    Y = csr_array(np.array([[1, 1], [1, 0], [1, 0]], np.float32))
    Z = csr_array(np.array([[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], np.float32))
    held = np.array([0])
    new = as_new_points(X, Y, Z, held).toarray()
    np.testing.assert_allclose(new, [np.array([2, 0, 0, 2, 0]) / np.sqrt(8)], rtol=1e-6)  # label 1 is unknown too
    never = csr_array(np.array([[1, 0], [1, 0], [1, 0]], np.float32))  # its text was there without any point
    np.testing.assert_allclose(as_new_points(X, never, Z, held).toarray(), [np.array([2, 0, 0, 2, 1]) / 3], rtol=1e-6)


def test_a_part_of_the_points_lacks_some_words_of_the_vocabulary() -> None:
    """Copies of a model that holds points out itself are fitted to parts of all points."""
    X = csr_array(np.array([[0.6, 0.8, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]], np.float32))  # nothing has the last word
    new = as_new_points(X, csr_array(np.ones((3, 1), np.float32)), None, np.array([0])).toarray()
    np.testing.assert_array_equal(new, [[1, 0, 0, 0]])


@pytest.mark.parametrize("columns", [[1, 1, 0, 0, 0], [2, 1, 1]], ids=["columns that nothing has", "longer rows"])
def test_features_that_are_no_vocabulary_of_the_points_stay(columns: list[int]) -> None:
    X = csr_array(np.diag(np.array(columns, np.float32)))
    held = np.array([0])
    np.testing.assert_array_equal(as_new_points(X, csr_array(X.shape), None, held).toarray(), X[held].toarray())
