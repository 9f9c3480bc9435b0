"""Altered copies of points."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.data.augment import augmented, drop_features, swap_values
from tests.contract import toy


def test_dropped_features_are_some_of_the_point() -> None:
    X, _, _ = toy()
    found = drop_features(X, 0.5, np.random.default_rng(0)).toarray()
    dense = X.toarray()
    assert ((found == dense) | (found == 0)).all()
    assert 0.4 < (found != 0).sum() / X.nnz < 0.7
    assert (found != 0).any(axis=1).all()


def test_a_point_that_would_lose_all_keeps_all() -> None:
    X = csr_array(np.eye(50, dtype=np.float32))
    assert (drop_features(X, 0.01, np.random.default_rng(0)).toarray() == np.eye(50)).all()


def test_swapping_moves_values_among_the_features_of_a_point() -> None:
    rng = np.random.default_rng(0)
    X = csr_array(np.where(rng.random((40, 30)) < 0.4, rng.random((40, 30)), 0).astype(np.float32))
    found = swap_values(X, 0.5, rng)
    np.testing.assert_array_equal(found.indices, X.indices)
    for i in range(40):
        row = slice(X.indptr[i], X.indptr[i + 1])
        np.testing.assert_array_equal(np.sort(found.data[row]), np.sort(X.data[row]))
    moved = (found.data != X.data).mean()
    assert 0.3 < moved < 0.6
    np.testing.assert_array_equal(swap_values(X, 0.0, rng).data, X.data)


def test_points_of_one_or_no_feature_are_left_alone() -> None:
    X = csr_array(np.diag([1.0, 2.0, 0.0]).astype(np.float32))
    X.eliminate_zeros()
    np.testing.assert_array_equal(swap_values(X, 1.0, np.random.default_rng(0)).toarray(), X.toarray())
    assert drop_features(X, 0.5, np.random.default_rng(0)).shape == (3, 3)


def test_augmented_begins_with_the_points_themselves() -> None:
    X, Y, _ = toy(n=20)
    more_X, more_Y = augmented(X, Y, 3, 0.7, 0.3, seed=1)
    assert more_X.shape == (80, X.shape[1])
    np.testing.assert_array_equal(more_X[:20].toarray(), X.toarray())
    for copy in range(4):
        np.testing.assert_array_equal(more_Y[20 * copy : 20 * copy + 20].toarray(), Y.toarray())
    again, _ = augmented(X, Y, 3, 0.7, 0.3, seed=1)
    np.testing.assert_array_equal(again.toarray(), more_X.toarray())
    same, _ = augmented(X, Y, 0, 0.7, 0.3, seed=1)
    np.testing.assert_array_equal(same.toarray(), X.toarray())
