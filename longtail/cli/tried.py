"""What a model tried on held-out points while it was trained, as a table."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

MEASURES = ("P@1", "P@5", "PSP@1", "PSP@5", "F@1", "F@5")


def table(report: list[dict[str, Any]]) -> Table:
    """One row a candidate: its measures and seconds, or why it was skipped; what was chosen in bold."""
    found = Table.grid(padding=(0, 2))
    timed = any("seconds" in row for row in report)
    found.add_row(*(Text(head, "dim") for head in ("on held-out points", *MEASURES, *(["s"] if timed else []))))
    for row in report:
        style = "bold" if row.get("chosen") else ""
        if not any(measure in row for measure in MEASURES):
            found.add_row(Text(row["model"], style), Text(row.get("skipped", ""), "dim"))
            continue
        cells = [f"{row[measure]:.2f}" if measure in row else "" for measure in MEASURES]
        cells += [f"{row['seconds']:.1f}" if "seconds" in row else ""] if timed else []
        fewer = f" ({row['points']:,} points)" if "points" in row else ""
        found.add_row(Text(row["model"] + fewer, style), *(Text(cell, style) for cell in cells))
    return found
