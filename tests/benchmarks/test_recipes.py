"""The benchmark of training recipes: its variants, what it holds out, and what its section shows."""

from __future__ import annotations

import numpy as np

from benchmarks.recipes import run as recipes
from benchmarks.recipes import section
from longtail import registry
from longtail.data.synthetic import make


def test_every_variant_can_be_made() -> None:
    for model in recipes.VARIANTS.values():
        registry.make(model).check_params()


def test_measured_points_are_not_trained_on_and_labels_are_known() -> None:
    data = make(400, 300, 60, words_per_point=8, test_fraction=0.0)
    part = recipes.held_out(data, 300, 80)
    assert part.X.shape[0] == 300
    assert part.X_held.shape[0] <= 80
    assert part.Y.shape[1] == part.Y_held.shape[1]
    assert np.all(np.diff(part.Y_held.indptr) > 0)
    trained = {row.tobytes() for row in part.X.toarray()}
    assert not any(row.tobytes() in trained for row in part.X_held.toarray())


def test_a_variant_is_measured() -> None:
    data = make(400, 300, 60, words_per_point=8, test_fraction=0.0)
    row = recipes.measured(recipes.held_out(data, 300, 80), "popular", 0)
    assert set(recipes.MEASURES) < set(row)
    assert row["P@1"] > 0


def test_differences_from_the_preset_are_shown() -> None:
    base = dict.fromkeys(recipes.MEASURES, 50.0) | {"cpu_seconds": 9.0, "data": "tate", "points": 12_000, "seed": 0}
    worse = base | dict.fromkeys(recipes.MEASURES, 49.0) | {"variant": "relu"}
    text = section.render({"rows": {"b": worse, "a": base | {"variant": "fast"}}})
    assert "### Recipes on 12,000 points of tate" in text
    assert text.index("| fast | 50.00 |") < text.index("| relu | -1.00 |")
