"""Choose the separator between labels that share one cell of a table, and cut cells at it.

The separator is the sign that most rows contain, unless it looks like punctuation inside names, as the commas in
``Smith, John; Doe, Jane`` do. Counting rows matters: a few tags with a semicolon in thousands of comma-separated rows
must not decide, since nearly every row would then become a label of its own. The semicolon that ends an HTML entity
such as ``&amp;`` belongs to a name, both for counting and for cutting.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longtail.errors import number_of, warn

SEPARATORS = ("|", "｜", ";", "；", "、", ",", "，")  # in order of preference, with those of East Asian scripts
LISTS = "[…]"  # used in place of a separator if every cell is a list, as in ["a", "b"]
_UNUSUAL = ("/", "\\", "+", "&", "#", ":", "\t", " ")  # never chosen by counting, as names contain them, too
# Another sign than the most frequent one can be the separator if it occurs in at least _ENOUGH times as many rows. If
# the most frequent one looks like punctuation only by the space after it, _MAJORITY times as many are required.
_ENOUGH, _MAJORITY = 0.1, 0.5
_NEARLY_ALL = 0.95  # fraction of names that must have the same form
_MANY_MORE = 2.0  # warn if another separator would give this many times as many labels per row
ABOUT_ONE = 1.05  # with at most so many labels per row, the separator is probably wrong
_EXAMPLES_WIDTH = 150  # characters of examples in a message; the first example is always shown
FEW_ROWS = 10  # rows with labels; with fewer, the mean number of labels is too uncertain for a warning

_URI = re.compile(r"<[^<>\s]+:[^<>\s]*>|[A-Za-z][A-Za-z0-9+.-]*://\S*[^\s,;|]")
_NUMBERS = re.compile(r"\d+( +\d+)*", re.ASCII)
_MISSING = ("NAType", "NaTType")  # types of pandas, which need not be installed
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_INSIDE = re.compile(r"[^\w-]")  # any sign that a single word does not have, and that may thus be a separator
_HIDDEN = "\ufdd0"  # replaces the semicolon of an HTML entity; no text has it, as it is not a character
_BRACKETED = re.compile(r"<([^<>\s]+:[^<>\s]*)>")

logger = logging.getLogger("longtail.data")


def choose_separator(cells: Sequence[object]) -> str | None:
    """Choose the separator of a column. Cells that are not strings are ignored.

    Lists written as text, and cells of nothing but URIs or whole numbers separated by spaces, are recognised first.
    Otherwise the separator is the one of ``|``, ``;`` and ``,`` (or their East Asian forms) that most rows contain,
    the first one if several are equally frequent. If the most frequent one is punctuation inside names, an earlier one
    that is less frequent is chosen. This is so if

    - more than half as many rows contain the earlier one, and a space follows the other: ``hat, cap; shoe``, or
    - every name between two of the earlier one has the other exactly once, with a space: ``Smith, John; Doe, Jane``.

    Returns
    -------
    str or None
        The separator; `LISTS` for lists written as text; None if no separator occurs.

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
    cells_of = _cells_of(strings)
    if not cells_of:
        return None
    most = max(cells_of, key=lambda separator: len(cells_of[separator]))  # the first one of equals
    for separator in SEPARATORS[: SEPARATORS.index(most)]:
        share = len(cells_of.get(separator, ())) / len(cells_of[most])
        if share > _MAJORITY and _is_spaced(most, cells_of[most]):
            return separator
        if share >= _ENOUGH and _is_once_per_name(most, separator, strings):
            return separator
    return most


def likelier_separator(cells: Sequence[object], chosen: str | None) -> tuple[str, float] | None:
    """Return another separator that would give many more labels per row, with their number, or None."""
    strings = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    if not strings or chosen in (LISTS, " "):
        return None
    cells_of = _cells_of(strings)
    means = {sign: 1 + sum(cell.count(sign) for cell in cells_of[sign]) / len(strings) for sign in cells_of}
    best = max(means, key=means.__getitem__, default=None)
    return None if best is None or means[best] < _MANY_MORE * means.get(chosen or "", 1.0) else (best, means[best])


def unusual_separator(cells: Sequence[object]) -> str | None:
    """Return the most frequent unusual sign, which is never chosen by counting, if more than half of cells contain it.

    Examples
    --------
    >>> unusual_separator(["soup/herb", "soup/spice", "cake"])
    '/'
    """
    strings = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    counts = {sign: sum(sign in cell for cell in strings) for sign in _UNUSUAL if sign != " "}
    most = max(counts, key=counts.__getitem__)  # the first one of equals
    return most if counts[most] > _MAJORITY * len(strings) else None


def separator_of_known(names: Sequence[str], known: Container[str]) -> str | None:
    """Return the separator at which unknown names can be cut into known names, or None.

    Most names must be unknown as they are. More than half of the unknown ones must contain the separator, and more than
    half of their pieces must be known.

    Examples
    --------
    >>> separator_of_known(["soup/herb", "soup/spice", "cake"], {"soup", "herb", "spice", "cake"})
    '/'
    """
    unknown = [name for name in names if name not in known]
    if 2 * len(unknown) <= len(names):
        return None
    shares = {}
    for separator in (*SEPARATORS, *_UNUSUAL):
        cut = [pieces for name in unknown if len(pieces := cut_cell(name, separator)) > 1]
        if 2 * len(cut) > len(unknown):
            shares[separator] = np.mean([piece in known for pieces in cut for piece in pieces])
    best = max(shares, key=shares.__getitem__, default=None)  # the first one of equals
    return best if best is not None and shares[best] > _MAJORITY else None


def _cells_of(strings: list[str]) -> dict[str, list[str]]:
    """Return the cells that contain each separator, if there are any. Semicolons of HTML entities are not counted."""
    cells_of = {separator: [cell for cell in strings if separator in cell] for separator in SEPARATORS}
    cells_of[";"] = [cell for cell in map(_hide_entities, cells_of[";"]) if ";" in cell]
    return {separator: cells for separator, cells in cells_of.items() if cells}


def _is_spaced(separator: str, cells: list[str]) -> bool:
    """Return whether a space follows nearly every separator, as in a sentence. Full-width forms include the space."""
    if not separator.isascii():
        return True
    n = sum(cell.count(separator) for cell in cells)
    return sum(cell.count(separator + " ") for cell in cells) >= _NEARLY_ALL * n


def _is_once_per_name(inner: str, separator: str, strings: list[str]) -> bool:
    """Return whether nearly all names between separators contain `inner` exactly once, followed by a space."""
    names = [name for cell in strings for name in cut_cell(cell, separator)]
    return sum(name.count(inner) == name.count(inner + " ") == 1 for name in names) >= _NEARLY_ALL * len(names)


def _hide_entities(cell: str) -> str:
    """Replace the semicolons of HTML entities, but not those of lookalikes such as ``AT&T;``."""
    if "&" not in cell:
        return cell
    return _ENTITY.sub(lambda match: match[0][:-1] + _HIDDEN if _is_entity(match[0]) else match[0], cell)


def _is_entity(text: str) -> bool:
    from html.entities import html5  # not at the top: most cells have no ampersand

    return text[1] == "#" or text[1:] in html5


def cut_cell(cell: str, separator: str | None) -> list[str]:
    """Cut a cell into label names, without surrounding spaces and without the angle brackets of ``<URI>``.

    A label that contains the separator may be in double quotes, as in CSV files. All other quotes are plain characters.
    The semicolon of an HTML entity is not a separator.

    Examples
    --------
    >>> cut_cell('"boat, barge", river', ",")
    ['boat, barge', 'river']
    >>> cut_cell("arts &amp; crafts; river", ";")
    ['arts &amp; crafts', 'river']
    """
    if separator == ";" and (hidden := _hide_entities(cell)) != cell:
        return [name.replace(_HIDDEN, ";") for name in cut_cell(hidden, separator)]
    if separator and '"' in cell:
        pieces = _cut_quoted(cell, separator)
    else:
        pieces = cell.split(separator) if separator else [cell]
    names = [name for piece in pieces if (name := piece.strip())]
    return [match[1] if name[0] == "<" and (match := _BRACKETED.fullmatch(name)) else name for name in names]


def _cut_quoted(cell: str, separator: str) -> list[str]:
    """Cut at separators, except inside labels in double quotes. Remove these quotes."""
    end = rf"\s*(?:{re.escape(separator)}|$)"
    quoted, plain = re.compile(rf'\s*"((?:[^"]|"")+)"{end}'), re.compile(rf"(.*?){end}", re.DOTALL)
    pieces, at = [], 0
    while at < len(cell):
        match = quoted.match(cell, at)
        match = match if match and separator in match[1] else None
        piece = match[1].replace('""', '"') if match else None
        match = match or plain.match(cell, at)
        assert match is not None  # a label may also end with the cell
        pieces.append(match[1] if piece is None else piece)
        at = match.end()
    return pieces


@dataclass
class LabelCounts:
    """Statistics of the labels of one table, for messages: counts of rows and labels, and three examples."""

    n_rows: int = 0  # rows with labels
    n_empty: int = 0  # rows without labels
    n_labels: int = 0
    n_cut: int = 0  # rows with several labels
    n_divisible: int = 0  # rows with a name that has spaces or signs, and so might be several labels
    examples: list[list[str]] = field(default_factory=list)

    def add(self, names: list[str]) -> None:
        """Count one row. Rows with several labels are preferred as examples."""
        if not names:
            self.n_empty += 1
            return
        self.n_rows += 1
        self.n_labels += len(names)
        self.n_cut += len(names) > 1
        self.n_divisible += any(_INSIDE.search(name) is not None for name in names)
        if len(self.examples) < 3:
            self.examples.append(names[:8])
        elif len(names) > 1:
            single = next((i for i, example in enumerate(self.examples) if len(example) == 1), None)
            if single is not None:
                self.examples[single] = names[:8]


def report_separator(
    source: str,
    separator: str | None,
    counts: LabelCounts,
    *,
    given: bool,
    usual: str | None = None,
    likelier: tuple[str, float] | None = None,
    unusual: str | None = None,
) -> None:
    """Log the separator, the labels per row and three examples. Warn if labels are probably cut wrongly.

    They probably are if there is about one label per row and labels are not single words, or if another separator would
    give many more labels.

    Parameters
    ----------
    source : str
        Name of the table and its labels column.
    separator : str or None
        The separator that was used.
    counts : LabelCounts
        Statistics of the labels.
    given : bool
        Whether the caller gave the separator. Then there is no warning.
    usual : str, optional
        The separator that would have been chosen, if the given one cuts no cell. A message names it if it differs: the
        given one may come from the training data of a model, and a new file may use another one.
    likelier : (str, float), optional
        Another separator and the labels per row that it would give, from :func:`likelier_separator`.
    unusual : str, optional
        A sign that may separate labels, from :func:`unusual_separator`.
    """
    if not counts.n_rows:
        return
    mean = counts.n_labels / counts.n_rows
    how = {None: "not cut, since none of | ; , occurs", LISTS: "read as lists"}.get(separator, f"cut at {separator!r}")
    empty = f" ({number_of(counts.n_empty, 'row')} without)" if counts.n_empty else ""
    examples = ", ".join(_short_examples(counts.examples))
    details = f"{source}: labels are {how}; {mean:.2f} labels per row{empty}, for example {examples}"
    option = "labels_separator (--labels-separator on the command line)"
    cuts_none = given and not counts.n_cut
    if cuts_none and usual == LISTS:
        logger.info("%s. The separator cuts no cell, and cells look like lists. Leave out %s.", details, option)
    elif cuts_none and usual not in (None, separator):
        looks = f"cells look like labels separated by {usual!r}"
        logger.info(
            "%s. The separator cuts no cell, and %s. If they are, give %r as %s.", details, looks, usual, option
        )
    elif likelier is not None and not given and counts.n_rows >= FEW_ROWS:
        other, n = likelier
        remedy = f"If labels are separated by {other!r}, give it as {option}"
        warn(f"{details}. Cut at {other!r}, there would be {n:.2f} labels per row. {remedy}.")
    elif unusual is not None and not counts.n_cut and separator not in (" ", LISTS):
        none = "The separator cuts no cell. " if given else ""
        message = f"{details}. {none}If {unusual!r}, which most cells contain, separates labels, give it as {option}."
        logger.info("%s", message) if given or counts.n_rows < FEW_ROWS else warn(message)
    elif cuts_none and counts.n_divisible:
        logger.info("%s. The separator cuts no cell.", details)
    elif given or counts.n_rows < FEW_ROWS or mean > ABOUT_ONE or not counts.n_divisible or separator in (" ", LISTS):
        logger.info("%s.", details)
    else:
        warn(f"{details}. If cells hold several labels, give lists or {option}.")


def _short_examples(examples: list[list[str]]) -> list[str]:
    """Return examples as text: the first one, and more as long as they fit into a line."""
    shown = [str(example) for example in examples]
    fits = np.cumsum([len(example) for example in shown]) <= _EXAMPLES_WIDTH
    return [example for at, example in enumerate(shown) if at == 0 or fits[at]]


def is_missing(value: Any) -> bool:
    """Return whether a cell is missing: None, NaN, or one of the missing values of pandas."""
    number = isinstance(value, float | np.floating)
    return value is None or (number and bool(value != value)) or type(value).__name__ in _MISSING


def given_cell(cell: Any) -> Any:
    """Return a cell of labels, or None if it is the text "NaN", which some programs write for a missing value."""
    return None if isinstance(cell, str) and cell.strip() in ("NaN", "nan") else cell


def label_of(value: Any) -> str | None:
    """Return the label name for a value: "" if it is missing, None if the value cannot be a label."""
    if isinstance(value, str):
        return value.strip()
    if is_missing(value):
        return ""
    if isinstance(value, float) and value.is_integer():  # pandas turns whole numbers into floats if one is missing
        value = int(value)
    whole = hasattr(value, "__index__") and type(value).__name__ not in ("bool", "bool_")
    return str(int(value)) if whole else None


def holds_uris(cell: str) -> bool:
    """Return whether a cell is one URI, or several separated by spaces."""
    return all(_URI.fullmatch(token) and token.count("://") <= 1 for token in cell.split())
