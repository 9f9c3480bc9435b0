"""The section of RESULTS.md about DECAF alone, from ``results/decaf.json``."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tables import footnote, mark, star, variant_table
from benchmarks.zero_shot import zero_shot_table

_SLOPE = 0.3
_PARTS = ("P@1", "P@5", "PSP@1", "PSP@5", "B@1", "B@5")
_HOW = """\
Label text inside the classifiers. Every row of this section is the paper's model alone; combined with other models it
is in the section on Blend. Each variant is trained in a process of its own with the defaults but for what its name says
(`benchmarks/decaf/run.py`), and measured on the test part; settings were chosen on parts of the training points. Single
points are the median on one thread. Times taken while the machine had other work are upper bounds."""
_HOW_PARTS = """\
The paper's four modules with the steps of the fast preset, vectors of length 128, three epochs of Module I and five of
II and IV, so that all of them could be run. Differences from the whole, mean and standard deviation over seeds. In the
paper every difference is below zero; what is not is discussed in [README.md](README.md#parts-of-decaf)."""


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = list(results["rows"].values())
    lines = [
        "## DECAF",
        "",
        _HOW,
    ]
    measured = [row for row in rows if "variant" in row]
    whole = [row for row in measured if not row["variant"].startswith("parts")]
    for data in dict.fromkeys(row["data"] for row in whole):
        lines += ["", f"### DECAF on {data}", "", *variant_table([row for row in whole if row["data"] == data])]
    lines += _ablations([row for row in measured if row["variant"].startswith("parts") and "error" not in row])
    lines += zero_shot_table([row for row in rows if "hidden" in row])
    lines += _scaling(sorted((row for row in rows if "fit_seconds" in row), key=lambda row: row["labels"]))
    lines += _latency([row for row in rows if "agreement" in row])
    return "\n".join(lines)


def _ablations(rows: list[dict[str, Any]]) -> list[str]:
    """Return Tables 5 and 6 of the paper, where every variant is below the whole."""
    whole = {row["seed"]: row for row in rows if row["variant"] == "parts"}
    if not whole:
        return []
    lines = [
        "",
        "### DECAF with parts left out",
        "",
        f"On {rows[0]['data']}; each row is the paper's model alone, less one part.",
        _HOW_PARTS,
        "",
        "| variant | " + " | ".join(_PARTS) + " | below the whole, as in the paper | train s | seeds |",
        "|---" * (len(_PARTS) + 4) + "|",
    ]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        same = [row for row in rows if row["variant"] == variant and row["seed"] in whole]
        gaps = {m: np.array([row[m] - whole[row["seed"]][m] for row in same]) for m in _PARTS}
        if variant == "parts":
            cells = [
                f"{np.mean([row[m] for row in same]):.2f} ± {np.std([row[m] for row in same]):.2f}" for m in _PARTS
            ]
            below = ""
        else:
            cells = [f"{gaps[m].mean():+.2f} ± {gaps[m].std():.2f}" for m in _PARTS]
            below = ", ".join(m for m in _PARTS if gaps[m].mean() < 0) or "**nowhere**"
        seconds = np.mean([row["train_seconds"] for row in same])
        lines.append(f"| {variant}{star(same[0])} | {' | '.join(cells)} | {below} | {seconds:.0f} | {len(same)} |")
    return lines + footnote(rows)


def _scaling(rows: list[dict[str, Any]]) -> list[str]:
    if len(rows) < 2:
        return []
    labels = np.log([row["labels"] for row in rows])
    slopes = [np.polyfit(labels, np.log([row[f"{what}_seconds"] for row in rows]), 1)[0] for what in ("epoch", "fit")]
    judged = [f"{slope:.2f} ({mark(slope <= _SLOPE)})" for slope in slopes]
    lines = ["", "### Labels and training time", ""]
    lines += [
        f"20,000 synthetic points; slope in log-log against labels (bar ≤ {_SLOPE}): of an epoch {judged[0]}, of all",
        f"that `fit` does, which includes making and indexing a classifier for each label, {judged[1]}.",
        "",
        "| labels | with points | s per epoch | s in all, 2 epochs |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['labels']:,}{star(row)} | {row['with points']:,} "
        f"| {row['epoch_seconds']:.2f} | {row['fit_seconds']:.1f} |"
        for row in rows
    ]
    return lines + footnote(rows)


def _latency(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"\n### One point among {row['labels']:,} labels\n\nGenerated classifiers of length {row['dim']}, one thread: "
        f"p50 {row['p50_ms']:.2f} ms (bar ≤ 1.7 {mark(row['p50_ms'] <= 1.7)}), top-5 agreement with exhaustive "
        f"scoring {row['agreement']:.3f} (bar ≥ 0.95 {mark(row['agreement'] >= 0.95)}).{star(row)}"
        for row in rows
    ]
    return lines + footnote(rows)
