"""The section of RESULTS.md on checks: their cost, and campaigns against them, from ``results/checks.json``."""

from __future__ import annotations

from typing import Any

from benchmarks.checks.campaigns import FINDINGS
from benchmarks.machine import described
from benchmarks.tables import mark

_BARS = {"load": 0.10, "predict": 0.02, "rank": 0.03}
_GROWTH = 2.0  # MB
_HOW = """\
What checks add to loading a model folder (each array compared with its rules, beside its checksum), to a prediction of
2,000 points, and to 200 points one by one. Each use runs with and without checks in turn; the least CPU time of several
runs counts, of each point where they are ranked one by one."""
_CAMPAIGNS = """\
Cases tried per campaign, and how they ended. Refused: one clear error. Answered: the damage left a sound input. A
crash, a hang, a raw exception or a wrong answer is a finding, and there must be none. Files and models are damaged with
checksums computed again. The last rows are the growth of the process in MB."""


def render(results: dict[str, Any]) -> str:
    """Return the section."""
    lines = ["## Checks", "", *described(results), "", _HOW, ""]
    lines += ["| model | use | ms | without checks | added | bar |", "|---" * 6 + "|"]
    for row in results.get("rows", {}).values():
        bar = _BARS[row["use"]]
        added = row["checked_ms"] / row["trusted_ms"] - 1
        cells = [row["model"], row["use"], f"{row['checked_ms']:.3g}", f"{row['trusted_ms']:.3g}"]
        lines.append(f"| {' | '.join([*cells, f'{added:+.1%}', f'≤ {bar:.0%} {mark(added <= bar)}'])} |")
    lines += ["", "### Campaigns", "", _CAMPAIGNS, "", "| campaign | tried | ended | findings |", "|---" * 4 + "|"]
    for what, row in results.get("parts", {}).items():
        outcomes = row["outcomes"]
        ended = ", ".join(f"{name} {count:,}" for name, count in sorted(outcomes.items()))
        if "MB more" in outcomes:
            lines.append(f"| {what} | | {ended} | {mark(outcomes['MB more'] <= _GROWTH)} |")
            continue
        found = sum(outcomes.get(name, 0) for name in FINDINGS)
        lines.append(f"| {what} | {sum(outcomes.values()):,} | {ended} | {found or 'none'} {mark(not found)} |")
    return "\n".join(lines)
