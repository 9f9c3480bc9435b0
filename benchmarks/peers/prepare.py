"""The same matrices for every system, made once.

``longtail.data.read`` makes them: TF-IDF of words for text, the given features otherwise, rows of length one in both.
Beside them lie the forms that some systems read: sparse text for omikuji, lines of words for fastText.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import longtail.data
import longtail.kernels.synthetic
from longtail.data import Dataset, read, synthetic, write

LABEL_TEXT = "Z.npz"  # features of the labels' text, where labels have text


def prepare(source: Path, folder: Path) -> dict[str, Any]:
    """Make the folder of one data set, unless it is there; returns its facts."""
    files = {path.name: path.stat().st_size for path in sorted(source.iterdir())}
    return _prepare(source.name, files, lambda: read(source), folder)


def prepare_generated(name: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the folder of one generated data set, unless it is there; returns its facts."""
    return _prepare(name, settings, lambda: synthetic.make(**settings, label_text=False), folder)


def _prepare(name: str, inputs: dict[str, Any], load: Callable[[], Dataset], folder: Path) -> dict[str, Any]:
    """Make the folder of one data set, unless it was made of the same inputs by the same code; returns its facts."""
    stamp = folder / "prepared.json"
    origin = {"made by": _code(), "from": inputs}
    if stamp.exists():
        known = json.loads(stamp.read_text())
        if known["origin"] == origin:
            return known["facts"]
        stamp.unlink()
    print(f"preparing {name} …", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    train = load()
    test = train.test
    if test is None:
        raise SystemExit(f"{name} has no test part")
    if train.Z is not None:
        sp.save_npz(folder / LABEL_TEXT, train.Z, compressed=False)
    X = _save(train, folder, "trn")
    _save(test, folder, "tst")
    # omikuji refuses a file with a point that has no features; such points go, and the tables say how many.
    filled = np.flatnonzero(np.diff(X.indptr))
    write(Dataset(X=X[filled], Y=train.Y[filled]), folder / "train.txt", overwrite=True)
    facts = {
        "n_train": train.n_points,
        "n_test": test.n_points,
        "n_features": train.n_features,
        "n_labels": train.n_labels,
        "n_nonzeros": int(X.nnz),
        "n_without_features": train.n_points - len(filled),
        "checksum": zlib.crc32(train.Y.indices, zlib.crc32(X.indices, zlib.crc32(X.data))),
    }
    stamp.write_text(json.dumps({"origin": origin, "facts": facts}))
    return facts


def _save(part: Dataset, folder: Path, short: str) -> sp.csr_array:
    """Write the matrices and the words of one part; returns the features as written."""
    X = unit_rows(part.X)
    sp.save_npz(folder / f"X.{short}.npz", X, compressed=False)
    sp.save_npz(folder / f"Y.{short}.npz", part.Y, compressed=False)
    write_words(part.texts, X, part.Y if short == "trn" else None, folder / f"words.{short}.txt")
    return X


def _code() -> int:
    """Return a checksum of the code that makes the matrices, so that a change there makes them again."""
    files = [Path(__file__), Path(longtail.kernels.synthetic.__file__)]
    files += sorted(Path(longtail.data.__file__).parent.glob("*.py"))
    return zlib.crc32(b"".join(path.read_bytes() for path in files))


def unit_rows(X: sp.csr_array) -> sp.csr_array:
    """Rows scaled to length one; empty rows stay empty."""
    length = np.sqrt(np.add.reduceat(np.append(X.data.astype(np.float64) ** 2, 0.0), X.indptr[:-1]))
    counts = np.diff(X.indptr)
    scale = np.where((counts > 0) & (length > 0), 1.0 / np.maximum(length, 1e-30), 1.0)
    return sp.csr_array((X.data * np.repeat(scale, counts).astype(np.float32), X.indices, X.indptr), shape=X.shape)


def write_words(texts: list[str] | None, X: sp.csr_array, Y: sp.csr_array | None, path: Path) -> None:
    """Write one line per point, labels first where they are to be learnt: fastText's format."""
    with path.open("w", encoding="utf-8") as file:
        for row in range(X.shape[0]):
            words = [] if Y is None else [f"__label__{label}" for label in Y.indices[Y.indptr[row] : Y.indptr[row + 1]]]
            if texts is not None:
                words += re.findall(r"\w\w+", texts[row].lower())
            else:
                words += [f"f{feature}" for feature in X.indices[X.indptr[row] : X.indptr[row + 1]]]
            file.write(" ".join(words) + "\n")
