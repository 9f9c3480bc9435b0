"""Points against labels as sparse vectors, beside plain NumPy."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, random_array

from longtail.kernels.encode import SparseRows
from longtail.kernels.likeness import write_likeness

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


def test_likeness_of_pairs() -> None:
    X, Z = matrices()
    rng = np.random.default_rng(1)
    labels = rng.integers(-1, L, (N, 6)).astype(np.int32)
    vectors = SparseRows(Z.indptr, Z.indices, Z.data)
    for width in (3, 1):
        out = np.full((N, 6, width), np.nan, np.float32)
        write_likeness(SparseRows.of(X), vectors, labels, 0, N, out)
        x, z = unit(X), Z.toarray().astype(np.float64)
        for i in range(N):
            for a, label in enumerate(labels[i]):
                expected = [0.0, 0.0, 0.0]
                if label >= 0:
                    both = (x[i] != 0) & (z[label] != 0)
                    length = (z[label] ** 2).sum()
                    covered = (z[label, both] ** 2).sum() / length if length else 0
                    expected = [x[i] @ z[label], covered, (x[i, both] ** 2).sum()]
                np.testing.assert_allclose(out[i, a], expected[:width], atol=1e-6)
