"""Cells and tables that several sections of RESULTS.md share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from longtail import registry

OURS = ("blend", "knn", "textmatch", "labeltext", "popular")  # models that no paper proposes
_TAUG_ADDED = re.compile(r"taug\(.*'(text|whole)': True")  # label text, or a third copy
_RANKNET_PLAIN = re.compile(r"text=False|preset='paper'")  # otherwise it uses label text
LEGEND = """\
"paper": a published model alone, with our settings unless its name has `preset='paper'`. "paper +": that model with an
addition of ours, such as label text. "ours": a model that no paper proposes, or a combination with one."""
FORMER = """\
\\* Measured with version 0.1.0, under the name that the model had then; commit and former name are in `results/`. To be
measured again."""
_COSTS = ("cores", "train s", "batch ms", "single ms", "peak MB", "model MB", "seeds")
_FIGURES = ("P@1/3/5", "PSP@1/3/5", "B@1/3/5")


def mark(passed: bool) -> str:
    """Return the sign of a bar that is reached, or of one that is missed."""
    return "✓" if passed else "**✗**"


def three(values: Iterable[float]) -> str:
    """Format figures at 1, 3 and 5 as one cell."""
    return "/".join(f"{value:.2f}" for value in values)


def origin(model: str) -> str:
    """Return "paper", "paper +" or "ours" for a model with its settings; see `LEGEND`."""
    if set(registry.used(model)) & set(OURS):
        return "ours"
    with_text = "ranknet" in model and not _RANKNET_PLAIN.search(model)
    return "paper +" if with_text or _TAUG_ADDED.search(model) else "paper"


def star(row: dict[str, Any]) -> str:
    """Return an asterisk for a row that was measured under a former name."""
    return r"\*" if "recorded_with" in row else ""


def footnote(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the explanation of the asterisk, if any row has it."""
    return ["", FORMER] if any("recorded_with" in row for row in rows) else []


def variant_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a table of variants of a model on one data set: the mean over seeds of metrics and costs."""
    head = ("variant", "from", *_FIGURES, *_COSTS)
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        same = [row for row in rows if row["variant"] == variant]
        succeeded = [row for row in same if "error" not in row]
        names = [f"{variant}{star(same[0])}", origin(same[0]["model"])]
        if succeeded:
            lines.append(f"| {' | '.join([*names, *_cells(succeeded)])} |")
        else:
            lines.append(f"| {' | '.join(names)} | {same[0]['error']} |" + " |" * (len(head) - 3))
    return lines + footnote(rows)


def _cells(rows: list[dict[str, Any]]) -> list[str]:
    """Return the figures of one variant."""
    first = rows[0]
    mean = {key: float(np.mean([row[key] for row in rows])) for key in first if isinstance(first[key], float)}
    return [
        *(three(mean[f"{metric}@{k}"] for k in (1, 3, 5)) for metric in ("P", "PSP", "B")),
        "/".join(sorted({str(row.get("cores", "?")) for row in rows})),
        f"{mean['train_seconds']:.0f}",
        f"{mean['predict_ms_per_point']:.3f}",
        f"{mean['single_ms']:.3f}",
        f"{mean['peak_memory_mb']:.0f}",
        f"{mean['model_mb']:.1f}",
        str(len(rows)),
    ]
