"""Keys of rows by their features, against Python sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from longtail.kernels.word_keys import mask_own, write_word_keys


def keys_of(X: csr_array) -> np.ndarray:
    out = np.empty(X.shape[0], np.uint64)
    write_word_keys(X.indptr, X.indices, X.data, 0, X.shape[0], out)
    return out


@given(st.integers(0, 2**16))
def test_rows_have_the_same_key_where_they_have_the_same_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((30, 5), density=0.4, rng=rng, dtype=np.float32))
    X.data[rng.random(X.nnz) < 0.2] = 0  # a stored zero is no feature
    sets = [frozenset(np.flatnonzero(row)) for row in X.toarray()]
    same = np.array([[a == b for b in sets] for a in sets])
    keys = keys_of(X)
    np.testing.assert_array_equal(keys[:, None] == keys, same)
    np.testing.assert_array_equal(keys == 0, [not one for one in sets])


def test_the_order_of_features_and_their_values_do_not_matter() -> None:
    X = csr_array((np.float32([1, 2, 3, 4]), [3, 1, 1, 3], [0, 2, 4]), shape=(2, 4))
    one, other = keys_of(X)
    assert one == other


def test_own_labels_are_taken_out_of_the_lists_of_their_points_alone() -> None:
    lists = np.int32([[0, 1, -1], [1, 2, 0], [2, 2, -1]])
    mask_own(np.uint64([7, 8, 0]), np.uint64([7, 9, 0]), 0, 3, lists)
    assert lists.tolist() == [[-1, 1, -1], [1, 2, 0], [2, 2, -1]]  # a key of 0 stands for no words, and is nobody's
