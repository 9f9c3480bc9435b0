"""Kernels from shortlists to rankings, against plain NumPy."""

from __future__ import annotations

import numpy as np

from longtail.kernels import shortlist as kernels

N, L, K, DIM = 7, 30, 6, 5


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.asarray(a, np.float64)))


def test_expand() -> None:
    rng = np.random.default_rng(0)
    cluster_of = rng.integers(K, size=L)
    order = np.argsort(cluster_of, kind="stable").astype(np.int32)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(cluster_of, minlength=K))]).astype(np.int32)
    found = np.array([rng.choice(K, 3, replace=False) for _ in range(N)], np.int32)
    found[2, 1:] = -1
    out = np.empty((N, 12), np.int32)
    kernels.expand(found, ptr, order, 0, N, out)
    for i in range(N):
        expected = [label for m in found[i] if m >= 0 for label in order[ptr[m] : ptr[m + 1]]][:12]
        assert out[i].tolist() == expected + [-1] * (12 - len(expected))


def test_unite() -> None:
    rng = np.random.default_rng(1)
    one = np.array([rng.choice(L, 6, replace=False) for _ in range(N)], np.int32)
    one[3, 4:] = -1
    place = rng.permutation(L).astype(np.int32)
    place[:5] = -1
    lists = [rng.choice(L, rng.integers(8), replace=False) for _ in range(N)]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int32)
    idx = np.concatenate(lists).astype(np.int32)
    out = np.empty((N, 14), np.int32)
    kernels.unite(one, ptr, idx, place, 0, N, out)
    for i in range(N):
        own = [label for label in one[i] if label >= 0]
        own += [place[label] for label in lists[i] if place[label] >= 0 and place[label] not in own]
        assert out[i].tolist() == own + [-1] * (14 - len(own))


def test_scores_with_and_without_clusters() -> None:
    rng = np.random.default_rng(2)
    x, W, H = (rng.standard_normal((n, DIM)).astype(np.float32) for n in (N, L, K))
    lists = rng.integers(-1, L, (N, 8)).astype(np.int32)
    cluster_of = rng.integers(K, size=L).astype(np.int32)
    out = np.empty(lists.shape, np.float32)
    kernels.score(x, W, lists, 0, N, out)
    expected = np.where(lists >= 0, np.take_along_axis(x @ W.T, lists.clip(0), axis=1), -np.inf)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    kernels.weigh_by_clusters(x, H, cluster_of, lists, 0, N, out)
    near = np.take_along_axis(x @ H.T, cluster_of[lists.clip(0)], axis=1)
    np.testing.assert_allclose(sigmoid(out), np.where(lists >= 0, sigmoid(expected) * sigmoid(near), 0), atol=1e-6)


def test_an_ensemble_has_the_mean_chance() -> None:
    rng = np.random.default_rng(3)
    each = rng.standard_normal((3, N, 4)).astype(np.float32)
    total = np.zeros((N, 4))
    for scores in each:
        kernels.add_chances(scores, 0, N, total)
    out = np.empty((N, 4), np.float32)
    kernels.mean_log_odds(total, 3, 0, N, out)
    np.testing.assert_allclose(sigmoid(out), sigmoid(each).mean(axis=0), rtol=1e-5)


def test_features_mix_and_best() -> None:
    rng = np.random.default_rng(4)
    lists = np.array([rng.choice(L, 9, replace=False) for _ in range(N)], np.int32)
    lists[1, 5:] = -1
    neural = rng.standard_normal(lists.shape).astype(np.float32)
    linear = [rng.choice(L, 5, replace=False) for _ in range(N)]
    ptr = np.arange(0, 5 * N + 1, 5, dtype=np.int32)
    idx = np.concatenate(linear).astype(np.int32)
    val = rng.random(5 * N).astype(np.float32) * np.float32(0.98) + np.float32(0.01)
    val[0] = 1e-20  # below the floor
    place = np.arange(L, dtype=np.int32)
    weight = rng.random(L).astype(np.float32)
    sure = rng.random(N).astype(np.float32)
    rows = np.zeros((N, 9, kernels.OWN + kernels.OF_A_VIEW), np.float32)
    kernels.own_features(lists, neural, weight, 0, N, rows)
    kernels.view_features(lists, ptr, idx, val, sure, place, weight, kernels.OWN, 0, N, rows)
    new = rng.random(L) < 0.2
    weights, alone = rng.standard_normal((2, rows.shape[2]))
    scores = np.empty(lists.shape, np.float32)
    kernels.mix(lists, rows, new, weights, alone, 0, N, scores)
    ids = rng.permutation(L).astype(np.int32)
    labels, chances, counts = np.empty((N, 6), np.int32), np.empty((N, 6), np.float32), np.empty(N, np.int32)
    kernels.best(lists, scores, ids, 6, 0, N, labels, chances, counts)
    for i in range(N):
        expected = {}
        for a, label in enumerate(lists[i]):
            if label < 0:
                continue
            where = np.flatnonzero(linear[i] == label)
            chance = val[5 * i + where[0]] if len(where) else 0.5
            odds = max(np.log(chance / (1 - chance)), float(kernels.FLOOR)) if len(where) else float(kernels.FLOOR)
            s, f, listed = neural[i, a], weight[label], float(len(where))
            row = [1, s, f, s * f, sigmoid(s)]
            row += [odds, listed, odds * f, sure[i], odds * sure[i], listed * sure[i], chance if listed else 0.0]
            np.testing.assert_allclose(rows[i, a], row, rtol=1e-4, atol=1e-5)
            expected[ids[label]] = float(np.dot(alone if new[label] else weights, row))
        order = sorted(expected, key=lambda label: -expected[label])[:6]
        assert labels[i, : counts[i]].tolist() == order
        np.testing.assert_allclose(chances[i, : counts[i]], sigmoid([expected[label] for label in order]), rtol=1e-3)
