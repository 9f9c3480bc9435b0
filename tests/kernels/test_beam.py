"""Beam search: both ways of making products agree, and the small helpers do what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.kernels import beam
from longtail.linear.forest import Forest
from longtail.models.bonsai import Bonsai
from longtail.models.parabel import Parabel
from tests.contract import toy


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=40), st.integers(1, 12))
def test_the_best_come_first(pairs: list[tuple[int, float]], k: int) -> None:
    pairs = list({item: (item, value) for item, value in pairs}.values())
    items = np.array([item for item, _ in pairs], np.int32)
    values = np.array([value for _, value in pairs], np.float64)
    n = beam._keep_best(items, values, len(pairs), k)
    beam._sort_descending(items, values, n)
    assert [(int(i), float(v)) for i, v in zip(items[:n], values[:n], strict=True)] == sorted(
        pairs, key=lambda pair: (-pair[1], pair[0])
    )[:k]


@given(st.floats(-200, 200, width=32))
def test_the_fast_logistic_function_is_the_logistic_function(margin: float) -> None:
    expected = 1 / (1 + np.exp(-max(min(margin, 80.0), -80.0)))
    assert beam._chance(np.float32(margin)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("model", [Parabel(max_leaf=2, beam=3), Bonsai(arity=4, max_leaf=2, beam=3)])
def test_masked_products_equal_whole_ones(model, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    X, Y, _ = toy()
    forest = model.fit(X, Y).forest_
    for row in range(30):
        span = slice(X.indptr[row], X.indptr[row + 1])
        found = []
        for bisection in (0, 10**6):  # always masked, always whole
            monkeypatch.setattr(beam, "_BISECTION", bisection)
            groups, group_chance = np.empty(3, np.int32), np.empty(3)
            best, best_chance = np.empty(3, np.int32), np.empty(3)
            _, _, n, _ = beam.search_tree.py_func(
                X.indices[span], X.data[span], np.float32(1), 0, span.stop - span.start, forest.ptr[0],
                forest.nodes, forest.values, forest.scale[: forest.node_at[1]], forest.bias[: forest.node_at[1]],
                forest.child_ptr[: forest.group_at[1]], forest.level_ptr[: forest.level_at[1]],
                forest.labels[: forest.label_at[1]], 3, 2, np.float32(4), 0.0, 1.0,
                np.full(int(forest.node_at[1]), np.nan, np.float32), groups, group_chance, best, best_chance,
                np.zeros(Y.shape[1], np.int32), np.empty(0, np.int32), np.empty(0), 0,
            )  # fmt: skip
            found.append((best[:n].tolist(), best_chance[:n].tolist()))
        assert found[0] == found[1]
        assert len(found[0][0]) == 2


@pytest.mark.parametrize("model", [Parabel(max_leaf=2, beam=3), Bonsai(arity=4, max_leaf=2, beam=3)])
@pytest.mark.parametrize("bisection", [0, 10**6])
def test_the_best_of_several_trees_are_those_of_the_mean_over_all(model, bisection, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """What a tree leaves out because it cannot be among the best is not missed: the trees one by one say the same."""
    X, Y, _ = toy()
    forest, rows, n_labels = model.fit(X, Y).forest_, 20, Y.shape[1]
    monkeypatch.setattr(beam, "_BISECTION", bisection)
    for function in (beam.search, beam.search_tree):
        monkeypatch.setattr(beam, function.__name__, function.py_func)
    mean = np.zeros((rows, n_labels))
    for t in range(model.n_trees):
        labels, scores, counts = _only(forest, t).search(
            X.indptr, X.indices, X.data, 0, rows, n_labels, n_labels, 3, 4.0, True
        )
        for row, n in enumerate(counts):
            mean[row, labels[row, :n]] += scores[row, :n] / model.n_trees
    for k in (1, 2, 5, n_labels):
        labels, scores, counts = forest.search(X.indptr, X.indices, X.data, 0, rows, n_labels, k, 3, 4.0, True)
        for row, n in enumerate(counts):
            assert n == min(k, np.count_nonzero(mean[row]))
            np.testing.assert_allclose(scores[row, :n], np.sort(mean[row])[::-1][:n], rtol=1e-5)
            np.testing.assert_allclose(mean[row, labels[row, :n]], scores[row, :n], rtol=1e-5)


def _only(forest: Forest, t: int) -> Forest:
    """A forest of one of its trees."""
    nodes, groups, levels, labels = (
        slice(at[t], at[t + 1]) for at in (forest.node_at, forest.group_at, forest.level_at, forest.label_at)
    )
    return Forest(
        forest.ptr[t : t + 1], forest.nodes, forest.values, forest.scale[nodes], forest.bias[nodes],
        forest.child_ptr[groups], forest.level_ptr[levels], forest.labels[labels],
        *(np.array([0, at.stop - at.start]) for at in (nodes, groups, levels, labels)),
    )  # fmt: skip
