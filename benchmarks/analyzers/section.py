"""The section of RESULTS.md on analyzers, from ``results/analyzers.json``."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import described

_HOW = """\
`bonsai` on 12,000 training points of each data set, of which a tenth is held out and measured; test points are not
used. "mean" is the mean of P and B at 1 and 5, the rule by which longtail chooses settings."""
_METRICS = ("P@1", "P@5", "PSP@5", "B@5")
_HEAD = ("analyzer", "terms", *_METRICS, "mean", "CPU s")


def render(results: dict[str, Any]) -> str:
    """Return the section."""
    rows = list(results["rows"].values())
    lines = ["## Analyzers", "", *described(results), "", _HOW]
    for data in dict.fromkeys(row["data"] for row in rows):
        lines += ["", f"### Analyzers on {data}", "", f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
        lines += [_row(row) for row in rows if row["data"] == data]
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> str:
    figures = [f"{row[name]:.2f}" for name in (*_METRICS, "goal")]
    cells = [row["analyzer"], f"{row['n_features']:,}", *figures, f"{row['cpu_seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"
