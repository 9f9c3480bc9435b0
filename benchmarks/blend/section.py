"""The section of RESULTS.md about Blend, from ``results/blend.json`` and the peers' figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import results as store
from benchmarks.tables import LEGEND, mark, variant_table
from benchmarks.zero_shot import zero_shot_table

_ABOVE = {"B@1": 2.0, "B@3": 2.0, "B@5": 3.0, "P@1": 0.0, "P@3": 0.0, "P@5": 0.0}
_LONG = {"P@5": 0.0, "B@5": 0.0}
_BARS = {"debian-packages": _ABOVE, "tate": _ABOVE, "eurlex57k": _LONG, "yso-titles": _LONG}
_TEXT_GAINS = {"B@1": 2.0, "B@5": 3.0}
_HOW = """\
The default of longtail: several models, combined by a probability that is learnt on held-out points. No row of this
section is a paper's model alone. Each variant is trained in a process of its own (`benchmarks/blend/run.py`) and
measured on the test part; `without …` has one member less, `no-text` is given no label text. A peer's figure is the
best of all peers above, for each metric. Single points are the median on one thread. Times taken while the machine had
other work are upper bounds."""


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = list(results["rows"].values())
    lines = [
        "## Blend",
        "",
        _HOW,
        "",
        LEGEND,
    ]
    measured = [row for row in rows if "variant" in row]
    for data in dict.fromkeys(row["data"] for row in measured):
        here = [row for row in measured if row["data"] == data]
        lines += ["", f"### Blend on {data}", "", *_bars(here, data), *variant_table(here), *_label_text(here)]
        lines += _vectors(here)
    return "\n".join([*lines, *zero_shot_table([row for row in rows if "hidden" in row])])


def _bars(rows: list[dict[str, Any]], data: str) -> list[str]:
    """Compare the whole with the best peer."""
    best, whole = store.best_peer(data), [row for row in rows if row["variant"] == "blend" and "error" not in row]
    if not best or not whole or data not in _BARS:
        return []
    lines = ["| goal | bar | blend |", "|---|---|---|"]
    for metric, above in _BARS[data].items():
        found = float(np.mean([row[metric] for row in whole]))
        bar = best[metric] + above
        lines.append(f"| {metric}, best peer's + {above:g} | ≥ {bar:.2f} | {found:.2f} {mark(found >= bar)} |")
    return [*lines, ""]


def _label_text(rows: list[dict[str, Any]]) -> list[str]:
    """Compare results with and without label text, where both were measured."""
    one = {row["variant"]: row for row in rows if "error" not in row and row["seed"] == 0}
    if not {"blend", "no-text"} <= one.keys():
        return []
    gains = {metric: one["blend"][metric] - one["no-text"][metric] for metric in _TEXT_GAINS}
    shown = [f"{m} {gain:+.2f} (bar {_TEXT_GAINS[m]:+g} {mark(gain >= _TEXT_GAINS[m])})" for m, gain in gains.items()]
    return ["", f"Label text: {', '.join(shown)}."]


def _vectors(rows: list[dict[str, Any]]) -> list[str]:
    """Compare results with and without sentence vectors, where both were measured."""
    one = {row["variant"]: row for row in rows if "error" not in row and row["seed"] == 0}
    if not {"the same run without them", "with sentence vectors"} <= one.keys():
        return []
    own, plain = one["with sentence vectors"], one["the same run without them"]
    metrics = [f"{metric}@{k}" for metric in ("P", "PSP", "B") for k in (1, 3, 5)]
    gains = ", ".join(f"{metric} {own[metric] - plain[metric]:+.2f}" for metric in metrics)
    encoder = f"; the encoder takes {own['encode_ms']:.1f} ms per text besides" if own.get("encode_ms") else ""
    return ["", f"Sentence vectors of {own['vector_size']} numbers: {gains}{encoder}."]
