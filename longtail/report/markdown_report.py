"""Write a report as Markdown: the same sections as in HTML, with tables in place of charts."""

from __future__ import annotations

import re

from longtail.report.blocks import Cell, Section, Strong, Table, Tag
from longtail.report.html_report import MARKS, RARE_MARK

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!~])")


def markdown_page(title: str, subtitle: str, sections: list[Section]) -> str:
    """Return a report as a Markdown document. Parameters are as for ``html_page``."""
    parts = [f"# {plain_markdown(title)}", plain_markdown(subtitle)]
    for section in sections:
        parts += [f"## {plain_markdown(section.title)}", plain_markdown(section.text)]
        parts += [_markdown_table(block) for block in section.blocks if isinstance(block, Table)]
    return "\n\n".join(parts) + "\n"


def plain_markdown(text: str) -> str:
    """Escape a text, so that Markdown shows it literally."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;")


def _markdown_table(table: Table) -> str:
    ruler = "---:" if table.numeric else "---"
    lines = [
        "| " + " | ".join(plain_markdown(name) for name in table.heading) + " |",
        "|---|" + "|".join([ruler] * (len(table.heading) - 1)) + "|",
        *("| " + " | ".join(_markdown_cell(cell) for cell in row) + " |" for row in table.rows),
    ]
    caption = f"**{plain_markdown(table.caption)}**\n\n" if table.caption else ""
    return caption + "\n".join(lines)


def _markdown_cell(cell: Cell) -> str:
    if isinstance(cell, Strong):
        return f"**{plain_markdown(cell.text)}**"
    if isinstance(cell, str):
        return plain_markdown(cell)
    return "<br>".join(_markdown_tag(tag) for tag in cell)


def _markdown_tag(tag: Tag) -> str:
    note = f" ({tag.note})" if tag.note else ""
    return f"{MARKS[tag.kind]}{plain_markdown(tag.name)}{RARE_MARK if tag.rare else ''}{note}"
