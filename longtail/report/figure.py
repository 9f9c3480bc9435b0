"""Make matplotlib figures without windows and without pyplot's global state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_ENDINGS = (".png", ".svg", ".pdf")
COLOURS = ("#1f77b4", "#d95f02", "#2a9d3f", "#c2185b", "#7b52ab", "#8c564b", "#17becf", "#7f7f7f")
_DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1)),
    (0, (6, 1, 1, 1, 1, 1)),
    (0, (1, 3)),
    (0, (9, 3)),
)
_MARKERS = "os^DvPXh"
_DPI = 150


def line_style(at: int) -> dict[str, Any]:
    """Return colour, dash and marker of a line. The first eight lines differ in all three."""
    n_repeats, which = divmod(at, len(COLOURS))
    dash = _DASHES[(which + n_repeats) % len(_DASHES)]
    return {"color": COLOURS[which], "linestyle": dash, "marker": _MARKERS[which], "markersize": 5}


def check_picture(path: Path) -> None:
    """Raise an error, before any work, if a picture could not be drawn or written."""
    if path.suffix.lower() not in PICTURE_ENDINGS:
        raise SettingsError(f"Cannot write a picture to {path}: use a name that ends in .png, .svg or .pdf.")
    above = next((parent for parent in path.absolute().parents if parent.exists()), None)
    if above is None or not above.is_dir() or not os.access(above, os.W_OK):
        raise SettingsError(f"Cannot write a picture to {path}: {above} is not a folder that can be written to.")
    new_figure(1, 1)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches. Without matplotlib, the error explains how to install it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError("Pictures need matplotlib. Install it with: pip install 'longtail[report]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's ending. The file appears only when it is complete."""
    from longtail.store import atomic_file

    with atomic_file(path) as fresh:
        figure.savefig(fresh, dpi=_DPI, format=path.suffix.lower()[1:])


def percent_axis(axis: Any) -> None:
    """Label the ticks of an axis with percent signs."""
    axis.set_major_formatter(lambda value, _: f"{value:.4g} %")


def plain_text(text: str, longest: int = 40) -> str:
    """Return a text, shortened if needed, that matplotlib draws literally: its dollar signs start no formula."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return short.replace("$", r"\$")
