"""Trees over points: how they are laid out, and ranking against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.kernels import point_tree
from longtail.kernels.csr import Csr
from longtail.models.fastxml import FastXML
from longtail.models.pfastrexml import PfastreXML
from tests.contract import D, L, N, toy


def leaf_of(forest, root: int, x: np.ndarray) -> int:  # type: ignore[no-untyped-def]
    node = int(root)
    while forest.child[node] >= 0:
        span = slice(forest.ptr[node], forest.ptr[node + 1])
        score = forest.values[span] @ x[forest.features[span]] + forest.bias[node]
        node = int(forest.child[node]) + int(score > 0)
    return -1 - int(forest.child[node])


@pytest.mark.parametrize("model", [FastXML(n_trees=5), PfastreXML(n_trees=5, alpha=0.6, gamma=7.0)])
def test_ranking_equals_plain_python(model) -> None:  # type: ignore[no-untyped-def]
    X, Y, _ = toy()
    forest = model.fit(X, Y).forest_
    found, dense = model.predict(X, L).toarray(), X.toarray()
    for i in range(40):
        expected = np.zeros(L)
        for root in forest.roots:
            leaf = leaf_of(forest, root, dense[i])
            span = slice(forest.leaf_ptr[leaf], forest.leaf_ptr[leaf + 1])
            expected[forest.labels[span]] += forest.shares[span] / len(forest.roots)
        if isinstance(model, PfastreXML):
            for label in np.flatnonzero(expected):
                centre = np.zeros(D)
                span = slice(forest.tail_ptr[label], forest.tail_ptr[label + 1])
                centre[forest.tail_idx[span]] = forest.tail_val[span]
                tail = np.exp(-model.gamma / 2 * np.sum((dense[i] - centre) ** 2))
                expected[label] = expected[label] ** model.alpha * tail ** (1 - model.alpha)
            expected /= model.usual_**model.alpha  # relative to a usual label
            expected /= 1 + expected
        np.testing.assert_allclose(found[i], np.minimum(expected, 1 - 2.0**-23), rtol=1e-4)


def test_trees_are_whole_and_their_leaves_small() -> None:
    X, Y, _ = toy()
    forest = FastXML(n_trees=3, max_leaf=6, labels_per_leaf=4, cost=100.0).fit(X, Y).forest_
    inner = forest.child[forest.child >= 0]
    others = np.setdiff1d(np.arange(len(forest.child)), forest.roots)
    np.testing.assert_array_equal(np.sort(np.concatenate([inner, inner + 1])), others)  # one parent each
    np.testing.assert_array_equal(np.sort(-1 - forest.child[forest.child < 0]), np.arange(len(forest.leaf_ptr) - 1))
    assert np.diff(forest.leaf_ptr).max() == 4
    leaves = np.array([[leaf_of(forest, root, x) for root in forest.roots] for x in X.toarray()])
    assert np.unique(leaves, return_counts=True)[1].max() <= 6
    assert len(np.unique(leaves)) == len(forest.leaf_ptr) - 1


def test_a_leaf_holds_the_weighted_shares_of_its_points() -> None:
    _, Y, _ = toy()
    rng = np.random.default_rng(0)
    points = rng.choice(N, 12, replace=False).astype(np.int32)
    worth = rng.uniform(0.5, 1, L).astype(np.float32)
    labels, shares = np.empty(5, np.int32), np.empty(5, np.float32)
    total = np.zeros(L, np.float32)
    count = point_tree.fill_leaf(points, Csr(Y.indptr, Y.indices, Y.data), worth, total, labels, shares)
    expected = Y[points].toarray().mean(axis=0) * worth
    assert count == 5
    assert not total.any()
    np.testing.assert_array_equal(labels, np.argsort(-expected, kind="stable")[:5])
    np.testing.assert_allclose(shares, expected[labels], rtol=1e-5)
