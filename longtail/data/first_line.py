"""Whether the first line of a table is a row of data, in a table that was written without names of columns."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from longtail.data.separators import choose_separator, cut_cell

_WORDS_OF_TEXT = 4  # words from which a name may be a text
_MOST_SHOWN = 40


def why_data(text: str, labels: str | None, rows: Sequence[Sequence[Any]], separator: str | None) -> str | None:
    """Return why the names of a text column and of a labels column look like a row of data; None if they do not.

    They do if the second holds several labels, or one of the labels of `rows`, the first rows; or if the first has
    several words and is about as long as their texts.
    """
    if labels is not None:
        cells = [str(row[1]) for row in rows]
        separator = separator or choose_separator(cells)
        known = {name for cell in cells for name in cut_cell(cell, separator)}
        shared = next((name for name in cut_cell(labels, separator) if name in known), None)
        if shared is not None:
            return f"its label {shared!r} occurs in other rows, too"
        if choose_separator([labels]) not in (None, ","):  # a comma may stand in a question of a form
            return f"{labels!r} looks like labels"
    if len(text.split()) < _WORDS_OF_TEXT or 2 * len(text) < median(len(row[0]) for row in rows):
        return None
    shown = repr(text) if len(text) <= _MOST_SHOWN else f"'{text[:_MOST_SHOWN]}…'"
    return f"{shown} looks like a text"
