"""Frequent labels and rare ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.errors import SettingsError
from longtail.labels.head_tail import head
from longtail.sparse import select_labels

Y = csr_array(np.array([[1, 0, 1, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 1, 0]], np.float32))  # counts 3, 1, 2, 1, 0


@pytest.mark.parametrize(("tau", "expected"), [(0.25, [0]), (0.5, [0, 2]), (0.75, [0, 1, 2])])
def test_the_most_frequent_are_the_head(tau: float, expected: list[int]) -> None:
    assert np.flatnonzero(head(Y, tau)).tolist() == expected


@pytest.mark.parametrize("tau", [0, 1, -0.1, 1.5])
def test_tau_out_of_range(tau: float) -> None:
    with pytest.raises(SettingsError, match="above 0 and below 1"):
        head(Y, tau)


def test_tau_that_leaves_a_side_empty() -> None:
    with pytest.raises(SettingsError, match=r"leaves no head label: of 4 labels"):
        head(Y, 0.2)
    with pytest.raises(SettingsError, match="leaves no head label"):
        head(csr_array(Y[:, :1]), 0.9)


def test_only_some_labels() -> None:
    mask = np.array([True, False, False, True, True])
    np.testing.assert_array_equal(select_labels(Y, mask).toarray(), Y.toarray() * mask)
