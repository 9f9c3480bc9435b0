"""The section of RESULTS.md on calibration, from ``results/calibration.json``."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import described
from benchmarks.tables import mark, origin

_HOW = """\
`blend` as it is, every other model as `calibrated(MODEL)`; "before" is its base. ECE@1 is the expected calibration
error of the first label in ten bins of equal width, in percentage points; 2 is the bar. "by chance" is what perfect
probabilities would have with so few test points; all test points that have a known label are used. The calibration
itself is learnt from a limited number of held-out points, which adds an error of its own: with 6,000 training points
and 10,000 test points about 1.4 times "by chance", estimated from the numbers of points. Rare labels are the last fifth
of all training pairs by descending label frequency. `auto` is the threshold that training has chosen, `best` the best
single threshold found on the test points themselves; 0.5 below it is the bar. "kept" says whether the ranking is that
of the base."""
_ECE_BAR, _F1_BAR = 2.0, 0.5
_HEAD = (
    *("model", "from", "training points", "test points", "P@1", "kept", "ECE@1 before", "ECE@1", "by chance", "rare"),
    *("ECE@5", "micro-F1 auto", "best", "train s"),
)


def render(results: dict[str, Any]) -> str:
    """Return the section."""
    rows = list(results["rows"].values())
    lines = ["## Calibration", "", *described(results), "", _HOW]
    for data in dict.fromkeys(row["data"] for row in rows):
        lines += ["", f"### Calibration on {data}", "", f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
        lines += [_row(row) for row in rows if row["data"] == data]
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> str:
    auto, best = row["micro-F1 auto"], row["micro-F1 best"]
    cells = [row["model"], origin(row["model"]), f"{row['train_points']:,}"]
    cells += [f"{row['test_points']:,}" if "test_points" in row else "", f"{row['P@1']:.2f}"]
    cells += ["yes" if row["same_ranking"] else "no", f"{row['ECE@1 before']:.2f}"]
    cells += [f"{row['ECE@1']:.2f} {mark(row['ECE@1'] <= _ECE_BAR)}"]
    cells += [f"{row['ECE@1 by chance']:.2f}" if "ECE@1 by chance" in row else ""]
    cells += [f"{row['ECE@1 rare']:.2f}", f"{row['ECE@5']:.2f}"]
    cells += [f"{auto:.2f} {mark(auto >= best - _F1_BAR)}", f"{best:.2f}", f"{row['train_seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"
