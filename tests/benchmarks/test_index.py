"""The benchmark of vector search, small, and its section."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import render, results
from benchmarks.index import run as index
from benchmarks.index import section


def test_it_measures_saves_and_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(index, "N_QUERIES", 20)
    monkeypatch.setattr(index, "WIDTH", 16)
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    monkeypatch.setattr("sys.argv", ["index", "--sizes", "600", "--kinds", "exact,hnsw,faiss-ivf"])
    index.main()
    assert capsys.readouterr().out.count("recall@5") == 6
    known = results.load("index", tmp_path)
    assert known is not None
    assert known["rows"]["clustered 600 exact"]["recall"] == 1
    assert "| 600 | faiss-ivf |" in (tmp_path / "RESULTS.md").read_text()


def test_bars_are_judged() -> None:
    row = {
        "data": "clustered",
        "requested": "auto",
        "kind": "ivf",
        "n_probe": 3,
        "n_partitions": 300,
        "date": "2026-01-01",
    }
    row |= {
        "p50_ms": 0.5,
        "p95_ms": 0.7,
        "batch_ms": 0.6,
        "mb": 1.0,
        "build_seconds": 1.0,
        "recall": 0.97,
        "n": 100_000,
    }
    row |= {"recall_near": 0.98, "recall_mixed": 0.96}
    slow = row | {"n": 1_000_000, "p50_ms": 5.0, "recall": 0.98}
    facts = dict.fromkeys(("processor", "cores", "memory", "system", "python"), "?")
    text = section.render({"rows": {"a": slow, "b": row}, "machine": facts, "versions": {"longtail": "1"}})
    assert "| p50 at 100,000 vectors | < 1 ms | 0.500 ms ✓ |" in text
    assert "| recall@5 at 100,000 vectors | ≥ 0.98 | 0.970 **✗** |" in text
    assert "| p50 at 1,000,000 vectors | < 5 ms | 5.000 ms **✗** |" in text
    assert "| recall@5 at 1,000,000 vectors | ≥ 0.98 | 0.980 ✓ |" in text
    assert "| 100,000 | **auto** (ivf) | 0.500 | 0.700 | 0.600 | 0.970 (0.980, 0.960) | 3 of 300 | 1 | 1.0 |" in text
