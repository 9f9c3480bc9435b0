"""Check the inputs of a ranker before any kernel uses them.

Kernels use row starts and column numbers as addresses. A matrix whose arrays contradict each other would make them read
or write memory that is not theirs. The checks take less than 2 % of the time of a prediction.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail.errors import DataError, SettingsError, number_of
from longtail.kernels import check
from longtail.params import value_shown
from longtail.sparse import canonical, malformed_part, ones_like, with_short_indices, with_usual_types, without_zeros

_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
_VOCABULARY = "Use the vectoriser (or feature order) of the training data"
_LABEL_LISTS = (
    "Give a matrix with one row per point and one column per label. For lists of labels use longtail.Tagger, or "
    "sklearn.preprocessing.MultiLabelBinarizer(sparse_output=True)"
)


def check_features(X: Any, n_features: int | None = None, name: str = "X", ranker: str = "Ranker") -> csr_array:
    """Check a matrix of features and return it as CSR float32 with int32 indices, without a copy if it is one already.

    Parameters
    ----------
    X : sparse or dense matrix, or a data frame of numbers
        What to check.
    n_features : int, optional
        Number of columns that `X` must have.
    name, ranker : str
        Names for the error messages.
    """
    X = _sparse(X, name)
    if X.dtype != np.float32:
        with np.errstate(over="ignore"):  # too large values become infinite, which is an error below
            X = X.astype(np.float32)
    X = with_short_indices(canonical(X))
    if n_features is not None and X.shape[1] != n_features:
        raise DataError(
            f"{name} has {X.shape[1]} features, but {ranker} is expecting {n_features} features as input",
            remedy=_VOCABULARY,
        )
    if not np.isfinite(X.data).all():
        bad = int(np.flatnonzero(~np.isfinite(X.data))[0])
        raise DataError(f"{name} holds NaN or infinity", row=_row_of(X.indptr, bad), remedy="Remove or replace it")
    return without_zeros(X)


def compiled_form(X: csr_array) -> csr_array:
    """Return a matrix with writable arrays, for which kernels are compiled.

    For read-only arrays Numba would compile the kernels again, which takes seconds. They are copied instead, which is
    fast compared with the prediction of the points.
    """
    arrays = X.data, X.indices, X.indptr
    if all(array.flags.carray for array in arrays):
        return X
    out = csr_array(X.shape, dtype=np.float32)
    out.data, out.indices, out.indptr = map(_plain, arrays)
    return out


def check_labels(Y: Any, n_points: int, n_labels: int | None = None, ranker: str = "Ranker") -> csr_array:
    """Check a label matrix and return it as CSR with ones at its non-zero entries.

    Parameters
    ----------
    Y : sparse or dense matrix
        What to check.
    n_points : int
        Number of rows that `Y` must have.
    n_labels : int, optional
        Number of columns that `Y` must have.
    ranker : str
        Name for the error messages.
    """
    if Y is None:
        raise DataError(f"{ranker} requires y to be passed, but the target y is None", remedy=_LABEL_LISTS)
    listed = isinstance(Y, list | tuple)
    Y = _sparse(Y, "Y")
    if listed and (Y.data > 1).any():  # lists of label numbers of equal length look like a matrix
        entry = int(np.argmax(Y.data > 1))
        raise DataError(
            f"Y looks like lists of label numbers: it holds {Y.data[entry]}",
            row=_row_of(Y.indptr, entry),
            remedy=_LABEL_LISTS,
        )
    if Y.shape[0] != n_points:
        raise DataError(
            f"Y has {number_of(Y.shape[0], 'row')}, but X has {n_points}", remedy="Give one row of labels per point"
        )
    if n_labels is not None and Y.shape[1] != n_labels:
        raise DataError(
            f"Y has {number_of(Y.shape[1], 'label')}, not {n_labels} as expected", remedy="Use one label space"
        )
    if not np.isfinite(Y.data).all():
        raise DataError("Y holds NaN or infinity", remedy="Give 1 for a correct label and nothing elsewhere")
    Y = without_zeros(canonical(Y))
    if Y.nnz == 0:
        raise DataError("Y names no label at all", remedy="Give at least one point with a label")
    return ones_like(with_short_indices(Y))


def check_point(indices: Any, values: Any, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Check one point and return its features as int32, strictly ascending, and their values as float32.

    Duplicate features are summed, as in a matrix.
    """
    try:  # the kernel call also compares types. It takes 0.5 µs, little beside the 20 µs in which a label tree ranks
        state = _point_state(indices, values, n_features)
    except Exception:  # Numba raises various errors for other types, and for strided or read-only arrays
        state = check.UNEQUAL
    if state == check.UNEQUAL:
        indices, values = _point_arrays(indices, values)
        state = _point_state(indices, values, n_features)
    if state == check.FINE:
        return indices, values
    if state == check.IMPOSSIBLE:
        raise DataError(
            f"The point has a feature outside 0..{n_features - 1} or a value that is NaN or infinite",
            remedy=_VOCABULARY,
        )
    row = csr_array((values, indices, np.array([0, len(indices)])), shape=(1, n_features))
    point = with_short_indices(without_zeros(canonical(row)))
    return point.indices, point.data


def _compile_point_state(indices: Any, values: Any, n_features: int) -> int:
    """Compile :func:`check.point_state` for int32 and float32 arrays, and replace this function by it.

    For other arrays the kernel then raises TypeError; without this, Numba would compile it again for their types.
    """
    global _point_state
    check.point_state(np.zeros(0, np.int32), np.zeros(0, np.float32), 0)
    with suppress(AttributeError):  # if Numba's compiler is switched off
        check.point_state.disable_compile()
    _point_state = check.point_state
    return check.UNEQUAL


_point_state: Callable[[Any, Any, int], int] = _compile_point_state


def check_k(k: Any) -> int:
    """Check the number of labels to predict per point and return it as an int."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise SettingsError(f"k is {value_shown(k)}; give a whole number from 1")
    return int(k)


def feature_names(X: Any) -> np.ndarray | None:
    """Return the column names of a data frame; None for a matrix, and for columns without names."""
    columns = getattr(X, "columns", None)
    if columns is None or issparse(X):
        return None
    names = np.asarray(list(columns), dtype=object)
    named = [isinstance(name, str) for name in names]
    if any(named) and not all(named):
        raise DataError("X has columns with and without a name", remedy="Convert all column names to strings")
    return names if named and all(named) else None


def check_feature_names(X: Any, expected: np.ndarray | None, ranker: str) -> None:
    """Compare the column names of a data frame with those of the training data, with scikit-learn's messages."""
    names = feature_names(X)
    if names is None and expected is None:
        return
    if expected is None:
        warnings.warn(f"X has feature names, but {ranker} was fitted without feature names", stacklevel=4)
    elif names is None:
        warnings.warn(f"X does not have valid feature names, but {ranker} was fitted with feature names", stacklevel=4)
    elif not np.array_equal(names, expected):
        unseen, missing = sorted(set(names) - set(expected)), sorted(set(expected) - set(names))
        message = "The feature names should match those that were passed during fit.\n"
        if unseen:
            message += "Feature names unseen at fit time:\n" + _bullets(unseen)
        if missing:
            message += "Feature names seen at fit time, yet now missing:\n" + _bullets(missing)
        if not unseen and not missing:
            message += "Feature names must be in the same order as they were in fit.\n"
        raise DataError(message)


def _bullets(names: list[str]) -> str:
    shown = "".join(f"- {name}\n" for name in names[:5])
    return shown + ("- ...\n" if len(names) > 5 else "")


def _sparse(matrix: Any, name: str) -> csr_array:
    """Return any matrix as a valid CSR matrix, without a copy if it is one already."""
    if not issparse(matrix):
        return _from_dense(matrix, name)
    if matrix.ndim != 2:
        raise DataError(
            f"{name} has {number_of(matrix.ndim, 'dimension')}", remedy="Give a matrix with one row per point"
        )
    odd = malformed_part(matrix)
    if odd is not None:
        raise DataError(f"{name} has an array {odd!r} that is no plain vector", remedy="Build the matrix again")
    _check_dtype(matrix.dtype, name, "Give a matrix of real numbers")
    if matrix.format in ("csr", "csc"):
        _check_compressed(matrix, name)
    elif matrix.format == "coo":
        _check_coordinates(matrix, name)
    matrix = with_usual_types(matrix)
    if matrix.format != "csr" or not isinstance(matrix, csr_array):
        matrix = csr_array(matrix)
    if len(matrix.indices) > matrix.indptr[-1]:  # SciPy may leave unused room at the end
        nnz = int(matrix.indptr[-1])
        matrix = csr_array((matrix.data[:nnz], matrix.indices[:nnz], matrix.indptr), shape=matrix.shape)
    return matrix


def _check_dtype(dtype: np.dtype, name: str, remedy: str) -> None:
    """Raise an error unless the values of a matrix are real numbers."""
    if dtype.kind == "c":
        raise DataError(f"{name} holds complex numbers. Complex data not supported", remedy="Give real numbers")
    if dtype.kind not in "biuf":
        raise DataError(f"{name} holds {dtype}, not numbers", remedy=remedy)


def _check_compressed(X: Any, name: str) -> None:
    """Raise an error for a CSR or CSC matrix whose three arrays contradict each other.

    It takes 6 µs for one row. SciPy's ``check_format(full_check=True)`` takes 19 µs, and its errors name neither the
    matrix nor the row.
    """
    indptr, indices, n_stored = X.indptr, X.indices, len(X.data)
    rows = "rows" if X.format == "csr" else "columns"
    n_major, n_minor = X.shape if X.format == "csr" else X.shape[::-1]
    remedy = f"The {X.format.upper()} matrix is damaged; build it again, for example with {X.format}_array(coo)"
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise DataError(f"{name} has an indptr or indices that are not whole numbers", remedy=remedy)
    if indptr.ndim != 1 or len(indptr) != n_major + 1:
        raise DataError(f"{name} has {n_major} {rows}, but its indptr has {indptr.size} entries", remedy=remedy)
    if indices.ndim != 1 or len(indices) != n_stored:
        raise DataError(f"{name} has {indices.size} indices for {n_stored} values", remedy=remedy)
    if indptr[0] != 0 or indptr[-1] > n_stored:
        raise DataError(
            f"{name} has an indptr from {indptr[0]} to {indptr[-1]}, but {n_stored} stored values", remedy=remedy
        )
    if (indptr[1:] < indptr[:-1]).any():
        row = int(np.argmax(indptr[1:] < indptr[:-1]))
        raise DataError(f"{name} has an indptr that decreases", row=row, remedy=remedy)
    _check_range(indices[: indptr[-1]], n_minor, name, indptr if X.format == "csr" else None, remedy)


def _check_coordinates(X: Any, name: str) -> None:
    remedy = "The COO matrix is damaged; build it again"
    for numbers, size in zip(X.coords, X.shape, strict=True):
        if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise DataError(f"{name} has coordinates that are not whole numbers", remedy=remedy)
        if len(numbers) != len(X.data):
            raise DataError(f"{name} has {len(numbers)} coordinates for {len(X.data)} values", remedy=remedy)
        _check_range(numbers, size, name, None, remedy)


def _check_range(indices: np.ndarray, size: int, name: str, indptr: np.ndarray | None, remedy: str) -> None:
    if not len(indices):
        return
    least, most = int(indices.min()), int(indices.max())
    if least >= 0 and most < size:
        return
    bad = int(np.argmax((indices < 0) | (indices >= size)))
    if least == 1 and most == size:
        remedy = "The numbers seem to count from 1; subtract 1 from all of them"
    row = None if indptr is None else _row_of(indptr, bad)
    raise DataError(f"{name} has an index {indices[bad]} outside 0..{size - 1}", row=row, remedy=remedy)


def _row_of(indptr: np.ndarray, entry: int) -> int:
    return int(np.searchsorted(indptr, entry, side="right") - 1)


def _from_dense(matrix: Any, name: str) -> csr_array:
    remedy = _LABEL_LISTS if name == "Y" else "Give one row per point"
    try:
        array = np.asarray(matrix)
    except ValueError:
        raise DataError(f"{name} has rows of different lengths", remedy=remedy) from None
    if array.ndim != 2:
        raise DataError(f"{name} has {number_of(array.ndim, 'dimension')}, not two. Reshape your data", remedy=remedy)
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except ValueError as error:
            raise DataError(f"{name} holds something that is not a number: {error}", remedy=remedy) from None
    text = "For text use longtail.Tagger, or turn it into features first"
    _check_dtype(array.dtype, name, remedy if name == "Y" else text)
    if array.dtype == np.float16:  # SciPy does not compute with it
        array = array.astype(np.float32)
    return csr_array(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))


def _point_arrays(indices: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return features and values of any integer and real type as two vectors of the same length."""
    indices, values = _whole_numbers(indices), _real_numbers(values)
    if indices.ndim != 1 or indices.shape != values.shape:
        raise DataError(
            f"indices has the shape {indices.shape} and values {values.shape}",
            remedy="Give two vectors of the same length",
        )
    if indices.dtype != np.int32:  # a number that overflows 32 bits must not become another feature
        inside = indices == indices.astype(np.int32)
        indices = np.where(inside, indices, -1).astype(np.int32)
    return _plain(indices), _plain(values)


def _plain(array: np.ndarray) -> np.ndarray:
    """Return a contiguous, writable array; a copy if this one is not."""
    return np.require(array, requirements=["C", "A", "W"])


def _array(values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:  # lists of different lengths
        return np.empty(0, object)


def _real_numbers(values: Any) -> np.ndarray:
    """Return values of any real type as float32; values beyond its range become infinite."""
    array = _array(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"values are {array.dtype}, not real numbers", remedy="Give the value of each feature")
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _whole_numbers(indices: Any) -> np.ndarray:
    """Return feature numbers of any integer type as an array; fractions are an error."""
    array = _array(indices)
    if array.size == 0 and array.dtype != object:
        return array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise DataError(f"indices are {array.dtype}, not whole numbers", remedy="Give the numbers of the features")
    return array
