"""One model folder: ``model.json`` (kind, version, settings, a record of each array) and its arrays.

Folders nest: a wrapper keeps the model it wraps in a subfolder, so that every part can be read on its own.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from longtail._version import __version__
from longtail.errors import BROKEN_ARRAY, ModelError
from longtail.kernels import pool
from longtail.params import Integer, OneOf
from longtail.store.atomic import recovered
from longtail.store.facts import ListOf, Record
from longtail.store.invariants import CHANGED, REMEDY, Checksum

FORMAT_VERSION = 3  # to be raised whenever arrays change their meaning
_CHECK_ALL_BELOW = 1 << 30  # bytes; larger folders are checked by size and shape only, so that they open at once
_READ_BYTES = 1 << 22
_LONGEST_HEADER = 1 << 14  # bytes at the beginning of an array that tell its type and shape; usually 128
_ON_ONE_THREAD = 1 << 21  # bytes that are read before other threads have begun
_LONGEST_DOCUMENT = 1 << 28  # bytes of model.json, which may hold the names of a million features
_WIDEST_EMPTY = 1 << 24  # no file size speaks against the shape of an empty array, and work is in proportion to it
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")
_TYPES = frozenset({"|b1", "|i1", "|u1"} | {f"<{kind}{size}" for kind in "iuf" for size in (2, 4, 8)})
_RECORD = Record(
    {
        "dtype": OneOf(*sorted(_TYPES)),
        "shape": ListOf(Integer(0, 2**48), 0, 8),
        "bytes": Integer(0, 2**62),
        "crc32": Integer(0, 2**32 - 1),
    }
)


@dataclass
class Stored:
    """The content of one model folder."""

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    folder: Path = Path()
    checksums: dict[str, Checksum] = field(default_factory=dict)  # that are still to be compared
    thorough: bool = False  # whether all was to be verified: then also what is checked again where it is used


def _checksum(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            crc = zlib.crc32(block, crc)
    return crc


def write(folder: str | os.PathLike[str], kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write one model folder; `folder` must exist (see :func:`longtail.store.atomic_folder`).

    Parameters
    ----------
    folder : path-like
        An existing folder without a ``model.json``.
    kind : str
        Kind of model, such as the registered name of a ranker.
    meta : dict
        Settings and other small values, as JSON.
    arrays : dict of str to ndarray
        Name to array; the name becomes the file name.
    """
    folder = Path(folder)
    records = {}
    for name, array in arrays.items():
        assert is_plain_name(name), name
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


def read(
    folder: str | os.PathLike[str], *, mmap: bool = True, verify: bool | None = None, defer: bool = False
) -> Stored:
    """Read one model folder back.

    Parameters
    ----------
    folder : path-like
        A folder made by :func:`write`.
    mmap : bool
        Memory-map the arrays instead of reading them: pages are loaded on first use and shared between processes.
    verify : bool, optional
        Compare checksums. By default this is done for folders below 1 GiB; sizes and shapes are always compared.
    defer : bool
        Leave checksums to :func:`longtail.store.invariants.check_arrays`, which looks at all values anyway.
    """
    folder = recovered(folder)
    document = read_document(folder)
    records, thorough = document["arrays"], bool(verify)
    n_bytes = sum(record["bytes"] for record in records.values())
    if verify is None:
        verify = n_bytes < _CHECK_ALL_BELOW

    def work(name: str) -> tuple[np.ndarray, Checksum]:
        path = folder / f"{name}.npy"
        array, checksum = _read_array(path, records[name], mmap)
        if verify and not defer and not checksum.matches(array):
            raise ModelError(f"{path} {CHANGED}. {REMEDY}")
        return array, checksum

    threads = None if n_bytes > _ON_ONE_THREAD and not (mmap and defer) else 1
    found = dict(zip(records, pool.run(work, records, threads), strict=True))
    arrays = {name: array for name, (array, _) in found.items()}
    checksums = {name: checksum for name, (_, checksum) in found.items()} if verify and defer else {}
    return Stored(document["kind"], document["meta"], arrays, folder, checksums, thorough)


def stamp(folder: Path) -> tuple[int, int, int] | None:
    """Return what changes whenever a model folder is replaced; None while there is no model."""
    try:
        found = (folder / "model.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_document(folder: Path) -> dict[str, Any]:
    """Read ``model.json`` and check its form: the kind, the meta data, and a record for each array."""
    path = folder / "model.json"
    if not path.is_file() or path.is_symlink():
        what = "no model.json, so this is not a model folder" if folder.exists() else "there is no such folder"
        raise ModelError(f"{folder}: {what}. Give a folder made by save or train.")
    if path.stat().st_size > _LONGEST_DOCUMENT:
        raise ModelError(f"{path}: {path.stat().st_size} bytes, more than any model has. {REMEDY}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        version = document["format"]
        document["kind"], document["meta"], document["arrays"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # the last: nested thousands deep
        raise ModelError(f"{path}: damaged ({type(error).__name__}: {str(error)[:200]}). {REMEDY}") from error
    if version != FORMAT_VERSION:
        newer = isinstance(version, int | float) and version > FORMAT_VERSION
        raise ModelError(
            f"{path}: written by longtail {document.get('longtail', '?')} in format {version!r:.20}, and this is "
            f"longtail {__version__}, which reads format {FORMAT_VERSION}. "
            + ("Upgrade longtail." if newer else "Train the model again.")
        )
    if not isinstance(document["kind"], str) or not isinstance(document["meta"], dict):
        raise ModelError(f"{path}: damaged (kind and meta are not text and a record). {REMEDY}")
    if not isinstance(document["arrays"], dict):
        raise ModelError(f"{path}: damaged (arrays is not a record). {REMEDY}")
    for name, record in document["arrays"].items():
        if not is_plain_name(name):
            raise ModelError(f"{path}: {name[:80]!r} cannot be the name of an array. {REMEDY}")
        if not _RECORD.allows(record):
            raise ModelError(f"{path}: damaged (the record of the array {name}). {REMEDY}")
    return document


def is_plain_name(name: Any) -> bool:
    """Return whether a name of an array or part is letters, digits and dots: nothing that leads out of the folder."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and ".." not in name


def _read_array(path: Path, record: dict[str, Any], mmap: bool) -> tuple[np.ndarray, Checksum]:
    if path.is_symlink():
        raise ModelError(f"{path}: a link. A model folder holds its arrays itself. {REMEDY}")
    if not path.is_file():
        raise ModelError(f"{path}: missing. {REMEDY}")
    size = path.stat().st_size
    if size != record["bytes"]:
        raise ModelError(f"{path}: {size} bytes, but model.json says {record['bytes']}. {REMEDY}")
    content = _content(path, size, mmap)
    shape, dtype, start = _read_header(path, record, content[:_LONGEST_HEADER].tobytes())
    n = math.prod(shape)
    if start % np.lib.format.ARRAY_ALIGN:  # kernels are compiled for values that lie on whole numbers of their size
        raise ModelError(f"{path}: its values begin at byte {start}, as those of no saved array do. {REMEDY}")
    if start + n * dtype.itemsize != size or (n == 0 and max(shape) > _WIDEST_EMPTY):
        raise ModelError(f"{path}: {size} bytes, which is not the size of {dtype.str}{list(shape)}. {REMEDY}")
    checksum = Checksum(content[:start], record["crc32"])
    return (content[start:].view(dtype).reshape(shape) if n else np.empty(shape, dtype)), checksum


def _read_header(path: Path, record: dict[str, Any], begin: bytes) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return shape and type of an array, as its record and the beginning of its file say, and where its values begin.

    NumPy parses a header as Python source, which takes longer than all else for a small array. So the header that a
    saved array has by its record is made and compared; only one that differs is parsed, to say what is wrong.
    """
    shape, kind = tuple(record["shape"]), record["dtype"]
    with io.BytesIO() as file:
        np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
        if begin.startswith(file.getvalue()):
            return shape, np.dtype(kind), file.tell()
    try:
        with io.BytesIO(begin) as file:
            major = np.lib.format.read_magic(file)[0]
            header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = header(file)
            start = file.tell()
    except BROKEN_ARRAY as error:
        raise ModelError(f"{path}: not a plain array ({str(error)[:200]}). {REMEDY}") from error
    if dtype.hasobject or dtype.str not in _TYPES or fortran:
        raise ModelError(f"{path}: not a plain array of numbers (it holds {dtype}). {REMEDY}")
    if dtype.str != kind or list(shape) != record["shape"]:
        raise ModelError(f"{path}: {dtype.str}{list(shape)}, but model.json says otherwise. {REMEDY}")
    return shape, dtype, start


def _content(path: Path, size: int, mmap: bool) -> np.ndarray:
    """Return the bytes of a file, mapped or read.

    Checksum and values are compared on the mapped pages that the model uses afterwards: reading the file once more for
    its checksum took as long as the checksum itself.
    """
    return np.memmap(path, np.uint8, "r") if mmap and size else np.fromfile(path, np.uint8)
