"""Load the files of each layout into a `Dataset`, with the label names, texts and pairs to ignore next to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from longtail.data.dataset import Dataset, row_of_entry
from longtail.data.files import find, lines, open_bytes
from longtail.data.layouts import Files
from longtail.errors import BROKEN_ARRAY, DataError
from longtail.sparse import resized

if TYPE_CHECKING:
    from longtail.data.label_file import LabelEntry
    from longtail.data.sparse_text import ParsedRows
    from longtail.data.table import TableReader
    from longtail.data.text import TextVectorizer


def load_files(files: Files, tables: TableReader) -> Dataset:
    """Read the files of a dataset. `tables` reads those that are tables."""
    if files.format == "table":
        data = _tables(files, tables)
    elif files.format == "documents":
        data = _documents(files, tables)
    elif files.format == "json":
        data = _raw_text(files, tables.require_labels)
    else:
        data = _matrices(files)
        if not files.single_file:
            _add_names(data, files)
    if not files.single_file:
        data.ignore = _ignored_pairs(files.folder, "filter_labels_train.txt", data)
        if data.test is not None:
            data.test.ignore = _ignored_pairs(files.folder, "filter_labels_test.txt", data.test)
    if data.test is not None:
        for name in ("Z", "label_ids", "label_names", "label_texts"):
            setattr(data.test, name, getattr(data, name))
    return data


# Text ---------------------------------------------------------------------------------------------------------------


def _raw_text(files: Files, require_labels: bool) -> Dataset:
    from longtail.data.json_lines import read_labels, read_points

    path = find(files.folder, "lbl.json", "lbl.jsonl", "label.json", "labels.json")
    if path is None:
        remedy = 'Line i of lbl.json is label i, as in {"uid": "…", "title": "…"}'
        raise DataError(
            "there is no lbl.json, which lists the labels that target_ind refers to", path=files.folder, remedy=remedy
        )
    ids, names, texts, n_labels = read_labels(path)
    data = read_points(files.train[0], path, n_labels, require_labels=require_labels)
    data.label_ids, data.label_names, data.label_texts = ids, names, texts
    if files.test:
        data.test = read_points(files.test[0], path, n_labels, require_labels=require_labels)
    return data


def _tables(files: Files, tables: TableReader) -> Dataset:
    data = tables.read_file(files.train[0])
    if files.test:
        data.test = tables.read_file(files.test[0])
        data.Y = widened(data.Y, len(tables.numbers))  # labels that occur only in the test part come last
        data.labels_separator = tables.labels_separator
    data.label_ids = data.label_names = list(tables.numbers)
    return data


def _documents(files: Files, tables: TableReader) -> Dataset:
    from longtail.data.documents import read_documents
    from longtail.data.label_file import describe_labels

    entries: list[LabelEntry] = []
    data = read_documents(files.train[0], tables.numbers, entries)
    if files.test:
        data.test = read_documents(files.test[0], tables.numbers, entries)
        data.Y = widened(data.Y, len(tables.numbers))
    data.label_ids = data.label_names = list(tables.numbers)
    if entries:
        describe_labels(data, entries, files.folder.name)
    return data


def widened(A: csr_array, n_columns: int) -> csr_array:
    """Return the matrix with empty columns added, and keep its mark that it is canonical."""
    wide = resized(A, n_columns=n_columns)
    wide.has_canonical_format = A.has_canonical_format
    return wide


# Matrices -----------------------------------------------------------------------------------------------------------


def _matrices(files: Files) -> Dataset:
    parts = [files.train, files.test] if files.test else [files.train]
    if files.format == "svmlight":
        pairs = _svmlight([part[0] for part in parts])
    else:
        pairs = [_matrix_pair(files.format, part) for part in parts]
    (X, Y), *tests = pairs
    data = Dataset(X=X, Y=Y)
    for X_test, Y_test in tests:
        for A, B, what in ((X, X_test, "features"), (Y, Y_test, "labels")):
            if A.shape[1] != B.shape[1]:
                raise DataError(
                    f"{B.shape[1]} {what}, but {files.train[0].name} has {A.shape[1]}",
                    path=files.test[-1 if what == "labels" else 0],
                    remedy="Both parts must have the same features and labels; correct the header or the shape",
                )
        data.test = Dataset(X=X_test, Y=Y_test)
    if not files.single_file:
        data.Z = _label_features(files, data)
    return data


def _matrix_pair(format: str, part: tuple[Path, ...]) -> tuple[csr_array, csr_array]:
    """Read features and labels of one part."""
    if format == "sparse":
        from longtail.data.sparse_text import read_repository

        return _both(read_repository(part[0]))
    if format == "lf":
        from longtail.data.sparse_text import read_matrix

        X, Y = read_matrix(part[0]), read_matrix(part[1], add=False)
    else:
        from longtail.data.npz import read_npz

        X, Y = read_npz(part[0]), read_npz(part[1], labels=True)
    if X.shape[0] != Y.shape[0]:
        what = f"{Y.shape[0]} rows, but {part[0].name} has {X.shape[0]}"
        raise DataError(what, path=part[1], remedy="Row i of both files must be the same point")
    if Y.nnz and Y.data.min() < 0:
        row = row_of_entry(Y, int(np.argmin(Y.data)))
        raise DataError("a label has a negative value", path=part[1], row=row, remedy="Use 1, or a relevance above 0")
    return X, Y


def _both(rows: ParsedRows) -> tuple[csr_array, csr_array]:
    assert rows.labels is not None
    return rows.features, rows.labels


def _svmlight(paths: list[Path]) -> list[tuple[csr_array, csr_array]]:
    """Read all parts of svmlight data into matrices of the same width. Features counted from 1 are shifted to 0."""
    from longtail.data.sparse_text import read_svmlight

    pairs = [_both(read_svmlight(path)) for path in paths]
    lowest = min((int(X.indices.min()) for X, _ in pairs if X.nnz), default=0)
    shift = 1 if lowest >= 1 else 0
    n_features = max(max(X.shape[1] - shift, 0) for X, _ in pairs)
    n_labels = max(Y.shape[1] for _, Y in pairs)
    for X, _ in pairs:
        X.indices -= shift
    return [(widened(X, n_features), widened(Y, n_labels)) for X, Y in pairs]


def _label_features(files: Files, data: Dataset) -> csr_array | None:
    path = find(files.folder, "lbl_X_Xf.txt") if files.format in ("lf", "sparse") else None
    text = path is not None
    if path is not None:
        from longtail.data.sparse_text import read_matrix

        Z = read_matrix(path)
    else:
        path = find(files.folder, "Z.npz", "lbl_Z.npz", "lbl_X_Xf.npz") if files.format == "npz" else None
        if path is None:
            return None
        from longtail.data.npz import read_npz

        Z = read_npz(path)
    if Z.shape != (data.n_labels, data.n_features):
        what = f"{Z.shape[0]} × {Z.shape[1]}, expected {data.n_labels} labels × {data.n_features} features"
        raise DataError(what, path=path, line=1 if text else None, remedy="Row i is the text of label i")
    return Z


# Files next to the matrices ------------------------------------------------------------------------------------------


def _add_names(data: Dataset, files: Files) -> None:
    """Read the names of labels and points, and the vectorizer, from the files next to the matrices."""
    folder = files.folder
    path = find(folder, "lbl.json")
    if path is not None:
        from longtail.data.json_lines import read_labels

        data.label_ids, data.label_names, data.label_texts, n_labels = read_labels(path)
        _same_length(path, n_labels, data.n_labels, "labels")
    elif files.format == "lf" and (path := find(folder, "Yf.txt")) is not None:
        data.label_names = _plain_lines(path)
        data.label_texts = data.label_names
        _same_length(path, len(data.label_names), data.n_labels, "labels")
    for part, name in ((data, "trn_points.json"), (data.test, "tst_points.json")):
        path = find(folder, name)
        if part is not None and path is not None:
            from longtail.data.json_lines import read_names

            part.ids, part.texts = read_names(path)
            _same_length(path, len(part.ids or part.texts or ()), part.n_points, "points")
    if (folder / "vectorizer.npz").is_file():
        data.vectorizer = _read_vectorizer(folder / "vectorizer.npz")
        if data.test is not None:
            data.test.vectorizer = data.vectorizer


def _read_vectorizer(path: Path) -> TextVectorizer:
    import zipfile

    import orjson

    from longtail.data.text import TextVectorizer

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return TextVectorizer.from_arrays(orjson.loads(arrays.pop("meta").tobytes()), arrays)
    except (*BROKEN_ARRAY, zipfile.BadZipFile) as error:
        remedy = "Copy the folder again, or remove the file; without it no texts can be turned into these features"
        raise DataError(f"the vectorizer cannot be read ({error})", path=path, remedy=remedy) from None


def _same_length(path: Path, n: int, expected: int, what: str) -> None:
    if n != expected:
        raise DataError(f"{n} {what}, expected {expected}", path=path, remedy="Write one line for each, in order")


def _plain_lines(path: Path) -> list[str]:
    """Read the lines of a text file, including blank ones, in UTF-8 or else in Latin-1, as some public datasets are."""
    with open_bytes(path) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def _ignored_pairs(folder: Path, name: str, part: Dataset) -> np.ndarray | None:
    """Read pairs (row, label) to ignore, one pair of numbers per line."""
    path = find(folder, name)
    if path is None:
        return None
    flat: list[int] = []
    for number, line in lines(path):
        try:
            row, label = map(int, line.split())
        except ValueError:
            remedy = "Write the row and the label, counted from 0, on each line"
            raise DataError("the line does not hold two whole numbers", path=path, line=number, remedy=remedy) from None
        if not (0 <= row < part.n_points and 0 <= label < part.n_labels):
            what = f"the pair {row} {label} lies outside {part.n_points} points × {part.n_labels} labels"
            raise DataError(what, path=path, line=number, remedy="Both are counted from 0")
        flat += (row, label)
    return np.array(flat, np.int32).reshape(-1, 2)
