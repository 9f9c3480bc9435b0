"""Results as JSON: one file a benchmark in ``results/``, from which `benchmarks.render` writes RESULTS.md."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_PEERS = ("pecos-xrlinear", "omikuji-parabel", "omikuji-bonsai", "napkinxc-plt")  # those that set bars


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
    peers = (load("peers", folder) or {"results": {}})["results"].get(data, {})
    found: dict[str, float] = {}
    for name in _PEERS:
        runs = [run["metrics"] for run in peers.get(name, {}).get("runs", []) if "metrics" in run]
        for measure in (f"{kind}@{k}" for kind in ("P", "PSP", "F") for k in (1, 3, 5)):
            if runs:
                found[measure] = max(found.get(measure, 0.0), sum(run[measure] for run in runs) / len(runs))
    return found


def rounded(value: Any) -> Any:
    """The same with numbers cut to five significant digits: more is noise, and makes differences unreadable."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
