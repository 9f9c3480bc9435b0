"""Results as pictures, with matplotlib (the extra ``report``); neither a window nor pyplot's global state is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from longtail.cli.measure import KS

_SIZE = (12.0, 4.2)  # inches
_DPI = 120


def tradeoff(results: list[dict[str, Any]], title: str, path: Path) -> None:
    """P@k against PSP@k of each model along its curve; a star marks the model as it is."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    figure.suptitle(title)
    for axes, k in zip(figure.subplots(1, len(KS)), KS, strict=True):
        for row in results:
            curve = row["tradeoff"]
            (line,) = axes.plot(
                [point[f"P@{k}"] for point in curve],
                [point[f"PSP@{k}"] for point in curve],
                marker="o",
                markersize=4,
                label=row["model"],
            )
            axes.plot(row[f"P@{k}"], row[f"PSP@{k}"], marker="*", markersize=13, color=line.get_color())
        axes.set(xlabel=f"P@{k}", ylabel=f"PSP@{k}")
        axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=_DPI)


def bins(results: list[dict[str, Any]], title: str, path: Path) -> None:
    """Bars side by side: what the labels of each frequency bin contribute to P@5 and PSP@5 of each model."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    figure.suptitle(title)
    width = 0.8 / len(results)
    for axes, measure in zip(figure.subplots(1, 2), ("P@5", "PSP@5"), strict=True):
        for i, row in enumerate(results):
            places = [part["bin"] + (i - (len(results) - 1) / 2) * width for part in row["bins"]]
            axes.bar(places, [part[measure] for part in row["bins"]], width, label=row["model"])
        parts = results[0]["bins"]
        names = [f"{part['frequency_max']:,}–{part['frequency_min']:,}\n{part['labels']:,} labels" for part in parts]
        axes.set_xticks([part["bin"] for part in parts], names, fontsize="small")
        axes.set(xlabel="training points of a label", ylabel=f"part of {measure}")
        axes.grid(alpha=0.3, axis="y")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=_DPI)
