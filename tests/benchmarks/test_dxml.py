"""The benchmark of DXML, small, and its section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp

from benchmarks.dxml import run as dxml
from benchmarks.dxml import section
from longtail.data import synthetic


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = synthetic.make(n_points=500, n_labels=40, n_features=200, words_per_point=15, labels_per_point=2)
    for part, name in ((data, "trn"), (data.test, "tst")):
        sp.save_npz(tmp_path / f"X.{name}.npz", part.X)
        sp.save_npz(tmp_path / f"Y.{name}.npz", part.Y)
    return tmp_path


def test_it_measures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"epochs": 2, "dim": 16, "n_networks": 1, "advanced": {"hidden": 16, "n_partitions": 20}}
    row = dxml.measure(folder, small, 0)
    assert 0 < row["P@5"] <= row["P@1"] <= 100
    assert row["recall"] > 0.9
    assert row["n_probe"] <= row["n_partitions"]
    assert row["p50_ms"] < 50
    monkeypatch.setattr(dxml, "SIZES", (200, 400))
    monkeypatch.setattr(dxml, "DXML", lambda **settings: __import__("longtail").make("dxml", {**settings, **small}))
    assert len(dxml.scale("points")["seconds"]) == 2
    assert set(dxml.learning_on(folder)) == {"without", "partial_fit", "all"}
    assert [run[:2] for run in dxml.runs(["large"], 5)] == [
        *((name, "default") for name in dxml.LARGE),
        ("tate", "linear"),
    ]


def row_of(**figures: Any) -> dict[str, Any]:
    row = dict.fromkeys(("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5"), 50.0)
    row |= {
        "train_seconds": 60.0,
        "peak_mb": 1024.0,
        "p50_ms": 0.5,
        "recall": 0.96,
        "n_neighbors": 30,
        "model_mb": 9.0,
    }
    return row | {"n_train": 45_000, "date": "2026-01-01"} | figures


def test_bars_are_judged() -> None:
    rows = {f"bibtex default {seed}": row_of(**{"P@1": 64.0 + seed}) for seed in range(3)}
    rows |= {
        "tate default 0": row_of(p50_ms=1.2, n_probe=3, n_partitions=200),
        "tate linear 0": row_of(**{"P@3": 49.0}),
    }
    rows["walks"] = {"steps_2": 7e6, "date": "2026-01-01"}
    rows["scale points"] = {"sizes": [1, 2], "seconds": [1.0, 2.0], "slope": 0.9, "date": "2026-01-01"}
    part = {"seconds": 1.0, "P@1": 1.0, "P@3": 2.0, "P@5": 3.0, "PSP@5": 4.0}
    rows["on tate"] = {"without": part, "partial_fit": part, "all": part, "date": "2026-01-01"}
    facts = dict.fromkeys(("processor", "cores", "memory", "system", "python"), "?")
    text = section.render({"rows": rows, "machine": facts, "versions": {"longtail": "1"}})
    assert "| bibtex P@1, mean of 3 | ≥ 64.8 | 65.00 ✓ |" in text
    assert "| bibtex P@3, mean of 3 | ≥ 39.5 | 50.00 ✓ |" in text
    assert "| tate P@1, ReLU − linear | > 0 | +0.00 **✗** |" in text
    assert "| tate P@3, ReLU − linear | > 0 | +1.00 ✓ |" in text
    assert "| tate, 45,000 points, p50 of one | ≤ 1 ms | 1.20 ms **✗** |" in text
    assert "| random walks, 2 cores | ≥ 5 M steps/s | 7.0 M ✓ |" in text
    assert "slope 0.90" in text
    assert "| then `partial_fit` | 1.0 | 1.00 | 2.00 | 3.00 | 4.00 |" in text
    assert "(3 of 200)" in text
