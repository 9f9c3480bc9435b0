"""The section of RESULTS.md about training recipes, from ``results/recipes.json``."""

from __future__ import annotations

from statistics import mean
from typing import Any

_SHOWN = ("P@1", "P@5", "PSP@1", "PSP@5", "B@1", "B@5")
_HOW = """\
What each choice in the fast preset of DECAF adds, on points held out of the training part; the test part plays no role.
Each row is the preset with one choice changed, and shows the difference from it. `bonsai`, `dismec` and `glas` are
there for comparison. Mean over seeds; one seed varies by about 0.5."""


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = list(results["rows"].values())
    lines = ["## Training recipes", "", _HOW]
    for data in dict.fromkeys(row["data"] for row in rows):
        lines += _table(data, [row for row in rows if row["data"] == data])
    return "\n".join(lines)


def _table(data: str, rows: list[dict[str, Any]]) -> list[str]:
    by_variant = {
        v: [row for row in rows if row["variant"] == v] for v in dict.fromkeys(row["variant"] for row in rows)
    }
    lines = [
        "",
        f"### Recipes on {rows[0]['points']:,} points of {data}",
        "",
        "| variant | " + " | ".join(_SHOWN) + " | CPU s | seeds |",
        "|---" * (len(_SHOWN) + 3) + "|",
    ]
    base = by_variant.get("fast")
    for variant in sorted(by_variant, key=lambda name: name != "fast"):
        same = by_variant[variant]
        cells = []
        for name in _SHOWN:
            value = mean(row[name] for row in same)
            if base is None or variant == "fast":
                cells.append(f"{value:.2f}")
            else:
                cells.append(f"{value - mean(row[name] for row in base):+.2f}")
        seconds = mean(row["cpu_seconds"] for row in same)
        lines.append(f"| {variant} | {' | '.join(cells)} | {seconds:.0f} | {len(same)} |")
    return lines
