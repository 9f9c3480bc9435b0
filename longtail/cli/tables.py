"""Results as tables for people."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from longtail.cli.measure import KS, MEASURES

_WORDS = {
    "P": "precision: right labels among the first k",
    "nDCG": "gain, earlier places count more",
    "PSP": "precision, rare labels weighed up",
    "PSnDCG": "gain, rare labels weighed up",
    "R": "recall: share of a point's labels found",
    "C": "coverage: share of all labels ever found",
    "F": "best mean of P and PSP by re-ranking",
}
_COLUMNS = {  # key: heading, decimals, whether less is better
    "P@1": ("P@1", 1, False),
    "P@5": ("P@5", 1, False),
    "PSP@1": ("PSP@1", 1, False),
    "PSP@5": ("PSP@5", 1, False),
    "F@1": ("F@1", 1, False),
    "F@5": ("F@5", 1, False),
    "C@5": ("C@5", 1, False),
    "train_seconds": ("train\ns", 1, True),
    "predict_ms_per_point": ("ms a\npoint", 2, True),
    "peak_memory_mb": ("peak\nMB", 0, True),
    "model_mb": ("model\nMB", 1, True),
}


def one(result: dict[str, Any], title: str) -> Table:
    """All measures of one model."""
    table = _table(title)
    table.add_column("%")
    for k in KS:
        table.add_column(f"@{k}", justify="right")
    table.add_column("", style="dim")
    for measure in MEASURES:
        table.add_row(measure, *(f"{result[f'{measure}@{k}']:.2f}" for k in KS), _WORDS[measure])
    costs = [f"{result['predict_ms_per_point']:.3f} ms a point", f"model {result['model_mb']:.1f} MB"]
    if result["train_seconds"] is not None:
        costs.insert(0, f"trained in {result['train_seconds']:.1f} s")
    table.caption = ", ".join(costs)
    return table


def several(results: list[dict[str, Any]], title: str) -> Table:
    """The chief measures of several models, the best of each in bold."""
    table = _table(title)
    table.add_column("model", overflow="fold", vertical="bottom", min_width=8)
    for heading, _, _ in _COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    whole = [row for row in results if "error" not in row]
    best = {
        key: (min if less else max)(row[key] for row in whole) if len(whole) > 1 else None
        for key, (_, _, less) in _COLUMNS.items()
    }
    for row in results:
        if "error" in row:
            table.add_row(escape(row["model"]), *["–"] * len(_COLUMNS), style="red")
            continue
        cells = []
        for key, (_, decimals, _) in _COLUMNS.items():
            cell = f"{row[key]:.{decimals}f}"
            cells.append(f"[bold green]{cell}[/]" if row[key] == best[key] else cell)
        table.add_row(escape(row["model"]), *cells)
    return table


def tradeoff(results: list[dict[str, Any]]) -> Table:
    """P@1 / PSP@1 of several models along the curve between the two."""
    curves = [(row["model"], row["tradeoff"]) for row in results if "tradeoff" in row]
    table = _table("P@1 / PSP@1 from plain precision (0) to rare labels (1), by β or by the model's own tail")
    table.add_column("model", overflow="fold", min_width=8)
    table.add_column("by")
    knobs = [next(iter(curve[0])) for _, curve in curves]
    for point in curves[0][1] if curves else []:
        table.add_column(f"{point[knobs[0]]:g}", justify="right", no_wrap=True)
    for (model, curve), knob in zip(curves, knobs, strict=True):
        cells = [f"{point['P@1']:.1f} / {point['PSP@1']:.1f}" for point in curve]
        table.add_row(escape(model), {"beta": "β"}.get(knob, knob), *cells)
    return table


def bins(results: list[dict[str, Any]]) -> Table:
    """What labels of each frequency contribute to P@5 and PSP@5 of several models."""
    shown = [(row["model"], row["bins"]) for row in results if "bins" in row]
    table = _table("P@5 / PSP@5 by the labels' training points, each bin a fifth of all of them")
    table.add_column("model", overflow="fold", min_width=8)
    for part in shown[0][1] if shown else []:
        table.add_column(f"{part['frequency_max']:,}–{part['frequency_min']:,}", justify="right", no_wrap=True)
    for model, parts in shown:
        table.add_row(escape(model), *(f"{part['P@5']:.1f} / {part['PSP@5']:.1f}" for part in parts))
    return table


def _table(title: str) -> Table:
    """A table that fits a terminal of 80 columns."""
    return Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )


def suggestions(found: list[tuple[str, float]], *, width: int = 12) -> Table:
    """Labels with their scores as numbers and bars."""
    table = Table.grid(padding=(0, 2))
    for label, score in found:
        bar = "█" * round(width * score)
        table.add_row(f"  {score:.3f}", Text(f"{bar:<{width}}", "cyan"), Text(label))
    return table
