"""Slopes of growth, and the section that shows them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from benchmarks import machine
from benchmarks.scale import large, section
from benchmarks.scale.run import MODELS, base, sizes


def rows(name: str) -> dict[str, dict[str, object]]:
    found = {}
    for size in sizes(name):
        seconds = (size["N"] / 1000) ** 1.5 * (size["L"] / 1000) ** 0.5
        facts = {"fit_cpu_s": seconds, "fit_mb": size["D"] / 100, "predict_cpu_ms": 0.1, "P@5": 50.0}
        facts |= {"peak_mb": facts["fit_mb"] + 100, "estimated_fit_mb": 1.5 * facts["fit_mb"]}
        origin = {"date": "2026-01-01", "commit": "0000000", "model": MODELS[name], "name": name}
        found[f"{name} {size}"] = size | facts | origin
    return found


@pytest.mark.parametrize("name", ["bonsai", "knn"])
def test_sizes_vary_one_number_at_a_time(name: str) -> None:
    assert len(sizes(name)) == 10
    assert all(sum(size[axis] != base(name)[axis] for axis in size) <= 1 for size in sizes(name))


def test_slopes_are_those_of_the_power() -> None:
    own = list(rows("bonsai").values())
    assert abs((section.slope(own, "N", "fit_cpu_s") or 0) - 1.5) < 0.01
    assert abs((section.slope(own, "L", "fit_cpu_s") or 0) - 0.5) < 0.01
    assert abs((section.slope(own, "D", "fit_mb") or 0) - 1.0) < 0.01
    assert section.slope(own[:2], "N", "fit_cpu_s") is None


def test_the_section_marks_goals() -> None:
    cluster = {"model": "bonsai", "local_s": 2.0, "ray_s": 2.2, "local_cpu_s": 4.0, "ray_cpu_s": 5.0, "same": True}
    cluster |= {"data": "papers", "n_points": 6000}
    trained = {"model": "dismec", "data": "papers", "memory": "2GB", "fit_s": 10.0, "fit_cpu_s": 19.0}
    trained |= {"peak_all_mb": 1500.0, "model_mb": 40.0, "p50_ms": 0.5, "p50_cpu_ms": 0.4, "P@5": 60.0}
    killed = {"model": "bonsai(n_trees=24)", "kills": 30, "identical": 29, "nothing_left": 30, "resumed": 25}
    known = {"rows": rows("bonsai"), "cluster": {"bonsai": cluster}, "large": {"dismec-2GB": trained}}
    known |= {"kills": {"bonsai": killed}}
    network = {"data": "papers", "seed": 0, "n_workers": 1, "fit_s": 20.0, "cpu_s": 30.0, "P@5": 50.0, "PSP@5": 20.0}
    known |= {"workers": {"1": network, "2": network | {"n_workers": 2, "P@5": 50.4, "PSP@5": 19.4}}}
    page = section.render(known | {"machine": machine.facts(), "versions": machine.versions()})
    assert "| `bonsai(n_trees=1, cost=1.0)` | 1.50 " in page
    assert "| `bonsai` | papers, 6,000 | 2.0 | 2.2 | 1.10 ✓ | 4.0 | 5.0 | 1.25 **✗** | yes |" in page
    assert "| papers | 0 | 1 | 20 | 30 | 50.00 | 20.00 |" in page
    assert "| papers | 0 | 2 | 20 | 30 | 50.40 ✓ | 19.40 **✗** |" in page
    assert "| `bonsai(n_trees=1, cost=1.0)` | 10 | 200 to 900 | 1.25 ✓ | 1.44 **✗** | 1.34 | 1.50 |" in page
    assert "| `bonsai(n_trees=24)` | 30 | 29 **✗** | 30 ✓ | 25 |" in page
    assert "| `dismec` | papers | 2GB | 10 | 19 | 1.50 | 40 | 0.50 | 0.40 | 60.00 |" in page


def test_each_large_run_has_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[tuple[Any, ...]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        large.main(command[3:])
        return subprocess.CompletedProcess(command, 0, capsys.readouterr().out)

    monkeypatch.setattr(large, "measure", lambda run: {"fit_s": 1.5, "asked": run.model})
    monkeypatch.setattr(large.subprocess, "run", run)
    monkeypatch.setattr(large.results, "add", lambda *row, group: kept.append((*row, group)))
    large.main(["dismec-2GB", "bonsai-1M"])
    assert [(row[1], row[2]["memory"], row[2]["asked"]) for row in kept] == [
        ("dismec-2GB", "2GB", "dismec"),
        ("bonsai-1M", None, "bonsai(n_trees=1)"),
    ]
    assert kept[1][2]["data"] == "1,000,000 × 100,000 × 1,000,000"
