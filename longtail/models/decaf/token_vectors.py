"""Token vectors from a file, from which DECAF starts instead of random ones or those of Module I (DECAF-FFT)."""

from __future__ import annotations

import os
import zipfile

import numpy as np

from longtail.errors import BROKEN_ARRAY, DataError, SettingsError, number_of


def read_token_vectors(path: str | os.PathLike[str], n_features: int, dim: int | None) -> np.ndarray:
    """Read one vector per feature from a file that ``numpy.save`` wrote.

    Parameters
    ----------
    path : path
        File of a float array (D, d). The row of a feature without a vector is all zeros.
    n_features : int
        D, the number of rows that the array must have.
    dim : int, optional
        d, the number of columns that it must have.

    Returns
    -------
    float32 array, (D, d)
    """
    remedy = "Write it with numpy.save, one row per feature"
    try:
        with open(path, "rb") as file:
            vectors = np.load(file, allow_pickle=False)
    except (*BROKEN_ARRAY, zipfile.BadZipFile) as error:
        raise DataError(f"holds no array ({error})", path=path, remedy=remedy) from error
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise DataError("holds no matrix of floats", path=path, remedy=remedy)
    if len(vectors) != n_features:
        what = f"has {number_of(len(vectors), 'vector')} for {number_of(n_features, 'feature')}"
        raise DataError(what, path=path, remedy=remedy)
    if not np.isfinite(vectors).all():
        raise DataError("has numbers that are not finite", path=path, remedy=remedy)
    if dim is not None and vectors.shape[1] != dim:
        size = number_of(vectors.shape[1], "number")
        raise SettingsError(f"dim is {dim}, but the vectors of {os.fspath(path)} have {size}")
    return np.ascontiguousarray(vectors, np.float32)
