"""`write`: a `Dataset` out, in the field's formats, all or nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import orjson

from longtail.data.files import COMPRESSED, plain_name, write_bytes, write_folder
from longtail.errors import DataError, SettingsError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from longtail.data.dataset import Dataset
    from longtail.data.text import TextVectorizer

FORMATS = ("sparse", "npz", "json")
_WRITTEN = re.compile(
    r"((train|test|lbl_X_Xf|filter_labels_train|filter_labels_test)\.txt|(trn|tst|lbl|trn_points|tst_points)\.json)(\.gz|\.xz|\.zst)?"
    r"|((trn|tst)_[XY]|lbl_Z|vectorizer)\.npz"
)
_PAIRS_AT_ONCE = 1 << 18


def write(
    dataset: Dataset,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    compression: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a dataset so that `read` gives the same one back, to the last bit of every value.

    ============  =====================================================================================================
    format        what is written
    ============  =====================================================================================================
    ``"sparse"``  the repository's text: ``train.txt``, ``test.txt``, ``lbl_X_Xf.txt``; or one file, X and Y alone, if
                  `path` ends in ``.txt``. Labels have no values there: graded relevance is refused
    ``"npz"``     ``trn_X.npz``, ``trn_Y.npz``, ``tst_…``, ``lbl_Z.npz``
    ``"json"``    the texts: ``trn.json``, ``tst.json``, ``lbl.json``; features are made again when it is read
    ============  =====================================================================================================

    Names of labels (``lbl.json``), identifiers and texts of points (``trn_points.json``), the vectoriser
    (``vectorizer.npz``) and pairs to ignore (``filter_labels_train.txt``) are written beside the matrices of a folder.
    A file or folder appears under its name only when it is whole.

    Parameters
    ----------
    dataset : Dataset
        What to write; checked first.
    path : path-like
        Folder to make; for ``"sparse"`` also a file.
    format : str, optional
        By default ``"sparse"`` for a ``.txt`` file, and for a folder ``"npz"``, or ``"json"`` if there are no features.
    compression : {"gz", "xz", "zst"}, optional
        Of the text files in a folder. A single file is compressed as its name ends.
    overwrite : bool
        Whether to replace an existing file, or an existing folder that holds a dataset and nothing else.

    Returns
    -------
    Path
        What was written.
    """
    path = Path(path)
    single = plain_name(path).endswith(".txt")
    if format is None:
        format = "sparse" if single else "npz" if dataset.X is not None else "json"
    if format not in FORMATS:
        raise SettingsError(f"format {format!r} cannot be written. Use one of {', '.join(FORMATS)}")
    if compression is not None and f".{compression}" not in COMPRESSED:
        raise SettingsError(f"compression {compression!r} is unknown. Use gz, xz or zst")
    if path.suffix in (".json", ".jsonl", ".npz") or (single and format != "sparse"):
        raise SettingsError(f"format {format!r} is a folder of files, and {path.name} is the name of a file")
    dataset.validate(require_labels=False)
    _check(dataset, format)
    if single:
        if compression is not None:
            raise SettingsError("compression is for folders. End the file's name in .gz, .xz or .zst")
        if path.exists() and not overwrite:
            raise DataError("the file exists", path=path, remedy="Choose another, or pass overwrite=True")
        if dataset.test is not None:
            remedy = "Give a folder, or write dataset.test to a file of its own"
            raise DataError("one file cannot hold a training part and a test part", path=path, remedy=remedy)
    try:
        if single:
            with write_bytes(path) as stream:
                _rows(stream, dataset.X, dataset.Y)
        else:
            with write_folder(path, _WRITTEN, overwrite) as folder:
                _folder(folder, dataset, format, "" if compression is None else f".{compression}")
    except OSError as error:
        what = f"cannot be written ({error.strerror or error})"
        raise DataError(what, path=path, remedy="Check the space left and the permissions") from error
    return path


def _check(dataset: Dataset, format: str) -> None:
    """Refuse what the format cannot hold, before anything is written."""
    for part, name in ((dataset, "the dataset"), (dataset.test, "the test part")):
        if part is None:
            continue
        if format == "json" and part.texts is None:
            raise DataError(f"{name} has no texts to write as JSON lines", remedy='Use format "sparse" or "npz"')
        if format != "json" and part.X is None:
            raise DataError(
                f"{name} has no features to write", remedy='Read it with a vectorizer, or use format "json"'
            )
        if format == "sparse" and part.Y.nnz and not (part.Y.data == 1).all():
            raise DataError(f"{name} has graded labels, which this format cannot hold", remedy='Use format "npz"')


def _folder(folder: Path, dataset: Dataset, format: str, ending: str) -> None:
    for part, short, long in ((dataset, "trn", "train"), (dataset.test, "tst", "test")):
        if part is None:
            continue
        if format == "sparse":
            with write_bytes(folder / f"{long}.txt{ending}") as stream:
                _rows(stream, part.X, part.Y)
        elif format == "npz":
            _npz(folder / f"{short}_X.npz", part.X)
            _npz(folder / f"{short}_Y.npz", part.Y)
        if format == "json":
            _lines(folder / f"{short}.json{ending}", _points(part))
        elif part.ids is not None or part.texts is not None:
            _lines(folder / f"{short}_points.json{ending}", _names(part))
        if part.ignore is not None:
            with write_bytes(folder / f"filter_labels_{long}.txt{ending}") as stream:
                stream.write(b"".join(b"%d %d\n" % (row, label) for row, label in part.ignore.tolist()))
    if format == "npz" and dataset.Z is not None:
        _npz(folder / "lbl_Z.npz", dataset.Z)
    elif format == "sparse" and dataset.Z is not None:
        with write_bytes(folder / f"lbl_X_Xf.txt{ending}") as stream:
            _rows(stream, dataset.Z, None)
    if format == "json" or dataset.label_ids is not None or dataset.label_names is not None:
        _lines(folder / f"lbl.json{ending}", _labels(dataset))
    if format != "json" and dataset.vectorizer is not None:
        _vectorizer(folder / "vectorizer.npz", dataset.vectorizer)


def _npz(path: Path, A: csr_array | None) -> None:
    assert A is not None
    from scipy.sparse import save_npz

    with write_bytes(path) as stream:
        save_npz(stream, A)  # numpy leaves a stream's name alone, so the file is called what we call it


def _vectorizer(path: Path, vectorizer: TextVectorizer) -> None:
    meta, arrays = vectorizer.to_arrays()
    with write_bytes(path) as stream:
        np.savez(stream, meta=np.frombuffer(orjson.dumps(meta), np.uint8), **arrays)  # type: ignore[arg-type]


# JSON lines ---------------------------------------------------------------------------------------------------------


def _lines(path: Path, items: Iterator[dict[str, Any]]) -> None:
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


def _names(part: Dataset) -> Iterator[dict[str, Any]]:
    for i in range(part.n_points):
        item = {} if part.ids is None else {"uid": part.ids[i]}
        yield item | ({} if part.texts is None else {"text": part.texts[i]})


def _labels(dataset: Dataset) -> Iterator[dict[str, Any]]:
    ids, names, texts = dataset.label_ids, dataset.label_names, dataset.label_texts
    for j in range(dataset.n_labels):
        item = {} if ids is None else {"uid": ids[j]}
        if names is not None:
            item["title"] = names[j]
        elif ids is None:
            item["uid"] = str(j)  # a label must be called something
        text = None if texts is None else texts[j]
        yield item if text == item.get("title") else item | {"text": text}


# Sparse text --------------------------------------------------------------------------------------------------------


def _rows(stream: IO[bytes], X: csr_array | None, Y: csr_array | None) -> None:
    """A header, then rows of labels and pairs, or of pairs alone, some thousands at a time."""
    from longtail.kernels.parse import format_rows

    assert X is not None
    counts = X.shape if Y is None else (*X.shape, Y.shape[1])
    stream.write(" ".join(map(str, counts)).encode() + b"\n")
    n, start = X.shape[0], 0
    while start < n:
        stop = int(np.searchsorted(X.indptr, X.indptr[start] + _PAIRS_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), start + _PAIRS_AT_ONCE, n)
        ptr, index, data = _some(X, start, stop)
        if Y is None:
            label_ptr, labels = np.zeros(len(ptr), np.int64), np.empty(0, np.int32)
        else:
            label_ptr, labels, _ = _some(Y, start, stop)
        numbers = np.frombuffer(orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY), np.uint8)
        out = np.empty(len(numbers) + 12 * (len(index) + len(labels)) + 2 * len(ptr), np.uint8)
        size = format_rows(out, label_ptr, labels, ptr, index, numbers, Y is not None)
        stream.write(out[:size].data)
        start = stop


def _some(A: csr_array, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, columns and values of some rows, in the types the kernel takes."""
    ptr = A.indptr[start : stop + 1].astype(np.int64)
    held = slice(ptr[0], ptr[-1])
    return ptr - ptr[0], A.indices[held].astype(np.int32, copy=False), A.data[held].astype(np.float32, copy=False)
