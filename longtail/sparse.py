"""Sparse matrices and the arrays they are made of: what every room would otherwise write for itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse._sparsetools import csr_has_canonical_format  # 0.2 µs; by way of a fresh csr_array, 18

Arrays = dict[str, np.ndarray]
Pair = tuple[csr_array, csr_array]  # points and their labels

LEAST_SCORE = np.float32(1e-30)
MOST_SCORE = np.float32(1 - 2**-23)
_PARTS = ("data", "indices", "indptr")


def unit_rows(X: csr_array) -> csr_array:
    """Scale rows to length 1; empty rows stay empty, and a matrix that is so already is returned as it is."""
    counts = np.diff(X.indptr)
    squares = np.add.reduceat(np.append(X.data * X.data, 0), X.indptr[:-1]) if X.nnz else np.ones(X.shape[0])
    lengths = np.sqrt(squares)
    lengths = np.where((counts > 0) & (lengths > 0), lengths, 1.0)
    if np.abs(lengths - 1).max(initial=0) < 1e-4:
        return X
    return csr_array((X.data / np.repeat(lengths, counts).astype(np.float32), X.indices, X.indptr), shape=X.shape)


def select_entries(X: csr_array, keep: np.ndarray) -> csr_array:
    """Keep the stored entries where the mask `keep` is set; the shape and the order in rows stay."""
    indptr = np.concatenate([[0], np.cumsum(keep)])[X.indptr].astype(X.indptr.dtype)
    return csr_array((X.data[keep], X.indices[keep], indptr), shape=X.shape)


def select_labels(Y: csr_array, mask: np.ndarray) -> csr_array:
    """Keep the entries of the labels (columns) that the mask names; the shape stays."""
    return Y if mask.all() else select_entries(Y, mask[Y.indices])


def take_labels(Y: csr_array, labels: np.ndarray) -> csr_array:
    """Take some columns, renumbered as `labels` lists them."""
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
    """Return each stored entry as one number that orders by row, then column."""
    return entry_rows(X).astype(np.int64) * X.shape[1] + X.indices


def with_short_indices(X: csr_array) -> csr_array:
    """Return the same matrix with int32 indices and row starts where they fit.

    SciPy keeps int64 where it is given. Kernels would be compiled for each combination.
    """
    if X.indices.dtype == X.indptr.dtype == np.int32 or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
    return csr_array((X.data, indices, indptr), shape=X.shape)


def short_starts(indptr: np.ndarray) -> np.ndarray:
    """Return row starts as int32 where they fit: beside int64 ones SciPy copies the indices to int64, too."""
    return indptr.astype(np.int32, copy=False) if indptr[-1] <= np.iinfo(np.int32).max else indptr


def ones_like(Y: csr_array) -> csr_array:
    """Return the same entries with the value 1."""
    return csr_array((np.ones(Y.nnz, np.float32), Y.indices, Y.indptr), shape=Y.shape)


def from_top_k(labels: np.ndarray, scores: np.ndarray, counts: np.ndarray | None, n_labels: int) -> csr_array:
    """Turn the k best labels per row into a CSR matrix of scores.

    Parameters
    ----------
    labels, scores : arrays, (N, k)
        Best first.
    counts : array, (N,), optional
        How many of each row are filled; all, if not given.
    n_labels : int
        Columns of the result.
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
    """Return the same entries in a larger matrix: empty rows and columns are added at the end."""
    rows = X.shape[0] if n_rows is None else n_rows
    indptr = np.append(X.indptr, np.full(rows - X.shape[0], X.indptr[-1], X.indptr.dtype))
    return csr_array((X.data, X.indices, indptr), shape=(rows, X.shape[1] if n_columns is None else n_columns))


def canonical(X: csr_array) -> csr_array:
    """Return sorted rows without duplicates; the matrix itself where it is so already.

    SciPy keeps the answer on the matrix, where it stays when the indices are changed; here it is found anew.
    """
    if csr_has_canonical_format(X.shape[0], X.indptr, X.indices):
        return X
    X = csr_array((X.data, X.indices, X.indptr), shape=X.shape, copy=True)
    X.sum_duplicates()
    return X


def odd_part(X: Any) -> str | None:
    """Return the name of an array in a CSR, CSC or COO matrix that is no plain vector: a list, 2-D, or masked."""
    for name in {"csr": _PARTS, "csc": _PARTS, "coo": _PARTS[:1]}.get(X.format, ()):
        array = getattr(X, name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or hasattr(array, "mask"):
            return name
    return None


def with_usual_types(X: Any) -> Any:
    """Return a sparse matrix of numbers and indices of types that SciPy computes with; itself if they are so."""
    if X.dtype == np.float16 or not X.dtype.isnative:
        X = X.astype(np.float32 if X.dtype == np.float16 else X.dtype.newbyteorder("="))
    if X.format in ("csr", "csc") and not X.indices.dtype == X.indptr.dtype in (np.int32, np.int64):
        X = type(X)((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    return X


def without_zeros(X: csr_array) -> csr_array:
    """Return a matrix that stores no zeros, which would count as features of a point; the matrix itself if so."""
    return X if np.count_nonzero(X.data) == X.nnz else select_entries(X, X.data != 0)


# Arrays that kernels take ----------------------------------------------------------------------------------------


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view, so that arrays just made and arrays mapped from disk have one type for the compiler."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def frozen_csr(X: csr_array) -> csr_array:
    """Return read-only float32 values, int32 indices and int64 row starts, the type that kernels are compiled for."""
    out = csr_array(X.shape, dtype=np.float32)
    out.data, out.indices = frozen(np.asarray(X.data, np.float32)), frozen(np.asarray(X.indices, np.int32))
    out.indptr = frozen(np.asarray(X.indptr, np.int64))  # the constructor would narrow the starts again
    return out


def bounded_scores(scores: np.ndarray) -> np.ndarray:
    """Return scores as float32 inside the open interval (0, 1)."""
    return np.clip(scores, LEAST_SCORE, MOST_SCORE, dtype=np.float32)


def logistic(log_odds: Any) -> Any:
    """Return the probabilities of log odds; those beyond 60 count as 60, so that nothing overflows."""
    return 1 / (1 + np.exp(-np.clip(log_odds, -60, 60)))


# Arrays that model folders keep ----------------------------------------------------------------------------------


def csr_arrays(name: str, X: csr_array) -> Arrays:
    """Return the three arrays of a CSR matrix under ``name_data``, ``name_indices``, ``name_indptr``."""
    return {f"{name}_{part}": getattr(X, part) for part in _PARTS}


def csr_from_arrays(name: str, arrays: Arrays, shape: tuple[int, int]) -> csr_array | None:
    """Build what :func:`csr_arrays` gave, frozen; None where it is not among the arrays."""
    if f"{name}_data" not in arrays:
        return None
    parts: Any = tuple(arrays[f"{name}_{part}"] for part in _PARTS)
    return frozen_csr(csr_array(parts, shape=shape))


def with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays under names that begin with `prefix`."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin with `prefix`, under the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
