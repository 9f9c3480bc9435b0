"""RankNet's passes against plain NumPy: logits, gradients, draws and the final ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.kernels import rerank as kernels
from longtail.kernels.encode import SparseRows
from longtail.kernels.topk import TopLabels

L, N = 9, 6
TRUST = 2.0
TABLES = ("inner", "outer", "start", "down", "up", "bias", "weights")


def sigmoid(y: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-y))


def make_net(rng: np.random.Generator, full: bool, n_blocks: int = 2, rank: int = 3, hidden: int = 4) -> dict[str, Any]:
    """Tables with no zero among them, so that every gradient is seen."""
    pairs = csr_array(random_array((L, L), density=0.6, rng=rng)) if full else csr_array((L, L))
    pairs.sort_indices()
    shapes = {
        "inner": (hidden, kernels.N_FEATURES),
        "outer": (hidden,),
        "start": (n_blocks, rank),
        "down": (n_blocks, L, rank),
        "up": (n_blocks, L, rank),
        "bias": (n_blocks, L),
        "weights": (n_blocks, pairs.nnz),
    }
    net: dict[str, Any] = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    return net | {"pair_ptr": pairs.indptr.astype(np.int64), "pair_idx": pairs.indices.astype(np.int32)}


def make_point(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "labels": rng.permutation(L)[:N].astype(np.int32),
        "scores": np.sort(rng.uniform(0.01, 0.95, N))[::-1].astype(np.float32),
        "points": rng.integers(0, 20, N).astype(np.float32),
        "text": rng.uniform(0, 1, N).astype(np.float32),
    }


def twin(net: dict[str, Any], labels: np.ndarray, scores: np.ndarray, points: np.ndarray, text: np.ndarray) -> Any:
    """The last logits, as the formulas say."""
    s = scores.astype(np.float64)
    y = np.log(s / (1 - s))
    n = len(y)
    phi = np.column_stack(
        [
            np.ones(n),
            y / 4,
            (y[0] - y) / 4,
            np.log(np.arange(n) + 1) / 2,
            np.log1p(points) / 4,
            np.full(n, np.log1p(points[0]) / 4),
            np.full(n, np.log(0.1 + s.sum())),
            text,
        ]
    )
    y = y + np.maximum(phi @ net["inner"].T.astype(np.float64), 0) @ net["outer"]
    trust = points / (points + TRUST)
    dense = np.zeros((L, L))
    for b in range(len(net["bias"])):
        p = sigmoid(y)
        if len(net["pair_idx"]):
            dense[np.repeat(np.arange(L), np.diff(net["pair_ptr"])), net["pair_idx"]] = net["weights"][b]
            np.fill_diagonal(dense, 0)
            move = dense[np.ix_(labels, labels)] @ p
        else:
            move = net["up"][b][labels] @ np.tanh(net["start"][b] + p @ net["down"][b][labels])
        y = y + trust * (net["bias"][b][labels] + move)
    return y


def as_net(net: dict[str, Any]) -> kernels.RerankNet:
    return kernels.RerankNet(**net, trust=np.float32(TRUST))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_forward_is_what_the_formulas_say(full: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    net, point = make_net(rng, full), make_point(rng)
    work = kernels.scratch(N, as_net(net))
    kernels.forward(*point.values(), as_net(net), work)
    np.testing.assert_allclose(work.y[-1], twin(net, **point), rtol=1e-4, atol=1e-5)


def logistic(y: np.ndarray, right: np.ndarray, worth: np.ndarray) -> float:
    return float(-(worth * np.where(right, np.log(sigmoid(y)), np.log(sigmoid(-y)))).sum())


def population(y: np.ndarray, right: np.ndarray, points: np.ndarray, weight: float, margin: float) -> float:
    total = 0.0
    for i in np.flatnonzero(right):
        for j in np.flatnonzero(right):
            total += max(0, (points[i] - points[j]) / max(points[i] + points[j], 1) * (y[i] - y[j]))
        for k in np.flatnonzero(~right):
            total += weight * max(0, y[k] - y[i] + margin)
    return total


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("loss", [kernels.LOGISTIC, kernels.POPULATION])
def test_a_step_goes_down_the_gradient(full: bool, loss: int) -> None:
    rng = np.random.default_rng(loss)
    net, point = make_net(rng, full), make_point(rng)
    right = np.arange(N) % 3 == 1
    worth = rng.uniform(0.2, 1, L).astype(np.float32)

    def value(tables: dict[str, Any]) -> float:
        y = twin(tables, **point)
        if loss == kernels.LOGISTIC:
            return logistic(y, right, worth[point["labels"]])
        return population(y, right, point["points"], 0.7, 1.0)

    stepped = {name: array.copy() for name, array in net.items()}
    # Adagrad with a large history divides every gradient by the same number, so that a step shows the gradient itself.
    history, rate = 1e8, 10.0
    state = kernels.RerankState(*(np.full_like(net[name], history) for name in TABLES))
    ptr = np.array([0, N], np.int64)
    candidates = kernels.CandidateLists(ptr, point["labels"], point["scores"], point["text"])
    factors = (np.float32(0.7), np.float32(1.0), -1, np.float32(rate), np.float32(0.0))
    learning = kernels.RerankLearning(right, point["points"], worth, loss, *factors)
    total = kernels.learn(np.array([0]), candidates, as_net(stepped), state, learning, 0)
    assert total == pytest.approx(value(net), rel=1e-4)
    for name in TABLES:
        found = (net[name] - stepped[name]).astype(np.float64) * np.sqrt(history) / rate
        for at in rng.permutation(list(np.ndindex(net[name].shape)))[:25].tolist():
            moved = []
            for sign in (1, -1):
                changed = {key: array.astype(np.float64) if key in TABLES else array for key, array in net.items()}
                changed[name][tuple(at)] += sign * 1e-4
                moved.append(value(changed))
            expected = (moved[0] - moved[1]) / 2e-4
            assert found[tuple(at)] == pytest.approx(expected, rel=0.02, abs=2e-3), (name, at)


def test_some_irrelevant_candidates_stand_for_all() -> None:
    right = np.array([True, False, False, False, True, False])
    state, counts = np.uint64(7), np.zeros(6)
    used, place = np.empty(6, np.bool_), np.empty(6, np.int64)
    for _ in range(400):
        scale, state = kernels._draw_used(right, 2, place, used, state)
        assert scale == 2
        assert used[right].all()
        assert used.sum() == 4
        counts += used
    assert counts[~right].min() > 150  # 200 expected
    scale, _ = kernels._draw_used(right, -1, place, used, state)
    assert scale == 1
    assert used.all()


def test_ranking_anew_keeps_the_best_and_lets_the_rest_follow() -> None:
    rng = np.random.default_rng(0)
    net = make_net(rng, False)
    ptr = np.array([0, 6, 6, 8], np.int64)
    labels = np.array([0, 1, 2, 3, 4, 5, 8, 7], np.int32)
    scores = np.array([0.9, 0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.5], np.float32)
    worth = np.linspace(0.2, 1, L).astype(np.float32)
    for array in net.values():
        array.flags.writeable = False

    def run(learnt: bool, m: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        out = np.zeros((3, k), np.int32), np.zeros((3, k), np.float32), np.zeros(3, np.int64)
        points = np.full(L, 5, np.float32)
        zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
        for array in (points, worth, zero, one):
            array.flags.writeable = False
        candidates = kernels.CandidateLists(ptr, labels, scores, np.empty(0, np.float32))
        rule = kernels.RankingRule(worth, zero, one, m, learnt)
        kernels.rerank(candidates, as_net(net), points, rule, 0, 3, TopLabels(*out))
        return out

    found, values, counts = run(False, 6, 3)
    assert counts.tolist() == [3, 0, 2]
    assert found[0].tolist() == [0, 2, 1]  # 0.9 * 0.2, 0.4 * 0.4, 0.5 * 0.3
    np.testing.assert_allclose(values[0], [0.18, 0.16, 0.15], rtol=1e-5)
    found, values, counts = run(False, 2, 5)
    assert found[0].tolist() == [0, 1, 2, 3, 4]
    assert (np.diff(values[0]) < 0).all()
    found, values, _ = run(True, 6, 6)
    chance = sigmoid(twin(net, labels[:6], scores[:6], np.full(6, 5.0), np.zeros(6))) * worth[:6]
    assert found[0].tolist() == np.argsort(-chance).tolist()
    np.testing.assert_allclose(values[0], np.sort(chance)[::-1], rtol=1e-4)


def test_similarity_is_the_cosine() -> None:
    rng = np.random.default_rng(1)
    X = csr_array(random_array((4, 20), density=0.4, rng=rng, dtype=np.float32))
    Z = random_array((L, 20), density=0.3, rng=rng, dtype=np.float32).toarray()
    Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-9)
    text = csr_array(Z)
    labels = np.concatenate([rng.permutation(L)[:5] for _ in range(4)]).astype(np.int32)
    ptr, out = np.arange(0, 21, 5), np.zeros(20, np.float32)
    x, z = (SparseRows(m.indptr, m.indices, m.data) for m in (X, text))
    kernels.similarity(x, ptr, labels, z, 0, 4, out)
    points = X.toarray() / np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(out.reshape(4, 5), np.take_along_axis(points @ Z.T, labels.reshape(4, 5), 1), atol=1e-6)
