"""Which of the field's layouts a folder or file has, told by names first and by first lines where names do not tell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from longtail.data.files import find, open_bytes, plain_name
from longtail.errors import DataError

FORMATS = ("lf", "npz", "sparse", "svmlight", "json", "table")
TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
_TRAIN, _TEST = ("trn", "train"), ("tst", "test")

# Names of a pair of matrices; {} is the part.
_PAIRS = (("{}_X_Xf", "{}_X_Y"), ("{}_X", "{}_Y"), ("X.{}", "Y.{}"), ("X_{}", "Y_{}"))

_LOOKED_FOR = """\
  repository     train.txt, test.txt (or <name>_train.txt, <name>_test.txt)
  label features trn_X_Xf.txt, trn_X_Y.txt, lbl_X_Xf.txt, tst_X_Xf.txt, tst_X_Y.txt
  npz pairs      X.npz + Y.npz, trn_X.npz + trn_Y.npz, X.trn.npz + Y.trn.npz, trn_X_Xf.npz + trn_X_Y.npz
  raw text       trn.json, tst.json, lbl.json
  tables         train.csv, train.tsv, train.parquet, train.jsonl (test.… for the test part)
  each plain or with .gz, .xz, .zst"""


@dataclass(frozen=True)
class Files:
    """The files of a dataset: one for each part, or a features file and a labels file."""

    format: str
    folder: Path
    train: tuple[Path, ...]
    test: tuple[Path, ...] = ()
    alone: bool = False  # a single file was asked for, so what lies beside it is no part of it


def recognise(path: Path, format: str | None = None) -> Files:
    """Tell the layout of a folder or file, or say what was looked for."""
    found = _folder(path, format) if path.is_dir() else _file(path, format)
    if found is not None:
        return found
    wanted = "dataset that is recognised" if format is None else f"dataset of format {format!r}"
    held = "nothing"
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir())
        held = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"
    raise DataError(
        f"no {wanted}" + (f": the folder holds {held}" if path.is_dir() else ""),
        path=path,
        remedy=f"Looked for:\n{_LOOKED_FOR}",
    )


def _folder(folder: Path, format: str | None) -> Files | None:
    for known in (format,) if format else FORMATS:
        train, test = _parts(folder, known)
        if train:
            if known in ("sparse", "svmlight") and format is None:
                known = _sparse_kind(train[0])
            elif known == "json" and format is None and not _is_raw(train[0]):
                known = "table"
            return Files(known, folder, train, test)
    return None


def _parts(folder: Path, format: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    if format in ("lf", "npz"):
        ending = ".txt" if format == "lf" else ".npz"
        patterns = _PAIRS[:1] if format == "lf" else _PAIRS
        train = _pair(folder, _TRAIN, patterns, ending)
        if not train and format == "npz":
            train = _pair(folder, ("",), (("X", "Y"),), ending)
        return train, _pair(folder, _TEST, patterns, ending)
    if format in ("sparse", "svmlight"):
        endings: tuple[str, ...] = (".txt", ".svm", ".libsvm", ".svmlight", ".dat")
    else:
        endings = JSON_ENDINGS if format == "json" else TABLE_ENDINGS + JSON_ENDINGS
    return tuple(_single(folder, part, endings) for part in (_TRAIN, _TEST))  # type: ignore[return-value]


def _single(folder: Path, names: tuple[str, ...], endings: tuple[str, ...]) -> tuple[Path, ...]:
    """The file called train.txt, or the only one called <name>_train.txt."""
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
        remedy = "Name the one to read, or keep one dataset in a folder"
        raise DataError(f"the folder holds several: {', '.join(p.name for p in loose)}", path=folder, remedy=remedy)
    return tuple(loose)


def _pair(folder: Path, parts: tuple[str, ...], patterns: tuple[tuple[str, str], ...], ending: str) -> tuple[Path, ...]:
    """Features and labels of one part. One without the other is an error: half of a dataset is missing."""
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


def _file(path: Path, format: str | None) -> Files | None:
    name, folder = plain_name(path), path.parent
    if format in ("sparse", "svmlight", "json", "table"):
        return Files(format, folder, (path,), alone=True)
    if format is None and name.endswith(TABLE_ENDINGS):
        return Files("table", folder, (path,), alone=True)
    if format is None and name.endswith(JSON_ENDINGS):
        return Files("json" if _is_raw(path) else "table", folder, (path,), alone=True)
    if name.endswith(".npz") and format in (None, "npz"):
        for part in (*_TRAIN, *_TEST):
            for pattern in _PAIRS:
                if name in [half.format(part) + ".npz" for half in pattern]:
                    return Files("npz", folder, _pair(folder, (part,), (pattern,), ".npz"), alone=True)
        if name in ("X.npz", "Y.npz"):
            return Files("npz", folder, _pair(folder, ("",), (("X", "Y"),), ".npz"), alone=True)
        return None
    if format is None:
        return Files(_sparse_kind(path), folder, (path,), alone=True)
    return None


def _is_raw(path: Path) -> bool:
    """Whether JSON lines name labels by index, as the raw text layout does."""
    from longtail.data.json_lines import first_object

    return "target_ind" in first_object(path)


def _sparse_kind(path: Path) -> str:
    """The repository's text begins with a line of counts, svmlight with a row or a comment."""
    with open_bytes(path) as stream:
        head = stream.read(1 << 16)
    if not head:
        raise DataError("the file is empty", path=path, remedy="Check that it was written completely")
    if b"\0" in head:
        remedy = f"Looked for:\n{_LOOKED_FOR}"
        raise DataError("the file is not text and its name tells no format", path=path, remedy=remedy)
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    return "svmlight" if b":" in first or b"," in first or first.startswith(b"#") else "sparse"
