"""MNN's loss and step against torch's automatic differentiation; its negatives; what is held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.models import MNN
from longtail.models.mnn.network import MatchingNetwork, draw_negatives, set_numbers
from longtail.models.training_part import TrainingPart
from longtail.neural.batch import points
from longtail.neural.losses import noise_contrastive

B, D, L, DIM = 6, 20, 9, 5


def torch_loss(c, negatives, m):  # type: ignore[no-untyped-def]
    """Eq. 9 to 11, point by point."""
    total = 0.0
    for i, row in enumerate(c):
        total = total + 0.25 * (1 - row[i]) ** 2
        against = [row[j] ** 2 for j in negatives[i] if j != i and row[j] > m]
        if against:
            total = total + max(against)
    return total / len(c)


@pytest.mark.parametrize("m", [-1.0, 0.0, 0.3, 0.99])
def test_noise_contrastive_loss(m: float) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    cosines = rng.uniform(-1, 1, (B, B)).astype(np.float32)
    negatives = draw_negatives(np.arange(B), 3, rng)
    negatives[2] = 2  # a point without negatives
    c = torch.tensor(cosines, requires_grad=True)
    expected = torch_loss(c, negatives, m)
    expected.backward()
    value = noise_contrastive(cosines, negatives, m)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    np.testing.assert_allclose(cosines, c.grad.numpy(), atol=1e-6)


def test_the_whole_step() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    X = csr_array(random_array((B, D), density=0.3, rng=rng, dtype=np.float32))
    Y = csr_array((rng.random((B, L)) < 0.3).astype(np.float32) + np.eye(B, L, dtype=np.float32) > 0).astype(np.float32)
    E = rng.standard_normal((D, DIM)).astype(np.float32)
    V = rng.standard_normal((L, DIM)).astype(np.float32)
    e, v = torch.tensor(E.copy(), requires_grad=True), torch.tensor(V.copy(), requires_grad=True)
    negatives = draw_negatives(set_numbers(Y), 4, rng)
    x = torch.nn.functional.normalize(torch.tensor(X.toarray()) @ e / torch.tensor(np.diff(X.indptr))[:, None])
    y = torch.nn.functional.normalize(torch.tensor(Y.toarray()) @ v / torch.tensor(np.diff(Y.indptr))[:, None])
    expected = torch_loss(x @ y.T, negatives, 0.1)
    expected.backward()

    network = MatchingNetwork(E, V, "sgd", 0.0, 1)
    batch = points(X, np.arange(B), np.full(D, -1, np.int32), unit=False)
    sets = points(Y, np.arange(B), np.full(L, -1, np.int32), unit=False)
    batch.average()
    sets.average()
    value = network.step(batch, sets, negatives, 0.1, 1.0)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    np.testing.assert_allclose(E, (e - e.grad).detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(V, (v - v.grad).detach().numpy(), atol=1e-5)


def test_dropout_leaves_a_mean_of_what_is_left() -> None:
    X = csr_array(np.arange(1, 41, dtype=np.float32).reshape(4, 10))
    batch = points(X, np.arange(4), np.full(10, -1, np.int32), unit=False)
    whole = batch.val.reshape(4, 10).copy()
    batch.drop(0.5, np.random.default_rng(0))
    batch.average()
    left = batch.val.reshape(4, 10)
    stays = left != 0
    assert 0 < stays.sum() < 40
    expected = np.where(stays, whole, 0) / np.maximum(stays.sum(axis=1), 1)[:, None]
    np.testing.assert_allclose(left * 0.5, expected, rtol=1e-6)  # eq. 6, but for a factor that no cosine sees


def test_a_point_with_the_same_labels_is_no_negative() -> None:
    Y = csr_array(np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], np.float32))
    sets = set_numbers(Y)
    assert sets[0] == sets[2]
    assert len(set(sets.tolist())) == 3
    rng = np.random.default_rng(0)
    for h in (2, 50):  # drawn; all of them
        negatives = draw_negatives(sets, h, rng)
        assert negatives.shape == (4, min(h, 3))
        assert not (negatives[0] == 2).any()
        assert not (negatives[2] == 0).any()
        assert not (negatives[1] == 1).any()
    assert draw_negatives(sets[:1], 5, rng).tolist() == [[0] * 5]


def test_what_is_held_out_has_labels_that_training_knows() -> None:
    rng = np.random.default_rng(0)
    X, Y = csr_array(rng.random((60, 4), np.float32)), csr_array((rng.random((60, 8)) < 0.3).astype(np.float32))
    part = TrainingPart.divide(X, Y, None, None, 0.2, 0, 2000, keep_labels=True)
    assert part.held is not None
    assert len(part.rows) + part.held[0].shape[0] == (np.diff(Y.indptr) > 0).sum()
    assert set(Y[part.rows].indices) == set(Y.indices)
    few = np.array([1, 5], np.int32)
    measured = part.held_with(few)
    assert measured is not None
    assert (np.diff(measured[1].indptr) > 0).all()
    assert replace(part, held=(X[:2], csr_array((2, 8)))).held_with(few) is None
    assert TrainingPart.divide(X, Y, None, (X, Y), 0.2, 0, 2000).held == (X, Y)
    assert MNN()._trains_again(100)
    assert not MNN()._trains_again(10**6)
    assert MNN(refit=True)._trains_again(10**6)
