"""Read matrices that were saved by `scipy.sparse.save_npz`."""

from __future__ import annotations

import io
import lzma
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, load_npz

from longtail.data.dataset import row_of_entry
from longtail.data.files import most_unpacked, open_bytes, plain_name, too_much_unpacked
from longtail.data.label_rows import canonical_labels
from longtail.errors import BROKEN_ARRAY, DataError


def _check_unpacked(stream: Any, path: Path) -> None:
    """Refuse an archive that would unpack to an enormous size, according to its own table of contents."""
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
    if sum(e.file_size for e in entries) > max(1 << 28, most_unpacked() * sum(e.compress_size for e in entries)):
        raise too_much_unpacked(path)
    stream.seek(0)


def read_npz(path: Path, *, labels: bool = False) -> csr_array:
    """Read a sparse matrix as a canonical float32 array.

    Duplicate entries of features are summed; of duplicate labels, the highest value is kept.
    """
    try:
        with open_bytes(path) as stream:
            whole = stream if plain_name(path) == path.name else io.BytesIO(stream.read())
            _check_unpacked(whole, path)
            stored = load_npz(whole)
    except DataError:
        raise
    except (*BROKEN_ARRAY, zipfile.BadZipFile, lzma.LZMAError) as error:
        remedy = "Write it with scipy.sparse.save_npz, or copy it again if it was cut off"
        raise DataError(f"this is not a sparse matrix in npz form ({error})", path=path, remedy=remedy) from None
    if len(stored.shape) != 2:
        raise DataError(f"the array has shape {stored.shape}, expected a matrix", path=path, remedy="Save a 2-D array")
    if stored.dtype.kind not in "buif":
        raise DataError(
            f"the values are of type {stored.dtype}, expected numbers", path=path, remedy="Save real numbers"
        )
    if stored.format not in ("csr", "csc", "coo"):
        remedy = "Save its tocsr()"
        raise DataError(f"the matrix is stored as {stored.format}, expected csr, csc or coo", path=path, remedy=remedy)
    if stored.format != "coo":
        _check_structure(stored, path)
    A = csr_array(stored)
    index = np.int32 if max(A.nnz, *A.shape) < 2**31 else np.int64
    with np.errstate(over="ignore"):
        values = A.data.astype(np.float32, copy=False)
    parts = (values[: A.nnz], A.indices[: A.nnz].astype(index, copy=False), A.indptr.astype(index, copy=False))
    A = csr_array(parts, shape=A.shape, copy=False)
    finite = np.isfinite(A.data)
    if not finite.all():
        row = row_of_entry(A, int(np.argmin(finite)))
        remedy = "Remove the value or scale the matrix"
        raise DataError("a value is NaN, infinite or too large for float32", path=path, row=row, remedy=remedy)
    if labels:
        return canonical_labels(A)
    A.sum_duplicates()
    A.eliminate_zeros()
    return A


def _check_structure(A: Any, path: Path) -> None:
    """Refuse inconsistent indices: kernels rely on them, and `load_npz` does not check them."""
    try:
        A.check_format(full_check=True)
    except ValueError as error:
        remedy = "Save it again from a matrix that passes check_format()"
        raise DataError(f"the matrix is broken ({error})", path=path, remedy=remedy) from None
