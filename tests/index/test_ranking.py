"""Found ids and votes as matrices of scores, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.index import ranking


def test_found_ids_keep_their_order_and_gaps_are_left_out() -> None:
    ids = np.array([[3, 0, -1], [1, 2, 0]])
    scores = np.array([[0.9, 0.5, -np.inf], [0.8, 0.7, 0.1]], np.float32)
    matrix = ranking.as_matrix(ids, scores, 4)
    assert matrix.indices.tolist() == [3, 0, 1, 2, 0]
    assert matrix.indptr.tolist() == [0, 2, 5]
    np.testing.assert_allclose(matrix.toarray(), [[0.5, 0, 0, 0.9], [0.1, 0.8, 0.7, 0]])


@pytest.mark.parametrize("held", [2, 4096])
def test_votes_are_weighted_shares(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_QUERIES_AT_ONCE", held)
    rng = np.random.default_rng(0)
    Y = (rng.random((20, 7)) < 0.4).astype(np.float32)
    ids = rng.integers(-1, 20, (5, 6))
    weights = rng.random((5, 6)).astype(np.float32)
    ids[3] = -1  # nobody votes
    expected = np.zeros((5, 7))
    for row in range(5):
        some = ids[row] >= 0
        if some.any():
            expected[row] = weights[row, some] @ Y[ids[row, some]] / weights[row, some].sum()
    votes = ranking.weighted_vote(ids, weights, csr_array(Y), 7)
    assert votes.shape == (5, 7)
    np.testing.assert_allclose(votes.toarray(), expected, rtol=1e-5, atol=1e-7)
    few = ranking.weighted_vote(ids, weights, csr_array(Y), 2)
    assert np.diff(few.indptr).max() == 2
    for row in range(5):
        entries = slice(few.indptr[row], few.indptr[row + 1])
        np.testing.assert_allclose(few.data[entries], -np.sort(-expected[row])[: len(few.data[entries])], rtol=1e-5)


def test_votes_of_no_queries() -> None:
    none = np.empty((0, 3))
    assert ranking.weighted_vote(none.astype(np.int32), none, csr_array(np.eye(4, dtype=np.float32)), 2).shape == (0, 4)
