"""Format results as tables for the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from longtail.cli.console import printable
from longtail.cli.measure import KS, METRIC_NAMES
from longtail.errors import number_of, size

_MEANINGS = {
    "P": "precision: correct labels among the top k",
    "nDCG": "gain: higher ranks count more",
    "PSP": "precision, rare labels weigh more",
    "PSnDCG": "gain, rare labels weigh more",
    "R": "recall: share of a point's labels found",
    "C": "coverage: share of labels ever found",
    "B": "balance: best mean of P and PSP by re-ranking",
}
_COMPARED = ("P", "PSP", "B", "C")
_COMPARED_KS = (1, 5)
_COMPARED_COSTS = {  # key: heading, decimals
    "train_seconds": ("train\ns", 1),
    "predict_ms_per_point": ("ms/\npoint", 2),
    "peak_memory_mb": ("peak\nMB", 0),
    "model_mb": ("model\nMB", 1),
}
_NAME_WIDTH = 18  # longer names of models are broken into several lines
_BAR_WIDTH = 12  # characters of the bar for a score of 1
_LINE = 80  # columns of a terminal
_BAR_WIDTH = 12
_HELD_OUT_METRICS = ("P@1", "P@5", "PSP@1", "PSP@5", "B@1", "B@5")


def metrics_table(result: dict[str, Any], title: str) -> Table:
    """Return a table of all metrics of one model."""
    table = _table(title)
    table.add_column("%")
    for k in KS:
        table.add_column(f"@{k}", justify="right")
    table.add_column("", style="dim")
    for metric in METRIC_NAMES:
        table.add_row(metric, *(f"{result[f'{metric}@{k}']:.2f}" for k in KS), _MEANINGS[metric])
    if result.get("ECE@1") is not None:
        rare = "" if result["ECE-rare@1"] is None else f"; rare labels {result['ECE-rare@1']:.2f}"
        table.add_row("ECE", f"{result['ECE@1']:.2f}", *[""] * (len(KS) - 1), f"calibration error of scores{rare}")
    costs = []
    if result["predict_ms_per_point"] is not None:
        costs = [f"{result['predict_ms_per_point']:.3f} ms per point", f"model {size(result['model_mb'])}"]
    if result["train_seconds"] is not None:
        costs.insert(0, f"trained in {result['train_seconds']:.1f} s")
    table.caption = ", ".join(costs) or None
    return table


def decisions_table(result: dict[str, Any]) -> Table:
    """Return a table of precision, recall and F1 of the labels that reach a threshold."""
    from longtail.metrics.thresholds import Thresholds

    values, frequencies, limit = (result["threshold"][key] for key in ("values", "frequencies", "limit"))
    shown = Thresholds(tuple(values), tuple(frequencies))
    table = _table(f"Labels that reach the threshold {shown}, at most {limit} per point")
    for heading in ("%", "P", "R", "F1"):
        table.add_column(heading, justify="left" if heading == "%" else "right")
    table.add_column("", style="dim")
    meanings = {"micro": "over all pairs", "macro": "mean over labels", "example": "mean over points"}
    for average, meaning in meanings.items():
        cells = (f"{result[f'{average}-{name}']:.2f}" for name in ("P", "R", "F1"))
        table.add_row(average, *cells, meaning)
    return table


def thresholds_table(facts: dict[str, Any]) -> Table:
    """Return a table of F1 for each limit and threshold, with the best in bold."""
    best = max(max(row["f1"]) for row in facts["table"])
    table = _table(f"{facts['goal']}-F1 in percent, by number of labels per point (rows) and threshold")
    table.add_column("limit", justify="right")
    for value in facts["thresholds"]:
        table.add_column(f"{value:g}", justify="right", no_wrap=True)
    for row in facts["table"]:
        cells = [f"[bold green]{f1:.1f}[/]" if f1 == best else f"{f1:.1f}" for f1 in row["f1"]]
        table.add_row(str(row["limit"]), *cells)
    return table


def comparison_table(results: list[dict[str, Any]], title: str) -> Table:
    """Return a table of the main metrics of several models, @1 above @5, with the best of each in bold."""
    table = _table(title)
    _add_model_column(table, results)
    table.add_column("")
    for heading in (*_COMPARED, *(heading for heading, _ in _COMPARED_COSTS.values())):
        table.add_column(heading, justify="right", no_wrap=True)
    whole = [row for row in results if "error" not in row]
    keys = [f"{metric}@{k}" for metric in _COMPARED for k in _COMPARED_KS]
    best = dict.fromkeys([*keys, *_COMPARED_COSTS])
    if len(whole) > 1:
        best |= {key: max(row[key] for row in whole) for key in keys}
        best |= {key: min(row[key] for row in whole) for key in _COMPARED_COSTS}

    def cell(row: dict[str, Any], key: str, decimals: int) -> str:
        shown = f"{row[key]:.{0 if row[key] >= 100 else decimals}f}"  # short enough for 80 columns
        shown = f"[bold green]{shown}[/]" if row[key] == best[key] else shown
        spread = row.get("deviation", {}).get(key)
        return shown if spread is None else f"{shown}\n[dim]±{spread:.{decimals}f}[/]"

    for row in results:
        if "error" in row:
            dashes = ["–"] * (len(_COMPARED) + len(_COMPARED_COSTS))
            table.add_row(escape(row["model"]), "", *dashes, style="red")
            continue
        seeds = f"\n[dim]{row['seeds']} seeds[/]" if "deviation" in row else ""
        between = "\n\n" if seeds else "\n"  # with several seeds, the deviation is below each number
        metrics = ("\n".join(cell(row, f"{metric}@{k}", 1) for k in _COMPARED_KS) for metric in _COMPARED)
        costs = (cell(row, key, decimals) for key, (_, decimals) in _COMPARED_COSTS.items())
        ks = between.join(f"@{k}" for k in _COMPARED_KS) + between[1:]
        table.add_row(escape(row["model"]) + seeds, ks, *metrics, *costs)
    return table


def trade_off_table(results: list[dict[str, Any]]) -> Table:
    """Return a table of P@1 and PSP@1 of several models along the curve from frequent to rare labels."""
    shown = [row for row in results if "tradeoff" in row]
    table = _table("P@1 above PSP@1 in percent, from frequent (0) to rare labels (1), along β or the parameter tail")
    _add_model_column(table, shown)
    table.add_column("along")
    table.add_column("")
    parameters = [next(iter(row["tradeoff"][0])) for row in shown]  # tail or beta
    for point in shown[0]["tradeoff"] if shown else []:
        table.add_column(f"{point[parameters[0]]:g}", justify="right", no_wrap=True)
    for row, parameter in zip(shown, parameters, strict=True):
        cells = [f"{point['P@1']:.1f}\n{point['PSP@1']:.1f}" for point in row["tradeoff"]]
        table.add_row(escape(row["model"]), {"beta": "β"}.get(parameter, parameter), "P@1\nPSP@1", *cells)
    return table


def bins_table(results: list[dict[str, Any]]) -> Table:
    """Return a table of the contributions of frequent and rare labels to P@5 and PSP@5 of several models."""
    shown = [row for row in results if "bins" in row]
    table = _table("Contribution to P@5 above PSP@5 in percent, by training points per label; each bin has a fifth")
    _add_model_column(table, shown)
    table.add_column("")
    for part in shown[0]["bins"] if shown else []:
        least, most = f"{part['frequency_min']:,}", f"{part['frequency_max']:,}"
        heading = most if least == most else f"{least}–\n{most}"
        table.add_column(heading, justify="right", no_wrap=True)
    for row in shown:
        cells = (f"{part['P@5']:.1f}\n{part['PSP@5']:.1f}" for part in row["bins"])
        table.add_row(escape(row["model"]), "P@5\nPSP@5", *cells)
    return table


def _add_model_column(table: Table, results: list[dict[str, Any]]) -> None:
    """Add a column of model names. It is as wide as the longest name, up to a limit; longer names are broken."""
    longest = max((len(row["model"]) for row in results), default=0)
    table.add_column("model", overflow="fold", min_width=min(longest, _NAME_WIDTH))


def _table(title: str) -> Table:
    """Return an empty table that fits a terminal of 80 columns."""
    return Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
        min_width=min(len(title), _LINE),  # keeps the title of a narrow table on one line
    )


def suggestions_table(suggestions: list[tuple[str, float]]) -> Table:
    """Return a table of labels with their scores as numbers and bars."""
    table = Table.grid(padding=(0, 2))
    for label, score in suggestions:
        number, bar = suggestion_cells(score)
        table.add_row(number, Text(bar, "cyan"), Text(printable(label)))
    return table


def suggestion_cells(score: float) -> tuple[str, str]:
    """Return a score as a number and as a bar, both padded to the width of their columns."""
    bar = "█" * round(_BAR_WIDTH * score)
    return f"  {score:.3f}", f"{bar:<{_BAR_WIDTH}}"


def plain_lines(lines: list[str], width: int) -> str | None:
    """Return lines in the form in which rich prints them to a file, or None if rich would break or change one.

    It is for tens of thousands of texts: rich takes a millisecond for each, ten times as long as a fast model.
    """
    if not all(line.isprintable() and (len(line) <= width // 2 or cell_len(line) <= width) for line in lines):
        return None
    return "".join([f"{line.rstrip(' ')}\n" for line in lines])


def held_out_table(report: list[dict[str, Any]]) -> Table:
    """Return a table of the models that were tried on held-out points, with metrics and time, or why one was skipped.

    The chosen models are in bold.
    """
    table = Table.grid(padding=(0, 2))
    timed = any("seconds" in row for row in report)
    headings = ["on held-out points", *_HELD_OUT_METRICS, *(["s"] if timed else [])]
    table.add_row(*(Text(heading, "dim") for heading in headings))
    for row in report:
        style = "bold" if row.get("chosen") else ""
        if not any(metric in row for metric in _HELD_OUT_METRICS):
            table.add_row(Text(row["model"], style), Text(row.get("skipped", ""), "dim"))
            continue
        cells = [f"{row[metric]:.2f}" if metric in row else "" for metric in _HELD_OUT_METRICS]
        cells += [f"{row['seconds']:.1f}" if "seconds" in row else ""] if timed else []
        fewer = f" ({number_of(row['points'], 'point')})" if "points" in row else ""
        table.add_row(Text(row["model"] + fewer, style), *(Text(cell, style) for cell in cells))
    return table
