"""Points against labels as sparse vectors, beside plain NumPy."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, random_array

from longtail.kernels.encode import SparseRows
from longtail.kernels.likeness import LabelVectors, Profile, write_likeness
from longtail.sparse import unit_rows

N, D, L = 30, 20, 15


def matrices(seed: int = 0) -> tuple[csr_array, csr_array]:
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((N, D), density=0.2, rng=rng, dtype=np.float32))
    X.data -= 0.4  # signs may cancel: a label met with a sum of 0 is still met
    Z = csr_array(random_array((L, D), density=0.15, rng=rng, dtype=np.float32))
    return X, Z


def unit(X: csr_array) -> np.ndarray:
    dense = X.toarray().astype(np.float64)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return dense / np.where(lengths > 0, lengths, 1)


def test_likeness_of_pairs() -> None:
    X, Z = matrices()
    rng = np.random.default_rng(1)
    labels = rng.integers(-1, L, (N, 6)).astype(np.int32)
    Z, C = unit_rows(Z), unit_rows(matrices(2)[1])
    text, centroids = (LabelVectors(M.indptr, M.indices, M.data) for M in (Z, C))
    nothing = LabelVectors(np.zeros(1, Z.indptr.dtype), Z.indices[:0], Z.data[:0])
    x, z, c = unit(X), Z.toarray().astype(np.float64), C.toarray().astype(np.float64)
    for profile, columns in (
        ((text, nothing), [0, 1, 2]),
        ((nothing, centroids), [3]),
        ((text, centroids), [0, 1, 2, 3]),
    ):
        out = np.full((N, 6, len(columns)), np.nan, np.float32)
        write_likeness(SparseRows.of(X), Profile(*profile), labels, 0, N, out)
        for i in range(N):
            for a, label in enumerate(labels[i]):
                expected = np.zeros(4)
                if label >= 0:
                    both = (x[i] != 0) & (z[label] != 0)
                    covered, covers = (z[label, both] ** 2).sum(), (x[i, both] ** 2).sum()
                    expected[:] = x[i] @ z[label], covered, covers, x[i] @ c[label]
                np.testing.assert_allclose(out[i, a], expected[columns], atol=1e-6)
