"""Draw the contributions of frequent and rare labels to P@5 and PSP@5 of several models, as grouped bars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from longtail.report.figure import COLOURS, new_figure, percent_axis, plain_text, save_figure


def draw_bin_bars(results: list[dict[str, Any]], title: str, path: Path) -> None:
    """Draw one group of bars per frequency bin.

    Parameters
    ----------
    results : list of dict
        ``model``, its name, and ``bins``, the result of :func:`longtail.metrics.frequency_bins` for k = 5.
    title : str
        Title of the picture.
    path : Path
        A .png, .svg or .pdf file.
    """
    figure = new_figure(12, 4.8)
    figure.suptitle(plain_text(title, 120))
    parts = [part for part in results[0]["bins"] if part["labels"]]
    width = 0.8 / len(results)
    for axes, metric in zip(figure.subplots(1, 2), ("P@5", "PSP@5"), strict=True):
        for at, row in enumerate(results):
            heights = [row["bins"][part["bin"] - 1][metric] for part in parts]
            positions = [group + (at - (len(results) - 1) / 2) * width for group in range(len(parts))]
            axes.bar(positions, heights, 0.92 * width, color=COLOURS[at % len(COLOURS)], label=plain_text(row["model"]))
        axes.set_xticks(range(len(parts)), [bin_name(part) for part in parts], fontsize="small")
        axes.set(xlabel="training points per label, frequent labels on the left", ylabel=f"contribution to {metric}")
        percent_axis(axes.yaxis)
        axes.grid(alpha=0.3, axis="y")
        axes.set_axisbelow(True)
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    save_figure(figure, path)


def bin_name(part: dict[str, Any]) -> str:
    """Return the name of a bin in two short lines: the frequencies of its labels, and their number."""
    n = part["labels"]
    return f"{frequency_range(part, short_number)}\n{short_number(n)} label{'s' if n != 1 else ''}"


def frequency_range(part: dict[str, Any], write: Callable[[int], str]) -> str:
    """Return the range of the frequencies of a bin's labels, or the frequency itself if all are equal."""
    least, most = write(part["frequency_min"]), write(part["frequency_max"])
    return most if part["frequency_min"] == part["frequency_max"] else f"{least} – {most}"


def short_number(value: int) -> str:
    """Write a count in at most five characters: 812, 12.3k, 1.2M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(value)
