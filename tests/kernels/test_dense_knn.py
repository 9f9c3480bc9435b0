"""The network's way of prediction and the vote, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.kernels import dense_knn as kernels
from longtail.kernels.encode import SparseRows
from longtail.kernels.topk import TopLabels


@pytest.mark.parametrize("relu", [True, False])
def test_embed(relu: bool) -> None:
    rng = np.random.default_rng(0)
    X = csr_array(random_array((20, 12), density=0.3, rng=rng, dtype=np.float32)).tolil()
    X[3] = 0
    X = csr_array(X, dtype=np.float32)
    W1, b1 = rng.standard_normal((12, 9), np.float32), rng.standard_normal(9, np.float32)
    W2, b2 = rng.standard_normal((9, 5), np.float32), rng.standard_normal(5, np.float32)
    out = np.full((20, 8), 7, np.float32)
    layers = kernels.Layers(W1, b1, W2, b2, relu, np.float32(0.5))
    kernels.embed_rows(SparseRows(X.indptr, X.indices, X.data), layers, 2, 0, 20, out)
    dense = X.toarray()
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    h = dense @ W1 + b1
    z = (np.maximum(h, 0) if relu else h) @ W2 + b2
    np.testing.assert_allclose(out[:, 2:7], 0.5 * z / np.linalg.norm(z, axis=1, keepdims=True), atol=1e-5)
    assert (out[:, [0, 1, 7]] == 7).all()


def test_embed_of_nothing_is_nothing() -> None:
    out = np.ones((1, 2), np.float32)
    none = np.zeros(2, np.float32)
    x = SparseRows(np.zeros(2, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
    layers = kernels.Layers(np.ones((3, 2), np.float32), none, np.ones((2, 2), np.float32), none, True, np.float32(1))
    kernels.embed_rows(x, layers, 0, 0, 1, out)
    assert (out == 0).all()


@pytest.mark.parametrize("sharpness", [0.0, 6.0, 4000.0])
@pytest.mark.parametrize("n_used", [1, 4, 50])
@pytest.mark.parametrize("label_weight", [0.0, 2.0])
def test_vote(sharpness: float, n_used: int, label_weight: float) -> None:
    rng = np.random.default_rng(1)
    Y = csr_array((rng.random((30, 10)) < 0.2).astype(np.float32))
    ids = np.stack([rng.permutation(30)[:8] for _ in range(6)]).astype(np.int32)
    nearness = -np.sort(-rng.random((6, 8)).astype(np.float32), axis=1)
    ids[2, 3:] = -1
    nearness[2, 3:] = -np.inf
    points, vectors = rng.standard_normal((6, 3), np.float32), rng.standard_normal((10, 3), np.float32)
    labels, scores, counts = np.zeros((6, 4), np.int32), np.zeros((6, 4), np.float32), np.zeros(6, np.int64)
    voters = kernels.LabelledPoints(Y.indptr, Y.indices, vectors)
    rule = kernels.VoteRule(n_used, np.float32(sharpness), np.float32(label_weight))
    top = TopLabels(labels, scores, counts)
    kernels.vote_nearest(kernels.Nearest(ids, nearness), points, voters, rule, 0, 6, top)
    dense = Y.toarray()
    for i in range(6):
        use = [a for a in range(min(8, n_used)) if ids[i, a] >= 0]
        weight = np.maximum(np.exp(sharpness * (nearness[i, use] - nearness[i, 0])), 1e-20)
        share = weight @ dense[ids[i, use]] / weight.sum()
        met = np.flatnonzero(share)
        if len(met):
            cosine = vectors @ points[i]
            share[met] *= np.exp(label_weight * (cosine[met] - cosine[met].max()))
        order = sorted(met, key=lambda j: (-np.float32(share[j]), j))[:4]
        assert counts[i] == len(order)
        np.testing.assert_allclose(scores[i, : counts[i]], share[order], rtol=1e-4)
        np.testing.assert_allclose(share[labels[i, : counts[i]]], share[order], rtol=1e-4)


def test_cosines_of_features_are_added() -> None:
    rng = np.random.default_rng(2)
    X = csr_array(random_array((5, 12), density=0.4, rng=rng, dtype=np.float32)).toarray()
    X[3] = 0
    P = csr_array(random_array((20, 12), density=0.4, rng=rng, dtype=np.float32)).toarray()
    P /= np.maximum(np.linalg.norm(P, axis=1, keepdims=True), 1e-12)
    ids = np.stack([rng.permutation(20)[:6] for _ in range(5)]).astype(np.int32)
    nearness = -np.sort(-rng.random((5, 6)).astype(np.float32), axis=1)
    ids[1, 4:], nearness[1, 4:] = -1, -np.inf
    length = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    cosines = X / length @ P.T
    was = [(i[i >= 0], n[i >= 0]) for i, n in zip(ids.copy(), nearness.copy(), strict=True)]
    x, points = (SparseRows(m.indptr, m.indices, m.data) for m in (csr_array(X), csr_array(P)))
    kernels.add_feature_cosines(kernels.Nearest(ids, nearness), x, points, 12, 0.7, 0, 5)
    for i, (known, near) in enumerate(was):
        expected = near + 0.7 * cosines[i, known]
        order = np.argsort(-expected, kind="stable")
        np.testing.assert_array_equal(ids[i, : len(known)], known[order])
        np.testing.assert_allclose(nearness[i, : len(known)], expected[order], rtol=1e-5)
        assert (ids[i, len(known) :] == -1).all()
