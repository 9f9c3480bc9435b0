"""The parts of a report, independent of HTML and Markdown: sections with tables, charts and tagged labels.

All strings are plain text. The writers escape them, so that a text or a label name cannot become markup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Tag(NamedTuple):
    """A label in an example: its name, its kind (``right``, ``wrong``, ``missed``, ``plain``), whether it is rare."""

    name: str
    kind: str = "plain"
    rare: bool = False
    note: str = ""


class Strong(NamedTuple):
    """A cell to print in bold, such as the best value of a row."""

    text: str


Cell = str | Strong | list[Tag]


@dataclass(frozen=True)
class Table:
    """A table with a heading. The first column is text; `numeric` means that the others are numbers."""

    heading: list[str]
    rows: list[list[Cell]]
    caption: str = ""
    numeric: bool = True
    folded: bool = False  # collapsed in HTML, because a chart shows the same


@dataclass(frozen=True)
class Chart:
    """An inline SVG, made by :mod:`longtail.report.svg_chart`, with a caption."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, and blocks. `chart_text` explains how to read the charts, if there are any."""

    title: str
    text: str
    blocks: list[Table | Chart] = field(default_factory=list)
    chart_text: str = ""
