"""Losses, regularisers, the network's step and the optimisers, against torch's automatic differentiation."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.models.glas import regularizers
from longtail.models.glas.network import Network, NetworkSettings, RegularizedLabels
from longtail.neural import losses
from longtail.neural.batch import Candidates, CandidateSampler, points
from longtail.neural.optimizers import RowOptimizer

torch = pytest.importorskip("torch")

B, C, D, L, DIM = 6, 9, 20, 9, 5


def batch_of(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, positives (one point has none), and the same as a dense matrix."""
    rng = np.random.default_rng(seed)
    truth = rng.random((B, C)) < 0.3
    truth[2] = False
    truth[0, 1] = True
    sparse = csr_array(truth.astype(np.float32))
    scores = rng.standard_normal((B, C)).astype(np.float32) * 2
    return scores, sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), truth


def torch_bce(s, truth, rates, correction):  # type: ignore[no-untyped-def]
    weights = torch.ones_like(s) if rates is None else torch.where(truth, 1.0, torch.tensor(rates) ** -correction)
    each = torch.nn.functional.binary_cross_entropy_with_logits(s, truth.to(s), reduction="none")
    return (each * weights).sum() / len(s)


def torch_softmax(s, truth, rates):  # type: ignore[no-untyped-def]
    if rates is not None:
        s = s - torch.log(torch.tensor(rates))
    logs = torch.log_softmax(s, dim=1)
    some = truth.any(dim=1)
    return -((logs * truth).sum(1) / truth.sum(1).clamp(min=1))[some].sum() / len(s)


def torch_margin(s, truth, c, n_hard):  # type: ignore[no-untyped-def]
    total = 0.0
    for row, right in zip(s, truth, strict=True):
        if right.any():
            hard = row[~right].topk(min(n_hard, int((~right).sum()))).values
            total = total + torch.relu(hard[None] - row[right][:, None] + c).sum() / right.sum()
    return total / len(s)


@pytest.mark.parametrize("name", ["bce", "softmax"])
@pytest.mark.parametrize("sampled", [False, True])
def test_smooth_losses(name: str, sampled: bool) -> None:
    scores, ptr, places, truth = batch_of()
    rates = np.random.default_rng(1).uniform(0.1, 1, C).astype(np.float32) if sampled else None
    s = torch.tensor(scores, requires_grad=True)
    twin = {"bce": partial(torch_bce, correction=0.4), "softmax": torch_softmax}[name]
    expected = twin(s, torch.tensor(truth), rates)
    expected.backward()
    value = losses.make_loss(name, 0.4, 0.3, 10, None)(scores, ptr, places, rates)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    np.testing.assert_allclose(scores, s.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("n_hard", [1, 3, 50])
def test_margin_loss(n_hard: int) -> None:
    scores, ptr, places, truth = batch_of()
    s = torch.tensor(scores, requires_grad=True)
    expected = torch_margin(s, torch.tensor(truth), 0.5, n_hard)
    expected.backward()
    # With more hard ones than negatives, positives fill the list: they are minus infinity and add nothing.
    value = losses.margin(scores, ptr, places, c=0.5, n_hard=n_hard, n_jobs=1)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    np.testing.assert_allclose(scores, s.grad.numpy(), atol=1e-6)


def test_losses_are_finite_for_scores_of_any_size() -> None:
    for name, loss in losses.LOSSES.items():
        scores, ptr, places, _ = batch_of()
        scores *= 1e4
        assert np.isfinite(loss(scores, ptr, places)), name
        assert np.isfinite(scores).all(), name


@pytest.mark.parametrize("name", list(regularizers.REGULARIZERS))
def test_regularizers(name: str) -> None:
    rng = np.random.default_rng(2)
    V = rng.standard_normal((C, DIM)).astype(np.float32)
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    phi = rng.standard_normal((B, DIM)).astype(np.float32)
    U = rng.random((C, C)).astype(np.float32)
    U = (U + U.T) / 2
    v, p = torch.tensor(V, requires_grad=True), torch.tensor(phi, requires_grad=True)
    gram = v @ v.T
    expected = {
        "glas": lambda: ((gram - torch.tensor(U)) ** 2).mean(),
        "spreadout": lambda: (gram * (1 - torch.eye(C))).square().mean(),
        "gravity": lambda: (p @ v.T).square().mean(),
    }[name]()
    expected.backward()
    value, dV, dphi = regularizers.REGULARIZERS[name](V, phi, U)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    np.testing.assert_allclose(dV, v.grad.numpy(), atol=1e-6)
    if name == "gravity":
        np.testing.assert_allclose(dphi, p.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["adam", "adagrad", "sgd", "momentum"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_optimizers_step_as_torch_does_where_every_row_is_touched(kind: str, decay: float) -> None:
    rng = np.random.default_rng(3)
    table = rng.standard_normal((7, DIM)).astype(np.float32)
    twin = torch.nn.Parameter(torch.tensor(table))
    make = {
        "adam": partial(torch.optim.AdamW, lr=0.05, weight_decay=decay),
        "adagrad": partial(torch.optim.Adagrad, lr=0.05, eps=1e-8),
        "sgd": partial(torch.optim.SGD, lr=0.05),
        "momentum": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    }[kind]
    other = make([twin])
    ours = RowOptimizer(kind, (7, DIM), decay, n_jobs=1)
    for _ in range(5):
        grad = rng.standard_normal((7, DIM)).astype(np.float32)
        ours.step(table, np.arange(7), grad, 0.05)
        if kind != "adam":
            twin.data *= 1 - 0.05 * decay
        twin.grad = torch.tensor(grad)
        other.step()
    np.testing.assert_allclose(table, twin.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_a_rare_row_is_stepped_as_if_it_were_alone_and_others_stay() -> None:
    rng = np.random.default_rng(4)
    table = rng.standard_normal((5, DIM)).astype(np.float32)
    alone, kept = table[3:4].copy(), table[4].copy()
    many, one = RowOptimizer("adam", (5, DIM)), RowOptimizer("adam", (1, DIM))
    for t in range(6):
        grad = rng.standard_normal((2, DIM)).astype(np.float32)
        if t % 3 == 2:
            many.step(table, np.array([0, 3]), grad, 0.1)
            one.step(alone, np.array([0]), grad[1:], 0.1)
        else:
            many.step(table, np.array([0]), grad[:1], 0.1)
    np.testing.assert_array_equal(table[3], alone[0])
    np.testing.assert_array_equal(table[4], kept)


def test_the_sparse_step_is_the_dense_step_of_the_product() -> None:
    rng = np.random.default_rng(5)
    X = csr_array(random_array((B, D), density=0.3, rng=rng, dtype=np.float32))
    up = rng.standard_normal((B, DIM)).astype(np.float32)
    batch = points(X, np.arange(B), np.full(D, -1, np.int32), unit=False)
    table = rng.standard_normal((D, DIM)).astype(np.float32)
    twin = table.copy()
    RowOptimizer("adagrad", (D, DIM)).step_sparse(table, batch.features, batch.columns(), up, 0.1)
    dense = (X.T @ up)[batch.features].astype(np.float32)
    RowOptimizer("adagrad", (D, DIM)).step(twin, batch.features, dense, 0.1)
    np.testing.assert_allclose(table, twin, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("regularizer", ["glas", "gravity", None])
@pytest.mark.parametrize("everything", [True, False])
def test_the_whole_step(normalize: bool, relu: bool, regularizer: str | None, everything: bool) -> None:
    rng = np.random.default_rng(6)
    X = csr_array(random_array((B, D), density=0.3, rng=rng, dtype=np.float32))
    labels = np.arange(L) if everything else np.array([0, 2, 3, 5, 8])
    truth = rng.random((B, len(labels))) < 0.4
    truth[:, 0] = True
    sparse = csr_array(truth.astype(np.float32))
    candidates = Candidates(labels, sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), None)
    prior = rng.standard_normal(L)
    net = Network(D, L, NetworkSettings(DIM, relu, normalize, "sgd", 0.0, 3.0, 1), prior, rng)
    net.tables["b"] += 0.1
    tables = {name: table for name, table in net.tables.items() if name != "squares"}
    before = {name: torch.tensor(table.copy(), requires_grad=True) for name, table in tables.items()}

    drawn = np.array([0, 1, 4])
    U = np.eye(3, dtype=np.float32) * 0.5 + 0.1
    E = before["E"]
    if normalize:  # weight normalisation: the columns share one length
        E = before["e"] * torch.nn.functional.normalize(E, dim=0)
    h = torch.tensor(X.toarray()) @ E + before["b"]
    if relu:
        h = torch.relu(h)
    V = before["V"][torch.tensor(labels)]
    unit = torch.nn.functional.normalize(V)
    if normalize:
        h, V = torch.nn.functional.normalize(h), unit
    s = before["g"] * (h @ V.T) + before["c"][torch.tensor(labels), 0]
    expected = torch_bce(s, torch.tensor(truth), None, 0.0)
    if regularizer == "glas":
        some = unit[torch.tensor(drawn)]
        expected = expected + 2.0 * ((some @ some.T - torch.tensor(U)) ** 2).mean()
    elif regularizer == "gravity":
        expected = expected + 2.0 * (h @ unit[torch.tensor(drawn)].T).square().mean()
    expected.backward()

    batch = points(X, np.arange(B), np.full(D, -1, np.int32), unit=False)
    chosen = None if regularizer is None else regularizers.REGULARIZERS[regularizer]
    regularized = None if chosen is None else RegularizedLabels(chosen, 2.0, drawn, U)
    value = net.step(batch, candidates, losses.bce, 1.0, regularized)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    for name, table in tables.items():
        if name == "g" and not normalize:
            assert table[0, 0] == 1
            continue
        start, moved = before[name].detach().numpy(), -before[name].grad.numpy()  # one step of length 1
        step = table - start
        if name == "E" and normalize:  # a step along a column changes its length, which has no effect
            unit = start / np.linalg.norm(start, axis=0)
            step = step - unit * (unit * step).sum(axis=0)
        np.testing.assert_allclose(step, moved, atol=2e-5, err_msg=name)
    if normalize:
        np.testing.assert_allclose(net.tables["squares"][0], (net.tables["E"] ** 2).sum(axis=0), rtol=1e-5)


def test_candidates_hold_the_positives_and_say_how_likely_each_was() -> None:
    rng = np.random.default_rng(7)
    Y = csr_array((rng.random((50, 40)) < 0.05).astype(np.float32))
    sampler = CandidateSampler(Y, 10, 8)
    rows = np.arange(8)
    drawn = sampler.draw(rows, rng)
    for i in rows:
        own = drawn.labels[drawn.places[drawn.ptr[i] : drawn.ptr[i + 1]]]
        assert sorted(own) == sorted(Y.indices[Y.indptr[i] : Y.indptr[i + 1]])
    assert (np.diff(drawn.labels) > 0).all()
    assert drawn.rates is not None
    met = np.zeros(40)
    for _ in range(3000):
        met[sampler.draw(rng.choice(50, 8, replace=False), rng).labels] += 1
    assert np.abs(met / 3000 - sampler.rates).max() < 0.08


def test_labels_drawn_again_do_not_count_as_further_ones() -> None:
    """Draws with replacement: 4,096 of 5,000 labels leave 44 % of those that no point has undrawn, not 18 %."""
    Y = csr_array((np.ones(1, np.float32), ([0], [0])), shape=(100, 5000))
    sampler, rng = CandidateSampler(Y, 4096, 1), np.random.default_rng(0)
    drawn = np.mean([len(sampler.draw(np.array([1]), rng).labels) for _ in range(20)]) / 5000
    np.testing.assert_allclose(sampler.rates[1:], drawn, atol=0.01)
