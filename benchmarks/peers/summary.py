"""From repeated runs to one line: the best of the timings and sizes, the mean of the metrics.

Contention only ever adds time, so the least of several runs is nearest to the truth. Accuracy has no such direction:
systems that start from random clusters differ between runs, and the mean is what to expect of one.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

KS = (1, 3, 5)


def summary(entry: dict[str, Any] | None) -> dict[str, Any] | None:
    """One dict of figures for a (data, system) entry, or None if no run of it succeeded."""
    runs = [run for run in (entry or {}).get("runs", []) if "error" not in run]
    if not runs:
        return None
    figures = {key: min(run[key] for run in runs) for key, value in runs[0].items() if isinstance(value, float)}
    metrics = runs[0]["metrics"]
    figures |= {key: mean(run["metrics"][key] for run in runs) for key in metrics if key != "frontier"}
    figures["frontier"] = [
        {key: mean(run["metrics"]["frontier"][i][key] for run in runs) for key in point}
        for i, point in enumerate(metrics["frontier"])
    ]
    return figures | {"version": runs[0]["version"], "n_runs": len(runs)}


def error(entry: dict[str, Any] | None) -> str | None:
    """Why a system has no figures."""
    return next((run["error"] for run in (entry or {}).get("runs", []) if "error" in run), None)
