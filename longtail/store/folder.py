"""One model folder: ``model.json`` (kind, version, settings, a record of each array) and its arrays.

Folders nest: a wrapper keeps the model it wraps in a subfolder, so that every part can be read on its own.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from longtail._version import __version__
from longtail.errors import ModelError

FORMAT_VERSION = 2  # to be raised whenever arrays change their meaning
_CHECK_ALL_BELOW = 1 << 30  # bytes; larger folders are checked by size and shape only, so that they open at once
_BLOCK = 1 << 22


@dataclass
class Stored:
    """What one folder holds."""

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    folder: Path = Path()


def _checksum(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def write(folder: str | os.PathLike[str], kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write one model folder; `folder` must exist (see :func:`longtail.store.atomic_folder`).

    Parameters
    ----------
    folder : path-like
        An existing folder without a ``model.json``.
    kind : str
        What the folder holds, e.g. the registered name of a ranker.
    meta : dict
        Settings and small facts, JSON values only.
    arrays : dict of str to ndarray
        Name to array; the name becomes the file name.
    """
    folder = Path(folder)
    records = {}
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        np.save(path, np.ascontiguousarray(array), allow_pickle=False)
        records[name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "bytes": path.stat().st_size,
            "crc32": _checksum(path),
        }
    document = {
        "format": FORMAT_VERSION,
        "longtail": __version__,
        "kind": kind,
        "meta": meta,
        "arrays": records,
    }
    (folder / "model.json").write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")


def read(folder: str | os.PathLike[str], *, mmap: bool = True, verify: bool | None = None) -> Stored:
    """Read one model folder back.

    Parameters
    ----------
    folder : path-like
        A folder made by :func:`write`.
    mmap : bool
        Map the arrays instead of reading them: pages come in when touched and are shared between processes.
    verify : bool, optional
        Compare checksums. By default done for folders under 1 GiB; sizes and shapes are compared always.
    """
    folder = Path(folder)
    document = _read_document(folder)
    records: dict[str, Any] = document["arrays"]
    if verify is None:
        verify = sum(record["bytes"] for record in records.values()) < _CHECK_ALL_BELOW
    arrays = {name: _read_array(folder / f"{name}.npy", record, mmap, verify) for name, record in records.items()}
    return Stored(document["kind"], document["meta"], arrays, folder)


def _read_document(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    if not path.is_file():
        raise ModelError(
            f"{folder}: no model.json, so this is not a model folder. Give a folder made by save or train."
        )
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        version = document["format"]
        document["kind"], document["meta"], document["arrays"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: damaged ({error}). Train or copy the model again.") from error
    if version != FORMAT_VERSION:
        raise ModelError(
            f"{path}: written by longtail {document.get('longtail', '?')} in format {version}, and this is longtail "
            f"{__version__}, which reads format {FORMAT_VERSION}. "
            + ("Upgrade longtail." if version > FORMAT_VERSION else "Train the model again.")
        )
    return document


def _read_array(path: Path, record: dict[str, Any], mmap: bool, verify: bool) -> np.ndarray:
    remedy = "Train or copy the model again."
    if not path.is_file():
        raise ModelError(f"{path}: missing. {remedy}")
    if path.stat().st_size != record["bytes"]:
        raise ModelError(f"{path}: {path.stat().st_size} bytes, but model.json says {record['bytes']}. {remedy}")
    if verify and _checksum(path) != record["crc32"]:
        raise ModelError(f"{path}: its content has changed since the model was saved. {remedy}")
    try:
        array = np.load(path, mmap_mode="r" if mmap and np.prod(record["shape"]) else None, allow_pickle=False)
    except ValueError as error:
        raise ModelError(f"{path}: not a plain array ({error}). {remedy}") from error
    if array.dtype.str != record["dtype"] or list(array.shape) != record["shape"]:
        raise ModelError(f"{path}: {array.dtype.str}{list(array.shape)}, but model.json says otherwise. {remedy}")
    return array
