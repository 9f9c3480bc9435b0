"""The benchmark of rankers around rankers, small, and its section."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import render, results
from benchmarks.tail import run as tail
from benchmarks.tail import section
from longtail import registry
from longtail.data import synthetic


def test_it_measures_saves_and_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = [
        tail.System("bonsai", "bonsai(n_trees=1)", "bonsai", ("toy",)),
        tail.System("ranknet", "ranknet(bonsai(n_trees=1))", "bonsai", ("toy",)),
    ]
    monkeypatch.setattr(tail, "SYSTEMS", systems)
    monkeypatch.setattr(tail, "TAILS", [0, 0.5, 1])
    monkeypatch.setattr(tail, "read", lambda path: synthetic.make(600, 300, 80))
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    monkeypatch.setattr("sys.argv", ["tail"])
    tail.main()
    assert capsys.readouterr().out.count("toy ") == 2
    page = (tmp_path / "RESULTS.md").read_text()
    assert "| **bonsai(n_trees=1)** | paper |" in page
    assert "toy, ranknet(bonsai(n_trees=1)): PSP@1/3/5" in page


def test_a_curve_is_read_where_it_comes_down_to_a_precision() -> None:
    curve = [{"P@1": p, "PSP@1": s, "PSP@3": s, "PSP@5": s} for p, s in ((80.0, 20.0), (78.0, 30.0), (70.0, 34.0))]
    assert section.at(curve, 79.0) == [25.0, 25.0, 25.0]
    assert section.at(curve, 60.0) == [34.0, 34.0, 34.0]
    assert section.at(curve, 90.0) == [20.0, 20.0, 20.0]


def test_every_system_can_be_made() -> None:
    for system in tail.SYSTEMS:
        registry.make(system.model).check_params()
    names = [system.name for system in tail.SYSTEMS]
    assert len(names) == len(set(names))
    assert {system.base for system in tail.SYSTEMS} <= set(names)


def test_blend_is_judged_by_the_best_model_of_any_benchmark(tmp_path: Path) -> None:
    runs = {"bonsai": {"runs": [{"metrics": {"P@5": 50.0}}, {"metrics": {"P@5": 52.0}}]}}
    results.save("peers", {"results": {"tiny": runs}}, tmp_path)
    results.save("decaf", {"rows": {"tiny default 0": {"P@5": 53.0}, "tiny no-text 0": {"P@5": 90.0}}}, tmp_path)
    results.save("blend", {"rows": {"tiny blend 0": {"P@3": 20.0}, "tiny no-text 0": {"P@3": 30.0}}}, tmp_path)
    results.save("embeddings", {"accuracy": {"glas tiny": {"B@1": 40.0}, "glas other": {"B@1": 90.0}}}, tmp_path)
    assert results.best_own("tiny", tmp_path) == {"P@3": 20.0, "P@5": 53.0, "B@1": 40.0}
    assert results.best_peer("tiny", tmp_path) == {}
