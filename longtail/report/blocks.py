"""The parts of a report before it becomes HTML or Markdown: sections of tables, charts and tagged labels.

Everything here is plain text. The writers escape it, so that a text or a label name cannot become markup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Tag(NamedTuple):
    """A label in an example: its name, ``right``, ``wrong``, ``missed`` or ``plain``, and whether it is rare."""

    name: str
    kind: str = "plain"
    rare: bool = False
    note: str = ""


class Strong(NamedTuple):
    """The best value of a row."""

    text: str


Cell = str | Strong | list[Tag]


@dataclass(frozen=True)
class Table:
    """Rows below a heading. The first column is text; `numeric` is whether the others are numbers."""

    heading: list[str]
    rows: list[list[Cell]]
    caption: str = ""
    numeric: bool = True
    folded: bool = False  # behind a click in HTML, because a chart shows the same


@dataclass(frozen=True)
class Chart:
    """An inline SVG, made by :mod:`longtail.report.svg_chart`, with a caption."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, and what follows; `chart_text` is how to read the charts, where there are any."""

    title: str
    text: str
    blocks: list[Table | Chart] = field(default_factory=list)
    chart_text: str = ""
