"""Accuracy on a part of the demo data that ships with longtail: small enough for everyone to run.

The figures were recorded with the settings below. A change of more than half a point means that a model has changed.
"""

from __future__ import annotations

from typing import Any

import pytest

import longtail
from longtail.metrics import evaluate

FIGURES = {
    "popular": (46.67, 18.69, 6.86),
    "parabel(n_trees=1, cost=1.0)": (70.07, 37.81, 24.78),
    "bonsai(n_trees=1, cost=1.0)": (70.60, 37.92, 25.54),
    "bonsai(n_trees=1)": (70.60, 37.92, 25.54),
    "dismec(cost=1.0)": (70.53, 37.77, 26.40),
}
"""P@1, P@5 and PSP@5 in percent."""


@pytest.fixture(scope="module")
def demo() -> tuple[Any, Any, Any, Any, Any]:
    data = longtail.read(longtail.DEMO)
    assert data.X is not None
    assert data.test is not None
    assert data.test.X is not None
    return data.X[:6000], data.Y[:6000], data.Z, data.test.X[:1500], data.test.Y[:1500]


@pytest.mark.parametrize("model", FIGURES)
def test_known_accuracy(model: str, demo: tuple[Any, Any, Any, Any, Any]) -> None:
    X, Y, Z, test_X, test_Y = demo
    scores = longtail.make(model).fit(X, Y, label_features=Z).predict(test_X)
    figures = evaluate(test_Y, scores, train_Y=Y, ks=(1, 5))
    assert [figures[name] for name in ("P@1", "P@5", "PSP@5")] == pytest.approx(FIGURES[model], abs=0.5)
