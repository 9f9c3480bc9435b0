"""Write and read one model folder: ``model.json`` (kind, version, settings, a record per array) and its arrays.

Folders are nested: a wrapper stores the model that it wraps in a subfolder, so that every part can be read alone.
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

FORMAT_VERSION = 3  # increase it whenever the meaning of stored arrays changes
_VERIFY_BELOW = 1 << 30  # bytes; of larger folders only sizes and shapes are checked, so that they open at once
_READ_BYTES = 1 << 22
_MAX_HEADER_BYTES = 1 << 14  # the header of a file gives type and shape of its array; usually 128 bytes
_ONE_THREAD_BYTES = 1 << 21  # one thread reads so much before other threads have even started
_MAX_DOCUMENT_BYTES = 1 << 28  # model.json may hold the names of a million features
_MAX_EMPTY_WIDTH = 1 << 24  # the size of a file cannot refute the shape of an empty array, and work grows with it
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
    checksums: dict[str, Checksum] = field(default_factory=dict)  # checksums that are still to be compared
    thorough: bool = False  # with verify=True: check also those values that are checked again when they are used


def _checksum(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            crc = zlib.crc32(block, crc)
    return crc


def write(folder: str | os.PathLike[str], kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write one model folder. `folder` must exist (see :func:`longtail.store.atomic_folder`).

    Parameters
    ----------
    folder : path-like
        An existing folder without a ``model.json``.
    kind : str
        Kind of model, such as the registered name of a ranker.
    meta : dict
        Settings and other small values, as JSON.
    arrays : dict of str to ndarray
        Arrays by name. The names become file names.
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
        Compare checksums. By default this is done for folders below 1 GiB. Sizes and shapes are always compared.
    defer : bool
        Leave the checksums to :func:`longtail.store.invariants.check_arrays`, which reads all values anyway.
    """
    folder = recovered(folder)
    document = read_document(folder)
    records, thorough = document["arrays"], bool(verify)
    n_bytes = sum(record["bytes"] for record in records.values())
    if verify is None:
        verify = n_bytes < _VERIFY_BELOW

    def read_array(name: str) -> tuple[np.ndarray, Checksum]:
        path = folder / f"{name}.npy"
        array, checksum = _read_array(path, records[name], mmap)
        if verify and not defer and not checksum.matches(array):
            raise ModelError(f"{path} {CHANGED}. {REMEDY}")
        return array, checksum

    threads = None if n_bytes > _ONE_THREAD_BYTES and not (mmap and defer) else 1
    loaded = dict(zip(records, pool.run(read_array, records, threads), strict=True))
    arrays = {name: array for name, (array, _) in loaded.items()}
    checksums = {name: checksum for name, (_, checksum) in loaded.items()} if verify and defer else {}
    return Stored(document["kind"], document["meta"], arrays, folder, checksums, thorough)


def stamp(folder: Path) -> tuple[int, int, int] | None:
    """Return values that change whenever a model folder is replaced, or None while there is no model."""
    try:
        status = (folder / "model.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def read_document(folder: Path) -> dict[str, Any]:
    """Read ``model.json`` and check its form: kind, meta data, and one record per array."""
    path = folder / "model.json"
    if not path.is_file() or path.is_symlink():
        what = "no model.json, so this is not a model folder" if folder.exists() else "there is no such folder"
        raise ModelError(f"{folder}: {what}. Give a folder made by save or train.")
    if path.stat().st_size > _MAX_DOCUMENT_BYTES:
        raise ModelError(f"{path}: {path.stat().st_size} bytes, more than any model has. {REMEDY}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        version = document["format"]
        document["kind"], document["meta"], document["arrays"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # RecursionError: nested thousands deep
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
    """Return whether the name of an array or part has only letters, digits, "_", "-" and ".": no path out of it."""
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
    shape, dtype, start = _read_header(path, record, content[:_MAX_HEADER_BYTES].tobytes())
    n = math.prod(shape)
    if start % np.lib.format.ARRAY_ALIGN:  # kernels are compiled for aligned values
        raise ModelError(f"{path}: its values begin at byte {start}, which no saved array has. {REMEDY}")
    if start + n * dtype.itemsize != size or (n == 0 and max(shape) > _MAX_EMPTY_WIDTH):
        raise ModelError(f"{path}: {size} bytes, which is not the size of {dtype.str}{list(shape)}. {REMEDY}")
    checksum = Checksum(content[:start], record["crc32"])
    return (content[start:].view(dtype).reshape(shape) if n else np.empty(shape, dtype)), checksum


def _read_header(path: Path, record: dict[str, Any], begin: bytes) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return the shape and type of an array, and the byte at which its values begin, after checking its header.

    NumPy parses a header as Python source, which for a small array takes longer than everything else. So we build the
    header that the record in model.json implies and compare bytes. Only a header that differs is parsed, to find out
    what is wrong.
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

    Checksums and values are checked on the mapped pages that the model uses afterwards. Reading the file a second time
    for its checksum took as long as computing the checksum.
    """
    return np.memmap(path, np.uint8, "r") if mmap and size else np.fromfile(path, np.uint8)
