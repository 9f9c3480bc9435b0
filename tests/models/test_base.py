"""The checks that stand before every algorithm, and the parameters it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from longtail.errors import DataError, SettingsError
from longtail.models.base import check_features, check_labels
from longtail.models.parabel import Parabel


def test_good_features_are_used_in_place() -> None:
    X = csr_array(np.eye(3, dtype=np.float32))
    X.sum_duplicates()
    assert check_features(X) is X


def test_duplicate_entries_are_summed_and_order_is_mended() -> None:
    X = csr_array((np.array([1.0, 2.0, 3.0], np.float32), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    assert check_features(X).toarray().tolist() == [[2.0, 0.0, 4.0]]


def test_old_matrices_and_lists_are_taken() -> None:
    assert check_features(csr_matrix(np.eye(2))).dtype == np.float32
    assert check_features([[1, 0], [0, 2]]).toarray().tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize("X", [[1, 2], [["a", "b"]], np.zeros((2, 2, 2))])
def test_what_is_not_a_matrix_of_numbers_is_refused(X: object) -> None:
    with pytest.raises((DataError, ValueError)):
        check_features(X)


def test_labels_become_ones_and_explicit_zeros_vanish() -> None:
    Y = csr_array((np.array([5.0, 0.0, 2.0]), np.array([0, 1, 2]), np.array([0, 2, 3])), shape=(2, 3))
    assert check_labels(Y, 2).toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_parameters_are_the_constructors_arguments() -> None:
    model = Parabel(n_trees=2)
    assert model.get_params()["n_trees"] == 2
    assert repr(model) == "Parabel(n_trees=2)"
    assert model.set_params(beam=5).beam == 5
    with pytest.raises(SettingsError, match="no parameter 'trees'"):
        model.set_params(trees=3)
