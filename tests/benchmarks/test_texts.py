"""The benchmark from texts to labels, small, and its section."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import render, results
from benchmarks.texts import run as texts
from benchmarks.texts import section
from longtail.data.dataset import Dataset

FACTS = dict.fromkeys(("processor", "cores", "memory", "system", "python"), "?")


def test_it_measures_saves_and_renders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "colours"
    folder.mkdir()
    lines = "".join(f"{colour} thing {i},{colour}\n" for i in range(20) for colour in ("red", "blue", "green"))
    for part in ("train", "test"):
        (folder / f"{part}.csv").write_text("text,labels\n" + lines)

    def pecos(data: Dataset, repeats: int) -> dict[str, float]:
        assert data.test is not None
        return {"seconds": 1.0, "cpu_seconds": 1.0, "n": len(data.test.texts or ())}

    monkeypatch.setattr(texts, "measure_pecos", pecos)
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    options = ["--data", "colours", "--models", "bonsai(n_trees=1)", "--repeat", "1", "--data-root", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["texts", *options])
    texts.main()
    known = results.load("texts", tmp_path)
    assert known is not None
    assert known["rows"]["colours bonsai(n_trees=1)"]["n"] == 60
    assert known["rows"]["colours scikit-learn + PECOS"]["seconds"] == 1
    assert "| colours | bonsai(n_trees=1) |" in (tmp_path / "RESULTS.md").read_text()


def test_bars_are_judged() -> None:
    peer = {"data": "d", "system": "scikit-learn + PECOS", "seconds": 1.0, "cpu_seconds": 1.5, "n": 1000}
    rows = {
        "a": peer,
        "b": peer | {"system": "bonsai", "seconds": 0.4},
        "c": peer | {"system": "blend", "seconds": 2.5},
    }
    dated = {key: row | {"date": "2026-01-01"} for key, row in rows.items()}
    text = section.render({"rows": dated, "machine": FACTS, "versions": {"longtail": "1"}})
    assert "| d | scikit-learn + PECOS | 1,000 | 1.500 |  |  |" in text
    assert "| d | bonsai | 2,500 | 1.500 | 2.50× | ≥ 2× ✓ |" in text
    assert "| d | blend | 400 | 1.500 | 0.40× | ≥ 0.5× **✗** |" in text
