"""Write a report as one HTML page without scripts, other files or network, for screens, phones and paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from longtail.report.blocks import Cell, Chart, Section, Strong, Table, Tag

MARKS = {"right": "✓ ", "wrong": "✗ ", "missed": "○ ", "plain": ""}
RARE_MARK = " ◆"
_TAG_MEANINGS = {"right": "correct", "wrong": "not correct", "missed": "missed", "plain": ""}
_HATCHINGS = (
    "",
    "M0 6L6 0",
    "M0 0L6 6",
    "M0 3L6 3",
    "M3 0L3 6",
    "M0 6L6 0M0 0L6 6",
    "M0 2L6 2M0 5L6 5",
    "M0 3L6 3M3 0L3 6",
)
_SHORT = 12  # a printed table with at most so many rows is not broken across pages


def html_page(title: str, subtitle: str, sections: list[Section]) -> str:
    """Return a report as an HTML page.

    Parameters
    ----------
    title, subtitle : str
        Heading, and the line below it.
    sections : list of Section
        The content of the report.
    """
    links = "".join(f'<a href="#s{at}">{escape(section.title)}</a>' for at, section in enumerate(sections))
    body = "".join(_html_section(at, section) for at, section in enumerate(sections))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_style_sheet()}</style></head><body>{_hatchings()}"
        f'<h1>{escape(title)}</h1><p class="soft">{escape(subtitle)}</p><nav>{links}</nav>{body}</body></html>\n'
    )


def _style_sheet() -> str:
    """Return the rules of page.css, followed by the rules of each colour."""
    rules = [files("longtail.report").joinpath("page.css").read_text(encoding="utf-8")]
    for i, path in enumerate(_HATCHINGS):
        fill = ", ".join(f"svg .{kind}.s{i}" for kind in ("mark", "bar", "star"))
        rules.append(f"svg .line.s{i} {{stroke: var(--c{i})}}\n{fill} {{fill: var(--c{i})}}")
        rules.append(f"svg .hatch.h{i} {{fill: {f'url(#hatch{i})' if path else 'none'}}}")
    return "\n".join(rules)


def _hatchings() -> str:
    """Return the patterns by which bars can be distinguished without colour."""
    patterns = "".join(
        f'<pattern id="hatch{i}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="{path}" style="stroke:var(--panel);stroke-width:1.2"/></pattern>'
        for i, path in enumerate(_HATCHINGS)
        if path
    )
    return f'<svg style="position:absolute;width:0;height:0" aria-hidden="true"><defs>{patterns}</defs></svg>'


def _html_section(at: int, section: Section) -> str:
    text = " ".join(filter(None, (section.text, section.chart_text)))
    parts = [f'<h2 id="s{at}">{escape(section.title)}</h2><p>{escape(text)}</p>']
    charts = ""
    for block in section.blocks:
        if isinstance(block, Chart):
            charts += f"<figure>{block.svg}<figcaption>{escape(block.caption)}</figcaption></figure>"
            continue
        if charts:
            parts.append(f'<div class="charts">{charts}</div>')
            charts = ""
        parts.append(_html_table(block))
    if charts:
        parts.append(f'<div class="charts">{charts}</div>')
    return "".join(parts)


def _html_table(table: Table) -> str:
    kinds = [' class="number"' if _is_number(column) else "" for column in zip(*table.rows, strict=True)]
    kinds = [""] * len(table.heading) if table.numeric or not kinds else kinds
    head = "".join(
        f'<th scope="col"{kind}>{_breakable(name)}</th>' for name, kind in zip(table.heading, kinds, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} data-name="{escape(name, quote=True)}">{_html_cell(cell)}</td>'
            for name, kind, cell in zip(table.heading, kinds, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    kind = ("numbers" if table.numeric else "cards") + (" short" if len(table.rows) <= _SHORT else "")
    body = f"{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    whole = f'<div class="wide"><table class="{kind}">{body}</table></div>'
    return f"<details><summary>The same as a table</summary>{whole}</details>" if table.folded else whole


def _is_number(column: Sequence[Cell]) -> bool:
    """Return whether all cells of a column are integers."""
    return all(isinstance(cell, str) and cell.replace(",", "").isdigit() for cell in column)


def _breakable(name: str) -> str:
    """Return a heading as HTML in which only long words, such as names of folders, may be broken."""
    pieces = re.findall(r"\S{12}(?=\S)|\S+|\s+", name)
    return "".join(escape(piece) + ("<wbr>" if len(piece) == 12 else "") for piece in pieces)


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, Strong):
        return f"<strong>{escape(cell.text)}</strong>"
    if isinstance(cell, str):
        return escape(cell)
    tags = "".join(_html_tag(tag) for tag in cell)
    return f'<div class="tags">{tags}</div>' if len(cell) != 1 else tags


def _html_tag(tag: Tag) -> str:
    name = f"{MARKS[tag.kind]}{escape(tag.name)}{RARE_MARK if tag.rare else ''}"
    note = f" <small>{escape(tag.note)}</small>" if tag.note else ""
    meaning = ", ".join(part for part in (_TAG_MEANINGS[tag.kind], "rare" if tag.rare else "") if part)
    return f'<span class="tag {tag.kind}"{f" title={meaning!r}" if meaning else ""}>{name}{note}</span>'
