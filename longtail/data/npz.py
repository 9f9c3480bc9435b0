"""Matrices saved by `scipy.sparse.save_npz`."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, load_npz

from longtail.data.files import open_bytes, plain_name
from longtail.data.labels import canonical
from longtail.errors import DataError


def read_npz(path: Path, *, labels: bool = False) -> csr_array:
    """Read a sparse matrix as a canonical float32 array; of labels given twice the highest stays, others are summed."""
    try:
        with open_bytes(path) as stream:
            held = load_npz(stream if plain_name(path) == path.name else io.BytesIO(stream.read()))
    except DataError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        remedy = "Write it with scipy.sparse.save_npz, or copy it again if it was cut off"
        raise DataError(f"not a sparse matrix in npz form ({error})", path=path, remedy=remedy) from None
    if len(held.shape) != 2:
        raise DataError(f"the array has shape {held.shape}, expected a matrix", path=path, remedy="Save a 2-D array")
    if held.dtype.kind not in "buif":
        raise DataError(f"the values are of type {held.dtype}, expected numbers", path=path, remedy="Save real numbers")
    if held.format not in ("csr", "csc", "coo"):
        remedy = "Save its tocsr()"
        raise DataError(f"the matrix is stored as {held.format}, expected csr, csc or coo", path=path, remedy=remedy)
    if held.format != "coo":
        _check(held, path)
    A = csr_array(held)
    index = np.int32 if max(A.nnz, *A.shape) < 2**31 else np.int64
    with np.errstate(over="ignore"):
        values = A.data.astype(np.float32, copy=False)
    parts = (values[: A.nnz], A.indices[: A.nnz].astype(index, copy=False), A.indptr.astype(index, copy=False))
    A = csr_array(parts, shape=A.shape, copy=False)
    finite = np.isfinite(A.data)
    if not finite.all():
        row = int(np.searchsorted(A.indptr, np.argmin(finite), side="right")) - 1
        remedy = "Remove the value or scale the matrix"
        raise DataError("a value is NaN, infinite or too large for float32", path=path, row=row, remedy=remedy)
    if labels:
        return canonical(A)
    A.sum_duplicates()
    A.eliminate_zeros()
    return A


def _check(A: Any, path: Path) -> None:
    """Refuse broken structure before scipy's and our kernels, which trust it; `load_npz` looks at none of it."""
    try:
        A.check_format(full_check=True)
    except ValueError as error:
        remedy = "Save it again from a matrix that passes check_format()"
        raise DataError(f"the matrix is broken ({error})", path=path, remedy=remedy) from None
