"""Tables with a text column and a labels column: CSV, TSV, Parquet, JSON lines.

CSV goes through the standard library, which tells the line of a row that does not fit; polars fills a short row with
nulls and says nothing.
Labels become a vocabulary in the order in which they are first met, so that adding rows renumbers nothing.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.data.dataset import Dataset
from longtail.data.files import open_bytes, plain_name
from longtail.data.json_lines import names_or_places, objects
from longtail.data.labels import LabelRows
from longtail.errors import DataError

TEXT_NAMES = ("text", "title", "content", "document", "sentence", "abstract", "description", "body")
LABELS_NAMES = (
    "labels",
    "label",
    "tags",
    "tag",
    "subjects",
    "categories",
    "category",
    "keywords",
    "topics",
    "targets",
    "target",
)
ID_NAMES = ("uid", "id")
_SEPARATORS = ("|", ";", ",")
_LISTS = "[…]"  # stands for a separator where each string is a list


class Vocabulary:
    """Label names numbered as they are met, and the separator between them, which both parts of a dataset share."""

    def __init__(self, separator: str | None = None) -> None:
        self.place: dict[str, int] = {}
        self.separator = separator

    def numbers(self, names: Sequence[str]) -> list[int]:
        place = self.place
        return [place.setdefault(name, len(place)) for name in names]


@dataclass
class _Chosen:
    """Names of the columns that are read: one or more of text, perhaps labels, perhaps identifiers."""

    texts: list[str]
    labels: str | None
    ids: str | None

    @property
    def all(self) -> list[str]:
        return [*self.texts, *(name for name in (self.labels, self.ids) if name is not None)]


Choose = Callable[[list[str]], _Chosen]
Row = tuple[int, Sequence[Any]]  # line, and the chosen columns in the order of `_Chosen.all`


def read_table(
    path: Path,
    text_column: str | Sequence[str] | None,
    labels_column: str | None,
    vocabulary: Vocabulary,
    *,
    require_labels: bool = True,
) -> Dataset:
    """Read one table; its labels are added to `vocabulary`. The label matrix is as wide as the vocabulary is then."""
    chosen: list[_Chosen] = []

    def choose(present: list[str]) -> _Chosen:
        chosen.append(_choose(present, text_column, labels_column, path, require_labels))
        return chosen[0]

    texts: list[str] = []
    ids: list[str | None] = []
    held: list[
        str | array[int]
    ] = []  # strings wait until all are seen, for their separator; lists are numbered at once
    at = array("q")
    for number, row in _rows(path, choose):
        columns_of = chosen[0]
        n_texts = len(columns_of.texts)
        parts = [_text(v, c, path, number) for v, c in zip(row, columns_of.texts, strict=False) if v is not None]
        texts.append("\n".join(part for part in parts if part))
        cell = row[n_texts] if columns_of.labels else None
        held.append(cell if isinstance(cell, str) else array("i", vocabulary.numbers(_listed(cell, path, number))))
        ids.append(None if columns_of.ids is None or row[-1] is None else str(row[-1]))
        at.append(number)
    if not texts:
        raise DataError("the table holds no rows", path=path, remedy="Check that it was written completely")
    separator = vocabulary.separator = vocabulary.separator or _sniff(held)
    labels = LabelRows()
    for value, number in zip(held, at, strict=True):
        if isinstance(value, str):
            labels.append(vocabulary.numbers(_split(value, separator, path, number)))
        else:
            labels.append(value)
    return Dataset(X=None, Y=labels.matrix(len(vocabulary.place)), ids=names_or_places(ids), texts=texts)


def is_json(path: Path) -> bool:
    """Whether a file is JSON lines by its name."""
    return plain_name(path).endswith((".json", ".jsonl", ".ndjson"))


def _rows(path: Path, choose: Choose) -> Iterator[Row]:
    """Rows of a table, with the line they end on (in Parquet: their number from 1)."""
    name = plain_name(path)
    if is_json(path):
        return _json(path, choose)
    if name.endswith(".parquet"):
        return _parquet(path, choose)
    return _csv(path, "\t" if name.endswith(".tsv") else None, choose)


def _json(path: Path, choose: Choose) -> Iterator[Row]:
    wanted: _Chosen | None = None
    for number, item in objects(path):
        wanted = wanted or choose(list(item))
        missing = next((name for name in wanted.texts if name not in item), None)
        if missing is not None:
            remedy = f"The fields present are {', '.join(map(repr, item))}"
            raise DataError(f"there is no field {missing!r}", path=path, line=number, remedy=remedy)
        yield number, [item.get(name) for name in wanted.all]


def _parquet(path: Path, choose: Choose) -> Iterator[Row]:
    import polars

    with open_bytes(path) as stream:
        source = io.BytesIO(stream.read()) if plain_name(path) != path.name else path
    try:
        present = list(polars.read_parquet_schema(source))
        if isinstance(source, io.BytesIO):
            source.seek(0)
        wanted = choose(present).all
        frame = polars.read_parquet(source, columns=wanted)
    except (polars.exceptions.PolarsError, OSError) as error:
        what = f"not a Parquet file ({str(error).splitlines()[0]})"
        raise DataError(what, path=path, remedy="Check that it was written completely") from None
    yield from enumerate(frame.select(wanted).iter_rows(), start=1)


def _csv(path: Path, delimiter: str | None, choose: Choose) -> Iterator[Row]:
    limit = csv.field_size_limit(2**31 - 1)  # a document may be longer than the 128 KiB that csv allows by itself
    try:
        with open_bytes(path) as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            head = ""
            if delimiter is None:
                head = text.readline()
                delimiter = max(",;\t", key=head.count)
            yield from _csv_rows(csv.reader(_chain(head, text), delimiter=delimiter, strict=True), path, choose)
    except UnicodeDecodeError:
        raise DataError("not UTF-8", path=path, remedy="Convert it to UTF-8, for example with iconv") from None
    finally:
        csv.field_size_limit(limit)


def _chain(head: str, rest: io.TextIOWrapper) -> Iterator[str]:
    if head:
        yield head
    yield from rest


def _csv_rows(reader: Any, path: Path, choose: Choose) -> Iterator[Row]:
    try:
        header: list[str] = next(reader, [])
        if not any(header):
            raise DataError("the file is empty", path=path, remedy="Its first line should name the columns")
        if len(set(header)) < len(header):
            twice = sorted({name for name in header if header.count(name) > 1})
            raise DataError(f"columns named twice: {', '.join(twice)}", path=path, line=1, remedy="Rename them")
        places = [header.index(name) for name in choose(header).all]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"the row has {len(row)} fields, the header {len(header)}",
                    path=path,
                    line=reader.line_num,
                    remedy="Put fields that hold the separator or a line break in quotation marks",
                )
            yield reader.line_num, [row[place] for place in places]
    except csv.Error as error:
        remedy = "Check the quotation marks around it"
        raise DataError(f"not valid CSV ({error})", path=path, line=reader.line_num, remedy=remedy) from None


def _choose(
    present: list[str],
    text_column: str | Sequence[str] | None,
    labels_column: str | None,
    path: Path,
    require_labels: bool,
) -> _Chosen:
    """Take the columns asked for, or those with a usual name."""
    plain = {name.strip().lower(): name for name in present}
    wanted = [text_column] if isinstance(text_column, str) else list(text_column or ())
    texts = wanted or [plain[name] for name in TEXT_NAMES[:1] if name in plain]
    texts = texts or [plain[name] for name in ("title", "content") if name in plain]
    texts = texts or [plain[name] for name in TEXT_NAMES if name in plain][:1]
    labels = labels_column or next((plain[name] for name in LABELS_NAMES if name in plain), None)
    shown = ", ".join(map(repr, present))
    missing = [name for name in (*texts, *([labels] if labels else ())) if name not in present]
    if missing:
        remedy = f"The columns present are {shown}"
        raise DataError(f"there is no column {missing[0]!r}", path=path, line=1, remedy=remedy)
    for kind, found, known in (("text", texts, TEXT_NAMES), ("labels", labels, LABELS_NAMES)):
        if not found and (kind == "text" or require_labels):
            raise DataError(
                f"no column is named as the {kind} column usually is ({', '.join(known)})",
                path=path,
                line=1,
                remedy=f"Name it with {kind}_column; the columns present are {shown}",
            )
    ids = (plain[name] for name in ID_NAMES if name in plain)
    return _Chosen(texts, labels, next((name for name in ids if name not in (*texts, labels)), None))


def _text(value: Any, column: str, path: Path, number: int) -> str:
    if isinstance(value, str):
        return value
    raise DataError(
        f"column {column!r} does not hold text", path=path, line=number, remedy="Choose another text_column"
    )


def _sniff(held: Sequence[object]) -> str | None:
    """The separator of a column of strings: the first of | ; , that occurs at all, or lists written as JSON."""
    strings = [value for value in held if isinstance(value, str) and value.strip()]
    if strings and all(value.lstrip().startswith("[") for value in strings):
        return _LISTS
    return next((s for s in _SEPARATORS if any(s in value for value in strings)), None)


def _split(value: str, separator: str | None, path: Path, number: int) -> list[str]:
    """The label names of one string."""
    if separator == _LISTS:
        return _listed(_literal(value, path, number) if value.strip() else None, path, number)
    pieces = value.split(separator) if separator else [value]
    return [name for piece in pieces if (name := piece.strip())]


def _listed(value: Any, path: Path, number: int) -> list[str]:
    """The label names of a cell that is no string: a list, a number or nothing."""
    if value is None:
        return []
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if not isinstance(value, list) or any(not isinstance(v, str | int) or isinstance(v, bool) for v in value):
        remedy = "Labels are strings or whole numbers, in a list or in one string with a separator"
        raise DataError("the labels are not a list of names", path=path, line=number, remedy=remedy)
    return [name for v in value if (name := str(v).strip())]


def _literal(value: str, path: Path, number: int) -> Any:
    """A list as JSON writes it, or as Python shows it, which is what pandas leaves in a CSV."""
    import ast
    import json

    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    remedy = 'Write lists as ["a", "b"], or give labels_separator'
    raise DataError(f"cannot read the list of labels {value[:40]!r}", path=path, line=number, remedy=remedy)
