"""Results as JSON: one file a benchmark in ``results/``, from which `benchmarks.render` writes RESULTS.md."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import mean
from typing import Any

RESULTS = Path(__file__).parent / "results"
_PEERS = ("pecos-xrlinear", "omikuji-parabel", "omikuji-bonsai", "napkinxc-plt")  # those that set bars
_OURS = ("parabel", "bonsai", "dismec")


def load(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """The results of a benchmark, or None if it has not been run."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def save(name: str, results: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write the results of a benchmark, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(rounded(results), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(fresh, path)


def best_peer(data: str, folder: Path = RESULTS) -> dict[str, float]:
    """The highest figure of any peer for each P, PSP and F on a data set; empty where none was measured."""
    return _highest(_runs(data, _PEERS, folder))


def best_own(data: str, folder: Path = RESULTS) -> dict[str, float]:
    """The same of longtail's single models with their defaults, from all benchmarks but that of wrappers."""
    models = _runs(data, _OURS, folder)
    for name in ("decaf", "dxml"):
        rows = (load(name, folder) or {"rows": {}})["rows"]
        models.append([row for key, row in rows.items() if key.startswith(f"{data} default ")])
    accuracy = (load("embeddings", folder) or {"accuracy": {}})["accuracy"]
    models += [[row] for key, row in accuracy.items() if key.split(" ")[-1] == data]
    return _highest(models)


def _runs(data: str, names: tuple[str, ...], folder: Path) -> list[list[dict[str, float]]]:
    """Figures of each run of some systems of ``benchmarks.peers``."""
    systems = (load("peers", folder) or {"results": {}})["results"].get(data, {})
    return [[run["metrics"] for run in systems.get(name, {}).get("runs", []) if "metrics" in run] for name in names]


def _highest(models: list[list[dict[str, float]]]) -> dict[str, float]:
    """The highest mean over runs of any model, measure by measure."""
    found: dict[str, float] = {}
    for measure in (f"{kind}@{k}" for kind in ("P", "PSP", "F") for k in (1, 3, 5)):
        means = [mean(run[measure] for run in runs) for runs in models if runs and all(measure in run for run in runs)]
        if means:
            found[measure] = max(means)
    return found


def rounded(value: Any) -> Any:
    """The same with numbers cut to five significant digits: more is noise, and makes differences unreadable."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
