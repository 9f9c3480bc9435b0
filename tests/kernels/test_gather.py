"""Cutting out rows and putting weights together, against plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from longtail.kernels import gather

seeds = st.integers(0, 2**16)


@given(seeds)
def test_gathered_rows_are_the_rows_over_their_own_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((9, 12), density=0.2, rng=rng, dtype=np.float32))
    rows = rng.permutation(9)[:5].astype(np.int32)
    place = np.full(12, -1, np.int32)
    indptr, indices, data, squares, features = gather.gather_rows(X.indptr, X.indices, X.data, rows, place)
    wide = np.zeros((5, 12), np.float32)
    for i in range(5):
        span = slice(indptr[i], indptr[i + 1])
        wide[i, features[indices[span]]] = data[span]
    np.testing.assert_array_equal(wide, X.toarray()[rows])
    np.testing.assert_allclose(squares, (wide**2).sum(axis=1), rtol=1e-6)
    assert (place == -1).all()
    assert len(features) == (X.toarray()[rows] != 0).any(axis=0).sum()


@given(seeds)
def test_lifting_and_inverting_agree_with_matrix_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y = csr_array(random_array((7, 10), density=0.3, rng=rng))
    parent = rng.integers(-1, 4, size=10).astype(np.int32)  # -1: a node that is in no group
    row_ptr, groups = gather.lift(Y.indptr, Y.indices, parent, 4)
    membership = np.zeros((10, 4))
    membership[np.flatnonzero(parent >= 0), parent[parent >= 0]] = 1
    expected = (Y.toarray() != 0) @ membership > 0
    lifted = np.zeros((7, 4), bool)
    for i in range(7):
        members = groups[row_ptr[i] : row_ptr[i + 1]]
        assert len(set(members)) == len(members)
        lifted[i, members] = True
    np.testing.assert_array_equal(lifted, expected)
    point_ptr, points = gather.invert(row_ptr, groups, 4)
    for g in range(4):
        assert points[point_ptr[g] : point_ptr[g + 1]].tolist() == np.flatnonzero(expected[:, g]).tolist()


def test_pruning_and_scattering_keep_exactly_the_large_weights() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(6, 8)).astype(np.float32)  # five features and the bias, six nodes
    weights[:, 6:] = 0
    features = np.array([3, 0, 7, 5, 1], np.int32)
    feature, lane, value, scales, bias = gather.prune(weights, features, 6, 0.5, np.empty(0, np.float32))
    assert (scales == 1).all()
    counts = np.zeros(8, np.int64)
    gather.count_features(feature, counts)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    nodes, values = np.empty(ptr[-1], np.uint16), np.empty(ptr[-1], np.float32)
    parts = np.array([3, len(feature) - 3]), np.array([10, 10])  # sizes and first nodes of two parts
    gather.scatter(feature, lane, value, *parts, ptr[:-1].copy(), nodes, values)
    found = np.zeros((8, 16), np.float32)
    for f in range(8):
        found[f, nodes[ptr[f] : ptr[f + 1]]] = values[ptr[f] : ptr[f + 1]]
    expected = np.zeros((8, 16), np.float32)
    expected[features, 10:16] = np.where(np.abs(weights[:5, :6]) >= 0.5, weights[:5, :6], 0)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(bias, weights[5, :6])


def test_signs_mark_the_points_of_each_node() -> None:
    point_ptr, points = np.array([0, 2, 3, 3]), np.array([4, 6, 6], np.int32)
    where = np.array([-1, -1, -1, -1, 0, -1, 1], np.int32)
    signs = np.empty((2, 8), np.float32)
    gather.fill_signs(point_ptr, points, 0, 3, where, signs)
    assert signs[:, :3].tolist() == [[1, -1, -1], [1, 1, -1]]
    assert (signs[:, 3:] == 0).all()  # no problem at all


def test_pruning_to_steps_is_within_half_a_step() -> None:
    weights = np.random.default_rng(1).normal(size=(40, 8)).astype(np.float32)
    features = np.arange(39, dtype=np.int32)
    feature, lane, value, scales, _ = gather.prune(weights, features, 8, 0.1, np.empty(0, np.int8))
    assert value.dtype == np.int8
    np.testing.assert_allclose(scales, np.abs(weights[:39]).max(axis=0) / 127, rtol=1e-6)
    assert (np.abs(value * scales[lane] - weights[feature, lane]) <= scales[lane] / 2 + 1e-6).all()
    assert len(value) == (np.abs(weights[:39]) >= 0.1).sum()
