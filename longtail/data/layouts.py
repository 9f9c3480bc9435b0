"""Recognise the layout of a folder or file by names, and by first lines if names are not enough."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from longtail.data.files import find, open_bytes, plain_name
from longtail.errors import DataError

READ_FORMATS = ("lf", "npz", "sparse", "svmlight", "json", "table", "documents")
TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
_TRAIN, _TEST = ("trn", "train"), ("tst", "test")

# Names of the features and the labels of one part; {} is the name of the part.
_PAIRS = (("{}_X_Xf", "{}_X_Y"), ("{}_X", "{}_Y"), ("X.{}", "Y.{}"), ("X_{}", "Y_{}"))

_LOOKED_FOR = """\
  repository     train.txt, test.txt (or <name>_train.txt, <name>_test.txt)
  label features trn_X_Xf.txt, trn_X_Y.txt, lbl_X_Xf.txt, tst_X_Xf.txt, tst_X_Y.txt
  npz pairs      X.npz + Y.npz, trn_X.npz + trn_Y.npz, X.trn.npz + Y.trn.npz, trn_X_Xf.npz + trn_X_Y.npz
  raw text       trn.json, tst.json, lbl.json
  tables         train.csv, train.tsv, train.parquet, train.jsonl (test.… for the test part)
  documents      NAME.txt with NAME.tsv or NAME.key each, in the folder or in train and test
  each plain or with .gz, .xz, .zst"""


@dataclass(frozen=True)
class Files:
    """The files of a dataset: one per part, or a features file and a labels file per part."""

    format: str
    folder: Path
    train: tuple[Path, ...]
    test: tuple[Path, ...] = ()
    single_file: bool = False  # the user named one file: others in its folder do not belong to the dataset


def recognise(path: Path, format: str | None = None) -> Files:
    """Recognise the layout of a folder or file. If there is none, the error lists the names that were looked for."""
    files = _files_in(path, format) if path.is_dir() else _files_of(path, format)
    if files is not None:
        return files
    wanted = "dataset that is recognised" if format is None else f"dataset of format {format!r}"
    content, hint = "", ""
    if path.is_dir():
        tables = [entry for entry in path.iterdir() if plain_name(entry).endswith(TABLE_ENDINGS)]
        hint = f"Give the file itself, {min(tables)}, or name it as below. " if format is None and tables else ""
        names = sorted(entry.name for entry in path.iterdir())
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        content = f": the folder holds {', '.join(names[:8]) or 'nothing'}{more}"
    raise DataError(
        f"no {wanted}{content}",
        path=path,
        remedy=f"{hint}Looked for:\n{_LOOKED_FOR}",
    )


def _files_in(folder: Path, format: str | None) -> Files | None:
    for known in (format,) if format else READ_FORMATS:
        train, test = _part_files(folder, known)
        if train:
            if known in ("sparse", "svmlight") and format is None:
                known = _sparse_kind(train[0])
            elif known == "json" and format is None and not _is_raw(train[0]):
                known = "table"
            return Files(known, folder, train, test)
    return None


def _part_files(folder: Path, format: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    if format == "documents":
        return _document_folders(folder)
    if format in ("lf", "npz"):
        ending = ".txt" if format == "lf" else ".npz"
        patterns = _PAIRS[:1] if format == "lf" else _PAIRS
        train = _matrix_files(folder, _TRAIN, patterns, ending)
        if not train and format == "npz":
            train = _matrix_files(folder, ("",), (("X", "Y"),), ending)
        return train, _matrix_files(folder, _TEST, patterns, ending)
    if format in ("sparse", "svmlight"):
        endings: tuple[str, ...] = (".txt", ".svm", ".libsvm", ".svmlight", ".dat")
    else:
        endings = JSON_ENDINGS if format == "json" else TABLE_ENDINGS + JSON_ENDINGS
    return tuple(_single(folder, part, endings) for part in (_TRAIN, _TEST))  # type: ignore[return-value]


def _document_folders(folder: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Find folders of documents with labels: the folder itself, or its subfolders for training and test."""
    from longtail.data.documents import has_documents

    if has_documents(folder):
        return (folder,), ()
    train, test = (
        tuple(part for name in names if (part := folder / name).is_dir() and has_documents(part))[:1]
        for names in (_TRAIN, _TEST)
    )
    return train, test


def _single(folder: Path, names: tuple[str, ...], endings: tuple[str, ...]) -> tuple[Path, ...]:
    """Find a file called train.txt, or else the only one called <name>_train.txt."""
    exact = find(folder, *(name + ending for ending in endings for name in names))
    if exact is not None:
        return (exact,)
    kinds = "|".join(re.escape(ending) for ending in endings)
    pattern = re.compile(rf".*[_.-]({'|'.join(names)})({kinds})(\.gz|\.xz|\.zst)?", re.IGNORECASE)
    loose = sorted(
        entry
        for entry in folder.iterdir()
        if pattern.fullmatch(entry.name) and not entry.name.startswith("filter_labels_") and entry.is_file()
    )
    if len(loose) > 1:
        remedy = "Give the path of the file to read, or keep one dataset per folder"
        raise DataError(f"the folder holds several: {', '.join(p.name for p in loose)}", path=folder, remedy=remedy)
    return tuple(loose)


def _matrix_files(
    folder: Path, parts: tuple[str, ...], patterns: tuple[tuple[str, str], ...], ending: str
) -> tuple[Path, ...]:
    """Find the features and the labels of one part. It is an error if only one of the two files is there."""
    for features_name, labels_name in patterns:
        for part in parts:
            features = find(folder, features_name.format(part) + ending)
            labels = find(folder, labels_name.format(part) + ending)
            if features and labels:
                return features, labels
            if features or labels:
                missing = (labels_name if features else features_name).format(part) + ending
                there = (features or labels).name  # type: ignore[union-attr]
                raise DataError(f"{there} is there but {missing} is not", path=folder, remedy=f"Add {missing}")
    return ()


def _files_of(path: Path, format: str | None) -> Files | None:
    name, folder = plain_name(path), path.parent
    if format in ("sparse", "svmlight", "json", "table"):
        return Files(format, folder, (path,), single_file=True)
    if format is None and name.endswith(TABLE_ENDINGS):
        return Files("table", folder, (path,), single_file=True)
    if format is None and name.endswith(JSON_ENDINGS):
        return Files("json" if _is_raw(path) else "table", folder, (path,), single_file=True)
    if name.endswith(".npz") and format in (None, "npz"):
        for part in (*_TRAIN, *_TEST):
            for pattern in _PAIRS:
                if name in [half.format(part) + ".npz" for half in pattern]:
                    return Files("npz", folder, _matrix_files(folder, (part,), (pattern,), ".npz"), single_file=True)
        if name in ("X.npz", "Y.npz"):
            return Files("npz", folder, _matrix_files(folder, ("",), (("X", "Y"),), ".npz"), single_file=True)
        return None
    if format is None and name.lower().endswith(_SPREADSHEETS):
        remedy = "Save it as CSV in UTF-8; or read it with pandas and give longtail.read the DataFrame"
        raise DataError("spreadsheets are not read", path=path, remedy=remedy)
    if format is None:
        return Files(_sparse_kind(path), folder, (path,), single_file=True)
    return None


def _is_raw(path: Path) -> bool:
    """Return whether JSON lines give labels by index, as in the layout for raw text."""
    from longtail.data.json_lines import first_object

    return "target_ind" in first_object(path)


def _sparse_kind(path: Path) -> str:
    """Return "sparse" if a file begins with a line of counts, "svmlight" if it begins with a row or a comment."""
    with open_bytes(path) as stream:
        head = stream.read(1 << 16)
    if not head:
        raise DataError("the file is empty", path=path, remedy="Check that it was written completely")
    if b"\0" in head:
        remedy = f"Looked for:\n{_LOOKED_FOR}"
        raise DataError("the file is not text, and no format has such a name", path=path, remedy=remedy)
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    return "svmlight" if b":" in first or b"," in first or first.startswith(b"#") else "sparse"
