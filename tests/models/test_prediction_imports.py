"""A saved model is loaded and predicts without any training code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from longtail.models.base import Ranker
from longtail.models.dxml import DXML
from longtail.models.mnn import MNN
from longtail.models.parabel import Parabel
from longtail.models.ranknet import RankNet
from tests.contract import toy

TRAINING = ("optimizers", "loop", "losses", "batch", "tables", "learner", "training", "held_out", "regularizers")
CODE = """
import json, sys
import numpy as np
import longtail
model = longtail.load(sys.argv[1])
model.predict(np.eye(2, model.n_features_in_), 3)
model.rank(np.array([0, 2]), np.array([1.0, 2.0]), 3)
print(json.dumps([name for name in sys.modules if name.startswith("longtail.")]))
"""


@pytest.mark.parametrize(
    "model",
    [
        MNN(dim=8, epochs=1, scoring="both"),
        MNN(dim=8, epochs=1, scoring="cosine"),
        DXML(dim=8, epochs=1, n_networks=1, advanced={"hidden": 8, "n_walks": 1}),
        RankNet(Parabel(n_trees=1, cost=1.0), n_folds=2),
    ],
    ids=lambda model: model.kind,
)
def test_prediction_imports_no_training_code(model: Ranker, tmp_path: Path) -> None:
    X, Y, _ = toy(n=60)
    model.fit(X, Y).save(tmp_path / "m")
    ended = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "m")], capture_output=True, text=True, check=True
    )
    imported = set(json.loads(ended.stdout))
    own = {name for name in imported if name.startswith(("longtail.neural", "longtail.models.", "longtail.kernels"))}
    assert {name for name in own if name.rpartition(".")[2] in TRAINING} == set()
    own_paper = f"longtail.models.{model.kind}."
    assert not own & {f"{own_paper}{name}" for name in ("network", "regression", "deepwalk", "label_graph")}
    assert not own & {"longtail.kernels.rows", "longtail.kernels.losses", "longtail.kernels.walks"}
