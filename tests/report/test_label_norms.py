"""Norms of the labels' weights."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from longtail.errors import ModelError
from longtail.report.label_norms import label_norms
from tests.contract import L, toy


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_norms_are_those_of_the_labels_weights(dtype: str) -> None:
    X, Y, _ = toy()
    model = longtail.make(f"parabel(max_leaf=4, n_trees=1, dtype={dtype})").fit(X, Y)
    forest = model.forest_
    dense = np.zeros((X.shape[1], len(forest.bias)))
    for f in range(X.shape[1]):
        span = slice(forest.ptr[0, 2 * f], forest.ptr[0, 2 * f + 2])
        dense[f, forest.nodes[span]] = forest.values[span] * forest.scale[forest.nodes[span]]
    expected = np.full(L, np.nan)
    expected[forest.labels] = np.linalg.norm(dense, axis=0)[-len(forest.labels) :]
    np.testing.assert_allclose(label_norms(model), expected, rtol=1e-5)


def test_norms_of_what_wraps() -> None:
    X, Y, Z = toy()
    for name in ("taug(dismec)", "labeltext(dismec)", "blend([popular, dismec])", "glas(dim=8, epochs=1)"):
        assert not np.isnan(label_norms(longtail.make(name).fit(X, Y, label_features=Z))).any()
    with pytest.raises(ModelError, match="no classifier"):
        label_norms(longtail.make("popular").fit(X, Y))
