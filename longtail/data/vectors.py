"""Append dense vectors of texts to a feature matrix as its last columns, and read vectors from .npy files.

A row has the sparse features of a point, followed by one dense vector. Points can thus be split, checked, stored and
predicted as one matrix. :class:`~longtail.models.blend.Blend` passes each member the columns that it can use.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from longtail.data.dataset import Dataset
from longtail.data.encoders import checked_vectors
from longtail.errors import BROKEN_ARRAY, DataError, SettingsError


def with_vectors(X: csr_array, vectors: np.ndarray) -> csr_array:
    """Return the features with the vectors appended as columns."""
    joined = csr_array(hstack([X, csr_array(vectors)], format="csr"), dtype=np.float32)
    joined.has_canonical_format = True
    return joined


def with_same_vectors(X: csr_array, data: Dataset, *, labels: bool = False) -> csr_array:
    """Append the vectors of a dataset's points, or labels, to new features `X` of the same points or labels."""
    if not data.vector_size:
        return X
    old = data.Z if labels else data.X
    assert old is not None
    return with_vectors(X, old[:, old.shape[1] - data.vector_size :].toarray())


class ReadyVectors(NamedTuple):
    """Vectors of a dataset that were computed elsewhere, (n, d) each, with their names for error messages."""

    points: tuple[str, np.ndarray]
    test: tuple[str, np.ndarray] | None
    labels: tuple[str, np.ndarray] | None


def read_vectors(given: Any, *, has_test: bool) -> ReadyVectors:
    """Read and check the vectors that a user gives for a dataset.

    Parameters
    ----------
    given : str or sequence of paths or arrays
        One array or .npy file each for the training points, for the test points if the data has a test part, and for
        the label texts, which may be left out. A string is a list of files separated by commas.
    has_test : bool
        Whether the data has a test part.
    """
    if isinstance(given, str):
        given = given.split(",")
    parts = [given] if isinstance(given, np.ndarray | os.PathLike) else list(given)
    wanted = ["the training points", *(["the test points"] if has_test else []), "the label texts"]
    if len(parts) not in (len(wanted) - 1, len(wanted)):
        raise SettingsError(
            f"vectors (--vectors on the command line) has {len(parts)} arrays. Give one for each of "
            f"{', '.join(wanted)}, in this order; the last may be left out."
        )
    arrays = [_named_array(part, name) for part, name in zip(parts, wanted, strict=False)]
    size = arrays[0][1].shape[1]
    for name, array in arrays:
        if array.shape[1] != size:
            raise DataError(
                f"{name}: vectors of {array.shape[1]} numbers, but {arrays[0][0]} has {size}",
                remedy="Encode points and labels with the same encoder",
            )
    labels = arrays[len(wanted) - 1] if len(arrays) == len(wanted) else None
    return ReadyVectors(arrays[0], arrays[1] if has_test else None, labels)


def _named_array(part: Any, name: str) -> tuple[str, np.ndarray]:
    """Return the name of an array, and the array with its rows scaled to unit length. Read it if `part` is a path."""
    if isinstance(part, str | os.PathLike):
        path = Path(part)
        name = os.fspath(part)
        if not path.is_file():
            raise DataError("there is no such file", path=path, remedy="Give .npy files, separated by commas")
        try:
            array = np.load(path, allow_pickle=False)
        except BROKEN_ARRAY as error:
            raise DataError(f"is not an array ({error})", path=path, remedy="Write it with numpy.save") from None
    else:
        array = np.asarray(part)
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiub" or not array.shape[1]:
        shown = getattr(array, "shape", type(array).__name__)
        raise DataError(f"{name}: not an array of vectors but {shown}", remedy="Give numbers, one row per text")
    return name, checked_vectors(array, name)


def add_vectors(data: Dataset, vectors: ReadyVectors) -> None:
    """Append vectors to the features of a dataset, of its test part and of its label texts, in place."""
    for part, named in ((data, vectors.points), (data.test, vectors.test)):
        if part is not None and named is not None:
            if part.X is None:
                raise DataError("the dataset has no features", remedy="Read it with a vectorizer")
            part.X = with_vectors(part.X, _checked_length(named, part.n_points, "points"))
    size = vectors.points[1].shape[1]
    encoded = getattr(data.vectorizer, "vector_size_", 0)
    if encoded not in (0, size):
        raise DataError(
            f"{vectors.points[0]}: vectors of {size} numbers, but those of the encoder have {encoded}",
            remedy="Give vectors that were made by this encoder",
        )
    Z = data.Z
    if vectors.labels is not None:
        words = csr_array((data.n_labels, data.n_features - size), dtype=np.float32) if Z is None else Z
        Z = with_vectors(words, _checked_length(vectors.labels, data.n_labels, "labels"))
    elif Z is not None:
        Z = with_vectors(Z, np.zeros((data.n_labels, size), np.float32))
    for part in (data, data.test):
        if part is not None:
            part.Z, part.vector_size = Z, size


def _checked_length(named: tuple[str, np.ndarray], expected: int, what: str) -> np.ndarray:
    """Return an array after checking that it has the expected number of rows."""
    name, array = named
    if len(array) != expected:
        raise DataError(
            f"{name}: {len(array)} vectors, but there are {expected} {what}", remedy="Give one row each, in order"
        )
    return array
