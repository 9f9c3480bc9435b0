"""Walks and label vectors: where they go, that near labels come near, and that vectors are kept."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.models.dxml import deepwalk
from longtail.models.dxml.deepwalk import (
    Walker,
    WalkSettings,
    huffman_paths,
    learn_vectors,
    unit_vectors,
    vector_cache,
    whitened,
)
from longtail.models.dxml.label_graph import cooccurrence_graph, edge_graph

SMALL = WalkSettings(dim=16, n_walks=20, length=10, window=2)


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    vector_cache.clear()


def communities(n: int = 40, groups: int = 4) -> csr_array:
    """A graph of groups, joined by one edge each."""
    size = n // groups
    edges = [(g * size + a, g * size + b) for g in range(groups) for a in range(size) for b in range(a)]
    edges += [(g * size, (g + 1) * size) for g in range(groups - 1)]
    return edge_graph(edges, n)


def test_walks_follow_edges_by_their_weight() -> None:
    graph = edge_graph([(0, 1, 3.0), (0, 2, 1.0)], 4)
    walks = Walker(graph).walk(np.zeros(20_000, np.int32), 2, seed=1)
    assert (walks[:, 0] == 0).all()
    assert abs((walks[:, 1] == 1).mean() - 0.75) < 0.02
    assert set(walks[:, 1]) == {1, 2}
    even = Walker(edge_graph([(0, 1, 3.0), (0, 2, 1.0)], 4, weighted=False)).walk(np.zeros(20_000, np.int32), 2)
    assert abs((even[:, 1] == 1).mean() - 0.5) < 0.02


def test_every_step_is_an_edge_and_isolated_labels_end_a_walk() -> None:
    rng = np.random.default_rng(0)
    Y = csr_array((rng.random((50, 30)) < 0.05).astype(np.float32))
    graph = cooccurrence_graph(Y)
    dense = graph.toarray()
    alone = np.flatnonzero(dense.sum(axis=1) == 0)
    assert len(alone)
    walks = Walker(graph).walk(np.arange(30, dtype=np.int32), 8)
    assert (walks[alone, 1:] == -1).all()
    for walk in np.delete(walks, alone, axis=0):
        assert (dense[walk[:-1], walk[1:]] > 0).all()


def test_a_huffman_tree_gives_heavy_labels_short_paths_and_each_its_own() -> None:
    weights = np.array([1.0, 40.0, 2.0, 3.0, 20.0, 0.0])
    ptr, path, right = huffman_paths(weights)
    ways = [tuple(zip(path[a:b], right[a:b], strict=True)) for a, b in itertools.pairwise(ptr)]
    assert len({way[0][0] for way in ways}) == 1  # all begin at the root
    assert len(set(ways)) == len(weights)
    assert not any(a != b and a == b[: len(a)] for a in ways for b in ways)  # no label on the path of another
    assert [len(ways[label]) for label in (1, 4, 3, 2, 0, 5)] == [1, 2, 3, 4, 5, 5]
    assert set(path) == set(range(len(weights) - 1))
    assert [len(part) for part in huffman_paths(np.ones(1))] == [2, 0, 0]  # one label: nothing to decide


def test_hierarchical_softmax_brings_near_labels_together() -> None:
    settings = WalkSettings(16, 60, 10, 2, rate=0.1, hierarchical=True)
    vectors = learn_vectors(communities(), settings)
    cosines = (vectors @ vectors.T).reshape(4, 10, 4, 10).mean(axis=(1, 3))
    apart = cosines[~np.eye(4, dtype=bool)]
    assert cosines.diagonal().min() > apart.max() + 0.2


def test_threads_do_not_change_walks() -> None:
    graph = communities()
    starts = np.tile(np.arange(40, dtype=np.int32), 100)
    one, two = (Walker(graph, jobs).walk(starts, 12, seed=5) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != Walker(graph).walk(starts, 12, seed=6)).any()


def test_labels_of_a_community_come_near() -> None:
    settings = WalkSettings(dim=16, n_walks=60, length=10, window=2, epochs=3, seed=4)
    vectors = learn_vectors(communities(), settings)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    cosines = vectors @ vectors.T
    same = np.arange(40)[:, None] // 10 == np.arange(40) // 10
    assert cosines[same & ~np.eye(40, dtype=bool)].mean() > cosines[~same].mean() + 0.3
    vector_cache.clear()
    np.testing.assert_array_equal(learn_vectors(communities(), settings), vectors)  # the same seed, the same vectors


def test_a_graph_without_edges_gives_directions_of_their_own() -> None:
    empty = csr_array((50, 50), dtype=np.float32)
    vectors = learn_vectors(empty, WalkSettings(dim=100))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert np.abs(vectors @ vectors.T - np.eye(50)).max() < 0.6


def test_vectors_are_kept_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    learn = deepwalk._by_skip_gram
    monkeypatch.setattr(deepwalk, "_by_skip_gram", lambda *args: calls.append(1) or learn(*args))
    first = learn_vectors(communities(), SMALL)
    assert learn_vectors(communities(), SMALL) is first
    assert len(calls) == 1
    learn_vectors(communities(), WalkSettings(dim=16, n_walks=20, length=10, window=2, seed=1))
    learn_vectors(communities(36), SMALL)
    assert len(calls) == 3
    monkeypatch.setattr(vector_cache, "n_bytes", 3 * first.nbytes)
    for seed in (2, 3):
        learn_vectors(communities(), WalkSettings(dim=16, n_walks=1, seed=seed))
    learn_vectors(communities(), SMALL)  # the oldest had to go
    assert len(calls) == 6
    assert not first.flags.writeable


def test_vectors_are_kept_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = learn_vectors(communities(), SMALL, cache=tmp_path / "kept")
    vector_cache.clear()
    monkeypatch.setattr(deepwalk, "_by_skip_gram", None)
    np.testing.assert_array_equal(learn_vectors(communities(), SMALL, cache=tmp_path / "kept"), first)
    (path,) = (tmp_path / "kept").iterdir()
    vector_cache.clear()
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match=r"damaged.*Remove it"):
        learn_vectors(communities(), SMALL, cache=tmp_path / "kept")
    np.save(path, np.zeros((2, 2)))
    with pytest.raises(DataError, match="other vectors"):
        learn_vectors(communities(), SMALL, cache=tmp_path / "kept")


@pytest.mark.parametrize("wrong", [{"dim": 0}, {"window": 1.5}, {"epochs": 0}])
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        learn_vectors(communities(), WalkSettings(**wrong))


def test_whitened_vectors_are_spread_evenly() -> None:
    rng = np.random.default_rng(0)
    cone = unit_vectors(rng.standard_normal((300, 5)).astype(np.float32) * [3, 1, 0.3, 0.1, 0] + [9, 0, 0, 0, 0])
    found = whitened(cone)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    spread = np.linalg.svd(found - found.mean(axis=0), compute_uv=False)
    assert spread[3] > 0.5 * spread[0]  # of five directions one was empty
    assert spread[4] < 1e-3 * spread[0]
    one = unit_vectors(np.ones((1, 4), np.float32))
    np.testing.assert_array_equal(whitened(one), one)


def test_unit_vectors_keep_zeros() -> None:
    np.testing.assert_array_equal(
        unit_vectors(np.array([[0, 0], [3, 4]], np.float32)), np.float32([[0, 0], [0.6, 0.8]])
    )
