"""Labels whose text has exactly the words of a point, against a double loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array, random_array

from longtail.labels.own_labels import are_rarely_correct, own_pairs


def test_own_pairs_are_those_with_the_same_words() -> None:
    rng = np.random.default_rng(0)
    X = csr_array(random_array((40, 4), density=0.4, rng=rng, dtype=np.float32))
    Z = csr_array(random_array((25, 4), density=0.4, rng=rng, dtype=np.float32))
    words = X.toarray() != 0
    expected = np.array([[row.any() and (row == other).all() for other in Z.toarray() != 0] for row in words])
    own = own_pairs(X, Z)
    np.testing.assert_array_equal(own.toarray(), expected)
    assert expected.sum() > 20
    assert own.indptr.dtype == own.indices.dtype == np.int32


@pytest.mark.parametrize(
    ("n_pairs", "n_correct", "expected"), [(200, 0, True), (200, 2, True), (200, 3, False), (49, 0, False)]
)
def test_training_points_show_whether_own_labels_are_correct(n_pairs: int, n_correct: int, expected: bool) -> None:
    own = csr_array(eye_array(n_pairs, 300, format="csr", dtype=np.float32))
    Y = own.copy()
    Y.data[n_correct:] = 0
    Y.eliminate_zeros()
    assert are_rarely_correct(own, Y) is expected
