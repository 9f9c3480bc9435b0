"""Beam search: all ways of making products agree, and the small helpers do what they say."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from longtail.kernels import beam, best, products
from longtail.kernels.compiling import njit
from longtail.kernels.csr import Csr
from longtail.linear.forest import Forest, search_options
from longtail.models.bonsai import Bonsai
from longtail.models.dismec import DiSMEC
from longtail.models.parabel import Parabel
from longtail.sparse import frozen_csr
from tests.contract import toy


@njit(no_cpython_wrapper=False)
def _chance(margin):  # type: ignore[no-untyped-def]
    return beam._chance(margin)


@njit(no_cpython_wrapper=False)
def _keep_sorted(items, values, n, k):  # type: ignore[no-untyped-def]
    n = best.keep_best(items, values, n, k)
    best.sort_descending(items, values, n)
    return n


@njit(no_cpython_wrapper=False)
def _highest(values, first, last):  # type: ignore[no-untyped-def]
    return best.highest(values, first, last)


@njit(no_cpython_wrapper=False)
def _reached(values, first, last, k, lanes):  # type: ignore[no-untyped-def]
    return best.reached(values, first, last, k, lanes)


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=40), st.integers(1, 12))
def test_the_best_come_first(pairs: list[tuple[int, float]], k: int) -> None:
    pairs = list({item: (item, value) for item, value in pairs}.values())
    items = np.array([item for item, _ in pairs], np.int32)
    values = np.array([value for _, value in pairs], np.float64)
    n = _keep_sorted(items, values, len(pairs), k)
    assert [(int(i), float(v)) for i, v in zip(items[:n], values[:n], strict=True)] == sorted(
        pairs, key=lambda pair: (-pair[1], pair[0])
    )[:k]


@given(st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=120), st.integers(1, 12))
def test_k_values_reach_what_is_said_to_be_reached(numbers: list[float], k: int) -> None:
    values = np.array(numbers, np.float32)
    assert _highest(values, 0, len(values)) == values.max()
    lanes = np.empty(best.n_lanes(k), np.float32)
    if len(values) >= len(lanes):
        assert np.count_nonzero(values >= _reached(values, 0, len(values), k, lanes)) >= k


@given(st.floats(-200, 200, width=32))
def test_the_fast_logistic_function_is_the_logistic_function(margin: float) -> None:
    expected = 1 / (1 + np.exp(-max(min(margin, 80.0), -80.0)))
    assert _chance(np.float32(margin)) == pytest.approx(expected, rel=1e-5)


_MODELS = [Parabel(max_leaf=2, beam=3), Bonsai(arity=4, max_leaf=2, beam=3), DiSMEC()]


@pytest.mark.parametrize("model", _MODELS)
@pytest.mark.parametrize("k", [1, 4])
def test_whole_masked_and_dense_products_agree_to_the_last_bit(model, k, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    X, Y, _ = toy()
    forest = model.fit(X, Y).forest_
    _interpret(monkeypatch)
    found = []
    # All masked, all whole; rows all dense, none; rows all with skips, none.
    for finding, full, least, block in itertools.product((0, 10**6), (-1.0, 2.0), (-1.0, 1e6), (0, 2, 5)):
        monkeypatch.setattr(products, "FINDING", finding)
        monkeypatch.setattr(products, "DENSE", full)
        monkeypatch.setattr(products, "SKIPS", least)
        monkeypatch.setattr(products, "BLOCK", block)
        fresh = Forest(**forest.arrays())
        found.append(_search(fresh, X, 20, Y.shape[1], k))
        assert (len(fresh.trees.dense) > 0) == (full < 0)
        assert (len(fresh.trees.skips) > 0) == (least < 0)
    for other in found[1:]:
        for side, expected in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(side, expected)


@pytest.mark.parametrize("model", [Parabel(max_leaf=2, beam=3), Bonsai(arity=4, max_leaf=2, beam=3)])
@pytest.mark.parametrize("finding", [0, 10**6])
def test_the_best_of_several_trees_are_those_of_the_mean_over_all(model, finding, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """What a tree leaves out because it cannot be among the best is not missed: the trees one by one say the same."""
    X, Y, _ = toy()
    forest, rows, n_labels = model.fit(X, Y).forest_, 20, Y.shape[1]
    _interpret(monkeypatch)
    monkeypatch.setattr(products, "FINDING", finding)
    mean = np.zeros((rows, n_labels))
    for t in range(model.n_trees):
        labels, scores, counts = _search(_only(forest, t), X, rows, n_labels, n_labels)
        for row, n in enumerate(counts):
            mean[row, labels[row, :n]] += scores[row, :n] / model.n_trees
    for k in (1, 2, 5, n_labels):
        labels, scores, counts = _search(forest, X, rows, n_labels, k)
        for row, n in enumerate(counts):
            assert n == min(k, np.count_nonzero(mean[row]))
            np.testing.assert_allclose(scores[row, :n], np.sort(mean[row])[::-1][:n], rtol=1e-5)
            np.testing.assert_allclose(mean[row, labels[row, :n]], scores[row, :n], rtol=1e-5)


@pytest.mark.parametrize("model", _MODELS)
def test_fewer_labels_asked_for_are_the_first_of_more(model) -> None:  # type: ignore[no-untyped-def]
    X, Y, _ = toy()
    forest = model.fit(X, Y).forest_
    search = partial(_search, forest, X, 30, Y.shape[1])
    labels, scores, counts = search(10)
    for k in (1, 2, 5):
        fewer, their_scores, their_counts = search(k)
        np.testing.assert_array_equal(their_counts, np.minimum(counts, k))
        for row, n in enumerate(their_counts):
            assert fewer[row, :n].tolist() == labels[row, :n].tolist()
            assert their_scores[row, :n].tolist() == scores[row, :n].tolist()


def _search(forest: Forest, X: csr_array, n: int, n_labels: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best k labels of the first n points, their scores, and how many there are; 0 beyond."""
    X = frozen_csr(X)
    out = beam.Results(np.zeros((n, k), np.int32), np.zeros((n, k), np.float32), np.zeros(n, np.int32))
    options = search_options(3, "squared_hinge", True, k)
    forest.search(Csr(X.indptr, X.indices, X.data), (0, n), n_labels, options, out)
    return out


def _interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the search as Python, so that it sees changed settings."""
    for module in (beam, products):
        for name, kernel in vars(module).copy().items():
            if hasattr(kernel, "py_func"):
                monkeypatch.setattr(module, name, kernel.py_func)
    monkeypatch.setattr(products, "prefetch", lambda array, index: None)
    monkeypatch.setattr(best, "larger", max)


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
