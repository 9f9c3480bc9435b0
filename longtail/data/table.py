"""Read tables with a text column and a labels column: CSV, TSV, Parquet, JSON lines, and DataFrames.

CSV is read by the standard library, which provides line numbers for error messages. Only Parquet needs polars. Labels
are numbered in the order in which they first occur, so that appended rows do not change the numbers of earlier labels.
"""

from __future__ import annotations

import contextlib
import csv
import io
import threading
from array import array
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from longtail.data.dataset import Dataset
from longtail.data.files import lines, open_bytes, plain_name
from longtail.data.first_line import may_be_data, why_data
from longtail.data.json_lines import ids_or_positions, objects
from longtail.data.label_rows import LabelRows
from longtail.data.quiet_panics import quiet_panics
from longtail.data.separators import (
    LISTS,
    LabelCounts,
    choose_separator,
    cut_cell,
    given_cell,
    holds_uris,
    is_missing,
    label_of,
    likelier_separator,
    logger,
    report_separator,
    unusual_separator,
)
from longtail.errors import DataError, SettingsError, number_of, warn

TEXT_NAMES = ("text", "title", "content", "document", "sentence", "abstract", "description", "body")
LABELS_NAMES = (
    "labels",
    "label",
    "tags",
    "tag",
    "subjects",
    "subject_uris",
    "categories",
    "category",
    "keywords",
    "topics",
    "targets",
    "target",
)
ID_NAMES = ("uid", "id")
_BESIDE_TITLE = ("content", "abstract", "description", "body")  # columns that are read together with a title
_PARQUET_ROWS = 1 << 16  # rows that are read into memory at once
_ROWS_COMPARED = 1000  # rows that are compared with the first line if that has no usual column names
_MAX_UNLABELLED = 1000  # if no label occurs in so many first lines, a TSV file is assumed to have a header
_POLARS_SECONDS = 30.0  # polars counts rows in milliseconds; after this time it will never return
_LIST_TYPES = ("list", "tuple", "ndarray", "Series")  # compared by name, so that no library has to be imported
_SET_TYPES = ("set", "frozenset")  # sorted before use, so that labels get the same numbers in every process


@dataclass
class TableReader:
    """Read the tables of one dataset, such as its training and test part, with the same columns and label numbers.

    Parameters
    ----------
    text : str or sequence of str, optional
        Column(s) with the text; by default those with a usual name.
    labels : str, optional
        Column with the labels; by default one with a usual name.
    separator : str, optional
        Separator of labels in one cell. By default it is chosen by counting, in the first table that has one.
    require_labels : bool
        Raise an error if a table has no labels column.

    Attributes
    ----------
    numbers : dict of str to int
        Column in the label matrix of each label name, in the order in which the names first occurred.
    """

    text: str | Sequence[str] | None = None
    labels: str | None = None
    separator: str | None = None
    require_labels: bool = True

    def __post_init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._given = self.separator is not None

    @property
    def labels_separator(self) -> str | None:
        """The separator that was used, or None if labels were lists or no separator occurred."""
        return None if self.separator == LISTS else self.separator

    def read_file(self, path: Path) -> Dataset:
        """Read a file. The label matrix has one column per label name of this table and of those read before."""
        return self._read(_Table(path.name, path), _file_rows)

    def read_frame(self, frame: Any) -> Dataset:
        """Read a DataFrame of pandas or polars, or any object with ``columns`` that have ``to_list``."""
        if hasattr(frame, "collect"):  # a lazy frame of polars
            frame = frame.collect()
        return self._read(_Table("DataFrame", frame=frame), _frame_rows)

    def text_blocks(self, path: Path, size: int) -> Iterator[tuple[list[str], list[str] | None]]:
        """Yield the texts and identifiers of `size` rows at a time, without their labels."""
        texts, ids = list[str](), list[str]()
        rows = self._rows(_Table(path.name, path), _file_rows)
        for position, (_, columns, cells, text) in enumerate(rows):
            texts.append(text)
            if columns.ids is not None:
                ids.append(str(position) if is_missing(cells[-1]) else str(cells[-1]))
            if len(texts) == size:
                yield texts, ids or None
                texts, ids = [], []
        if texts:
            yield texts, ids or None

    def _read(self, table: _Table, rows_of: Callable[[_Table, Choose], Iterator[Row]]) -> Dataset:
        texts: list[str] = []
        ids: list[str | None] = []
        # Strings are cut after all rows have been read, when the separator is known. Lists are numbered at once.
        cells: list[str | array[int]] = []
        lines = array("q")
        for number, columns, row, text in self._rows(table, rows_of):
            texts.append(text)
            cell = given_cell(row[len(columns.texts)]) if columns.labels else None
            cells.append(cell if isinstance(cell, str) else array("i", self._numbers(_names(table, cell, number))))
            ids.append(None if columns.ids is None or is_missing(row[-1]) else str(row[-1]))
            lines.append(number)
        Y = self._matrix(table, columns.labels, cells, lines)
        return Dataset(
            X=None,
            Y=Y,
            ids=ids_or_positions(ids),
            texts=texts,
            labels_separator=self.labels_separator,
            numbered_by_occurrence=True,
        )

    def _rows(self, table: _Table, rows_of: Callable[[_Table, Choose], Iterator[Row]]) -> Iterator[TextRow]:
        """Yield the rows of a table together with their text. A table without rows is an error."""
        chosen: list[_Columns] = []

        def choose(present: list[str]) -> _Columns:
            chosen.append(_choose(table, present, self))
            return chosen[0]

        rows = rows_of(table, choose)
        first = list(islice(rows, _ROWS_COMPARED))
        if not first:
            raise table.error("the table has no rows", remedy="Check that it was written completely")
        columns = chosen[0]
        if table.has_first_line and set(columns.guessed) == set(columns.all):
            _check_names(table, columns, [cells for _, cells in first], self.separator)
        if columns.labels and columns.guessed:
            _log_guess(table, columns)
        elif self.text is None and (len(columns.texts) > 1 or columns.unread):
            _log_choice(table, columns)
        for number, cells in chain(first, rows):
            parts = [
                _cell_text(table, value, column, number) for value, column in zip(cells, columns.texts, strict=False)
            ]
            yield number, columns, cells, "\n".join(part for part in parts if part)

    def _matrix(self, table: _Table, column: str | None, cells: list[str | array[int]], lines: array[int]) -> Any:
        """Cut the cells that are strings, and return the label matrix of all cells."""
        if self.separator is None:
            self.separator = choose_separator(cells)
        rows, counts = LabelRows(), LabelCounts()
        for cell, number in zip(cells, lines, strict=True):
            if not isinstance(cell, str):
                rows.append(cell)
                continue
            if self.separator == LISTS:
                names = _names(table, _literal(table, cell, number) if cell.strip() else None, number)
            else:
                names = cut_cell(cell, self.separator)
            counts.add(names)
            rows.append(self._numbers(names))
        if self._given and cells and not counts.n_rows and any(not isinstance(cell, str) and cell for cell in cells):
            logger.info("%s, column %r: labels are lists, which no separator cuts.", table.name, column)
        usual = choose_separator(cells) if self._given and not counts.n_cut else None
        likelier = None if self._given else likelier_separator(cells, self.separator)
        unusual = None if counts.n_cut else unusual_separator(cells)
        report_separator(
            f"{table.name}, column {column!r}",
            self.separator,
            counts,
            given=self._given,
            usual=usual,
            likelier=likelier,
            unusual=unusual,
        )
        return rows.matrix(len(self.numbers))

    def _numbers(self, names: Sequence[str]) -> list[int]:
        numbers = self.numbers
        return [numbers.setdefault(name, len(numbers)) for name in names]


@dataclass(frozen=True)
class _Table:
    """A table to read. Its errors give the line in a file, or the row of a DataFrame."""

    name: str
    path: Path | None = None
    frame: Any = None

    @property
    def has_first_line(self) -> bool:
        """Whether the column names are the first line of a file, which by mistake may be a row of data."""
        ending = (".json", ".jsonl", ".ndjson", ".parquet")
        return self.path is not None and not plain_name(self.path).endswith(ending)

    def error(self, what: str, number: int | None = None, *, remedy: str) -> DataError:
        """Return the error for a line (or row), or without a number for the whole table."""
        if self.path is None:
            return DataError(what, row=number, remedy=remedy)
        return DataError(what, path=self.path, line=number, remedy=remedy)

    def header_error(self, what: str, *, remedy: str) -> DataError:
        """Return the error for the column names."""
        return self.error(what, None if self.path is None else 1, remedy=remedy)


@dataclass
class _Columns:
    """Names of the columns to read: one or more with text, perhaps one with labels and one with identifiers.

    `guessed` are the columns that were chosen only by their position, `optional` the texts that an object of a JSON
    file may lack, and `unread` the columns that have a usual name of a text column but are left out.
    """

    texts: list[str]
    labels: str | None
    ids: str | None
    guessed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def all(self) -> list[str]:
        return [*self.texts, *(name for name in (self.labels, self.ids) if name is not None)]


Choose = Callable[[list[str]], _Columns]
Row = tuple[int, Sequence[Any]]  # line or row number; cells of the chosen columns, in the order of `_Columns.all`
TextRow = tuple[int, _Columns, Sequence[Any], str]  # line or row number, chosen columns, their cells, the joined text


def is_frame(source: object) -> bool:
    """Return whether an object looks like a DataFrame of pandas or polars."""
    return hasattr(type(source), "__getitem__") and (hasattr(source, "collect") or hasattr(source, "columns"))


# Rows of each kind of table -----------------------------------------------------------------------------------------


def _file_rows(table: _Table, choose: Choose) -> Iterator[Row]:
    """Yield the rows of a file with the line on which each ends (in Parquet: the row number, from 1)."""
    assert table.path is not None
    name = plain_name(table.path)
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return _json_rows(table, table.path, choose)
    if name.endswith(".parquet"):
        return _parquet_rows(table, table.path, choose)
    return _delimited_rows(table, table.path, "\t" if name.endswith(".tsv") else None, choose)


def _frame_rows(table: _Table, choose: Choose) -> Iterator[Row]:
    """Yield the rows of a DataFrame, counted from 0."""
    frame = table.frame
    present = [str(name) for name in frame.columns]
    _check_unique(table, present)
    original = dict(zip(present, frame.columns, strict=True))
    columns = [frame[original[name]].to_list() for name in choose(present).all]
    yield from enumerate(zip(*columns, strict=True))


def _json_rows(table: _Table, path: Path, choose: Choose) -> Iterator[Row]:
    wanted: _Columns | None = None
    for number, item in objects(path):
        wanted = wanted or choose(list(item))
        missing = next((name for name in wanted.texts if name not in item and name not in wanted.optional), None)
        if missing is not None:
            remedy = f"The fields present are {', '.join(map(repr, item))}"
            raise table.error(f"there is no field {missing!r}", number, remedy=remedy)
        yield number, [item.get(name) for name in wanted.all]


def _parquet_rows(table: _Table, path: Path, choose: Choose) -> Iterator[Row]:
    try:
        import polars
    except ImportError:
        raise SettingsError(
            f'{path}: reading Parquet needs polars. Install it with: pip install "longtail[parquet]"'
        ) from None

    with open_bytes(path) as stream:
        source = io.BytesIO(stream.read()) if plain_name(path) != path.name else path
    number = 0
    try:
        with quiet_panics():
            _check_responds(lambda: polars.scan_parquet(source).select(polars.len()).collect(), path)
            if isinstance(source, io.BytesIO):
                source.seek(0)
            present = list(polars.read_parquet_schema(source))
        if isinstance(source, io.BytesIO):
            source.seek(0)
        wanted = choose(present).all
        with quiet_panics():
            lazy = polars.scan_parquet(source).select(wanted)
            n = lazy.select(polars.len()).collect().item()
        for start in range(0, n, _PARQUET_ROWS):
            with quiet_panics():
                rows = lazy.slice(start, _PARQUET_ROWS).collect()
            for row in rows.iter_rows():
                number += 1
                yield number, row
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError) as error:
        what = f"this is not a Parquet file, or not all of it ({str(error).partition(chr(10))[0]})"
        raise table.error(what, number or None, remedy="Check that it was written completely") from None


def _check_responds(use_polars: Callable[[], Any], path: Path) -> None:
    """Raise an error if polars hangs.

    In a process that was forked after polars was used, it waits forever for threads that exist only in the parent.
    """

    def attempt() -> None:
        with contextlib.suppress(BaseException):  # a panic is a response, too, and will be raised again to the caller
            use_polars()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(_POLARS_SECONDS)
    if thread.is_alive():
        raise SettingsError(
            f"{path}: polars, which reads Parquet, does not answer, as in a process that was forked after polars was "
            'used. Start processes with multiprocessing.get_context("spawn"), or read the file before the fork.'
        )


def _delimited_rows(table: _Table, path: Path, delimiter: str | None, choose: Choose) -> Iterator[Row]:
    limit = csv.field_size_limit(2**31 - 1)  # a document may be longer than the 128 KiB that csv allows by default
    try:
        with open_bytes(path) as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            head = text.readline()
            if "\0" in head:
                remedy = "Convert it to UTF-8, for example with iconv -f utf-16le -t utf-8"
                raise table.error("the first line holds NUL bytes, as UTF-16 does", remedy=remedy)
            if delimiter is None:
                delimiter = max(",;\t", key=head.count)
            rows = chain([head] if head else [], text)
            headerless = False
            if plain_name(path).endswith(".tsv"):
                first = _until_labels(head, text)
                rows, headerless = chain(first, text), _is_headerless(first[-1])
            if headerless or (plain_name(path).endswith(".tsv") and _has_plain_lines(path)):
                reader: Any = _PlainLines(rows, unquote=not headerless)
            else:
                reader = csv.reader(rows, delimiter=delimiter, strict=True)
            yield from (_headerless_rows if headerless else _csv_rows)(table, reader, choose)
    except UnicodeDecodeError:
        with open_bytes(path) as stream:
            written = "utf-16" if stream.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else "windows-1252"
        remedy = f"Convert it to UTF-8, for example with iconv -f {written} -t utf-8"
        raise table.error("the file is not UTF-8", _line_not_utf8(path), remedy=remedy) from None
    finally:
        csv.field_size_limit(limit)


def _line_not_utf8(path: Path) -> int | None:
    """Return the number of the first line that is not UTF-8, counted from 1, or None."""
    for number, line in lines(path):
        try:
            line.decode()
        except UnicodeDecodeError:
            return number
    return None


class _PlainLines:
    """Rows of a TSV file in which quotation marks are plain characters, as Annif and many other tools write it.

    With `unquote`, the quotation marks of a field are removed if they enclose the whole field and all others in it are
    doubled.
    """

    def __init__(self, lines: Iterator[str], *, unquote: bool) -> None:
        self.lines, self.unquote, self.line_num = lines, unquote, 0

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        line = next(self.lines).rstrip("\r\n")
        self.line_num += 1
        fields = line.split("\t") if line.strip() else []
        return [_unquoted(field) for field in fields] if self.unquote and '"' in line else fields


def _unquoted(field: str) -> str:
    inner = field[1:-1]
    enclosed = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if enclosed else field


def _is_headerless(head: str) -> bool:
    """Return whether a TSV file begins with a text and URIs instead of column names."""
    _, tab, cell = head.partition("\t")
    return bool(tab and cell.strip() and holds_uris(cell))


def _until_labels(head: str, following: Iterator[str]) -> list[str]:
    """Return the first lines up to the first one with labels: those before it have an empty second field."""
    lines = [head]
    while "\t" in lines[-1] and not lines[-1].partition("\t")[2].strip() and len(lines) < _MAX_UNLABELLED:
        line = next(following, None)
        if line is None:
            break
        lines.append(line)
    return lines


def _has_plain_lines(path: Path) -> bool:
    """Return whether each line of a TSV file is one row: no field in quotation marks spans several lines."""
    return len({line.count(b"\t") for _, line in lines(path)}) == 1


def _headerless_rows(table: _Table, reader: Any, choose: Choose) -> Iterator[Row]:
    """Yield the rows of Annif's format for short texts: a text, a tab, and URIs separated by spaces or tabs."""
    names = ["text", "labels"]
    positions = [names.index(name) for name in choose(names).all]
    for row in reader:
        if len(row) == 1 and row[0].strip():
            remedy = "Write a tab between the text and its URIs"
            raise table.error("the line has no tab", reader.line_num, remedy=remedy)
        if row:
            fields = [row[0], " ".join(row[1:])]
            yield reader.line_num, [fields[position] for position in positions]


def _csv_rows(table: _Table, reader: Any, choose: Choose) -> Iterator[Row]:
    try:
        header: list[str] = next(reader, [])
        if not any(header):
            raise table.error("the file is empty", remedy="Write the names of the columns in its first line")
        _check_unique(table, header)
        positions = [header.index(name) for name in choose(header).all]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise table.error(
                    f"the row has {number_of(len(row), 'field')}, the header {len(header)}",
                    reader.line_num,
                    remedy="Put fields that contain the delimiter or a line break in quotation marks",
                )
            yield reader.line_num, [row[position] for position in positions]
    except csv.Error as error:
        remedy = "Check the quotation marks around it"
        raise table.error(f"this is not valid CSV ({error})", reader.line_num, remedy=remedy) from None


# Columns and cells --------------------------------------------------------------------------------------------------


def _check_unique(table: _Table, names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise table.header_error(f"columns named twice: {', '.join(twice)}", remedy="Rename them")


def _choose(table: _Table, present: list[str], wanted: TableReader) -> _Columns:
    """Choose the columns that the user named, or else those with a usual name."""
    plain = {name.strip().lower(): name for name in present}
    texts = [wanted.text] if isinstance(wanted.text, str) else list(wanted.text or ())
    texts = texts or [plain[name] for name in TEXT_NAMES[:1] if name in plain]
    if not texts and "title" in plain:
        texts = [plain[name] for name in ("title", *_BESIDE_TITLE) if name in plain]
    texts = texts or [plain[name] for name in TEXT_NAMES if name in plain][:1]
    labels = wanted.labels or next((plain[name] for name in LABELS_NAMES if name in plain), None)
    named = (*texts, labels)
    columns = [name for name in present if name.strip().lower() not in ID_NAMES]
    if len(columns) == 1 and not wanted.require_labels:
        texts = texts or columns
    else:
        texts, labels = _by_position(columns, texts, labels)
    listed = ", ".join(map(repr, present))
    missing = [name for name in (*texts, *([labels] if labels else ())) if name not in present]
    if missing:
        raise table.header_error(f"there is no column {missing[0]!r}", remedy=f"The columns present are {listed}")
    for kind, option, column, known in (
        ("text", "text= (--text-column on the command line)", texts, TEXT_NAMES),
        ("labels", "labels= (--labels-column on the command line)", labels, LABELS_NAMES),
    ):
        if not column and (kind == "text" or wanted.require_labels):
            raise table.header_error(
                f"no column has a usual name of the {kind} column ({', '.join(known)})",
                remedy=f"Name it with {option}; the columns present are {listed}",
            )
    ids = (plain[name] for name in ID_NAMES if name in plain)
    guessed = tuple(name for name in (*texts, labels) if name is not None and name not in named)
    return _Columns(
        texts,
        labels,
        next((name for name in ids if name not in (*texts, labels)), None),
        guessed,
        optional=() if wanted.text is not None else tuple(texts[1:]),
        unread=tuple(plain[name] for name in TEXT_NAMES if name in plain and plain[name] not in (*texts, labels)),
    )


def _by_position(pair: list[str], texts: list[str], labels: str | None) -> tuple[list[str], str | None]:
    """In a table of two columns besides identifiers, take the first for the text and the second for the labels."""
    fits = len(pair) == 2 and texts in ([], pair[:1]) and labels in (None, pair[1])
    return (pair[:1], pair[1]) if fits else (texts, labels)


def _log_guess(table: _Table, columns: _Columns) -> None:
    logger.info(
        "%s: the text is taken from column %r, the labels from column %r%s. Name others with "
        "text= (--text-column on the command line) and labels= (--labels-column on the command line).",
        table.name, columns.texts[0], columns.labels, ", as the first line names them" if table.has_first_line else "",
    )  # fmt: skip


def _log_choice(table: _Table, columns: _Columns) -> None:
    """Log which of several columns that may hold text are read, and which are not."""
    names, left = " and ".join(map(repr, columns.texts)), " and ".join(map(repr, columns.unread))
    read = f"column{'s' if len(columns.texts) > 1 else ''} {names}{' together' if len(columns.texts) > 1 else ''}"
    left = f"; {left} {'is' if len(columns.unread) == 1 else 'are'} not read" if left else ""
    logger.info(
        "%s: the text is taken from %s%s. Name others with text= (--text-column on the command line).",
        table.name, read, left,
    )  # fmt: skip


def _check_names(table: _Table, columns: _Columns, rows: list[Sequence[Any]], separator: str | None) -> None:
    """Raise an error if the first line, which is read as column names, looks like a row of data that would be lost.

    If it only may be one, issue a warning.
    """
    why = why_data(columns.texts[0], columns.labels, rows, separator)
    if why is None:
        if may_be_data(columns.texts[0], rows):
            line = " and ".join(repr(name) for name in (columns.texts[0], columns.labels) if name is not None)
            names = "column text" if columns.labels is None else "columns text and labels"
            remedy = f"If it is one, put a line before it that names the {names}."
            warn(f"{table.name}: the first line, {line}, names the columns, but may be a row of data. {remedy}")
        return
    text, labels = "text= (--text-column on the command line)", "labels= (--labels-column on the command line)"
    names, condition, options = "columns text and labels", "these are their names", f"{text} and {labels}"
    if columns.labels is None:
        names, condition, options = "column text", "this is its name", text
    raise table.header_error(
        f"the first line must name the columns, but looks like a row of data: {why}",
        remedy=f"Put a line before it that names the {names}. If {condition}, give {options}",
    )


def _cell_text(table: _Table, value: Any, column: str, number: int) -> str:
    """Return the text of a cell, which is empty if the cell is missing."""
    if isinstance(value, str):
        return value
    if is_missing(value):
        return ""
    what = f"column {column!r} does not hold text, but {type(value).__name__}"
    raise table.error(what, number, remedy="Choose another text column")


def _names(table: _Table, cell: Any, number: int) -> list[str]:
    """Return the label names of a cell that is not a string: of a list, a number or a missing value."""
    if is_missing(cell):
        return []
    kind = type(cell).__name__
    values = sorted(cell, key=str) if kind in _SET_TYPES else list(cell) if kind in _LIST_TYPES else [cell]
    names = [label_of(value) for value in values]
    if None in names:
        remedy = "Labels are strings or whole numbers, in a list or in one string with a separator"
        raise table.error("the labels are not a list of names", number, remedy=remedy)
    return [name for name in names if name]


def _literal(table: _Table, cell: str, number: int) -> Any:
    """Parse a list that is written in JSON or as Python prints it, which pandas writes to CSV files."""
    import ast
    import json

    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    remedy = 'Write lists as ["a", "b"], or give labels_separator (--labels-separator on the command line)'
    raise table.error(f"cannot read the list of labels {cell[:40]!r}", number, remedy=remedy)
