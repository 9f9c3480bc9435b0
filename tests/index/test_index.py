"""Every kind of index against a full sort in NumPy."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from longtail import store
from longtail.errors import DataError, ModelError, SettingsError
from longtail.index import ExactIndex, HNSWIndex, Index, IVFIndex, array_rules, from_arrays, make_index
from longtail.store.invariants import check_arrays
from tests.index.cases import best, clustered, recall, scores_of
from tests.test_imports import modules_after

METRICS = ["ip", "cosine"]
KINDS = ["exact", "ivf", "hnsw"]
# Few distinct whole numbers: every sum is exact in float32, and ties are the rule.
WHOLE = st.integers(-2, 2).map(float)


def some(kind: str, metric: str = "ip", n: int = 300, **settings: Any) -> tuple[Index, np.ndarray]:
    vectors = clustered(n, 16) * np.linspace(0.5, 2, n, dtype=np.float32)[:, None]
    return make_index(vectors, metric, kind, **settings), vectors


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["exact", "ivf"]), st.integers(1, 12))
def test_whole_numbers_equal_a_full_sort_with_ties(data, kind: str, k: int) -> None:
    width = data.draw(st.integers(1, 5))
    vectors = data.draw(hnp.arrays(np.float32, (data.draw(st.integers(1, 30)), width), elements=WHOLE))
    queries = data.draw(hnp.arrays(np.float32, (data.draw(st.integers(1, 4)), width), elements=WHOLE))
    # With every partition open, and as many scored exactly as there are, partitions miss nothing.
    more = {"n_probe": len(vectors), "n_rescored": len(vectors)} if kind == "ivf" else {}
    index = make_index(vectors, "ip", kind, **more)
    scores = scores_of(queries, vectors, "ip")
    expected = best(scores, k)
    ids, found = index.search(queries, k)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(found[ids >= 0], np.take_along_axis(scores, expected, 1)[ids >= 0])
    assert (found[ids < 0] == -np.inf).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [1, 50, 9000])  # the last in more than two blocks
def test_exact_equals_numpy(metric: str, n: int) -> None:
    vectors = clustered(n, 24, seed=n) * 3
    queries = clustered(20, 24, seed=1)
    index = make_index(vectors, metric, "exact")
    ids, scores = index.search(queries, 10)
    expected = scores_of(queries, vectors, metric)
    np.testing.assert_array_equal(ids, best(expected, 10))
    np.testing.assert_allclose(scores[ids >= 0], np.take_along_axis(expected, ids, 1)[ids >= 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_query_equals_its_row_of_a_batch_bit_for_bit(kind: str, metric: str) -> None:
    index, _ = some(kind, metric, 3000)
    queries = clustered(40, 16, seed=3) * 2
    queries[7] /= 2  # of unit length among others that are not
    ids, scores = index.search(queries, 7, n_jobs=2)
    again = index.search(queries, 7, n_jobs=1)
    np.testing.assert_array_equal(again[0], ids)
    np.testing.assert_array_equal(again[1], scores)
    for row, query in enumerate(queries):
        one_ids, one_scores = index.search_one(query, 7)
        np.testing.assert_array_equal(one_ids, ids[row])
        np.testing.assert_array_equal(one_scores, scores[row])
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (ids.dtype, scores.dtype) == (np.int32, np.float32)


def test_many_equal_vectors_rank_by_id_though_products_round_differently() -> None:
    vector = np.random.default_rng(0).standard_normal(333).astype(np.float32)
    index = make_index(np.tile(vector, (5001, 1)), kind="exact")
    ids, _ = index.search(np.tile(vector, (40, 1)), 9)
    assert (ids == np.arange(9)).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_recall_of_approximate_search(kind: str, metric: str) -> None:
    vectors = clustered(6000, 48)
    queries = vectors[::60] + clustered(100, 48, seed=9) / 2
    index = make_index(vectors, metric, kind)
    found, _ = index.search(queries, 5)
    assert recall(found, best(scores_of(queries, vectors, metric), 5)) >= 0.97
    if isinstance(index, IVFIndex):
        assert index.n_probe < index.n_partitions


def with_hubs(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Return clustered vectors with a bias, large for a few in random directions, and queries near the others."""
    rng = np.random.default_rng(0)
    vectors = np.column_stack([clustered(n, 16), np.zeros(n, np.float32)]).astype(np.float32)
    vectors[:20, -1] = 0.85  # the bias of frequent labels
    chosen = rng.integers(20, n, 400)
    queries = vectors[chosen] + 0.05 * rng.standard_normal((400, 17)).astype(np.float32)
    queries[:, -1] = 1
    return vectors, queries


def test_vectors_that_suit_every_query_are_always_looked_at() -> None:
    vectors, queries = with_hubs()
    index = make_index(vectors, "ip", "ivf", queries=queries[:200], recall=0.98, recall_k=10)
    assert isinstance(index, IVFIndex)
    expected = best(scores_of(queries[200:], vectors, "ip"), 10)
    assert np.isin(expected, np.arange(20)).mean() > 0.2  # hubs are among the best of most queries
    assert recall(index.search(queries[200:], 10)[0], expected) >= 0.97
    assert index.n_probe < 0.2 * index.n_partitions
    loaded = from_arrays(*index.to_arrays())
    np.testing.assert_array_equal(loaded.search(queries, 10)[0], index.search(queries, 10)[0])
    index.add(vectors[100:110])
    found = index.search(vectors[100:110], 3)[0]
    assert len(set(range(4000, 4010)) & set(found.ravel().tolist())) >= 8


@pytest.mark.parametrize("kind", KINDS)
def test_an_extended_index_leaves_the_one_it_was_made_from(kind: str) -> None:
    vectors = clustered(300, 16)
    index = make_index(vectors[:250], "ip", kind)
    before = index.search(vectors, 5)
    longer = index.extended(vectors[250:])
    assert (len(index), len(longer)) == (250, 300)
    for old, new in zip(before, index.search(vectors, 5), strict=True):
        np.testing.assert_array_equal(old, new)
    assert longer.search(vectors[299:], 1)[1] >= before[1][299, 0]


def test_neighbours_may_count_by_their_probability() -> None:
    rng = np.random.default_rng(1)
    vectors = np.column_stack([8 * clustered(4000, 16), np.full(4000, -4)]).astype(np.float32)
    queries = vectors[rng.integers(0, 4000, 200)] / 8
    queries[::2] = 0.05 * rng.standard_normal((100, 17))  # far from every vector: all have log odds of about -4
    queries[:, -1] = 1
    equal, likely = (
        make_index(vectors, "ip", "ivf", queries=queries, recall=0.98, log_odds=odds) for odds in (False, True)
    )
    assert isinstance(equal, IVFIndex)
    assert isinstance(likely, IVFIndex)
    assert likely.n_probe < 0.7 * equal.n_probe


def test_partitions_meet_the_recall_even_without_structure() -> None:
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((n, 32)).astype(np.float32) for n in (3000, 200))
    true = best(scores_of(queries, vectors, "ip"), 5)
    index = IVFIndex(vectors, recall=0.98)
    assert recall(index.search(queries, 5)[0], true) >= 0.97
    told = IVFIndex(vectors, recall=0.98, queries=rng.standard_normal((300, 32)))
    assert recall(told.search(queries, 5)[0], true) >= 0.97
    low = IVFIndex(vectors, recall=0.5)
    assert low.n_probe < index.n_probe


@pytest.mark.parametrize("biased", [False, True])
def test_a_search_that_would_open_most_partitions_is_exact(biased: bool) -> None:
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((n, 32)).astype(np.float32) for n in (3000, 200))
    if biased:  # codes are coarse then
        vectors[:, -1], queries[:, -1] = -9 - rng.random(3000), 4
    vectors[50:90] = vectors[10]
    index, exact = IVFIndex(vectors, recall=0.98), make_index(vectors, kind="exact")
    assert index.n_probe == index.n_partitions
    for k in (1, 7, 60):
        ids, scores = exact.search(queries, k)
        for found, found_scores in (index.search(queries, k), from_arrays(*index.to_arrays()).search(queries, k)):
            np.testing.assert_array_equal(found, ids)
            np.testing.assert_array_equal(found_scores, scores)
        few = index.search(queries[:3], k)
        one = index.search_one(queries[0], k)
        np.testing.assert_array_equal(few[0], ids[:3])
        np.testing.assert_array_equal(few[1], scores[:3])
        np.testing.assert_array_equal(one[0], ids[0])
        np.testing.assert_array_equal(one[1], scores[0])


@pytest.mark.parametrize("kind", KINDS)
def test_more_asked_than_there_is(kind: str) -> None:
    index, _ = some(kind, n=4)
    ids, scores = index.search(np.ones((2, 16)), 6)
    assert sorted(ids[0, :4].tolist()) == [0, 1, 2, 3]
    assert (ids[:, 4:] == -1).all()
    assert (scores[:, 4:] == -np.inf).all()
    assert len(index.search_one(np.ones(16), 6)[0]) == 4
    alone = index.search(np.ones((1, 16)), 6)
    np.testing.assert_array_equal(alone[0], ids[:1])
    np.testing.assert_array_equal(alone[1], scores[:1])


def test_one_query_does_not_look_for_thread_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = some("exact", n=100)
    monkeypatch.setattr("longtail.index.exact.single_threaded", None)  # calling it would fail
    assert index.search(np.ones((1, 16)), 3, n_jobs=1)[0].shape == (1, 3)


def test_partitions_open_until_k_are_found() -> None:
    index, _ = some("ivf", n=200, n_probe=1, n_partitions=50)
    ids, _ = index.search(np.ones((3, 16)), 150)
    assert (ids >= 0).all()
    assert all(len(set(row)) == 150 for row in ids.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_index_finds_nothing_and_can_grow(kind: str) -> None:
    index = make_index(np.empty((0, 16)), "cosine", kind)
    assert len(index) == 0
    assert (index.search(np.ones((2, 16)), 3)[0] == -1).all()
    assert len(index.search_one(np.ones(16), 3)[0]) == 0
    index.add(clustered(30, 16))
    assert (index.search(clustered(30, 16), 1)[0][:, 0] == np.arange(30)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_queries(kind: str) -> None:
    ids, scores = some(kind)[0].search(np.empty((0, 16)), 3)
    assert ids.shape == scores.shape == (0, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_without_length_has_cosine_zero(kind: str) -> None:
    vectors = np.vstack([np.zeros((1, 4)), np.eye(4), -np.eye(4), np.full((1, 4), 1e-30), np.full((1, 4), 1e18)])
    index = make_index(vectors, "cosine", kind)
    ids, scores = index.search(np.array([[1.0, 0, 0, 0], [0, 0, 0, 0]]), len(vectors))
    assert (ids[0, 0], scores[0, 0]) == (1, 1)
    assert scores[0][ids[0] == 0] == 0
    np.testing.assert_allclose(scores[0][np.isin(ids[0], [9, 10])], 0.5, rtol=1e-6)
    assert (scores[1] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_what_is_no_number_is_refused_with_its_row(kind: str, value: float) -> None:
    index, vectors = some(kind)
    bad = vectors[:5].copy()
    bad[3, 2] = value
    for call in (lambda: make_index(bad, kind=kind), lambda: index.search(bad, 1), lambda: index.add(bad)):
        with pytest.raises(DataError, match=r"row 3: .*not a number, or too large"):
            call()
    with pytest.raises(DataError, match="not a number"):
        index.search_one(bad[3], 1)


def test_bad_shapes_and_settings() -> None:
    index, vectors = some("exact")
    with pytest.raises(DataError, match="length 3, but the index holds vectors of length 16"):
        index.search(np.ones((1, 3)), 1)
    with pytest.raises(DataError, match="length 3"):
        index.search_one(np.ones(3), 1)
    for call in (lambda: index.search(np.ones(16), 1), lambda: index.search_one(np.ones((1, 16)), 1)):
        with pytest.raises(DataError, match="shape"):
            call()
    with pytest.raises(DataError, match="shape"):
        make_index(np.empty((3, 0)))
    with pytest.raises(DataError, match="type"):
        make_index(np.array([["a"]]))
    with pytest.raises(SettingsError, match="at least one"):
        index.search(vectors, 0)
    with pytest.raises(SettingsError, match="auto, exact, ivf, hnsw"):
        make_index(vectors, kind="tree")
    with pytest.raises(SettingsError, match="ip, cosine"):
        make_index(vectors, "l2")
    with pytest.raises(SettingsError, match='"ivf" has no such setting: colour'):
        make_index(vectors, kind="ivf", colour=3)
    for more in ({"n_probe": 0}, {"n_partitions": 0}, {"recall": 0.0}, {"recall": 1.5}):
        with pytest.raises(SettingsError, match=next(iter(more))):
            make_index(vectors, kind="ivf", **more)
    with pytest.raises(SettingsError, match="links=1"):
        make_index(vectors, kind="hnsw", links=1)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_added_vectors_are_found(kind: str, metric: str) -> None:
    vectors = clustered(900, 16)
    index = make_index(vectors[:600], metric, kind)
    index.add(vectors[600:800])
    index.add(vectors[800:])
    index.add(np.empty((0, 16)))
    assert len(index) == 900
    np.testing.assert_array_equal(index.search(vectors, 1)[0][:, 0], np.arange(900))
    if kind == "exact":
        fresh = make_index(vectors, metric, kind)
        np.testing.assert_array_equal(index.search(vectors, 5)[1], fresh.search(vectors, 5)[1])


def test_partitions_are_made_again_when_most_vectors_are_new() -> None:
    vectors = clustered(2000, 16)
    index = make_index(vectors[:100], kind="ivf")
    few = index.n_partitions
    index.add(vectors[100:])
    assert index.n_partitions > few
    assert recall(index.search(vectors[:200], 5)[0], best(scores_of(vectors[:200], vectors, "ip"), 5)) >= 0.97


@pytest.mark.parametrize("loaded", [False, True])
def test_partitions_made_again_suit_the_same_queries(loaded: bool) -> None:
    """Labels have a bias as their last number, and points 1 in its place: queries that no sum of labels is like."""
    rng = np.random.default_rng(0)
    labels = np.hstack([3 * clustered(3000, 16), rng.uniform(-10, -7, (3000, 1))]).astype(np.float32)
    points = np.hstack([2 * clustered(400, 16, seed=1), np.ones((400, 1))]).astype(np.float32)
    index = make_index(labels[:1000], kind="ivf", queries=points[:200])
    if loaded:
        index = from_arrays(*index.to_arrays())
    index.add(labels[1000:])
    assert recall(index.search(points[200:], 5)[0], best(scores_of(points[200:], labels, "ip"), 5)) >= 0.95


def test_partitions_opened_may_be_set_and_stay_set() -> None:
    vectors = clustered(2000, 16)
    index = IVFIndex(vectors[:500])
    index.n_probe = 3
    index.add(vectors[500:])  # makes the partitions again
    again = from_arrays(*index.to_arrays())
    assert isinstance(again, IVFIndex)
    assert index.n_probe == again.n_probe == 3
    with pytest.raises(SettingsError, match="n_probe=0"):
        index.n_probe = 0


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_stored_and_read_again(kind: str, metric: str, mmap: bool, tmp_path: Path) -> None:
    index, _ = some(kind, metric)
    meta, arrays = index.to_arrays()
    store.write(tmp_path, "index", meta, arrays)
    stored = store.read(tmp_path, mmap=mmap)
    again = from_arrays(stored.meta, stored.arrays)
    queries = clustered(30, 16, seed=2)
    for kept, read in zip(index.search(queries, 5), again.search(queries, 5), strict=True):
        np.testing.assert_array_equal(kept, read)
    np.testing.assert_array_equal(index.vectors, again.vectors)
    for one in (index, again):  # both grow alike, the mapped file untouched
        one.add(queries)
    np.testing.assert_array_equal(index.search(queries, 5)[0], again.search(queries, 5)[0])
    store.read(tmp_path, verify=True)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_index_can_be_stored(kind: str) -> None:
    again = from_arrays(*make_index(np.empty((0, 4)), kind=kind).to_arrays())
    assert (again.search(np.ones((1, 4)), 2)[0] == -1).all()


def test_arrays_that_do_not_fit_are_refused() -> None:
    meta, arrays = some("ivf")[0].to_arrays()
    order = arrays["order"].copy()
    order[5] = 300
    twice = arrays["order"].copy()
    twice[0] = twice[1]
    indptr = arrays["indptr"].copy()
    indptr[1] = -1
    changes = {"order": order}, {"order": twice}, {"indptr": indptr}, {"codes": arrays["codes"][:, :3]}
    for wrong in (*changes, {"squares": arrays["squares"][1:]}):
        (name,) = wrong
        with pytest.raises(ModelError, match=rf"{name}\.npy"):
            check_arrays(array_rules(meta, "n", "d"), arrays | wrong, {}, "m")
    with pytest.raises(ModelError, match="metric"):
        array_rules(meta | {"metric": "l2"}, "n", "d")
    with pytest.raises(ModelError, match="codes"):
        from_arrays(meta, {name: array for name, array in arrays.items() if name != "codes"})
    with pytest.raises(ModelError, match="kind"):
        from_arrays({}, arrays)


def test_a_damaged_graph_is_refused() -> None:
    index, vectors = some("hnsw")
    meta, arrays = index.to_arrays()
    with pytest.raises(ModelError, match="damaged"):
        from_arrays(meta, {"graph": arrays["graph"][:100]})
    import faiss

    flat = faiss.IndexFlatL2(16)
    flat.add(vectors)
    with pytest.raises(ModelError, match="another graph"):
        from_arrays(meta, {"graph": faiss.serialize_index(flat)})


def test_the_same_seed_gives_the_same_partitions() -> None:
    (one, _), (two, _) = some("ivf", random_state=3), some("ivf", random_state=3)
    for name, array in one.to_arrays()[1].items():
        np.testing.assert_array_equal(array, two.to_arrays()[1][name])
    assert some("ivf", random_state=4)[0].to_arrays()[1]["order"].tolist() != one.to_arrays()[1]["order"].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_several_threads_at_once(kind: str) -> None:
    index, _ = some(kind, n=2000)
    queries = clustered(64, 16, seed=5)
    expected = index.search(queries, 5)[0]
    wrong: list[int] = []

    def work() -> None:
        for row, query in enumerate(queries):
            if index.search_one(query, 5)[0].tolist() != expected[row].tolist():
                wrong.append(row)
        if (index.search(queries, 5)[0] != expected).any():
            wrong.append(-1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_kind_is_chosen_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(500, 16)
    assert isinstance(make_index(vectors, recall=0.9), ExactIndex)
    monkeypatch.setattr("longtail.index._EXACT_BELOW", 500 * 16 - 1)
    assert isinstance(make_index(vectors, recall=0.9), IVFIndex)
    assert repr(make_index(vectors, "cosine")) == "IVFIndex(500 x 16, metric='cosine')"


def test_without_faiss_a_graph_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(SettingsError, match=r"longtail\[neural\]"):
        HNSWIndex(np.eye(3))


def test_searching_needs_neither_torch_nor_faiss() -> None:
    code = (
        "import numpy as np\n"
        "from longtail.index import from_arrays, make_index\n"
        "index = from_arrays(*make_index(np.eye(30), kind='ivf').to_arrays())\n"
        "index.search_one(np.ones(30), 3), index.search(np.ones((2, 30)), 3)\n"
    )
    assert not modules_after(code) & {"torch", "faiss", "sklearn"}
