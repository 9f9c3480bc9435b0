"""Kernels from candidate lists to rankings, against plain NumPy."""

from __future__ import annotations

import numpy as np

from longtail.combine.boosted_trees import BoostedTrees, no_trees
from longtail.kernels import combine as kernels
from longtail.kernels import decaf, listed
from longtail.kernels.combine import Known, Lists, Pairs, TopLabels, Weights
from longtail.kernels.encode import SparseRows
from longtail.kernels.likeness import LabelVectors, Profile, write_likeness
from longtail.kernels.oblivious_trees import ObliviousTrees

N, L, K, DIM = 7, 30, 6, 5
SAME = np.array([[-80.0, 80.0], [-80.0, 80.0]])  # a calibration that changes nothing


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
    decaf.expand_clusters(found, ptr, order, 0, N, out)
    for i in range(N):
        expected = [label for m in found[i] if m >= 0 for label in order[ptr[m] : ptr[m + 1]]][:12]
        assert out[i].tolist() == expected + [-1] * (12 - len(expected))


def test_encode() -> None:
    rng = np.random.default_rng(5)
    tokens, R = rng.standard_normal((L, DIM), np.float32), rng.standard_normal((DIM, DIM), np.float32)
    gate = rng.random(DIM, np.float32)
    dense = rng.random((N, L), np.float32) * (rng.random((N, L)) < 0.3)
    dense[2] = 0
    ptr = np.concatenate([[0], np.cumsum((dense > 0).sum(axis=1))]).astype(np.int32)
    idx = np.nonzero(dense)[1].astype(np.int32)
    points, out = SparseRows(ptr, idx, dense[dense > 0]), np.empty((N, DIM + 1), np.float32)
    v = dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12) @ tokens
    for least in (np.float32(0), np.float32(-np.inf)):
        decaf.encode_documents(points, decaf.DocumentBlock(tokens, R, gate, least), 0, N, out)
        expected = np.maximum(np.maximum(v, 0) @ R + gate * v, least)
        np.testing.assert_allclose(out, np.column_stack([expected, np.ones(N)]), atol=1e-5)


def two_views(rng: np.random.Generator) -> tuple[list[list[np.ndarray]], np.ndarray, np.ndarray]:
    """Labels of two views, by view and point, and as starts and labels."""
    views = [[rng.choice(L, rng.integers(8), replace=False) for _ in range(N)] for _ in range(2)]
    lengths = np.array([[len(row) for row in view] for view in views])
    ends = np.cumsum(lengths).reshape(2, N)
    starts = np.column_stack([ends[:, 0] - lengths[:, 0], ends])
    return views, starts, np.concatenate([row for view in views for row in view]).astype(np.int32)


def as_lists(starts: np.ndarray, labels: np.ndarray) -> Lists:
    n = starts.shape[1] - 1
    return Lists(starts, labels, np.full(len(labels), 0.5, np.float32), np.ones((len(starts), n), np.float32))


def test_unite() -> None:
    rng = np.random.default_rng(1)
    own = np.array([rng.choice(L, 6, replace=False) for _ in range(N)], np.int32)
    own[3, 2] = -1
    views, starts, idx = two_views(rng)
    out, where = np.empty((N, 20), np.int32), np.empty(len(idx), np.int32)
    kernels.unite(own, as_lists(starts, idx), 0, N, out, where)
    for i in range(N):
        expected = [label for label in own[i] if label >= 0]
        for view in views:
            expected += [label for label in view[i] if label not in expected]
        assert out[i].tolist() == expected + [-1] * (20 - len(expected))
        for v, view in enumerate(views):
            at = where[starts[v, i] : starts[v, i + 1]]
            assert [expected[a] for a in at] == view[i].tolist()


def test_unite_finds_its_way_among_labels_of_one_slot() -> None:
    idx = np.arange(0, 64 * 4096, 4096, dtype=np.int32)
    out, where = np.empty((1, 64), np.int32), np.empty(64, np.int32)
    kernels.unite(np.empty((1, 0), np.int32), as_lists(np.array([[0, 64]]), idx), 0, 1, out, where)
    assert out[0].tolist() == idx.tolist()
    assert where.tolist() == list(range(64))


def test_scores_with_and_without_clusters() -> None:
    rng = np.random.default_rng(2)
    x, W, H = (rng.standard_normal((n, DIM)).astype(np.float32) for n in (N, L, K))
    lists = rng.integers(-1, L, (N, 8)).astype(np.int32)
    cluster_of = rng.integers(K, size=L).astype(np.int32)
    out = np.empty(lists.shape, np.float32)
    listed.score_lists(x, W, lists, 0, N, out)
    expected = np.where(lists >= 0, np.take_along_axis(x @ W.T, lists.clip(0), axis=1), kernels.FLOOR)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    decaf.weigh_by_clusters(x, H, cluster_of, lists, 0, N, out)
    near = np.take_along_axis(x @ H.T, cluster_of[lists.clip(0)], axis=1)
    np.testing.assert_allclose(sigmoid(out), np.where(lists >= 0, sigmoid(expected) * sigmoid(near), 0), atol=1e-5)


def test_an_ensemble_has_the_mean_chance() -> None:
    rng = np.random.default_rng(3)
    each = rng.standard_normal((3, N, 4)).astype(np.float32)
    total = np.zeros((N, 4))
    for scores in each:
        decaf.add_probabilities(scores, 0, N, total)
    out = np.empty((N, 4), np.float32)
    decaf.mean_log_odds(total, 3, 0, N, out)
    np.testing.assert_allclose(sigmoid(out), sigmoid(each).mean(axis=0), rtol=1e-5)


def random_rows(rng: np.random.Generator, n: int) -> SparseRows:
    """Points with about three features of length 1."""
    rows = [np.sort(rng.choice(DIM, rng.integers(1, DIM), replace=False)) for _ in range(n)]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    val = np.concatenate([np.full(len(row), len(row) ** -0.5) for row in rows]).astype(np.float32)
    return SparseRows(ptr, np.concatenate(rows).astype(np.int32), val)


def label_vectors(rng: np.random.Generator) -> LabelVectors:
    return LabelVectors(*random_rows(rng, L))


def test_features_and_rank() -> None:
    rng = np.random.default_rng(4)
    own = np.array([rng.choice(L, 9, replace=False) for _ in range(N)], np.int32)
    own[1, 5:] = -1
    views, starts, idx = two_views(rng)
    val = rng.random(len(idx)).astype(np.float32) * np.float32(0.98) + np.float32(0.01)
    val[0] = 1e-20  # below the floor
    certainty = rng.random((2, N)).astype(np.float32)
    lists = Lists(starts, idx, val, certainty)
    labels, where = np.empty((N, 23), np.int32), np.empty(len(idx), np.int32)
    kernels.unite(own, lists, 0, N, labels, where)
    odds = rng.standard_normal((2, *labels.shape)).astype(np.float32)
    points, profile = random_rows(rng, N), Profile(label_vectors(rng), label_vectors(rng))
    likeness = np.empty((*labels.shape, 4), np.float32)
    write_likeness(points, profile, labels, 0, N, likeness)
    pairs = Pairs(labels, odds, lists, where)
    frequency, unseen = rng.random(L).astype(np.float32), rng.random(L) < 0.2
    known = Known(frequency, unseen, profile)

    def plain(i: int, a: int, label: int) -> list[float]:
        f = frequency[label]
        row = [1, f]
        for m in range(2):
            row += [odds[m, i, a], odds[m, i, a] * f, sigmoid(odds[m, i, a])]
        for v, view in enumerate(views):
            at = np.flatnonzero(view[i] == label)
            chance = val[starts[v, i] + at[0]] if len(at) else 0.0
            own_odds = max(np.log(chance / (1 - chance)), float(kernels.FLOOR)) if len(at) else float(kernels.FLOOR)
            found, certain = float(len(at)), certainty[v, i]
            row += [own_odds, found, own_odds * f, certain, own_odds * certain, found * certain, chance]
        return [*row, *likeness[i, a]]

    width = kernels.OF_ALL + 2 * kernels.OF_SCORER + 2 * kernels.OF_LISTER + 4
    rows = np.empty((*labels.shape, width), np.float32)
    kernels.features(points, pairs, known, 0, N, rows)
    seen_weights, unseen_weights = rng.standard_normal((2, width))
    some = rows[labels >= 0]
    trees = BoostedTrees.fit(some, some[:, 2] > 0.5, 3, 0.15)
    others = BoostedTrees.fit(some, some[:, 5] > 0.5, 2, 0.3)
    for grown, grown_unseen in ((False, False), (True, False), (False, True), (True, True)):
        forests = (trees if grown else no_trees()).packed(), (others if grown_unseen else no_trees()).packed()
        weights = Weights(seen_weights, unseen_weights, 0.8, *forests, SAME, SAME)
        best = TopLabels(np.empty((N, 6), np.int32), np.empty((N, 6), np.float32), np.empty(N, np.int32))
        kernels.rank(points, pairs, known, weights, 0, N, best)
        for i in range(N):
            expected = {}
            for a, label in enumerate(labels[i]):
                if label < 0:
                    assert not rows[i, a].any()
                    continue
                row = plain(i, a, label)
                np.testing.assert_allclose(rows[i, a], row, rtol=1e-4, atol=1e-5)
                summed = width - 4 if grown else width  # likeness is left to the trees
                value = float(np.dot((unseen_weights if unseen[label] else seen_weights)[:summed], row[:summed]))
                if grown_unseen if unseen[label] else grown:
                    own_trees = others if unseen[label] else trees
                    share = 1.0 if unseen[label] else 0.8
                    value = (1 - share) * value + share * own_trees.log_odds(rows[i, a : a + 1])[0]
                expected[label] = value
            order = sorted(expected, key=lambda label: -expected[label])[:6]
            assert best.labels[i, : best.counts[i]].tolist() == order
            wanted = sigmoid([expected[label] for label in order])
            np.testing.assert_allclose(best.scores[i, : best.counts[i]], wanted, rtol=1e-3)


def nothing_known(n: int) -> Known:
    """Return labels of which neither frequency nor text is known."""
    none = LabelVectors(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
    return Known(np.zeros(n, np.float32), np.zeros(n, bool), Profile(none, none))


def test_trees_rerank_the_leading_labels_only() -> None:
    n = kernels.RERANKED + 10
    labels, odds = np.arange(n, dtype=np.int32)[None], np.linspace(1, -1, n, dtype=np.float32)[None]
    nothing = as_lists(np.empty((0, 2), np.int64), np.empty(0, np.int32))
    pairs = Pairs(labels, odds[None], nothing, np.empty(0, np.int32))
    own = np.array([0, 0, 1.0, 0, 0])
    # One comparison: log odds of at most the edge, which the last ones have, get 9 and all others nothing.
    features, edges = np.array([[0, 0, 2]], np.int32), np.array([[np.inf, np.inf, -0.9]], np.float32)
    tree = ObliviousTrees(0.0, features, edges, np.array([[9.0] + [0.0] * 7]))
    for k in (3, n):
        best = TopLabels(np.empty((1, k), np.int32), np.empty((1, k), np.float32), np.empty(1, np.int32))
        known = nothing_known(n)
        point = random_rows(np.random.default_rng(0), 1)
        kernels.rank(point, pairs, known, Weights(own, own, 0.5, tree, no_trees().packed(), SAME, SAME), 0, 1, best)
        assert best.labels[0, 0] == (0 if k == 3 else np.flatnonzero(odds[0] <= -0.9)[0])


def test_labels_without_training_points_are_reranked_beyond_the_leading_ones() -> None:
    n = kernels.RERANKED + 2 * kernels.MORE_UNSEEN
    labels, odds = np.arange(n, dtype=np.int32)[None], np.linspace(1, -1, n, dtype=np.float32)[None]
    nothing = as_lists(np.empty((0, 2), np.int64), np.empty(0, np.int32))
    pairs = Pairs(labels, odds[None], nothing, np.empty(0, np.int32))
    own = np.array([0, 0, 1.0, 0, 0])
    last = kernels.RERANKED + kernels.MORE_UNSEEN  # of 12 such labels, the first 8 are scored by the trees
    known = nothing_known(n)._replace(unseen=(np.arange(n) >= last - 4) & (np.arange(n) < last + 8))
    features, edges = np.array([[0, 0, 2]], np.int32), np.array([[np.inf, np.inf, 9.0]], np.float32)
    tree = ObliviousTrees(0.0, features, edges, np.array([[9.0] * 8]))
    best = TopLabels(np.empty((1, 9), np.int32), np.empty((1, 9), np.float32), np.empty(1, np.int32))
    weights = Weights(own, own, 0.5, no_trees().packed(), tree, SAME, SAME)
    kernels.rank(random_rows(np.random.default_rng(0), 1), pairs, known, weights, 0, 1, best)
    assert best.labels[0].tolist() == [*range(last - 4, last + 4), 0]


def test_calibration_follows_its_knots_and_keeps_the_order() -> None:
    knots = np.array([[-2.0, 0.0, 1.0], [-3.0, -1.0, 2.0]])
    inside = np.linspace(-2, 1, 13)
    np.testing.assert_allclose([kernels.calibrated(x, knots) for x in inside], np.interp(inside, *knots))
    beyond = [kernels.calibrated(x, knots) for x in (-9.0, -3.0, 2.0, 9.0)]
    np.testing.assert_allclose(beyond, [-3, -3, 2, 2], atol=0.1)
    assert (np.diff(beyond) > 0).all()  # labels that differ before differ after it
    single = np.array([[0.5], [1.5]])
    assert kernels.calibrated(0.5, single) == 1.5

    n = 8
    labels, odds = np.arange(n, dtype=np.int32)[None], np.linspace(1, -2, n, dtype=np.float32)[None]
    nothing = as_lists(np.empty((0, 2), np.int64), np.empty(0, np.int32))
    pairs = Pairs(labels, odds[None], nothing, np.empty(0, np.int32))
    own, known = np.array([0, 0, 1.0, 0, 0]), nothing_known(n)
    point = random_rows(np.random.default_rng(0), 1)
    higher = SAME + np.array([[0.0], [0.7]])
    for first, others in ((SAME, higher), (higher, SAME), (knots, SAME)):
        best = TopLabels(np.empty((1, n), np.int32), np.empty((1, n), np.float32), np.empty(1, np.int32))
        weights = Weights(own, own, 0.5, no_trees().packed(), no_trees().packed(), first, others)
        kernels.rank(point, pairs, known, weights, 0, 1, best)
        assert best.labels[0].tolist() == list(range(n))
        wanted = [kernels.calibrated(odds[0, a], others if a else first) for a in range(n)]
        np.testing.assert_allclose(best.scores[0], sigmoid(np.minimum.accumulate(wanted)), rtol=1e-5)
