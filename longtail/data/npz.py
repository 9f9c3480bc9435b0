"""Matrices saved by `scipy.sparse.save_npz`."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, load_npz

from longtail.data.labels import canonical
from longtail.errors import DataError


def read_npz(path: Path, *, labels: bool = False) -> csr_array:
    """Read a sparse matrix as a canonical float32 array; of labels given twice the highest stays, others are summed."""
    try:
        held = load_npz(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        remedy = "Write it with scipy.sparse.save_npz, or copy it again if it was cut off"
        raise DataError(f"not a sparse matrix in npz form ({error})", path=path, remedy=remedy) from None
    if len(held.shape) != 2:
        raise DataError(f"the array has shape {held.shape}, expected a matrix", path=path, remedy="Save a 2-D array")
    if held.dtype.kind not in "buif":
        raise DataError(f"the values are of type {held.dtype}, expected numbers", path=path, remedy="Save real numbers")
    A = csr_array(held)
    _check(A, path)
    if A.dtype != np.float32:
        with np.errstate(over="ignore"):
            A = A.astype(np.float32)
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


def _check(A: csr_array, path: Path) -> None:
    """Refuse broken structure: kernels trust indices, and `load_npz` checks none of them."""
    n, m = A.shape
    wrong = (
        len(A.indptr) != n + 1
        or A.indptr[0] != 0
        or A.indptr[-1] > len(A.indices)
        or len(A.indices) != len(A.data)
        or bool((np.diff(A.indptr) < 0).any())
    )
    if wrong or (A.nnz and (A.indices.min() < 0 or A.indices.max() >= m)):
        what = f"the matrix of shape {n} × {m} holds rows or columns out of range"
        raise DataError(what, path=path, remedy="Save it again from a matrix that passes check_format()")
