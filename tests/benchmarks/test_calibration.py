"""The benchmark of calibration, small, and its section."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import render, results
from benchmarks.calibration import run as calibration
from longtail import registry
from longtail.data import synthetic


def test_it_measures_saves_and_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibration, "read", lambda path: synthetic.make(600, 300, 80))
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    for points in ([], ["--points", "300"]):
        monkeypatch.setattr("sys.argv", ["calibration", "--data", "toy", "--models", "knn", *points])
        calibration.main()
    assert capsys.readouterr().out.count("toy knn: P@1") == 2
    page = (tmp_path / "RESULTS.md").read_text()
    assert "### Calibration on toy" in page
    assert page.count("| knn | ours |") == 2
    assert "| 300 |" in page


def test_every_model_can_be_made() -> None:
    for model in calibration.MODELS:
        registry.make(model).check_params()
