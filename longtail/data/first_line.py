"""Recognise tables without column names, whose first line is a row of data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from longtail.data.separators import choose_separator, cut_cell

_MIN_WORDS = 4  # a shorter first cell is taken for the name of a column
_MAX_CHARACTERS_SHOWN = 40


def why_data(text: str, labels: str | None, rows: Sequence[Sequence[Any]], separator: str | None) -> str | None:
    """Return why the names of a text column and a labels column look like a row of data, or None if they do not.

    `rows` are the first rows of the table. The names look like data in three cases: `labels` consists of several
    labels, or has a label that occurs in `rows`; or `text` has several words and is about as long as the texts of
    `rows`.
    """
    if labels is not None:
        cells = [str(row[1]) for row in rows]
        separator = separator or choose_separator(cells)
        known = {name for cell in cells for name in cut_cell(cell, separator)}
        shared = next((name for name in cut_cell(labels, separator) if name in known), None)
        if shared is not None:
            return f"its label {shared!r} occurs in other rows, too"
        if choose_separator([labels]) not in (None, ","):  # a question of a form, used as a name, may have a comma
            return f"{labels!r} looks like labels"
    if len(text.split()) < _MIN_WORDS or 2 * len(text) < median(len(row[0]) for row in rows):
        return None
    shown = repr(text) if len(text) <= _MAX_CHARACTERS_SHOWN else f"'{text[:_MAX_CHARACTERS_SHOWN]}…'"
    return f"{shown} looks like a text"
