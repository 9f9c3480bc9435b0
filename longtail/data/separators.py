"""Choose the separator between labels that share one cell of a table, and cut cells at it.

A separator is chosen by counting the rows that contain it. One tag with a semicolon in thousands of comma-separated
rows must not decide: taking whole cells for labels makes nearly every row a label of its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SEPARATORS = ("|", "｜", ";", "；", "、", ",", "，")  # in the order of preference, with those of East Asian scripts
LISTS = "[…]"  # stands for a separator where every cell is a list, as in ["a", "b"]
ENOUGH = 0.1  # share of the most frequent separator's rows at which a preferred one is chosen instead
ABOUT_ONE = 1.05  # labels per row up to which the choice is doubtful
_EXAMPLES_WIDTH = 150  # characters of examples, the first of which is always shown
FEW_ROWS = 10  # rows with labels; with fewer, their mean is too uncertain

_URI = re.compile(r"<[^<>\s]+:[^<>\s]*>|[A-Za-z][A-Za-z0-9+.-]*://\S*[^\s,;|]")
_NUMBERS = re.compile(r"\d+( +\d+)*", re.ASCII)
_MISSING = ("NAType", "NaTType")  # types of pandas, which need not be installed
_BRACKETED = re.compile(r"<([^<>\s]+:[^<>\s]*)>")

logger = logging.getLogger("longtail.data")


def choose_separator(cells: Sequence[object]) -> str | None:
    """Choose the separator of a column; cells that are not strings are ignored.

    Lists written as text, and cells of nothing but URIs or whole numbers separated by spaces, are recognised first.
    Otherwise the separator is the first of ``|``, ``;`` and ``,``, or of their East Asian forms, that occurs in at
    least a tenth as many rows as the most frequent of them: ``hat, cap;shoe`` is cut at the semicolon, but a few
    semicolons among thousands of commas are parts of labels.

    Returns
    -------
    str or None
        The separator; `LISTS` for lists written as text; None where no separator occurs.

    Examples
    --------
    >>> choose_separator(["man, clown", "clown, circus", "rope; knot"] + 30 * ["a, b"])
    ','
    >>> choose_separator(["<http://a.example/1> <http://a.example/2>"])
    ' '
    >>> choose_separator(["101 203", "102"])
    ' '
    """
    strings = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    if not strings:
        return None
    if all(cell.lstrip().startswith("[") for cell in strings):
        return LISTS
    if all(holds_uris(cell) for cell in strings) or all(_NUMBERS.fullmatch(cell.strip()) for cell in strings):
        return " "
    rows = {separator: sum(separator in cell for cell in strings) for separator in SEPARATORS}
    enough = max(1, ENOUGH * max(rows.values()))
    return next((separator for separator in SEPARATORS if rows[separator] >= enough), None)


def cut_cell(cell: str, separator: str | None) -> list[str]:
    """Cut a cell into label names: surrounding spaces and the angle brackets of ``<URI>`` are removed.

    A label that contains the separator may stand in double quotes, as in CSV files. All other quotes are plain
    characters.

    Examples
    --------
    >>> cut_cell('"boat, barge", river', ",")
    ['boat, barge', 'river']
    """
    if separator and '"' in cell:
        pieces = _cut_quoted(cell, separator)
    else:
        pieces = cell.split(separator) if separator else [cell]
    names = [name for piece in pieces if (name := piece.strip())]
    return [match[1] if name[0] == "<" and (match := _BRACKETED.fullmatch(name)) else name for name in names]


def _cut_quoted(cell: str, separator: str) -> list[str]:
    """Cut at separators, but for those in a label that stands in double quotes; remove these quotes."""
    end = rf"\s*(?:{re.escape(separator)}|$)"
    quoted, plain = re.compile(rf'\s*"((?:[^"]|"")+)"{end}'), re.compile(rf"(.*?){end}", re.DOTALL)
    pieces, at = [], 0
    while at < len(cell):
        match = quoted.match(cell, at)
        match = match if match and separator in match[1] else None
        piece = match[1].replace('""', '"') if match else None
        match = match or plain.match(cell, at)
        assert match is not None  # the end of the cell ends any label
        pieces.append(match[1] if piece is None else piece)
        at = match.end()
    return pieces


@dataclass
class LabelCounts:
    """What is shown about the labels of one table: rows with and without labels, their labels, and three examples."""

    n_rows: int = 0
    n_empty: int = 0
    n_labels: int = 0
    n_cut: int = 0  # rows with several labels
    examples: list[list[str]] = field(default_factory=list)

    def add(self, names: list[str]) -> None:
        """Count one row; rows with several labels are preferred as examples."""
        if not names:
            self.n_empty += 1
            return
        self.n_rows += 1
        self.n_labels += len(names)
        self.n_cut += len(names) > 1
        if len(self.examples) < 3:
            self.examples.append(names[:8])
        elif len(names) > 1:
            single = next((i for i, example in enumerate(self.examples) if len(example) == 1), None)
            if single is not None:
                self.examples[single] = names[:8]


def report_separator(
    source: str, separator: str | None, counts: LabelCounts, *, given: bool, usual: str | None = None
) -> None:
    """Log the separator, the labels per row and three examples; warn where there is about one label per row.

    Parameters
    ----------
    source : str
        Name of the table and its labels column.
    separator : str or None
        The separator used.
    counts : LabelCounts
        Labels of the rows.
    given : bool
        Whether the caller gave the separator, and so needs no warning.
    usual : str, optional
        The separator that would have been chosen, if the given one cuts no cell. If it is another, that is logged: a
        model brings the separator of its training data along, and a new file may have another.
    """
    if not counts.n_rows:
        return
    mean = counts.n_labels / counts.n_rows
    how = {None: "not cut, since none of | ; , occurs", LISTS: "read as lists"}.get(separator, f"cut at {separator!r}")
    empty = f" ({counts.n_empty:,} rows have none)" if counts.n_empty else ""
    examples = ", ".join(_short_examples(counts.examples))
    details = f"{source}: labels are {how}; {mean:.2f} labels per row{empty}, for example {examples}"
    if usual not in (None, separator):
        looks = "lists" if usual == LISTS else f"labels separated by {usual!r}"
        remedy = "Give labels_separator (--labels-separator on the command line)"
        logger.info("%s. The separator cuts no cell, and cells look like %s. %s.", details, looks, remedy)
    elif mean <= ABOUT_ONE and counts.n_rows >= FEW_ROWS and not given:
        remedy = "If cells hold several labels, give labels_separator (--labels-separator on the command line)"
        logger.warning("%s. %s.", details, remedy)
    else:
        logger.info("%s.", details)


def _short_examples(examples: list[list[str]]) -> list[str]:
    """Return examples as text: the first, and further ones while they fit into a line."""
    shown = [str(example) for example in examples]
    fits = np.cumsum([len(example) for example in shown]) <= _EXAMPLES_WIDTH
    return [example for at, example in enumerate(shown) if at == 0 or fits[at]]


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or the missing values of pandas."""
    number = isinstance(value, float | np.floating)
    return value is None or (number and bool(value != value)) or type(value).__name__ in _MISSING


def holds_uris(cell: str) -> bool:
    """Return whether a cell is one URI, or several separated by spaces."""
    return all(_URI.fullmatch(token) and token.count("://") <= 1 for token in cell.split())
