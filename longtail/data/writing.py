"""`write` a `Dataset` to files in the field's formats, completely or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import orjson

from longtail.data.files import COMPRESSED, OVERWRITE, plain_name, write_bytes, write_folder
from longtail.data.table_writing import write_table
from longtail.errors import DataError, SettingsError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from longtail.data.dataset import Dataset
    from longtail.data.text import TextVectorizer

WRITE_FORMATS = ("sparse", "lf", "npz", "json", "table")
_OUR_FILES = re.compile(
    r"((train|test|lbl_X_Xf|Yf|(trn|tst)_X_(Xf|Y)|filter_labels_train|filter_labels_test)\.txt"
    r"|(trn|tst|lbl|trn_points|tst_points)\.json|(train|test)\.csv)(\.gz|\.xz|\.zst)?"
    r"|((trn|tst)_[XY]|lbl_Z|vectorizer)\.npz"
)
_FILE_ENDINGS = {"sparse": (".txt",), "table": (".csv", ".tsv", ".jsonl")}
_ENDINGS_NOT_WRITTEN = (".json", ".npz", ".parquet")  # these can be read or be part of a folder, but not written alone
_WRITABLE = (
    "As one file, a dataset is written as .csv, .tsv or .jsonl (format 'table') or .txt (format 'sparse'), which may "
    "be compressed (.gz, .xz, .zst); for every other format, name a folder, without an ending."
)
_FILE_ENDING = re.compile(r"\.[A-Za-z]{2,8}")  # "papers-1.0" and "papers.v2" are folders
_PAIRS_PER_BATCH = 1 << 18


def write(
    dataset: Dataset,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    compression: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a dataset, so that `read` returns the same one with exactly the same values.

    ============  =====================================================================================================
    format        what is written
    ============  =====================================================================================================
    ``"sparse"``  the repository's text: ``train.txt``, ``test.txt``, ``lbl_X_Xf.txt``; or one file with only X and Y,
                  if `path` ends in ``.txt``. Graded labels are refused, as the format cannot store them
    ``"lf"``      the repository's text with label features: ``trn_X_Xf.txt``, ``trn_X_Y.txt``, ``tst_…``,
                  ``lbl_X_Xf.txt``, and ``Yf.txt`` with the label names
    ``"npz"``     ``trn_X.npz``, ``trn_Y.npz``, ``tst_…``, ``lbl_Z.npz``
    ``"json"``    the texts: ``trn.json``, ``tst.json``, ``lbl.json``; features are computed again when it is read
    ``"table"``   texts and label names: ``train.csv`` and ``test.csv``; or one file, if `path` ends in ``.csv``,
                  ``.tsv`` or ``.jsonl``. Tabs and line breaks of a text become spaces in ``.tsv``
    ============  =====================================================================================================

    A folder of matrices also has the names of labels (``lbl.json``), identifiers and texts of points
    (``trn_points.json``), the vectorizer (``vectorizer.npz``) and pairs to ignore (``filter_labels_train.txt``). A file
    or folder appears under its name only when it is complete.

    Parameters
    ----------
    dataset : Dataset
        The dataset to write. It is validated first.
    path : path-like
        Folder to write, or for ``"sparse"`` and ``"table"`` also a file.
    format : str, optional
        One of the formats above. The default is ``"sparse"`` for a ``.txt`` file and ``"table"`` for a ``.csv``,
        ``.tsv`` or ``.jsonl`` file. For a folder it is ``"npz"``, or ``"json"`` if there are no features.
    compression : {"gz", "xz", "zst"}, optional
        Compression of the text files in a folder. A single file is compressed according to its ending.
    overwrite : bool
        Replace an existing file, or an existing folder that has nothing but the files of a dataset.

    Returns
    -------
    Path
        The path that was written.
    """
    path = Path(path)
    single = check_target(path, format, compression)
    if format is None:
        format = single or ("npz" if dataset.X is not None else "json")
    dataset.validate(require_labels=False)
    _check_format(dataset, format)
    if single:
        if path.exists() and not overwrite:
            raise DataError("the file exists", path=path, remedy=OVERWRITE)
        if dataset.test is not None:
            remedy = "Give a folder, or write dataset.test to a file of its own"
            raise DataError("one file cannot hold a training part and a test part", path=path, remedy=remedy)
    try:
        if single:
            with write_bytes(path) as stream:
                if format == "table":
                    write_table(stream, dataset, Path(plain_name(path)).suffix)
                else:
                    _write_rows(stream, dataset.X, dataset.Y)
        else:
            with write_folder(path, _OUR_FILES, overwrite) as folder:
                _write_parts(folder, dataset, format, "" if compression is None else f".{compression}")
    except OSError as error:
        what = f"cannot be written ({error.strerror or error})"
        raise DataError(what, path=path, remedy="Check the space left and the permissions") from error
    return path


def check_target(path: Path, format: str | None, compression: str | None) -> str | None:
    """Check that a dataset can be written to a path. Return the format of a single file, or None for a folder."""
    kinds = [kind for kind, endings in _FILE_ENDINGS.items() if plain_name(path).endswith(endings)]
    if format is not None and format not in WRITE_FORMATS:
        raise SettingsError(
            f"format (--to on the command line) {format!r} cannot be written. Use one of {', '.join(WRITE_FORMATS)}."
        )
    if compression is not None and f".{compression}" not in COMPRESSED:
        raise SettingsError(f"compression {compression!r} is unknown. Use gz, xz or zst")
    unknown = not kinds and not path.exists() and _FILE_ENDING.fullmatch(path.suffix) is not None
    unwritten = Path(plain_name(path)).suffix in _ENDINGS_NOT_WRITTEN
    if unknown or unwritten or (kinds and format not in (None, *kinds)):
        what = "" if format is None else f" with the format {format!r} (--to on the command line)"
        raise SettingsError(f"{path.name} cannot be written{what}. {_WRITABLE}")
    if kinds and compression is not None:
        raise SettingsError("compression is for folders. End the file's name in .gz, .xz or .zst")
    return (format or kinds[0]) if kinds else None


def _check_format(dataset: Dataset, format: str) -> None:
    """Raise an error, before anything is written, if the format cannot store something in the dataset."""
    for part, name in ((dataset, "the dataset"), (dataset.test, "the test part")):
        if part is None:
            continue
        if part.vector_size and format not in ("json", "table"):
            raise DataError(
                f"{name} has dense vectors, which are not written", remedy="Read it without an encoder or vectors"
            )
        if format in ("json", "table") and part.texts is None:
            kind = "JSON lines" if format == "json" else "a table"
            raise DataError(f"{name} has no texts to write as {kind}", remedy='Use format "sparse" or "npz"')
        if format not in ("json", "table") and part.X is None:
            raise DataError(
                f"{name} has no features to write", remedy='Read it with a vectorizer, or use format "json"'
            )
        if format == "sparse" and part.Y.nnz and not (part.Y.data == 1).all():
            raise DataError(f"{name} has graded labels, which this format cannot hold", remedy='Use format "npz"')


def _write_parts(folder: Path, dataset: Dataset, format: str, ending: str) -> None:
    for part, short, long in ((dataset, "trn", "train"), (dataset.test, "tst", "test")):
        if part is None:
            continue
        if format == "sparse":
            with write_bytes(folder / f"{long}.txt{ending}") as stream:
                _write_rows(stream, part.X, part.Y)
        elif format == "npz":
            _write_npz(folder / f"{short}_X.npz", part.X)
            _write_npz(folder / f"{short}_Y.npz", part.Y)
        elif format == "lf":
            for matrix, kind in ((part.X, "Xf"), (part.Y, "Y")):
                with write_bytes(folder / f"{short}_X_{kind}.txt{ending}") as stream:
                    _write_rows(stream, matrix, None)
        elif format == "table":
            with write_bytes(folder / f"{long}.csv{ending}") as stream:
                write_table(stream, part, ".csv")
        if format == "json":
            _write_lines(folder / f"{short}.json{ending}", _points(part))
        elif format == "table":
            pass  # identifiers and texts are in the table
        elif part.ids is not None or part.texts is not None:
            _write_lines(folder / f"{short}_points.json{ending}", _point_names(part))
        if part.ignore is not None:
            with write_bytes(folder / f"filter_labels_{long}.txt{ending}") as stream:
                stream.write(b"".join(b"%d %d\n" % (row, label) for row, label in part.ignore.tolist()))
    if format == "npz" and dataset.Z is not None:
        _write_npz(folder / "lbl_Z.npz", dataset.Z)
    elif format in ("sparse", "lf") and dataset.Z is not None:
        with write_bytes(folder / f"lbl_X_Xf.txt{ending}") as stream:
            _write_rows(stream, dataset.Z, None)
    if format == "json" or dataset.label_ids is not None or dataset.label_names is not None:
        _write_lines(folder / f"lbl.json{ending}", _label_items(dataset))
    if format == "lf" and dataset.label_names is not None:
        with write_bytes(folder / f"Yf.txt{ending}") as stream:
            stream.write("".join(" ".join(name.split()) + "\n" for name in dataset.label_names).encode())
    if format not in ("json", "table") and dataset.vectorizer is not None:
        _write_vectorizer(folder / "vectorizer.npz", dataset.vectorizer)


def _write_npz(path: Path, A: csr_array | None) -> None:
    assert A is not None
    from scipy.sparse import save_npz

    with write_bytes(path) as stream:
        save_npz(stream, A)  # given a path, NumPy might append an ending to it


def _write_vectorizer(path: Path, vectorizer: TextVectorizer) -> None:
    meta, arrays = vectorizer.to_arrays()
    with write_bytes(path) as stream:
        np.savez(stream, meta=np.frombuffer(orjson.dumps(meta), np.uint8), **arrays)  # type: ignore[arg-type]


# JSON lines ---------------------------------------------------------------------------------------------------------


def _write_lines(path: Path, items: Iterator[dict[str, Any]]) -> None:
    with write_bytes(path) as stream:
        for item in items:
            stream.write(orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE))


def _points(part: Dataset) -> Iterator[dict[str, Any]]:
    assert part.texts is not None
    graded = bool(part.Y.nnz) and not (part.Y.data == 1).all()
    for i, text in enumerate(part.texts):
        item: dict[str, Any] = {} if part.ids is None else {"uid": part.ids[i]}
        title, _, content = text.partition("\n")
        item |= {"title": title, "content": content} if title and content else {"title": text}
        row = slice(part.Y.indptr[i], part.Y.indptr[i + 1])
        item["target_ind"] = part.Y.indices[row].tolist()
        if graded:
            item["target_rel"] = part.Y.data[row].tolist()
        yield item


def _point_names(part: Dataset) -> Iterator[dict[str, Any]]:
    for i in range(part.n_points):
        item = {} if part.ids is None else {"uid": part.ids[i]}
        yield item | ({} if part.texts is None else {"text": part.texts[i]})


def _label_items(dataset: Dataset) -> Iterator[dict[str, Any]]:
    ids, names, texts = dataset.label_ids, dataset.label_names, dataset.label_texts
    for j in range(dataset.n_labels):
        item = {} if ids is None else {"uid": ids[j]}
        if names is not None:
            item["title"] = names[j]
        elif ids is None:
            item["uid"] = str(j)  # a label needs a title or a uid
        text = None if texts is None else texts[j]
        yield item if text == item.get("title") else item | {"text": text}


# Sparse text --------------------------------------------------------------------------------------------------------


def _write_rows(stream: IO[bytes], X: csr_array | None, Y: csr_array | None) -> None:
    """Write a header, then rows of labels and pairs, or of pairs only, in batches."""
    from longtail.kernels.parse import format_rows

    assert X is not None
    counts = X.shape if Y is None else (*X.shape, Y.shape[1])
    stream.write(" ".join(map(str, counts)).encode() + b"\n")
    n, start = X.shape[0], 0
    while start < n:
        stop = int(np.searchsorted(X.indptr, X.indptr[start] + _PAIRS_PER_BATCH, side="right")) - 1
        stop = min(max(stop, start + 1), start + _PAIRS_PER_BATCH, n)
        ptr, index, data = _csr_slice(X, start, stop)
        if Y is None:
            label_ptr, labels = np.zeros(len(ptr), np.int64), np.empty(0, np.int32)
        else:
            label_ptr, labels, _ = _csr_slice(Y, start, stop)
        numbers = np.frombuffer(orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY), np.uint8)
        out = np.empty(len(numbers) + 12 * (len(index) + len(labels)) + 2 * len(ptr), np.uint8)
        size = format_rows(out, label_ptr, labels, ptr, index, numbers, Y is not None)
        stream.write(out[:size].data)
        start = stop


def _csr_slice(A: csr_array, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row starts, columns and values of the rows from start to stop, in the types that the kernel takes."""
    ptr = A.indptr[start : stop + 1].astype(np.int64)
    entries = slice(ptr[0], ptr[-1])
    return ptr - ptr[0], A.indices[entries].astype(np.int32, copy=False), A.data[entries].astype(np.float32, copy=False)
