"""The benchmark of embedding models, small, and its section."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail
from benchmarks import render, results
from benchmarks.embeddings import run as embeddings
from benchmarks.embeddings import section

FACTS = dict.fromkeys(("processor", "cores", "memory", "system", "python"), "?")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small data, and results that go nowhere else."""
    data = tmp_path / "data" / "tiny"
    data.mkdir(parents=True)
    words = ["moss", "bread", "mail", "music", "weather", "desktop", "python", "red"]
    for part, numbers in (("trn", range(80)), ("tst", range(80, 100))):
        points = [
            {
                "uid": f"p{i}",
                "title": f"a {words[i % 8]} and {words[3 * i % 8]} guide",
                "target_ind": [i % 8, 3 * i % 8],
            }
            for i in numbers
        ]
        (data / f"{part}.json").write_text("".join(json.dumps(point) + "\n" for point in points))
    (data / "lbl.json").write_text("".join(json.dumps({"uid": word, "title": word}) + "\n" for word in words))
    monkeypatch.setattr(longtail, "DEMO", data)
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    monkeypatch.setattr(embeddings, "HELD", 10)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> str:
    monkeypatch.setattr("sys.argv", ["embeddings", *words, "--data-root", str(folder / "data")])
    embeddings.main()
    return (folder / "RESULTS.md").read_text()


def test_ablations_and_accuracy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["--set", "dim=8", "--set", "epochs=2"]
    page = run(monkeypatch, folder, "ablation", "--data", "tiny", "--points", "60", "--seeds", "0,1", *small)
    assert "#### tiny, 60 points, dim=8, epochs=2" in page
    assert page.count("| 2 |") == len(embeddings.ABLATION)
    page = run(monkeypatch, folder, "accuracy", "--data", "tiny", "--models", "popular,glas")
    assert "| popular tiny |" in page
    assert "| glas tiny | paper |" in page
    assert "#### tiny" in page


def test_both_loops_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(embeddings, "BATCH", 16)
    monkeypatch.setattr(embeddings, "DIM", 8)
    page = run(monkeypatch, folder, "throughput", "--candidates", "4", "--steps", "3")
    assert "| 4 |" in page


def test_the_torch_loop_computes_our_loss() -> None:
    pytest.importorskip("torch")
    from benchmarks.embeddings.torch_loop import TorchLoop
    from longtail.models.glas.network import Network, NetworkSettings, RegularizedLabels
    from longtail.models.glas.regularizers import glas
    from longtail.neural.batch import CandidateSampler, points
    from longtail.neural.losses import bce
    from tests.contract import toy

    X, Y, _ = toy()
    rng = np.random.default_rng(0)
    candidates = CandidateSampler(Y, 10, 20).draw(np.arange(20), rng)
    drawn, U = np.array([0, 2, 5]), np.eye(3, dtype=np.float32)
    network = Network(X.shape[1], Y.shape[1], NetworkSettings(8, True, False, "adam", 0.0, 1.0), np.zeros(24), rng)
    loop = TorchLoop(X.shape[1], Y.shape[1], 8, 0.01, 2.0)
    network.tables["E"][:] = loop.tokens.weight.detach().numpy()
    network.tables["V"][:] = loop.labels.weight.detach().numpy()
    network.tables["c"][:] = loop.label_bias.weight.detach().numpy()
    batch = points(X, np.arange(20), np.full(X.shape[1], -1, np.int32), unit=False)
    ours = network.step(batch, candidates, bce, 0.01, RegularizedLabels(glas, 2.0, drawn, U))
    theirs = loop.step(X[:20], candidates, 1.0, 0.4, drawn, U)
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_bars_are_judged() -> None:
    row: dict[str, Any] = dict.fromkeys(embeddings.KEPT, 70.0)
    row |= {
        "model": "blend([bonsai, knn, glas])",
        "P@1": 90.0,
        "seconds": 100.0,
        "peak_memory_mb": 4000.0,
        "model_mb": 1.0,
        "date": "2026-01-01",
    }
    speed = {"ours_points_per_second": 4000.0, "torch_points_per_second": 1100.0, "ratio": 3.6}
    speed |= {"labels_met": 900.0, "cores": 2}
    known = {
        "accuracy": {"blend without label text eurlex57k": row},
        "throughput": {"512": speed},
        "machine": FACTS,
        "versions": {},
    }
    text = section.render(known)
    assert "| blend without label text eurlex57k: P@1 | ≥ 91.0 | 90.00 **✗** |" in text
    assert "| blend without label text eurlex57k: P@5 | ≥ 68.0 | 70.00 ✓ |" in text
    assert "| blend without label text eurlex57k: seconds | ≤ 360 | 100 ✓ |" in text
    assert "| blend without label text eurlex57k: peak memory mb | ≤ 3,072 | 4,000 **✗** |" in text
    assert "| 512 | 900 | 2 | 4,000 | 1,100 | 3.6 | ≥ 4 **✗** |" in text
