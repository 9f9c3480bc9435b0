"""DECAF's network against torch's automatic differentiation, and the parts that its batches are made of."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.kernels.encode import SparseRows
from longtail.models.decaf.blocks import (
    CombinationBlock,
    ResidualBlock,
    dropout_mask,
    normalize_spectrum,
    through_spectrum,
)
from longtail.models.decaf.learner import ShortlistSampler, TextLearner
from longtail.models.decaf.network import Targets, TextNetwork, TextNetworkSettings, joined
from longtail.neural import losses
from longtail.neural.batch import Candidates, points
from longtail.neural.optimizers import RowOptimizer

torch = pytest.importorskip("torch")

B, D, L, DIM = 6, 20, 9, 5


def torch_block(v, tables, name, mask=1.0):  # type: ignore[no-untyped-def]
    R, a, b = (tables[f"{name}.{part}"] for part in "Rab")
    return torch.sigmoid(a) * ((torch.relu(v) * mask) @ R) + torch.sigmoid(b) * v


def torch_bce(s, truth):  # type: ignore[no-untyped-def]
    return torch.nn.functional.binary_cross_entropy_with_logits(s, truth.to(s), reduction="sum") / len(s)


def moved(tables: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Parameters that are not at their start, where many gradients vanish."""
    return {name: table + rng.standard_normal(table.shape).astype(np.float32) * 0.3 for name, table in tables.items()}


def collect() -> tuple[dict[str, np.ndarray], object]:
    found: dict[str, np.ndarray] = {}
    return found, lambda name, gradient: found.__setitem__(name, gradient)


@pytest.mark.parametrize("drop", [0.0, 0.5])
@pytest.mark.parametrize("n", [B, 600])  # one block of rows, and several
def test_residual_block(drop: float, n: int) -> None:
    rng = np.random.default_rng(0)
    tables = moved(ResidualBlock.fresh("x", DIM), rng)
    v = rng.standard_normal((n, DIM)).astype(np.float32)
    up = rng.standard_normal((n, DIM)).astype(np.float32)
    block, d_v = ResidualBlock(tables, "x"), np.empty_like(v)
    out, trace = block.forward(v, drop, np.random.default_rng(1) if drop else None)
    twins = {name: torch.tensor(table, requires_grad=True) for name, table in tables.items()}
    into = torch.tensor(v, requires_grad=True)
    mask = dropout_mask(v.shape, drop, np.random.default_rng(1))
    expected = torch_block(into, twins, "x", 1.0 if mask is None else torch.tensor(mask))
    (expected * torch.tensor(up)).sum().backward()
    gradients, learn = collect()
    block.backward(up, trace, learn, d_v)  # type: ignore[arg-type]
    np.testing.assert_allclose(out, expected.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(d_v, into.grad.numpy(), atol=1e-5)
    for name, twin in twins.items():
        np.testing.assert_allclose(gradients[name], twin.grad.numpy(), rtol=1e-5, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("n", [B, 600])
def test_combination_block(n: int) -> None:
    rng = np.random.default_rng(2)
    tables = moved(CombinationBlock.fresh("x", DIM), rng)
    p, q, up = (rng.standard_normal((n, DIM)).astype(np.float32) for _ in range(3))
    block = CombinationBlock(tables, "x")
    twins = {name: torch.tensor(table, requires_grad=True) for name, table in tables.items()}
    tp, tq = torch.tensor(p, requires_grad=True), torch.tensor(q, requires_grad=True)
    expected = torch.sigmoid(twins["x.a"]) * tp + torch.sigmoid(twins["x.b"]) * tq
    (expected * torch.tensor(up)).sum().backward()
    gradients, learn = collect()
    d_p, d_q = block.backward(up, p, q, learn)  # type: ignore[arg-type]
    np.testing.assert_allclose(block.forward(p, q, np.empty_like(p)), expected.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(d_p, tp.grad.numpy(), atol=1e-6)
    np.testing.assert_allclose(d_q, tq.grad.numpy(), atol=1e-6)
    for name, twin in twins.items():
        np.testing.assert_allclose(gradients[name], twin.grad.numpy(), rtol=1e-5, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("size", [0.3, 5.0])
def test_the_spectral_norm_of_a_block_is_one(size: float) -> None:
    R = size * np.random.default_rng(3).standard_normal((DIM, DIM)).astype(np.float32)
    u = np.full(DIM, DIM**-0.5, np.float32)
    normalize_spectrum(R, u)
    assert np.linalg.norm(R, 2) == pytest.approx(1, abs=1e-4)


def test_the_gradient_goes_through_the_spectral_norm() -> None:
    rng = np.random.default_rng(3)
    R, upstream = (rng.standard_normal((DIM, DIM)).astype(np.float32) for _ in range(2))
    u = np.full(DIM, DIM**-0.5, np.float32)
    normalize_spectrum(R, u)
    twin = torch.tensor(R, dtype=torch.float64, requires_grad=True)
    (twin / torch.linalg.matrix_norm(twin, 2) * torch.tensor(upstream)).sum().backward()
    np.testing.assert_allclose(through_spectrum(upstream, R, u), twin.grad.numpy(), atol=5e-3)


def test_dropout_keeps_the_mean() -> None:
    mask = dropout_mask((400, 400), 0.2, np.random.default_rng(0))
    assert mask is not None
    assert mask.mean() == pytest.approx(1, abs=0.01)
    assert (mask == 0).mean() == pytest.approx(0.2, abs=0.01)
    assert dropout_mask((2, 2), 0.0, np.random.default_rng(0)) is None
    assert dropout_mask((2, 2), 0.5, None) is None


def cases() -> list[tuple[str, str]]:
    return [(form, kind) for form in ("both", "text", "refinement") for kind in ("labels", "clusters", "no text")]


@pytest.mark.parametrize(("form", "kind"), cases())
def test_the_whole_step(form: str, kind: str) -> None:
    rng = np.random.default_rng(4)
    X = csr_array(random_array((B, D), density=0.3, rng=rng, dtype=np.float32))
    Z = csr_array(random_array((L, D), density=0.3, rng=rng, dtype=np.float32))
    spread = np.zeros((L, L), np.float32)  # texts of each target
    if kind == "clusters":
        ptr, rows = np.array([0, 2, 5, 6, 9], np.int32), rng.permutation(L).astype(np.int32)
        targets = Targets(4, Z, (ptr, rows))
        for target in range(4):
            spread[target, rows[ptr[target] : ptr[target + 1]]] = 1
    else:
        targets = Targets(L, Z if kind == "labels" else None)
        np.fill_diagonal(spread, 1)
    labels = np.array([0, 1, 3]) if kind == "clusters" else np.array([0, 2, 3, 5, 8])
    truth = rng.random((B, len(labels))) < 0.4
    sparse = csr_array(truth.astype(np.float32))
    candidates = Candidates(labels, sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), None)
    settings = TextNetworkSettings(DIM, form, drop=0.0, spread=1.0, n_jobs=1)
    net = TextNetwork(D, targets, settings, rng.standard_normal(targets.n), rng)
    for name, table in moved(net.tables, rng).items():
        net.tables[name][...] = table
    net.optimizers = {name: RowOptimizer("sgd", table.shape) for name, table in net.tables.items()}  # type: ignore[arg-type]
    before = {name: torch.tensor(table.copy(), requires_grad=True) for name, table in net.tables.items()}

    x = torch.relu(torch_block(torch.tensor(X.toarray()) @ before["E"], before, "doc"))
    chosen = torch.tensor(labels)
    if net.has_text:
        texts = torch_block(torch.tensor(Z.toarray()) @ before["E"], before, "label")
        w = (torch.tensor(spread[: targets.n]) @ texts)[chosen]
        if net.has_refinement:
            w = torch.sigmoid(before["both.a"]) * before["V"][chosen] + torch.sigmoid(before["both.b"]) * w
    else:
        w = before["V"][chosen]
    expected = torch_bce(x @ w.T + before["c"][chosen, 0], torch.tensor(truth))
    expected.backward()

    docs = points(X, np.arange(B), np.full(D, -1, np.int32), unit=False)
    value = net.step(docs, candidates, losses.bce, 1.0, np.random.default_rng(0))
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    for name, table in net.tables.items():
        gradient = before[name].grad
        step = 0 if gradient is None else gradient.numpy()
        np.testing.assert_allclose(table, before[name].detach().numpy() - step, atol=3e-5, err_msg=name)


def test_forgotten_labels_are_scored_by_their_text_and_the_shared_bias() -> None:
    rng = np.random.default_rng(5)
    X, Z = (csr_array(random_array((n, D), density=0.4, rng=rng, dtype=np.float32)) for n in (B, L))
    settings = TextNetworkSettings(DIM, drop=0.0, forget=0.999, spread=1.0, n_jobs=1)
    net = TextNetwork(D, Targets(L, Z), settings, np.zeros(L), rng)
    own = net.tables["V"].copy(), net.tables["c"].copy()
    shared = net.tables["c0"].copy()
    sparse = csr_array(np.eye(B, L, dtype=np.float32))
    candidates = Candidates(np.arange(L), sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), None)
    docs = points(X, np.arange(B), np.full(D, -1, np.int32), unit=False)
    net.step(docs, candidates, losses.bce, 0.1, np.random.default_rng(0))
    np.testing.assert_array_equal(net.tables["V"], own[0])
    np.testing.assert_array_equal(net.tables["c"], own[1])
    assert net.tables["c0"] != shared


def test_frozen_tokens_stay_and_only_touched_rows_move() -> None:
    rng = np.random.default_rng(6)
    X = csr_array(random_array((B, D), density=0.1, rng=rng, dtype=np.float32))
    Z = csr_array(random_array((L, D), density=0.1, rng=rng, dtype=np.float32))
    labels = np.array([1, 4])
    sparse = csr_array(np.array([[1, 0]] * B, np.float32))
    candidates = Candidates(labels, sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), None)
    for freeze in (True, False):
        net = TextNetwork(D, Targets(L, Z), TextNetworkSettings(DIM, freeze=freeze, n_jobs=1), np.zeros(L), rng)
        before = {name: table.copy() for name, table in net.tables.items()}
        net.step(points(X, np.arange(B), np.full(D, -1, np.int32), True), candidates, losses.bce, 0.1, rng)
        touched = np.zeros(D, bool)
        if not freeze:
            touched[X.indices] = True
            touched[Z[labels].indices] = True
        assert ((net.tables["E"] != before["E"]).any(axis=1) <= touched).all()
        assert np.flatnonzero((net.tables["V"] != before["V"]).any(axis=1)).tolist() == labels.tolist()


def test_batches_joined_are_their_rows_below_each_other() -> None:
    rng = np.random.default_rng(7)
    one, two = (csr_array(random_array((n, D), density=0.3, rng=rng, dtype=np.float32)) for n in (4, 3))
    place = np.full(D, -1, np.int32)
    parts = (points(m, np.arange(m.shape[0]), place, unit=False) for m in (one, two))
    both = joined(*parts, place)
    dense = np.zeros((7, D), np.float32)
    for i in range(7):
        for p in range(both.ptr[i], both.ptr[i + 1]):
            dense[i, both.features[both.idx[p]]] += both.val[p]
    np.testing.assert_array_equal(dense, np.vstack([one.toarray(), two.toarray()]))
    assert len(set(both.features)) == len(both.features)
    assert (place == -1).all()


def test_candidates_hold_positives_and_shortlists_and_know_their_rates() -> None:
    rng = np.random.default_rng(8)
    Y = csr_array((rng.random((50, 60)) < 0.04).astype(np.float32))
    shortlist = rng.integers(-1, 20, (50, 5)).astype(np.int32)
    sampler = ShortlistSampler(Y, 6, 8, shortlist, 2)
    drawn = sampler.draw(np.arange(8), rng)
    for i in range(8):
        own = drawn.labels[drawn.places[drawn.ptr[i] : drawn.ptr[i + 1]]]
        assert sorted(own) == sorted(Y.indices[Y.indptr[i] : Y.indptr[i + 1]])
    assert (np.diff(drawn.labels) > 0).all()
    met = np.zeros(60)
    for _ in range(3000):
        met[sampler.draw(rng.choice(50, 8, replace=False), rng).labels] += 1
    assert np.abs(met / 3000 - sampler.rates)[sampler.pool].max() < 0.1
    everything = ShortlistSampler(Y, 60, 8).draw(np.arange(8), rng)
    assert everything.labels.tolist() == np.unique(Y.indices).tolist()
    assert everything.rates is None


def test_a_point_may_learn_from_its_own_shortlist_alone() -> None:
    rng = np.random.default_rng(9)
    Y = csr_array((rng.random((B, L)) < 0.2).astype(np.float32))
    X = csr_array(random_array((B, D), density=0.3, rng=rng, dtype=np.float32))
    shortlist = np.array([[1, 3], [2, -1], [0, 8], [4, 5], [7, 7], [-1, -1]], np.int32)
    net = TextNetwork(D, Targets(L), TextNetworkSettings(DIM, n_jobs=1), np.zeros(L), rng)
    sampler = ShortlistSampler(Y, 3, B, shortlist, 2)
    learner = TextLearner(net, X, np.arange(B), Y, None, sampler)
    learner.shortlist_only = True
    candidates = sampler.draw(np.arange(B), rng)
    mask = learner._shortlist_mask(np.arange(B), candidates)
    for i in range(B):
        allowed = {*shortlist[i][shortlist[i] >= 0], *Y.indices[Y.indptr[i] : Y.indptr[i + 1]]}
        assert set(candidates.labels[mask[i]]) == allowed & set(candidates.labels)
    assert np.isfinite(learner.step(np.arange(B), rng, 0.01))


def test_the_encoder_is_the_network_without_dropout() -> None:
    rng = np.random.default_rng(10)
    X = csr_array(random_array((B, D), density=0.3, rng=rng, dtype=np.float32))
    net = TextNetwork(D, Targets(L), TextNetworkSettings(DIM, spread=1.0, n_jobs=1), np.zeros(L), rng)
    for name, table in moved(net.tables, rng).items():
        net.tables[name][...] = table
    docs = points(X, np.arange(B), np.full(D, -1, np.int32), unit=True)
    expected = np.maximum(net.doc.forward(net.embed(docs), 0.0, None)[0], 0)
    found = net.document_encoder()(SparseRows.of(X), 1)
    np.testing.assert_allclose(found[:, :-1], expected, atol=1e-6)
    assert (found[:, -1] == 1).all()


def test_no_step_needs_the_loss_of_all_labels() -> None:
    """Scores of a batch are as wide as its candidates, however many labels there are."""
    rng = np.random.default_rng(11)
    n_labels = 5000
    Y = csr_array((np.ones(B, np.float32), (np.arange(B), rng.integers(n_labels, size=B))), shape=(B, n_labels))
    X = csr_array(random_array((B, D), density=0.3, rng=rng, dtype=np.float32))
    net = TextNetwork(D, Targets(n_labels), TextNetworkSettings(DIM, n_jobs=1), np.zeros(n_labels), rng)
    widths = []

    def loss(scores, *rest, **more):  # type: ignore[no-untyped-def]
        widths.append(scores.shape[1])
        return losses.bce(scores, *rest, **more)

    candidates = ShortlistSampler(Y, 10, B).draw(np.arange(B), rng)
    docs = points(X, np.arange(B), np.full(D, -1, np.int32), True)
    net.step(docs, candidates, partial(loss, correction=0.5), 0.1, rng)
    assert widths[0] <= 10 + B
