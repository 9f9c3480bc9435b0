"""Beam search: both ways of making products agree, and the small helpers do what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.kernels import beam
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
@pytest.mark.parametrize("keep", [0, 2])
def test_masked_products_equal_whole_ones(model, keep, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    X, Y, _ = toy()
    model.fit(X, Y)
    forest = model.forest_
    for row in range(30):
        span = slice(X.indptr[row], X.indptr[row + 1])
        found = []
        for bisection in (0, 10**6):  # always masked, always whole
            monkeypatch.setattr(beam, "_BISECTION", bisection)
            args = (X.indices[span], X.data[span], np.float32(1), 0, span.stop - span.start, forest.ptr[0])
            scores = np.full(int(forest.node_at[1]), np.nan, np.float32)
            items, chances = np.empty(100, np.int32), np.empty(100)
            n = beam.search_tree.py_func(
                *args, forest.nodes, forest.values, forest.scale[: forest.node_at[1]],
                forest.bias[: forest.node_at[1]],
                forest.child_ptr[: forest.group_at[1]], forest.level_ptr[: forest.level_at[1]],
                forest.labels[: forest.label_at[1]], 3, keep, np.float32(4), scores, items, chances,
            )  # fmt: skip
            found.append(dict(zip(items[:n].tolist(), chances[:n].tolist(), strict=True)))
        assert found[0] == found[1]
        assert len(found[0]) == keep or keep == 0
