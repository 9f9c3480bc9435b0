"""Read and write files of predictions: the scores of labels per point, from longtail or from any other program.

=============  =====================================================================================================
``.npz``       a matrix of points × labels, as `scipy.sparse.save_npz` writes it; :func:`write_npz_scores` adds the
               names of the labels, by which they are then matched
``.txt``       the repository's text: a first line ``N L``, then ``label:score label:score`` per point, counted from 0;
               the first line may be missing
``.jsonl``     one object per point: ``labels`` is a list of names, of ``[name, score]``, or of objects with ``label``
               (or ``id``) and ``score``; or an object from name to score
``.tsv``       a header ``point``, ``label``, ``score``, then one line per label; points by identifier or number
``.csv``       the same with commas
=============  =====================================================================================================

A list without scores is a ranking with the best label first.

If predictions give labels by number, the numbers must be the columns of the data. A table numbers labels in the order
in which they occur, which differs from file to file. For tables, such predictions are therefore refused.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import BytesIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import numpy as np
import orjson
from scipy.sparse import csr_array, save_npz

from longtail.data.dataset import Dataset
from longtail.data.files import lines, open_bytes, plain_name
from longtail.data.json_lines import objects
from longtail.data.label_rows import canonical_labels
from longtail.errors import BROKEN_ARRAY, DataError, number_of
from longtail.sparse import resized

PREDICTION_ENDINGS = (".npz", ".txt", ".jsonl", ".tsv", ".csv")
_LABELS = "labels.npy"  # file inside an .npz file, next to the arrays of the matrix
_LARGEST_SCORE = float(np.finfo(np.float32).max)


def read_predictions(path: Path, data: Dataset) -> tuple[csr_array, list[str]]:
    """Read predicted scores for the points of `data`. It is an error if no predicted label is in the data.

    Returns
    -------
    csr_array, (N, L + M)
        Scores of the L labels of the data, followed by M predicted labels that the data does not have.
    list of str
        The names of these M labels.
    """
    if not path.is_file():
        raise DataError("there is no such file", path=path, remedy="Check the path")
    scores, unknown = _read(path, data)
    if unknown and not (scores.indices < data.n_labels).any():
        raise DataError(
            f"0 of {len(unknown):,} predicted labels are known in {data.name}, which has labels such as "
            f"{next(iter(_columns_of(data)), '')!r}, and not {unknown[0]!r}",
            path=path,
            remedy="Write labels as in the data, by name or identifier, and check how its cells are cut "
            "(--labels-column, --labels-separator)",
        )
    return scores, unknown


def _read(path: Path, data: Dataset) -> tuple[csr_array, list[str]]:
    ending = Path(plain_name(path)).suffix
    if ending not in PREDICTION_ENDINGS:
        remedy = f"Use a file that ends in {', '.join(PREDICTION_ENDINGS)}"
        raise DataError("predictions cannot be read from such a file", path=path, remedy=remedy)
    if ending == ".npz":
        return _npz_scores(path, data)
    rows = _Rows(path, data)
    if ending == ".txt":
        _check_numbering(path, data)
        _read_text(path, rows)
    elif ending == ".jsonl":
        for number, item in objects(path):
            rows.append(_json_pairs(path, number, item), number, named=True)
    else:
        return _pair_scores(_csv_cells(rows) if ending == ".csv" else _tsv_cells(path), rows)
    return rows.matrix(), list(rows.unknown)


def write_text_scores(stream: IO[bytes], parts: Iterator[csr_array], n_points: int, n_labels: int) -> None:
    """Write scores in the repository's text format: a line ``N L``, then ``label:score`` pairs, the best first."""
    stream.write(b"%d %d\n" % (n_points, n_labels))
    for part in parts:
        bounds, labels, scores = part.indptr.tolist(), part.indices.tolist(), part.data.tolist()
        for a, b in pairwise(bounds):
            pairs = zip(labels[a:b], scores[a:b], strict=True)
            stream.write((" ".join(f"{label}:{score:.6g}" for label, score in pairs) + "\n").encode())


def write_npz_scores(
    stream: IO[bytes], scores: csr_array, names: Sequence[str] | None, ids: Sequence[str] | None = None
) -> None:
    """Write scores in the form of `scipy.sparse.save_npz`, with the names and identifiers of the labels if given.

    The names are JSON in an additional array of bytes, ``labels``. `scipy.sparse.load_npz` still reads the matrix.
    """
    save_npz(stream, scores)
    if names is None:
        return
    content = orjson.dumps({"names": list(names), "ids": None if ids is None else list(ids)})
    with ZipFile(stream, "a", ZIP_DEFLATED) as archive, archive.open(_LABELS, "w") as entry:
        np.lib.format.write_array(entry, np.frombuffer(content, np.uint8))


class _Rows:
    """Collect scores point by point. Names of labels become columns, with unknown labels after those of the data."""

    def __init__(self, path: Path, data: Dataset) -> None:
        self.path, self.n_points, self.n_labels = path, data.n_points, data.n_labels
        self.ids = data.ids
        self.columns = _columns_of(data)
        self.unknown: dict[str, int] = {}
        self.rows: list[dict[int, float]] = []

    def append(self, pairs: Iterator[tuple[Any, float]], number: int, *, named: bool) -> None:
        row: dict[int, float] = {}
        for label, score in pairs:
            self.add(row, label, score, number, named=named)
        self.rows.append(row)

    def add(self, row: dict[int, float], label: Any, score: float, number: int, *, named: bool) -> None:
        if not abs(score) <= _LARGEST_SCORE:  # in this form also true for NaN
            remedy = f"Scores are finite numbers up to {_LARGEST_SCORE:.1g}"
            raise self.error(f"the score of {label!r} is {score}", number, remedy)
        if named:
            column = self.columns.get(str(label))
            if column is None:
                column = self.unknown.setdefault(str(label), self.n_labels + len(self.unknown))
        else:
            column = int(label)
            if not 0 <= column < self.n_labels:
                what = f"label {column} is outside the {self.n_labels:,} labels of the data"
                raise self.error(what, number, "Labels are counted from 0")
        if column in row:
            raise self.error(f"the label {label!r} is scored twice", number, "Give one score per label and point")
        row[column] = score

    def error(self, what: str, number: int | None, remedy: str) -> DataError:
        return DataError(what, path=self.path, line=number, remedy=remedy)

    def matrix(self) -> csr_array:
        if len(self.rows) != self.n_points:
            what = f"predictions for {number_of(len(self.rows), 'point')}, but the data has {self.n_points:,}"
            raise self.error(what, None, "Give one line per point, in the order of the data")
        indptr = np.cumsum([0, *map(len, self.rows)])
        columns = np.fromiter((column for row in self.rows for column in row), np.int32, indptr[-1])
        scores = np.fromiter((score for row in self.rows for score in row.values()), np.float32, indptr[-1])
        return csr_array((scores, columns, indptr), shape=(self.n_points, self.n_labels + len(self.unknown)))


def _npz_scores(path: Path, data: Dataset) -> tuple[csr_array, list[str]]:
    from longtail.data.npz import read_npz

    scores = read_npz(path)
    labels = _stored_labels(path)
    numbered = labels is None or not (data.label_names or data.label_ids)
    if numbered:
        _check_numbering(path, data)
    if scores.shape[0] != data.n_points or (numbered and scores.shape[1] > data.n_labels):
        what = f"a matrix of {scores.shape[0]:,} × {scores.shape[1]:,}, but the data has {data.n_points:,} points and "
        remedy = "Give scores of the same points and labels, in the same order"
        raise DataError(f"{what}{data.n_labels:,} labels", path=path, remedy=remedy)
    if labels is None or numbered:
        return resized(scores, n_columns=data.n_labels), []
    return _in_columns_of(path, scores, labels, data)


def _stored_labels(path: Path) -> dict[str, Any] | None:
    """Return the names and identifiers that :func:`write_npz_scores` has written, or None if there are none."""
    with open_bytes(path) as stream, ZipFile(BytesIO(stream.read())) as archive:  # read_npz has checked the archive
        if _LABELS not in archive.namelist():
            return None
        try:
            content = np.lib.format.read_array(BytesIO(archive.read(_LABELS)), allow_pickle=False)
            labels = orjson.loads(content.tobytes())
            return {key: labels[key] and [str(label) for label in labels[key]] for key in ("names", "ids")}
        except (*BROKEN_ARRAY, BadZipFile) as error:
            remedy = "Write the predictions again"
            raise DataError(f"the names of the labels cannot be read ({error})", path=path, remedy=remedy) from None


def _in_columns_of(path: Path, scores: csr_array, labels: dict[str, Any], data: Dataset) -> tuple[csr_array, list[str]]:
    """Move the scores to the columns that the labels have in the data, matched by identifier or by name."""
    columns = _columns_of(data)
    names = labels["names"] or []
    if labels["ids"] and any(label in columns for label in labels["ids"]):
        names = labels["ids"]
    if len(names) != scores.shape[1]:
        what = f"names of {len(names):,} labels, but a matrix with {scores.shape[1]:,} columns"
        raise DataError(what, path=path, remedy="Write the predictions again")
    column_of = np.full(len(names), -1, np.int64)
    unknown: list[str] = []
    for label in np.unique(scores.indices).tolist():
        column = columns.get(names[label])
        if column is None:
            column = data.n_labels + len(unknown)
            unknown.append(names[label])
        column_of[label] = column
    shape = (data.n_points, data.n_labels + len(unknown))
    moved = csr_array((scores.data, column_of[scores.indices].astype(np.int32), scores.indptr), shape)
    return canonical_labels(moved), unknown


def _columns_of(data: Dataset) -> dict[str, int]:
    """Return the column of each label of the data by name and by identifier, or by number if it has neither."""
    columns = {name: j for j, name in enumerate(data.label_names or ())}
    columns |= {label: j for j, label in enumerate(data.label_ids or ())}
    return columns or {str(j): j for j in range(data.n_labels)}


def _check_numbering(path: Path, data: Dataset) -> None:
    """Refuse predictions with labels by number if the data numbers its labels in the order in which they occur."""
    if data.numbered_by_occurrence:
        raise DataError(
            f"labels are given by number, but {data.name} numbers its labels in the order in which they occur, "
            "so that a number may mean another label there",
            path=path,
            remedy="Give predictions with names: .jsonl, .tsv, .csv, or the .npz that longtail predict writes",
        )


def _read_text(path: Path, rows: _Rows) -> None:
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, 1):
            cells = line.split()
            if number == 1 and len(cells) == 2 and b":" not in line:
                n_points, n_labels = (int(cell) if cell.isdigit() else -1 for cell in cells)
                if n_points != rows.n_points or n_labels > rows.n_labels:
                    what = f"the first line says {line.decode('utf-8', 'replace').strip()!r}, but the data has "
                    what += f"{rows.n_points:,} points and {rows.n_labels:,} labels"
                    raise rows.error(what, 1, "Give scores of the same points and labels, in the same order")
                continue
            rows.append(_text_pairs(rows, cells, number), number, named=False)


def _text_pairs(rows: _Rows, cells: list[bytes], number: int) -> Iterator[tuple[int, float]]:
    for cell in cells:
        label, _, score = cell.partition(b":")
        try:
            yield int(label), float(score)
        except ValueError:
            what = f"{cell.decode('utf-8', 'replace')!r} is not label:score"
            raise rows.error(what, number, "Write pairs such as 17:0.83, with spaces between them") from None


def _json_pairs(path: Path, number: int, item: dict[str, Any]) -> Iterator[tuple[str, float]]:
    pairs = item.get("labels", item.get("predictions", item.get("suggestions")))
    if isinstance(pairs, dict):
        pairs = [[label, score] for label, score in pairs.items()]
    wrong = DataError(
        "the point has no list of labels",
        path=path,
        line=number,
        remedy='Write {"labels": [{"label": "moss", "score": 0.9}]}, or {"labels": ["moss"]} with the best first',
    )
    if not isinstance(pairs, list):
        raise wrong
    for rank, pair in enumerate(pairs):
        if isinstance(pair, dict):
            label, score = pair.get("id", pair.get("label", pair.get("name"))), pair.get("score", 1 / (1 + rank))
        elif isinstance(pair, list) and len(pair) == 2:
            label, score = pair
        else:
            label, score = pair, 1 / (1 + rank)
        if not isinstance(label, str | int) or not isinstance(score, int | float):
            raise wrong
        yield str(label), float(score)


def _tsv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line and its cells."""
    for number, line in lines(path):
        yield number, line.decode("utf-8", "replace").split("\t")


def _csv_cells(rows: _Rows) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line on which each row ends, and its cells."""
    with open_bytes(rows.path) as stream:
        reader = csv.reader(TextIOWrapper(stream, "utf-8-sig", errors="replace", newline=""), strict=True)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise rows.error(f"this is not valid CSV ({error})", reader.line_num, "Check the quotation marks") from None


def _pair_scores(pairs: Iterator[tuple[int, list[str]]], rows: _Rows) -> tuple[csr_array, list[str]]:
    """Read rows of point, label and score, in any order."""
    row_of = {str(i): i for i in range(rows.n_points)} | {name: i for i, name in enumerate(rows.ids or ())}
    for name, column in list(rows.columns.items()):
        rows.columns.setdefault(" ".join(name.split()), column)  # predict writes a tab in a TSV as a space
    rows.rows = [{} for _ in range(rows.n_points)]
    for at, (number, cells) in enumerate(pairs):
        if at == 0 and cells[-1].strip().lower() == "score":
            continue
        try:
            point, label, score = cells[0].strip(), cells[1].strip(), float(cells[2])
        except (IndexError, ValueError):
            remedy = f"Separate three cells by {'commas' if rows.path.name.endswith('.csv') else 'tabs'}"
            raise rows.error("the line is not point, label and score", number, remedy) from None
        if point not in row_of:
            remedy = "Name points by their identifier, or by their number counted from 0"
            raise rows.error(f"the data has no point {point!r}", number, remedy)
        rows.add(rows.rows[row_of[point]], label.removeprefix("<").removesuffix(">"), score, number, named=True)
    return rows.matrix(), list(rows.unknown)
