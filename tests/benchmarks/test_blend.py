"""The benchmark of Blend: its variants, labels that training never saw, and what its section shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks import render, results
from benchmarks.blend import run as blend
from benchmarks.blend import section
from benchmarks.variants import Variant, measured
from benchmarks.zero_shot import hidden_recall, zero_shot
from longtail import registry
from longtail.data import synthetic
from longtail.models.blend import Blend


@pytest.mark.parametrize(
    ("n_points", "n_labels", "text"), [(5, 100, True), (5, 30_000, True), (5, 100, False), (2_000, 100, False)]
)
def test_variants_leave_out_one_of_the_members_that_blend_chooses(n_points: int, n_labels: int, text: bool) -> None:
    X, Y = csr_array(np.ones((n_points, 1), np.float32)), csr_array((n_points, n_labels), dtype=np.float32)
    chosen = {member.kind: member.get_params(deep=False) for member in Blend()._members(X, Y, X if text else None)}
    left_out = [
        variant for name, variant in blend.variants(X.shape, n_labels, text).items() if name.startswith("without")
    ]
    assert len(left_out) == len(chosen)
    for variant in left_out:
        model = registry.make(variant.model)
        assert isinstance(model, Blend)
        members = {member.kind: member.get_params(deep=False) for member in model.members or ()}
        assert len(members) == len(chosen) - 1
        assert all(chosen[kind] == parameters for kind, parameters in members.items())


def test_a_variant_is_measured_in_its_own_process() -> None:
    data = synthetic.make(n_points=300, n_features=200, n_labels=40)
    ((key, row),) = measured(data, "toy", {"small": Variant("parabel(n_trees=1)", text=False)}, [3])
    assert key == "toy small 3"
    assert row["model"] == "parabel(n_trees=1)"
    assert row["single_ms"] > 0
    assert row["P@1"] > 0


def test_hidden_labels_are_added_by_their_text() -> None:
    data = synthetic.make(n_points=400, n_features=300, n_labels=60)
    row = zero_shot(data, "toy", "textmatch")
    assert row["hidden"] == 6
    assert 0 <= row["recall all"] <= row["recall hidden"] <= 100


def test_recall_among_all_and_among_the_hidden() -> None:
    scores = csr_array(np.array([[0.9, 0.8, 0.1, 0.7], [0.2, 0.9, 0.0, 0.1]], np.float32))
    truth = csr_array(np.array([[1, 0], [0, 1]], np.float32))  # of labels 2 and 3
    assert hidden_recall(scores, truth, 2, among_hidden=False, k=2) == 0
    assert hidden_recall(scores, truth, 2, among_hidden=False, k=3) == 50
    assert hidden_recall(scores, truth, 2, among_hidden=True, k=1) == 50
    assert hidden_recall(scores, truth, 2, among_hidden=True, k=2) == 100


def test_bars_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def metrics(value: float) -> dict[str, float]:
        return {f"{metric}@{k}": value for metric in ("P", "PSP", "B") for k in (1, 3, 5)}

    peers = {"results": {"tate": {"omikuji-bonsai": {"runs": [{"metrics": metrics(50.0)}]}, "bonsai": {"runs": []}}}}
    monkeypatch.setattr(section.store, "load", lambda name, folder=None: peers)
    costs = dict.fromkeys(("train_seconds", "predict_ms_per_point", "single_ms", "peak_memory_mb", "model_mb"), 9.0)
    row: dict[str, Any] = {**metrics(52.5), **costs, "data": "tate", "variant": "blend", "model": "blend", "seed": 0}
    less = row | metrics(51.0) | {"variant": "no-text", "recorded_with": "0.1.0 (commit abc)"}
    failed = {"data": "tate", "variant": "int8", "model": "blend([bonsai])", "seed": 0, "error": "no memory"}
    text = section.render({"rows": {"a": row, "b": less, "c": failed}})
    assert "| B@1, best peer's + 2 | ≥ 52.00 | 52.50 ✓ |" in text
    assert "| B@5, best peer's + 3 | ≥ 53.00 | 52.50 **✗** |" in text
    assert "| blend | ours | 52.50/52.50/52.50 |" in text
    assert "| no-text\\* | ours | 51.00/51.00/51.00 |" in text
    assert "| int8 | ours | no memory |" in text
    assert "Label text: B@1 +1.50 (bar +2 **✗**), B@5 +1.50 (bar +3 **✗**)." in text


def test_the_command_measures_saves_and_renders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blend.longtail, "read", lambda path: synthetic.make(n_points=300, n_features=200, n_labels=40))
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    words = ["--parts", "accuracy", "--data", "toy", "--variants", "without network,without gears"]
    monkeypatch.setattr("sys.argv", ["blend", *words])
    blend.main()
    known = results.load("blend", tmp_path)
    assert known is not None
    row = known["rows"]["toy without network 0"]
    assert "error" not in row
    assert row["model"] == "blend([dismec, knn(n_compared=4096), textmatch(n_compared=4096)])"
    assert "| without network | ours |" in (tmp_path / "RESULTS.md").read_text()
