"""Clustering kernels against plain NumPy and against groups that are plain to see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from longtail.kernels import cluster, gather


@given(st.integers(0, 2**16), st.integers(1, 12))
def test_label_centroids_are_the_strongest_features_of_the_mean(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((10, 8), density=0.5, rng=rng, dtype=np.float32))
    Y = csr_array(random_array((10, 5), density=0.3, rng=rng, dtype=np.float32))
    point_ptr, points = gather.invert(Y.indptr, Y.indices, 5)
    ptr, indices, values = cluster.label_centroids(point_ptr, points, X.indptr, X.indices, X.data, 0, 5, width, 8)
    sums = (Y.toarray() != 0).T.astype(np.float32) @ X.toarray()
    for label in range(5):
        kept = np.zeros(8)
        kept[indices[ptr[label] : ptr[label + 1]]] = values[ptr[label] : ptr[label + 1]]
        strongest = np.argsort(-sums[label], kind="stable")[:width]
        expected = np.zeros(8)
        expected[strongest] = sums[label, strongest]
        if expected.any():
            expected /= np.linalg.norm(expected)
        np.testing.assert_allclose(np.sort(kept), np.sort(expected), atol=1e-5)


def test_two_means_finds_two_groups_of_equal_size() -> None:
    rng = np.random.default_rng(0)
    dense = np.zeros((20, 6), np.float32)
    side = rng.permutation(np.repeat([0, 1], 10))
    dense[side == 0, :3] = rng.random((10, 3)) + 0.5
    dense[side == 1, 3:] = rng.random((10, 3)) + 0.5
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    X = csr_array(dense)
    found = 0
    for seed in range(20):
        order = cluster.two_means(X.indptr, X.indices, X.data, 6, 1e-4, 50, seed)
        assert sorted(order) == list(range(20))
        found += len(set(side[order[:10]])) == 1
    assert found >= 10  # a start with both seeds in one group may end elsewhere; half of the starts are not such


def plain_two_means(dense: np.ndarray, seed: int, eps: float, max_iter: int) -> np.ndarray:
    """Return the side of each row after balanced 2-means, with both centroids computed anew in each round."""
    n = len(dense)
    a = (seed * 2654435761 % 2**32) * n // 2**32
    b = (a + 1 + ((seed + 1) * 2246822519 % 2**32) * (n - 1) // 2**32) % n
    before, centroids = -np.inf, dense[[a, b]]
    for _ in range(max_iter):
        near = dense @ centroids.T
        side = np.ones(n, int)
        side[np.argsort(near[:, 1] - near[:, 0], kind="stable")[: (n + 1) // 2]] = 0
        gain = near[np.arange(n), side].mean()
        if gain - before < eps:
            break
        before = gain
        sums = np.stack([dense[side == c].sum(axis=0) for c in (0, 1)])
        centroids = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return side


@pytest.mark.parametrize("n", [2, 31, 200])
def test_two_means_agrees_with_numpy(n: int) -> None:
    rng = np.random.default_rng(n)
    dense = np.where(rng.random((n, 40)) < 0.3, rng.random((n, 40)), 0).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    X = csr_array(dense)
    for seed in range(10):
        order = cluster.two_means(X.indptr, X.indices, X.data, 40, 1e-4, 50, seed)
        side = np.ones(n, int)
        side[order[: (n + 1) // 2]] = 0
        np.testing.assert_array_equal(side, plain_two_means(dense.astype(np.float64), seed, 1e-4, 50))


def test_assignment_and_centroids_agree_with_numpy() -> None:
    rng = np.random.default_rng(1)
    X = csr_array(random_array((30, 9), density=0.4, rng=rng, dtype=np.float32))
    centroids = rng.random((9, 4)).astype(np.float32)
    nearest, similarity = np.empty(30, np.int32), np.empty(30, np.float32)
    cluster.assign_rows(X.indptr, X.indices, X.data, 0, 30, centroids, nearest, similarity)
    products = X @ centroids
    np.testing.assert_array_equal(nearest, products.argmax(axis=1))
    np.testing.assert_allclose(similarity, products.max(axis=1), rtol=1e-5)
    cluster.recentre(X.indptr, X.indices, X.data, nearest, centroids)
    for c in range(4):
        total = X.toarray()[nearest == c].sum(axis=0)
        expected = total / np.linalg.norm(total) if total.any() else total
        np.testing.assert_allclose(centroids[:, c], expected, atol=1e-5)
