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

    `rows` are the first rows of the table. `labels` looks like data if it consists of several labels, or has a label
    that occurs in `rows`. `text` looks like data if it is a text of `rows`, or if it is about as long as these and has
    either many words or only words that occur in them.
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
    shown = repr(text) if len(text) <= _MAX_CHARACTERS_SHOWN else f"'{text[:_MAX_CHARACTERS_SHOWN]}…'"
    if len(text.split()) >= _MIN_WORDS and _is_long(text, rows):
        return f"{shown} looks like a text"
    if any(row[0] == text for row in rows):
        return f"{shown} is the text of another row, too"
    words = set(text.lower().split())
    if may_be_data(text, rows) and not words.difference(*(str(row[0]).lower().split() for row in rows)):
        return f"the words of {shown} occur in other rows, too"
    return None


def may_be_data(text: str, rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether the name of a text column may be a text: it has several words and is about as long as texts."""
    return len(text.split()) > 1 and _is_long(text, rows)


def _is_long(text: str, rows: Sequence[Sequence[Any]]) -> bool:
    return 2 * len(text) >= median(len(row[0]) for row in rows)
