"""How objects show themselves in a notebook: a heading, facts, and a table; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_STYLE = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


def notebook_html(title: str, facts: Mapping[str, str], heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a fragment of HTML.

    Parameters
    ----------
    title : str
        Heading.
    facts : dict of str to str
        Names and values, shown one per line.
    heading : sequence of str
        Column names of the table.
    rows : iterable of sequences of str
        Rows of the table. If there are none, the table is left out.
    """
    lines = "".join(_notebook_row((f"{name}:", value), "td") for name, value in facts.items())
    body = "".join(_notebook_row(row, "td") for row in rows)
    table = f"<table><thead>{_notebook_row(heading, 'th')}</thead><tbody>{body}</tbody></table>" if body else ""
    return f"<div><strong>{escape(title)}</strong><table>{lines}</table>{table}</div>"


def _notebook_row(cells: Sequence[str], kind: str) -> str:
    return f"<tr>{''.join(f'<{kind} style={_STYLE!r}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
