"""The section of RESULTS.md on the papers' tables, from ``results/papers.json``."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import described
from benchmarks.papers.claims import CLAIMS, differences, verdict


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown: where the tables are, and how many claims hold."""
    rows = list(results["rows"].values())
    found = [verdict(differences(rows, claim)) for claim in CLAIMS]
    counts = ", ".join(f"{found.count(word)} {word}" for word in dict.fromkeys(found))
    lines = [
        "## The papers' own tables",
        "",
        f"{len(rows)} rows beside the published ones are on [docs/papers.md](../docs/papers.md). Of the papers' "
        f"{len(CLAIMS)} claims: {counts}.",
        "",
        *described(results),
        f"- measured: {', '.join(sorted({row['date'] for row in rows}))}",
    ]
    return "\n".join(lines)
