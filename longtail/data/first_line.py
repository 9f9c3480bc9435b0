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

    They do if the second holds several labels, or one of the labels of `rows`, the first rows; or if the first is one
    of their texts, or about as long as these and of many words, or of words that all occur in these.
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
    shown = repr(text) if len(text) <= _MOST_SHOWN else f"'{text[:_MOST_SHOWN]}…'"
    if len(text.split()) >= _WORDS_OF_TEXT and _is_long(text, rows):
        return f"{shown} looks like a text"
    if any(row[0] == text for row in rows):
        return f"{shown} is the text of another row, too"
    words = set(text.lower().split())
    if may_be_data(text, rows) and not words.difference(*(str(row[0]).lower().split() for row in rows)):
        return f"the words of {shown} occur in other rows, too"
    return None


def may_be_data(text: str, rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether the name of a text column might be a text: one of several words, and about as long as texts."""
    return len(text.split()) > 1 and _is_long(text, rows)


def _is_long(text: str, rows: Sequence[Sequence[Any]]) -> bool:
    return 2 * len(text) >= median(len(row[0]) for row in rows)
