"""Points against labels as sparse vectors, beside plain NumPy."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, random_array

from longtail.kernels import match

N, D, L = 30, 20, 15


def matrices() -> tuple[csr_array, csr_array]:
    rng = np.random.default_rng(0)
    X = csr_array(random_array((N, D), density=0.2, rng=rng, dtype=np.float32))
    X.data -= 0.4  # signs may cancel: a label met with a sum of 0 is still met
    Z = csr_array(random_array((L, D), density=0.15, rng=rng, dtype=np.float32))
    return X, Z


def unit(X: csr_array) -> np.ndarray:
    dense = X.toarray().astype(np.float64)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return dense / np.where(lengths > 0, lengths, 1)


def test_search_finds_the_best_labels_that_share_a_feature() -> None:
    X, Z = matrices()
    turned = csr_array(Z.T)
    labels, scores, counts = np.empty((N - 3, 4), np.int32), np.empty((N - 3, 4), np.float32), np.empty(N - 3, np.int32)
    match.search(
        X.indptr, X.indices, X.data, 3, N, turned.indptr, turned.indices, turned.data, L, 4, labels, scores, counts
    )
    expected = unit(X) @ Z.toarray().T
    shares = (X != 0).astype(np.float32) @ (Z != 0).astype(np.float32).T
    for row in range(3, N):
        met = np.flatnonzero(shares.toarray()[row])
        order = met[np.lexsort((met, -expected[row, met]))][:4]
        n = counts[row - 3]
        assert n == len(order)
        np.testing.assert_allclose(scores[row - 3, :n], expected[row, order], atol=1e-6)
        np.testing.assert_allclose(expected[row, labels[row - 3, :n]], expected[row, order], atol=1e-6)


def test_products_of_pairs() -> None:
    X, Z = matrices()
    pairs = csr_array(random_array((N, L), density=0.3, rng=np.random.default_rng(1), dtype=np.float32))
    pairs.sort_indices()
    out = np.full((pairs.nnz, 3), np.nan, np.float32)
    match.products(X.indptr, X.indices, X.data, 0, N, pairs.indptr, pairs.indices, Z.indptr, Z.indices, Z.data, D, out)
    x, z = unit(X), Z.toarray().astype(np.float64)
    rows = np.repeat(np.arange(N), np.diff(pairs.indptr))
    for (row, label), found in zip(zip(rows, pairs.indices, strict=True), out, strict=True):
        both = (x[row] != 0) & (z[label] != 0)
        length = (z[label] ** 2).sum()
        covered = (z[label, both] ** 2).sum() / length if length else 0
        np.testing.assert_allclose(found, [x[row] @ z[label], covered, (x[row, both] ** 2).sum()], atol=1e-6)
