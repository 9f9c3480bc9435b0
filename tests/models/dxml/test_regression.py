"""The regression network against automatic differentiation, and the vote and its choice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.kernels.dense_knn import Nearest
from longtail.kernels.encode import SparseRows
from longtail.models.dxml.embedding import embed_points
from longtail.models.dxml.knn_vote import Vote, VotingPoints
from longtail.models.dxml.regression import (
    RegressionLearner,
    RegressionNetwork,
    RegressionSettings,
    mean_vectors,
    smooth_l1,
)
from longtail.models.dxml.training import VOTE_GRID, make_voters
from longtail.neural.batch import looks_binary, points, rarity

B, D, H, WIDTH = 8, 15, 7, 5


def network(relu: bool = True, dropout: float = 0.0, optimizer: str = "sgd") -> RegressionNetwork:
    settings = RegressionSettings(H, relu, dropout, optimizer, 0.0, 1)
    return RegressionNetwork(D, WIDTH, settings, np.random.default_rng(3))


def some_points(seed: int = 0, n: int = B) -> csr_array:
    X = random_array((n, D), density=0.4, rng=np.random.default_rng(seed), dtype=np.float32)
    return csr_array(X)


def rows_of(X: csr_array) -> SparseRows:
    return SparseRows(X.indptr, X.indices, X.data)


def test_smooth_l1() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b = (2 * rng.standard_normal((B, WIDTH)).astype(np.float32) for _ in range(2))
    outputs = torch.tensor(a, requires_grad=True)
    expected = torch.nn.functional.smooth_l1_loss(outputs, torch.tensor(b), reduction="sum") / B
    expected.backward()
    value, gradient = smooth_l1(a, b)
    assert value == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(gradient, outputs.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_a_step_is_down_the_gradient(relu: bool, dropout: float) -> None:
    torch = pytest.importorskip("torch")
    net, X = network(relu, dropout), some_points()
    targets = np.random.default_rng(1).standard_normal((B, WIDTH)).astype(np.float32)
    batch = points(X, np.arange(B), np.full(D, -1, np.int32), unit=True)
    mask = net.forward(batch, np.random.default_rng(5))[1]
    assert (dropout > 0) == bool((mask == 0).any())

    tables = {name: torch.tensor(table, requires_grad=True) for name, table in net.tables.items()}
    dense = X.toarray() / np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    h = torch.tensor(dense) @ tables["W1"] + tables["b1"]
    z = ((torch.relu(h) if relu else h) @ tables["W2"] + tables["b2"]) * torch.tensor(mask)
    f = z / z.norm(dim=1, keepdim=True)
    loss = torch.nn.functional.smooth_l1_loss(f, torch.tensor(targets), reduction="sum") / B
    loss.backward()

    before = {name: table.copy() for name, table in net.tables.items()}
    value = net.step(batch, targets, 0.1, np.random.default_rng(5))
    assert value == pytest.approx(loss.item(), rel=1e-4)
    for name, table in net.tables.items():
        np.testing.assert_allclose((before[name] - table) / 0.1, tables[name].grad.numpy(), atol=2e-5, err_msg=name)


def test_a_sum_over_the_batch_steps_as_many_times_as_far_and_decays_no_faster() -> None:
    """Eq. 3 is a sum; the weight decay of the paper is that of its own rate, whatever the batch."""
    tables = []
    for summed, rate in ((False, 0.1 * B), (True, 0.1)):
        settings = RegressionSettings(H, True, 0.0, "sgd", 0.0, 1, summed)
        net = RegressionNetwork(D, WIDTH, settings, np.random.default_rng(3))
        batch = points(some_points(), np.arange(B), np.full(D, -1, np.int32), unit=True)
        net.step(batch, np.ones((B, WIDTH), np.float32), rate, np.random.default_rng(5))
        tables.append(net.tables["W2"])
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-5)
    settings = RegressionSettings(H, True, 0.0, "sgd", 0.5, 1, True)
    start = RegressionNetwork(D, WIDTH, settings, np.random.default_rng(3))
    kept = start.tables["W2"].copy()
    start.step_table("W2", np.zeros_like(kept), 0.1)
    np.testing.assert_allclose(start.tables["W2"], 0.95 * kept, rtol=1e-5)


def test_mean_label_vectors_keep_their_length_unless_it_is_made_one() -> None:
    vectors = np.eye(3, 4, dtype=np.float32)
    Y = csr_array(np.array([[1, 1, 0], [0, 0, 1]], np.float32))
    labels = points(Y, np.arange(2), np.full(3, -1, np.int32), unit=False)
    means = mean_vectors(labels, vectors, unit=False)
    np.testing.assert_allclose(means, [[0.5, 0.5, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_allclose(np.linalg.norm(mean_vectors(labels, vectors, unit=True), axis=1), 1, rtol=1e-6)


def test_a_point_without_features_does_not_blow_up_the_network() -> None:
    net, empty = network(), csr_array((1, D), dtype=np.float32)
    batch = points(empty, np.arange(1), np.full(D, -1, np.int32), unit=True)
    net.step(batch, np.ones((1, WIDTH), np.float32), 0.1, np.random.default_rng(0))
    assert all(np.abs(table).max() < 10 for table in net.tables.values())


def test_prediction_is_the_forward_pass() -> None:
    nets, X = [network(), network(relu=True)], some_points()
    nets[1].tables["W2"] += 0.1
    batch = points(X, np.arange(B), np.full(D, -1, np.int32), unit=True)
    expected = np.concatenate([net.forward(batch, None)[3] for net in nets], axis=1) / np.sqrt(2)
    found = embed_points([net.tables for net in nets], rows_of(X), True, 1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    for i in range(B):
        alone = X[i : i + 1]
        np.testing.assert_array_equal(embed_points([net.tables for net in nets], rows_of(alone), True, 1)[0], found[i])


@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_a_hundred_points_are_learnt_by_heart(optimizer: str) -> None:
    rng = np.random.default_rng(0)
    X = csr_array(random_array((100, 300), density=0.05, rng=rng, dtype=np.float32))
    Y = csr_array((rng.random((100, 20)) < 0.15).astype(np.float32))
    Y = csr_array(np.maximum(Y.toarray(), np.eye(20, dtype=np.float32)[np.arange(100) % 20]))
    vectors = rng.standard_normal((20, 30)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    net = RegressionNetwork(300, 30, RegressionSettings(64, True, 0.0, optimizer, 0.0, 1), rng)
    learner = RegressionLearner([net], [vectors], X, np.arange(100), Y, None)
    rate = 0.01 if optimizer == "adam" else 0.5
    losses = [learner.step(np.arange(100), rng, rate) for _ in range(300)]
    assert losses[-1] < 0.02 < 0.3 < losses[0]
    found = embed_points([net.tables], rows_of(X), True, 1)
    assert ((found @ found.T).argsort(axis=1)[:, -1] == np.arange(100)).mean() > 0.9


def circle(n: int = 200) -> tuple[np.ndarray, csr_array, np.ndarray, csr_array]:
    """Points on a circle, labelled by sector; vectors of the labels; and features that tell nothing."""
    angle = np.random.default_rng(0).random(n) * 2 * np.pi
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    labels = np.eye(8, dtype=np.float32)[(angle / (2 * np.pi) * 8).astype(int)]
    middle = (np.arange(8) + 0.5) / 8 * 2 * np.pi
    vectors = np.stack([np.cos(middle), np.sin(middle)], axis=1).astype(np.float32)
    return points, csr_array(labels), vectors, csr_array(np.ones((n, 1), np.float32))


def settled(n: int = 200, held: bool = False, **settings: Any) -> VotingPoints:
    points, Y, vectors, X = circle(n)
    part = (points[150:], Y[150:], X[150:]) if held else None
    end = 150 if held else n
    usual = {"n_partitions": 1, "n_probe": None, "recall": 0.98, "seed": 0, "n_jobs": None}
    settings = dict.fromkeys(VOTE_GRID) | usual | settings
    return make_voters(points[:end], Y[:end], vectors, X[:end], part, SimpleNamespace(**settings))


@pytest.mark.parametrize("n_partitions", [1, 12])
def test_neighbours_vote_and_are_joined(n_partitions: int) -> None:
    points, Y, _, X = circle()
    near = settled(held=True, n_partitions=n_partitions, recall=0.99)
    assert near.vote.n_neighbors in {Vote().n_neighbors, *VOTE_GRID["n_neighbors"]}
    assert max(near.tried, key=lambda one: one["nDCG"])["nDCG"] > 95
    scores = near.rank(points[150:], X[150:], 3)
    assert (scores.toarray().argmax(axis=1) == Y[150:].toarray().argmax(axis=1)).mean() > 0.9
    labels, shares = near.rank_one(points[160], X[160:161].indices, X[160:161].data, 3)
    row = near.rank(points[160:161], X[160:161], 3)
    np.testing.assert_array_equal(labels, row.indices)
    np.testing.assert_array_equal(shares, row.data)

    new = csr_array((np.ones(1, np.float32), np.array([8]), np.array([0, 1])), shape=(1, 9))
    near.vectors = np.concatenate([near.vectors, points[160:161]])
    near = near.extended(points[160:161], new, X[160:161])
    assert near.labels.shape == (151, 9)
    assert 8 in near.rank_one(points[160], X[160:161].indices, X[160:161].data, 9)[0]


def test_more_neighbours_than_points_are_all_points() -> None:
    points, Y, _, X = circle(12)
    given = {"n_neighbors": 500, "sharpness": 0.0, "feature_weight": 0.0, "label_weight": 0.0}
    for partitions in ({}, {"n_partitions": 4, "n_probe": 1}):
        scores = settled(12, **given, **partitions).rank(points, X, 8)
        np.testing.assert_allclose(scores.toarray(), np.tile(Y.toarray().mean(axis=0), (12, 1)), rtol=1e-5)


def test_what_is_given_is_not_chosen() -> None:
    given = {"n_neighbors": 7, "sharpness": 2.5, "feature_weight": 0.25, "label_weight": 0.75}
    near = settled(held=True, **given)
    assert near.vote == Vote(7, 2.5, 0.25, 0.75)
    assert near.vote.n_searched == 14
    assert near.features is not None
    near = settled(held=True, **given | {"feature_weight": 0.0, "sharpness": None})
    assert (near.vote.n_neighbors, near.vote.n_searched, near.features) == (7, 7, None)
    assert len(near.tried) > 3


def test_a_point_without_neighbours_has_no_labels() -> None:
    points, _, _, X = circle()
    near = settled(n_neighbors=1, feature_weight=0.0)
    ids, nearness = np.array([[4], [-1]], np.int32), np.ones((2, 1), np.float32)
    scores = near.count_votes(near.vote, points[:2], X[:2], Nearest(ids, nearness), 3, 1)
    assert np.diff(scores.indptr).tolist() == [1, 0]
    assert 0 < scores.data[0] < 1


def test_binary_features_are_known_and_weighed() -> None:
    X = csr_array(np.array([[1, 1, 0], [0, 2, 2], [0, 0, 0]], np.float32))
    assert looks_binary(X)
    assert not looks_binary(csr_array(np.array([[1, 2]], np.float32)))
    assert not looks_binary(csr_array((2, 2), dtype=np.float32))
    np.testing.assert_allclose(rarity(X), np.log(4 / np.array([2, 3, 2])) + 1, rtol=1e-6)
