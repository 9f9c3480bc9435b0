"""The same matrices for every system, made once.

``longtail.data.read`` makes them: TF-IDF of words for text, the given features otherwise, rows of length one in both.
Beside them lie the forms that some systems read: sparse text for omikuji, lines of words for fastText.
"""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import longtail.data
from longtail.data import Dataset, read, write


def prepare(source: Path, folder: Path) -> dict[str, Any]:
    """Make the folder of one data set, unless it is there; returns its facts."""
    stamp = folder / "prepared.json"
    origin = {"made by": _code(), "from": {path.name: path.stat().st_size for path in sorted(source.iterdir())}}
    if stamp.exists():
        known = json.loads(stamp.read_text())
        if known["origin"] == origin:
            return known["facts"]
        stamp.unlink()
    print(f"preparing {source.name} …", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    train = read(source)
    test = train.test
    if test is None:
        raise SystemExit(f"{source.name} has no test part")
    for part, short in ((train, "trn"), (test, "tst")):
        part.X = unit_rows(part.X)
        sp.save_npz(folder / f"X.{short}.npz", part.X, compressed=False)
        sp.save_npz(folder / f"Y.{short}.npz", part.Y, compressed=False)
        write_words(part, folder / f"words.{short}.txt", with_labels=part is train)
    empty = np.flatnonzero(np.diff(train.X.indptr) == 0)
    # omikuji refuses a file with a point that has no features; such points go, and the tables say how many.
    filled = train.subset(np.flatnonzero(np.diff(train.X.indptr)))
    write(Dataset(X=filled.X, Y=filled.Y), folder / "train.txt", overwrite=True)
    facts = {
        "n_train": train.n_points,
        "n_test": test.n_points,
        "n_features": train.n_features,
        "n_labels": train.n_labels,
        "n_nonzeros": int(train.X.nnz),
        "n_without_features": len(empty),
        "checksum": zlib.crc32(train.Y.indices, zlib.crc32(train.X.indices, zlib.crc32(train.X.data))),
    }
    stamp.write_text(json.dumps({"origin": origin, "facts": facts}))
    return facts


def _code() -> int:
    """A checksum of what makes the matrices, so that a change there makes them afresh."""
    files = [Path(__file__), *sorted(Path(longtail.data.__file__).parent.glob("*.py"))]
    return zlib.crc32(b"".join(path.read_bytes() for path in files))


def unit_rows(X: sp.csr_array) -> sp.csr_array:
    """Rows scaled to length one; empty rows stay empty."""
    length = np.sqrt(np.add.reduceat(np.append(X.data.astype(np.float64) ** 2, 0.0), X.indptr[:-1]))
    counts = np.diff(X.indptr)
    scale = np.where((counts > 0) & (length > 0), 1.0 / np.maximum(length, 1e-30), 1.0)
    return sp.csr_array((X.data * np.repeat(scale, counts).astype(np.float32), X.indices, X.indptr), shape=X.shape)


def write_words(part: Dataset, path: Path, *, with_labels: bool) -> None:
    """A line a point, its labels in front when they are to be learnt: what fastText reads."""
    with path.open("w", encoding="utf-8") as file:
        for row in range(part.n_points):
            words = []
            if with_labels:
                words += [f"__label__{label}" for label in part.Y.indices[part.Y.indptr[row] : part.Y.indptr[row + 1]]]
            if part.texts is not None:
                words += re.findall(r"\w\w+", part.texts[row].lower())
            else:
                words += [f"f{feature}" for feature in part.X.indices[part.X.indptr[row] : part.X.indptr[row + 1]]]
            file.write(" ".join(words) + "\n")
