"""Balanced clusters of labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.labels.clusters import balanced_clusters, members


def test_clusters_are_of_one_size_and_find_what_belongs_together() -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((8, 20))
    own = np.repeat(np.arange(8), 16)
    vectors = csr_array((centres[own] + 0.05 * rng.standard_normal((128, 20))).astype(np.float32))
    found = balanced_clusters(vectors, 8, n_jobs=1)
    assert np.bincount(found).tolist() == [16] * 8
    pure = np.mean([np.bincount(own[found == m]).max() / 16 for m in range(8)])
    assert pure > 0.6
    np.testing.assert_array_equal(found, balanced_clusters(vectors, 8, n_jobs=2))


@pytest.mark.parametrize(("n_labels", "n_clusters", "expected"), [(5, 8, 5), (1, 4, 1), (100, 24, 16), (7, 4, 4)])
def test_numbers_that_do_not_divide(n_labels: int, n_clusters: int, expected: int) -> None:
    rng = np.random.default_rng(1)
    vectors = csr_array(rng.random((n_labels, 6)).astype(np.float32))
    found = balanced_clusters(vectors, n_clusters)
    assert sorted(set(found.tolist())) == list(range(expected))
    assert np.ptp(np.bincount(found)) <= 1
    ptr, labels = members(found, expected)
    for m in range(expected):
        assert labels[ptr[m] : ptr[m + 1]].tolist() == np.flatnonzero(found == m).tolist()


def test_labels_without_features_have_a_cluster_too() -> None:
    vectors = csr_array((20, 4), dtype=np.float32)
    assert np.bincount(balanced_clusters(vectors, 4)).tolist() == [5] * 4
