"""Operations on sparse matrices and on the arrays they are made of, shared by all rooms."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse._sparsetools import csr_has_canonical_format  # takes 0.2 µs; a new csr_array to check takes 18

Arrays = dict[str, np.ndarray]
Pair = tuple[csr_array, csr_array]  # points and their labels

LEAST_SCORE = np.float32(1e-30)
MOST_SCORE = np.float32(1 - 2**-23)
_PARTS = ("data", "indices", "indptr")


def unit_rows(X: csr_array) -> csr_array:
    """Scale rows to length 1. Empty rows stay empty. A matrix of unit rows is returned itself, not copied."""
    counts = np.diff(X.indptr)
    squares = np.add.reduceat(np.append(X.data * X.data, 0), X.indptr[:-1]) if X.nnz else np.ones(X.shape[0])
    lengths = np.sqrt(squares)
    lengths = np.where((counts > 0) & (lengths > 0), lengths, 1.0)
    if np.abs(lengths - 1).max(initial=0) < 1e-4:
        return X
    return csr_array((X.data / np.repeat(lengths, counts).astype(np.float32), X.indices, X.indptr), shape=X.shape)


def select_entries(X: csr_array, keep: np.ndarray) -> csr_array:
    """Keep the stored entries for which the mask `keep` is True. The shape and the order in rows do not change."""
    indptr = np.concatenate([[0], np.cumsum(keep)])[X.indptr].astype(X.indptr.dtype)
    return csr_array((X.data[keep], X.indices[keep], indptr), shape=X.shape)


def select_labels(Y: csr_array, mask: np.ndarray) -> csr_array:
    """Keep the entries of the columns for which `mask` is True. The shape does not change."""
    return Y if mask.all() else select_entries(Y, mask[Y.indices])


def take_labels(Y: csr_array, labels: np.ndarray) -> csr_array:
    """Return the columns `labels`, given in ascending order, as a matrix of their own."""
    if len(labels) == Y.shape[1]:
        return Y
    position = np.full(Y.shape[1], -1, np.int32)
    position[labels] = np.arange(len(labels))
    kept = select_entries(Y, position[Y.indices] >= 0)
    return csr_array((kept.data, position[kept.indices], kept.indptr), shape=(Y.shape[0], len(labels)))


def label_counts(Y: csr_array) -> np.ndarray:
    """Count the points per label."""
    return np.bincount(Y.indices, minlength=Y.shape[1])


def labelled_rows(Y: csr_array) -> np.ndarray:
    """Return the numbers of the rows that have at least one label."""
    return np.flatnonzero(np.diff(Y.indptr))


def entry_rows(X: csr_array) -> np.ndarray:
    """Return the row number of each stored entry."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def entry_keys(X: csr_array) -> np.ndarray:
    """Return one number per stored entry, row times width plus column: it sorts by row, then by column."""
    return entry_rows(X).astype(np.int64) * X.shape[1] + X.indices


def with_short_indices(X: csr_array) -> csr_array:
    """Return the same matrix with int32 indices and row starts if they fit.

    SciPy keeps int64 indices when it gets them, and kernels would be compiled for each combination of types.
    """
    if X.indices.dtype == X.indptr.dtype == np.int32 or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
    return csr_array((X.data, indices, indptr), shape=X.shape)


def short_starts(indptr: np.ndarray) -> np.ndarray:
    """Return row starts as int32 if they fit. Next to int64 row starts, SciPy would copy the indices to int64, too."""
    return indptr.astype(np.int32, copy=False) if indptr[-1] <= np.iinfo(np.int32).max else indptr


def ones_like(Y: csr_array) -> csr_array:
    """Return the same entries with the value 1."""
    return csr_array((np.ones(Y.nnz, np.float32), Y.indices, Y.indptr), shape=Y.shape)


def from_top_k(labels: np.ndarray, scores: np.ndarray, counts: np.ndarray | None, n_labels: int) -> csr_array:
    """Turn the k best labels per row into a CSR matrix of scores.

    Parameters
    ----------
    labels, scores : arrays, (N, k)
        The labels of each row, best first, and their scores.
    counts : array, (N,), optional
        Number of labels that each row really has; k by default.
    n_labels : int
        Number of columns of the result.
    """
    n, k = labels.shape
    kind = np.int32 if n * k < 2**31 else np.int64
    if counts is None:
        indptr = np.arange(0, n * k + 1, max(k, 1), dtype=kind) if k else np.zeros(n + 1, kind)
        return csr_array((scores.ravel(), labels.ravel().astype(np.int32, copy=False), indptr), shape=(n, n_labels))
    indptr = np.zeros(n + 1, kind)
    np.cumsum(counts, out=indptr[1:])
    filled = np.arange(k) < counts[:, None]
    return csr_array((scores[filled], labels[filled].astype(np.int32, copy=False), indptr), shape=(n, n_labels))


def resized(X: csr_array, n_rows: int | None = None, n_columns: int | None = None) -> csr_array:
    """Return the matrix with empty rows and columns added at the end."""
    rows = X.shape[0] if n_rows is None else n_rows
    indptr = np.append(X.indptr, np.full(rows - X.shape[0], X.indptr[-1], X.indptr.dtype))
    return csr_array((X.data, X.indices, indptr), shape=(rows, X.shape[1] if n_columns is None else n_columns))


def canonical(X: csr_array) -> csr_array:
    """Return the matrix with sorted rows and without duplicate entries: itself, if it is canonical already.

    SciPy caches on the matrix whether it is canonical, and a change of the indices leaves that flag wrong. This
    function therefore always looks at the indices.
    """
    if csr_has_canonical_format(X.shape[0], X.indptr, X.indices):
        return X
    X = csr_array((X.data, X.indices, X.indptr), shape=X.shape, copy=True)
    X.sum_duplicates()
    return X


def malformed_part(X: Any) -> str | None:
    """Return the name of the first array in a CSR, CSC or COO matrix that is not a plain vector, or None.

    Someone may have set it to a list, to an array with two dimensions, or to a masked array.
    """
    for name in {"csr": _PARTS, "csc": _PARTS, "coo": _PARTS[:1]}.get(X.format, ()):
        array = getattr(X, name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or hasattr(array, "mask"):
            return name
    return None


def with_usual_types(X: Any) -> Any:
    """Return a sparse matrix whose values and indices have types that SciPy computes with: itself, if they do."""
    if X.dtype == np.float16 or not X.dtype.isnative:
        X = X.astype(np.float32 if X.dtype == np.float16 else X.dtype.newbyteorder("="))
    if X.format in ("csr", "csc") and not X.indices.dtype == X.indptr.dtype in (np.int32, np.int64):
        X = type(X)((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    return X


def without_zeros(X: csr_array) -> csr_array:
    """Return the matrix without stored zeros, which would count as features of a point: itself, if it has none."""
    return X if np.count_nonzero(X.data) == X.nnz else select_entries(X, X.data != 0)


# Arrays that kernels take ----------------------------------------------------------------------------------------


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view. New arrays then have the same type for the compiler as arrays mapped from disk."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def frozen_csr(X: csr_array) -> csr_array:
    """Return the matrix with the types that kernels are compiled for.

    These are read-only float32 values, int32 indices and int64 row starts.
    """
    out = csr_array(X.shape, dtype=np.float32)
    out.data, out.indices = frozen(np.asarray(X.data, np.float32)), frozen(np.asarray(X.indices, np.int32))
    out.indptr = frozen(np.asarray(X.indptr, np.int64))  # the constructor would narrow the starts again
    return out


def bounded_scores(scores: np.ndarray) -> np.ndarray:
    """Return scores as float32 inside the open interval (0, 1)."""
    return np.clip(scores, LEAST_SCORE, MOST_SCORE, dtype=np.float32)


def logistic(log_odds: Any) -> Any:
    """Return the probabilities of log odds, which are limited to ±60 so that nothing overflows."""
    return 1 / (1 + np.exp(-np.clip(log_odds, -60, 60)))


# Arrays that model folders keep ----------------------------------------------------------------------------------


def csr_arrays(name: str, X: csr_array) -> Arrays:
    """Return the three arrays of a CSR matrix under ``name_data``, ``name_indices``, ``name_indptr``."""
    return {f"{name}_{part}": getattr(X, part) for part in _PARTS}


def csr_from_arrays(name: str, arrays: Arrays, shape: tuple[int, int]) -> csr_array | None:
    """Rebuild the matrix whose arrays :func:`csr_arrays` named, frozen. Return None if they are not there."""
    if f"{name}_data" not in arrays:
        return None
    parts: Any = tuple(arrays[f"{name}_{part}"] for part in _PARTS)
    return frozen_csr(csr_array(parts, shape=shape))


def with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays with `prefix` added to their names."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin with `prefix`, with the prefix removed."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
