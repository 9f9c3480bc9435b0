"""Affinity of labels against dense NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.errors import SettingsError
from longtail.kernels.rows import block
from longtail.labels.cooccurrence import HOWS, affinity


def labels_of_points() -> np.ndarray:
    Y = (np.random.default_rng(0).random((60, 12)) < 0.2).astype(np.float32)
    Y[0] = 1  # every label occurs
    Y[:, 4] = 1  # and one always
    return Y


@pytest.mark.parametrize("how", HOWS)
def test_affinity(how: str) -> None:
    Y = labels_of_points()
    A = Y.T @ Y
    n = np.diag(A)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = {
            "arithmetic": (A / n[None] + A / n[:, None]) / 2,
            "geometric": A / np.sqrt(np.outer(n, n)),
            "jaccard": A / (n[:, None] + n[None] - A),
            "pmi": np.nan_to_num(np.maximum(np.log(60 * A / np.outer(n, n)), 0) / -np.log(A / 60), nan=1.0),
        }[how]
    U = affinity(csr_array(Y), how).toarray()
    np.testing.assert_allclose(U, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.diag(U), 1, rtol=1e-5)
    np.testing.assert_allclose(U, U.T, rtol=1e-5)


def test_labels_that_never_meet_have_none() -> None:
    assert affinity(csr_array(np.eye(4, dtype=np.float32))).nnz == 4


def test_a_block_of_it() -> None:
    U = affinity(csr_array(labels_of_points()))
    place = np.full(12, -1, np.int32)
    chosen = np.array([7, 0, 3])
    np.testing.assert_array_equal(
        block(U.indptr, U.indices, U.data, chosen, place), U.toarray()[np.ix_(chosen, chosen)]
    )
    assert (place == -1).all()


def test_an_unknown_affinity_is_refused() -> None:
    with pytest.raises(SettingsError, match="choose one of arithmetic"):
        affinity(csr_array(np.eye(2, dtype=np.float32)), "cosine")
