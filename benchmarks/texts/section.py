"""The section of RESULTS.md on texts per second, from ``results/texts.json``."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import described
from benchmarks.tables import mark

_HOW = """\
From texts to the 5 best labels of each, with all cores: `Tagger.predict` beside the TfidfVectorizer of scikit-learn and
XR-Linear of PECOS. All test texts at once, the best of several runs; training is not timed. The last column compares
texts per second with the other pipeline."""
_BARS = {"bonsai": 2.0, "blend": 0.5}
_PEER = "scikit-learn + PECOS"


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = list(results["rows"].values())
    lines = ["## Texts per second", "", _HOW, "", *described(results)]
    lines += [f"- measured: {', '.join(sorted({row['date'] for row in rows}))}", ""]
    lines += ["| data | system | texts per second | CPU ms per text | faster by | bar |", "|---" * 6 + "|"]
    for data in dict.fromkeys(row["data"] for row in rows):
        here = {row["system"]: row for row in rows if row["data"] == data}
        peer = here.get(_PEER)
        for system, row in here.items():
            cells = [data, system, f"{row['n'] / row['seconds']:,.0f}", f"{1e3 * row['cpu_seconds'] / row['n']:.3f}"]
            if peer is None or row is peer:
                cells += ["", ""]
            else:
                ratio = peer["seconds"] / row["seconds"] * row["n"] / peer["n"]
                bar = _BARS.get(system)
                cells += [f"{ratio:.2f}×", "" if bar is None else f"≥ {bar:g}× {mark(ratio >= bar)}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
