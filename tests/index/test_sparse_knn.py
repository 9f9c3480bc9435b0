"""Votes of similar points, against plain NumPy."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.combine.candidates import CandidateList
from longtail.index import sparse_knn
from longtail.index.sparse_knn import SparseKNN
from longtail.kernels import sparse_knn as kernels
from longtail.kernels.encode import SparseRows
from longtail.sparse import frozen

N, D, L = 40, 25, 12


def points(n: int, seed: int) -> csr_array:
    rng = np.random.default_rng(seed)
    return csr_array(random_array((n, D), density=0.2, rng=rng, dtype=np.float32))


def listed(
    model: SparseKNN,
    points: SparseRows,
    n: int,
    k: int,
    n_jobs: int,
    shared: bool = True,
    n_compared: int | None = None,
) -> CandidateList:
    votes = model.vote(points, n, k, n_jobs, shared, n_compared=n_compared)
    return CandidateList.of_top_k(votes.labels, votes.scores, votes.counts, votes.top)


def test_storing_points_takes_about_two_copies_of_them() -> None:
    """Row starts of 64 bits would make SciPy copy the indices to 64 bits, too: four copies, and more time."""
    X = csr_array(random_array((20_000, 500), density=0.06, rng=np.random.default_rng(0), dtype=np.float32))
    Y = csr_array(np.ones((20_000, 1), np.float32))
    SparseKNN.of(X, Y)
    tracemalloc.start()
    SparseKNN.of(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.4 * 8 * X.nnz


def test_heaviest_keeps_the_largest_of_unit_rows() -> None:
    X = points(N, 0)
    X.data[::3] *= -1
    ptr, idx, val = kernels.heaviest(X.indptr, X.indices, X.data, 3)
    dense = X.toarray()
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    for i in range(N):
        kept = np.sort(np.argsort(-np.abs(dense[i]), kind="stable")[: min(3, np.count_nonzero(dense[i]))])
        assert idx[ptr[i] : ptr[i + 1]].tolist() == kept.tolist()
        np.testing.assert_allclose(val[ptr[i] : ptr[i + 1]], dense[i, kept], rtol=1e-5)


def test_heaviest_breaks_ties_by_place() -> None:
    X = csr_array(np.ones((1, 6), np.float32))
    assert kernels.heaviest(X.indptr, X.indices, X.data, 4)[1].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("signed", [False, True])
def test_votes(signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_knn, "TERMS", 100)
    X, Q = points(N, 1), points(90, 2)
    if signed:
        X.data -= 0.4
        Q.data -= 0.4
    Y = csr_array((np.random.default_rng(3).random((N, L)) < 0.2).astype(np.float32))
    model = SparseKNN.of(X, Y)
    unit = [m.toarray() / np.maximum(np.linalg.norm(m.toarray(), axis=1, keepdims=True), 1e-12) for m in (Q, X)]
    near = unit[0] @ unit[1].T
    for ask in (model, pickle.loads(pickle.dumps(model)), SparseKNN(**model.arrays(), n_labels=L)):
        ptr, _, shares, top = listed(ask, SparseRows.of(Q), 5, 4, 2)
        for i in range(90):
            best = [j for j in np.argsort(-near[i], kind="stable")[:5] if near[i, j] > 1e-7]
            votes = (near[i, best] ** 2) @ Y.toarray()[best] / max((near[i, best] ** 2).sum(), 1e-30)
            order = [label for label in np.argsort(-votes, kind="stable") if votes[label] > 0][:4]
            np.testing.assert_allclose(shares[ptr[i] : ptr[i + 1]], votes[order], rtol=1e-3, atol=1e-6)
            assert top[i] == pytest.approx(max(near[i].max(), 0), abs=1e-5)
    alone = listed(model, SparseRows(np.array([0, Q.indptr[1]]), Q.indices, Q.data), 5, 4, 1)
    whole = listed(model, SparseRows.of(Q), 5, 4, 2)
    np.testing.assert_array_equal(alone[1], whole[1][: whole[0][1]])
    np.testing.assert_array_equal(alone[2], whole[2][: whole[0][1]])


def test_points_that_cannot_become_neighbours_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features are as frequent as words: half of all points have one of the first, and few have one of the last."""
    rng = np.random.default_rng(6)
    frequency = 0.5 / np.arange(1, 301)
    X = csr_array((rng.random((3000, 300)) < frequency) * np.log(1 / frequency)).astype(np.float32)
    Q = csr_array((rng.random((200, 300)) < 2 * frequency) * np.log(1 / frequency)).astype(np.float32)
    model = SparseKNN.of(X, csr_array(np.eye(3000, dtype=np.float32)))
    index = model._index
    for shared, n in ((True, 5), (False, 20)):
        answers = []
        for peaks in (index.peaks, np.full_like(index.peaks, np.inf), np.zeros_like(index.peaks)):
            monkeypatch.setattr(model, "_index", index._replace(peaks=frozen(peaks)))
            answers.append(listed(model, SparseRows.of(Q), n, n, 1, shared))
        for ours, everything in zip(answers[0], answers[1], strict=True):
            np.testing.assert_array_equal(ours, everything)
        assert not np.array_equal(answers[2].labels, answers[1].labels)  # wrong bounds: points were left out


def test_the_largest_values_of_features_bound_sums_of_what_is_not_negative() -> None:
    X = points(N, 7)
    index = SparseKNN.of(X, csr_array(np.eye(N, dtype=np.float32)))._index
    unit = X.toarray() / np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(index.peaks, unit.max(axis=0), rtol=1e-6)
    X.data[0] *= -1
    assert np.isinf(SparseKNN.of(X, csr_array(np.eye(N, dtype=np.float32)))._index.peaks).all()


def test_labels_in_any_order_are_the_same_ones() -> None:
    X, Q = points(N, 8), points(20, 9)
    model = SparseKNN.of(X, csr_array(np.eye(N, dtype=np.float32)))
    ordered, others = (model.vote(SparseRows.of(Q), 9, 6, 1, in_order=in_order) for in_order in (True, False))
    for row in range(20):
        n = ordered.counts[row]
        ours, theirs = (dict(zip(v.labels[row, :n], v.scores[row, :n], strict=True)) for v in (ordered, others))
        assert ours == theirs
        assert list(ours.values()) == sorted(ours.values(), reverse=True)


def test_frequent_features_are_left_out_once_enough_points_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.zeros((30, 3), np.float32)
    X[:, 0] = 1  # all points have it
    X[:4, 1] = 1
    X[0, 2] = 1
    model = SparseKNN.of(csr_array(X), csr_array(np.eye(30, dtype=np.float32)))
    query = csr_array(np.array([[3, 2, 1]], np.float32))
    for most, n in ((100, 30), (35, 30), (34, 4), (4, 1), (1, 1)):  # the rarest takes part in any case
        ptr, labels, _, _ = listed(model, SparseRows.of(query), 30, 30, 1, n_compared=most)
        assert ptr.tolist() == [0, n]
        assert sorted(labels) == list(range(n))
        assert sorted(model.nearest(query.indices, query.data, 30, most)[0]) == list(range(n))
    monkeypatch.setattr(sparse_knn, "TERMS", 2)  # the two heaviest, 0 and 1
    assert listed(model, SparseRows.of(query), 30, 30, 1, n_compared=1)[0].tolist() == [0, 4]


def test_the_points_compared_grow_with_the_stored_points_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_knn, "LEAST_COMPARED", 2)
    monkeypatch.setattr(sparse_knn, "MOST_COMPARED", 5)
    for n, compared in ((1, 2), (12, 3), (100, 5)):
        model = SparseKNN.of(csr_array(np.ones((n, 1), np.float32)), csr_array(np.eye(n, dtype=np.float32)))
        assert model.usually_compared == compared


def test_similarities_instead_of_shares_and_points_taken_in_later() -> None:
    X, Q = points(N, 4), points(20, 5)
    Y = csr_array(np.eye(N, N + 3, dtype=np.float32))
    whole = SparseKNN.of(X, Y)
    parts = SparseKNN.of(X[25:], Y[25:], before=SparseKNN.of(X[:25], Y[:25]))
    near = np.array([(Q.toarray() / np.linalg.norm(Q.toarray(), axis=1, keepdims=True))[i] for i in range(20)])
    near = near @ (X.toarray() / np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-12)).T
    for model in (whole, parts):
        ptr, labels, values, _ = listed(model, SparseRows.of(Q), 6, 6, 1, shared=False)
        for i in range(20):
            own = slice(ptr[i], ptr[i + 1])
            np.testing.assert_allclose(values[own], near[i, labels[own]].clip(max=0.9999), atol=1e-5)
            assert values[own][0] == pytest.approx(min(near[i].max(), 0.9999), abs=1e-5)


def test_a_point_like_no_other_has_no_votes() -> None:
    X = csr_array(np.eye(3, 6, dtype=np.float32))
    model = SparseKNN.of(X, csr_array(np.eye(3, dtype=np.float32)))
    ptr, labels, _, top = listed(
        model, SparseRows(np.array([0, 1, 1]), np.array([5], np.int32), np.ones(1, np.float32)), 2, 2, 1
    )
    assert ptr.tolist() == [0, 0, 0]
    assert len(labels) == 0
    assert top.tolist() == [0, 0]
