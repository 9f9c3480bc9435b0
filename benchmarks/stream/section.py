"""The section of RESULTS.md about files of many lines, from ``results/stream.json``."""

from __future__ import annotations

from typing import Any

from benchmarks import machine
from benchmarks.tables import mark

_HOW = """\
`longtail predict --input FILE --out FILE` with one tree of `bonsai` and the test titles of debian-packages over and
over. A second run is killed half way and continued with `--resume`; both must write the same file. The load average
before a run tells whether the machine had other work: above about 1, compare the processor time."""
_HEADER = ["| | bar | measured |", "|---|---|---|"]


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    row = results["rows"]["lines"]
    speed, micro = row["lines"] / row["seconds"], 1e6 * row["cpu_seconds"] / row["lines"]
    resumed = "the same file" if row["resumed_same"] else "another file"
    entries = [
        ("lines per second", "≥ 15,000", f"{speed:,.0f} ({micro:.0f} µs of processor time per line)", speed >= 15_000),
        ("largest memory", "≤ 400 MB", f"{row['peak_mb']:.0f} MB", row["peak_mb"] <= 400),
        ("killed and continued", "the same file", resumed, row["resumed_same"]),
    ]
    lines = [f"| {what} | {bar} | {found} {mark(met)} |" for what, bar, found, met in entries]
    run = f"- measured: {row['lines']:,} lines, {row['date']}, commit {row['commit']}, load {row['load_before']:.1f}"
    return "\n".join(["## Files of many lines", "", _HOW, "", *_HEADER, *lines, "", run, *machine.described(results)])
