"""The papers' recipes can be saved and loaded like any other model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import longtail
from tests.contract import toy

_SHORT = "epochs=1, n_jobs=1"


@pytest.mark.parametrize(
    "model",
    [
        f"glas(preset=paper, {_SHORT})",
        f"mnn(preset=paper, {_SHORT})",
        f"dxml(preset=paper, {_SHORT})",
        f"decaf(preset=paper, n_networks=1, {_SHORT})",
        "ranknet(popular, preset=paper)",
        "taug(popular, preset=paper)",
    ],
)
def test_a_paper_s_recipe_is_loaded_as_it_was_saved(model: str, tmp_path: Path) -> None:
    X, Y, Z = toy()
    ranker = longtail.make(model).fit(X, Y, label_features=Z)
    ranker.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    assert loaded.settings().preset == "paper"
    np.testing.assert_array_equal(loaded.predict(X, 5).toarray(), ranker.predict(X, 5).toarray())
