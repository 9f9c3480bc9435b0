"""Draw P@k against PSP@k of several models, as curves from frequent to rare labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from longtail.report.figure import line_style, new_figure, percent_axis, plain_text, save_figure

ResultRow = dict[str, Any]
_STRETCH = 2.5  # a model that would stretch an axis by more than this factor is only named above the panel
_FAR_STRETCH = 1.5  # the same for a weak baseline
_MIN_SPAN = 4.0  # percentage points that each axis shows at least
_ALWAYS_ALLOWED_SPAN = 15.0  # percentage points up to which stretching is not limited: typical distance of rivals
_PADDING = 0.08
_NEAR = 0.5  # a model with at least this fraction of the best P@k or PSP@k is not a weak baseline
_LEGEND_WIDTH = 170  # characters


class PlotWindow(NamedTuple):
    """The part of the plane that a panel shows, given by bounds of P@k and PSP@k."""

    left: float
    right: float
    low: float
    high: float

    def joined(self, other: PlotWindow) -> PlotWindow:
        """Return the smallest window that includes both."""
        return PlotWindow(
            min(self.left, other.left),
            max(self.right, other.right),
            min(self.low, other.low),
            max(self.high, other.high),
        )

    def contains(self, across: float, up: float) -> bool:
        """Return whether a point is in the window."""
        return self.left <= across <= self.right and self.low <= up <= self.high

    def stretches(self, other: PlotWindow, most: float = _STRETCH) -> bool:
        """Return whether including `other` would make this window more than `most` times as wide or high."""
        both = self.joined(other)
        wide = both.right - both.left > max(most * (self.right - self.left), _ALWAYS_ALLOWED_SPAN)
        return wide or both.high - both.low > max(most * (self.high - self.low), _ALWAYS_ALLOWED_SPAN)


def draw_trade_off(results: list[ResultRow], title: str, path: Path) -> None:
    """Draw one panel per k, with each model's curve and a star for its own ranking.

    Parameters
    ----------
    results : list of dict
        ``model``, ``P@k``, ``PSP@k`` and ``tradeoff``: dicts with ``beta`` or ``tail``, ``P@k`` and ``PSP@k``.
    title : str
        Title of the picture.
    path : Path
        A .png, .svg or .pdf file.
    """
    figure = new_figure(12, 4.8)
    figure.suptitle(plain_text(title, 120))
    ks = [int(key[2:]) for key in results[0] if key.startswith("P@")]
    styles = [line_style(at) for at in range(len(results))]
    for axes, k in zip(figure.subplots(1, len(ks), squeeze=False)[0], ks, strict=True):
        view, outside = choose_view(results, k)
        for style, row in zip(styles, results, strict=True):
            curve = row["tradeoff"]
            axes.plot([point[f"P@{k}"] for point in curve], [point[f"PSP@{k}"] for point in curve], **style)
            star = row[f"P@{k}"], row[f"PSP@{k}"]
            axes.plot(*star, marker="*", markersize=15, color=style["color"], markeredgecolor="white", zorder=3)
        width, height = view.right - view.left, view.high - view.low
        axes.set_xlim(view.left - _PADDING * width, view.right + _PADDING * width)
        axes.set_ylim(view.low - _PADDING * height, view.high + _PADDING * height)
        if outside:  # above the panel, where it hides nothing
            far = [f"{plain_text(row['model'], 30)}: {row[f'P@{k}']:.1f} %, {row[f'PSP@{k}']:.1f} %" for row in outside]
            axes.set_title("\n".join(["not in view:", *far]), loc="left", fontsize="small")
        axes.set(xlabel=f"P@{k}", ylabel=f"PSP@{k}")
        for axis in (axes.xaxis, axes.yaxis):
            percent_axis(axis)
        axes.grid(alpha=0.3)
    handles = _legend(results)
    columns = max(1, min(4, _LEGEND_WIDTH // (max(len(handle.get_label()) for handle in handles) + 6)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize="small", frameon=False)
    save_figure(figure, path)


def choose_view(results: list[ResultRow], k: int) -> tuple[PlotWindow, list[ResultRow]]:
    """Choose the window of a panel. Return it, and the models that are too far away to be shown in it.

    The window includes the star of every model whose P@k or PSP@k is at least half of the best one. Other stars, and
    the curves, are included only if they do not stretch it much: the end of a curve may lie outside.
    """
    boxes = [(_curve_box(row, k), _star_box(row, k), row) for row in results]
    best_p, best_psp = (max(row[f"{name}@{k}"] for row in results) for name in ("P", "PSP"))
    view, _, _ = max(boxes, key=lambda entry: entry[2][f"P@{k}"] + entry[2][f"PSP@{k}"])
    far: list[ResultRow] = []
    for _, star, row in boxes:
        if row[f"P@{k}"] >= _NEAR * best_p or row[f"PSP@{k}"] >= _NEAR * best_psp:
            view = view.joined(star)
        else:
            far.append(row)
    outside: list[ResultRow] = []
    for curve, star, row in sorted(boxes, key=lambda entry: _growth(view, entry[0])):
        most = _FAR_STRETCH if row in far else _STRETCH
        if not view.stretches(curve, most):
            view = view.joined(curve)
        elif not view.stretches(star, most):
            view = view.joined(star)
        else:
            outside.append(row)
    if view.right - view.left < _MIN_SPAN:
        centre = (view.left + view.right) / 2
        view = view._replace(left=centre - _MIN_SPAN / 2, right=centre + _MIN_SPAN / 2)
    if view.high - view.low < _MIN_SPAN:
        centre = (view.low + view.high) / 2
        view = view._replace(low=centre - _MIN_SPAN / 2, high=centre + _MIN_SPAN / 2)
    return view, outside


def _star_box(row: ResultRow, k: int) -> PlotWindow:
    return PlotWindow(row[f"P@{k}"], row[f"P@{k}"], row[f"PSP@{k}"], row[f"PSP@{k}"])


def _curve_box(row: ResultRow, k: int) -> PlotWindow:
    points = [*row["tradeoff"], row]
    across, up = [point[f"P@{k}"] for point in points], [point[f"PSP@{k}"] for point in points]
    return PlotWindow(min(across), max(across), min(up), max(up))


def _growth(view: PlotWindow, box: PlotWindow) -> float:
    """Return by how much width and height of the window must grow to include a box."""
    both = view.joined(box)
    return (both.right - both.left) + (both.high - both.low) - (view.right - view.left) - (view.high - view.low)


def _legend(results: list[ResultRow]) -> list[Any]:
    from matplotlib.lines import Line2D

    models = [
        Line2D([], [], **line_style(at), label=f"{plain_text(row['model'])} ({_curve_parameter(row)})")
        for at, row in enumerate(results)
    ]
    star = Line2D([], [], color="black", linestyle="", marker="*", markersize=12, label="the model's own ranking")
    dots = Line2D([], [], color="black", linestyle="", marker="o", markersize=5, label="β or tail = 0, ¼, ½, ¾, 1")
    return [*models, star, dots]


def _curve_parameter(row: ResultRow) -> str:
    """Return the parameter that varies along a model's curve: its own parameter `tail`, or β of the re-ranking."""
    return "tail" if "tail" in row["tradeoff"][0] else "β"
