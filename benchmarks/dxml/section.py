"""The section of RESULTS.md on DXML, from ``results/dxml.json``."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.machine import described
from benchmarks.tables import mark

_HOW = """\
Every row is the paper's model alone: `dxml` with its default settings, on the matrices of the first section, both
cores; figures are means over seeds where there are several. `linear` has no ReLU (the ablation of the paper's Fig. 2),
`paper` is `preset="paper"`. Neighbours, their weight and the partitions opened are chosen on held-out training points,
never on test points. One point: `rank` on one thread, 500 test points, the better of two passes; recall is the share of
the true neighbours that are in the opened partitions. Growth: training on synthetic data at four sizes, as the slope of
log time over log(n · log n), 1 being n · log n. Memory is the peak of the process, data and libraries included."""
_GOALS = {
    "bibtex": {"P@1": 64.8, "P@3": 39.5, "nDCG@5": 61.0},
    "delicious": {"P@1": 67.5, "P@3": 61.5, "P@5": 57.0},
}
_LARGE = ("tate", "debian-packages", "eurlex57k")
_ORDER = ("bibtex", "delicious", *_LARGE)
_VARIANTS = ("default", "linear", "paper")


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = results["rows"]
    lines = [
        "## DXML",
        "",
        _HOW,
        "",
        *described(results),
        f"- measured: {', '.join(sorted({row['date'] for row in rows.values()}))}",
        *([f"- note: {results['note']}"] if "note" in results else []),
        "",
        "| goal | bar | measured |",
        "|---|---|---|",
        *_goals(rows),
        "",
        *_accuracy(rows),
    ]
    for by in ("points", "labels"):
        if row := rows.get(f"scale {by}"):
            times = ", ".join(f"{n:,}: {s:.1f} s" for n, s in zip(row["sizes"], row["seconds"], strict=True))
            lines += ["", f"Training time by {by}: {times}; slope {row['slope']:.2f}."]
    for data in _ORDER:
        if row := rows.get(f"on {data}"):
            lines += ["", f"### Learning on: {data}, a fifth of the points later", ""]
            lines += ["| | s | P@1 | P@3 | P@5 | PSP@5 |", "|---|---|---|---|---|---|"]
            names = {"without": "four fifths", "partial_fit": "then `partial_fit`", "all": "all at once"}
            for key, name in names.items():
                part = row[key]
                figures = " | ".join(f"{part[metric]:.2f}" for metric in ("P@1", "P@3", "P@5", "PSP@5"))
                lines.append(f"| {name} | {part['seconds']:.1f} | {figures} |")
    return "\n".join(lines)


def mean(rows: dict[str, Any], data: str, variant: str, metric: str) -> tuple[float, int] | None:
    """Return the mean of a figure over the seeds of a run, and how many there are."""
    found = [row[metric] for key, row in rows.items() if key.rpartition(" ")[0] == f"{data} {variant}"]
    return (float(np.mean(found)), len(found)) if found else None


def _goals(rows: dict[str, Any]) -> list[str]:
    lines = []
    for data, bars in _GOALS.items():
        for metric, bar in bars.items():
            if found := mean(rows, data, "default", metric):
                value, n = found
                lines.append(f"| {data} {metric}, mean of {n} | ≥ {bar:g} | {value:.2f} {mark(value >= bar)} |")
    for data in ("delicious", "tate"):
        for metric in ("P@1", "P@3", "P@5"):
            ours, linear = mean(rows, data, "default", metric), mean(rows, data, "linear", metric)
            if ours and linear:
                gap = ours[0] - linear[0]
                lines.append(f"| {data} {metric}, ReLU − linear | > 0 | {gap:+.2f} {mark(gap > 0)} |")
    for data in _LARGE:
        if row := rows.get(f"{data} default 0"):
            minutes, gib = row["train_seconds"] / 60, row["peak_mb"] / 1024
            lines.append(f"| {data}, training | ≤ 10 min | {minutes:.1f} min {mark(minutes <= 10)} |")
            lines.append(f"| {data}, peak of memory | ≤ 4 GiB | {gib:.1f} GiB {mark(gib <= 4)} |")
            name = f"{data}, {row['n_train']:,} points"
            lines.append(f"| {name}, p50 of one | ≤ 1 ms | {row['p50_ms']:.2f} ms {mark(row['p50_ms'] <= 1)} |")
            lines.append(f"| {name}, recall | ≥ 0.95 | {row['recall']:.3f} {mark(row['recall'] >= 0.95)} |")
    if row := rows.get("walks"):
        steps = row["steps_2"] / 1e6
        lines.append(f"| random walks, 2 cores | ≥ 5 M steps/s | {steps:.1f} M {mark(steps >= 5)} |")
    slopes = {by: rows[f"scale {by}"]["slope"] for by in ("points", "labels") if f"scale {by}" in rows}
    lines += [f"| growth with {by} | ≤ 1.05 of n · log n | {s:.2f} {mark(s <= 1.05)} |" for by, s in slopes.items()]
    return lines


def _accuracy(rows: dict[str, Any]) -> list[str]:
    head = ("data", "model", "P@1/3/5", "nDCG@5", "PSP@1/3/5", "train s", "peak MB", "one ms", "recall", "k", "MB")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for data in _ORDER:
        for variant in _VARIANTS:
            found = [row for key, row in rows.items() if key.rpartition(" ")[0] == f"{data} {variant}"]
            if not found:
                continue
            m = {
                key: np.mean([row[key] for row in found]) for key in found[0] if isinstance(found[0][key], int | float)
            }
            opened = f" ({found[0]['n_probe']} of {found[0]['n_partitions']})" if "n_probe" in found[0] else ""
            lines.append(
                f"| {data} | {variant}{f', {len(found)} seeds' if len(found) > 1 else ''} "
                f"| {m['P@1']:.2f}/{m['P@3']:.2f}/{m['P@5']:.2f} | {m['nDCG@5']:.2f} "
                f"| {m['PSP@1']:.2f}/{m['PSP@3']:.2f}/{m['PSP@5']:.2f} | {m['train_seconds']:.0f} | {m['peak_mb']:.0f} "
                f"| {m['p50_ms']:.2f} | {m['recall']:.3f}{opened} | {m['n_neighbors']:.0f} | {m['model_mb']:.0f} |"
            )
    return lines
