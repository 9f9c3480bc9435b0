"""Truth and suggestions as lists of names, turned into the matrices that metrics are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail.errors import DataError

_LISTS_FORM = 'Give a list of names per point: [["a", "b"], ["c"]]'


def are_lists(values: Any) -> bool:
    """Return whether the values are lists of names rather than a matrix."""
    return not issparse(values) and not hasattr(values, "dtype") and isinstance(values, Iterable)


def named_matrices(truth: Any, suggestions: Any, training: Any) -> tuple[csr_array, csr_array, csr_array | None]:
    """Return truth, scores and training labels as matrices with one column per name.

    Parameters
    ----------
    truth : list of lists of str
        Correct labels per point.
    suggestions : list of lists
        Suggested labels per point: names, the best first; pairs (name, score); or dicts from name to score.
    training : list of lists of str, or None
        Labels of the training points.
    """
    numbers: dict[str, int] = {}
    parts = [
        _entries(truth, "Y_true", numbers),
        _entries(suggestions, "scores", numbers),
        None if training is None else _entries(training, "train_Y", numbers),
    ]
    if parts[0] is not None and parts[1] is not None and len(parts[0][0]) != len(parts[1][0]):
        what = f"Y_true has {len(parts[0][0]) - 1:,} points and scores {len(parts[1][0]) - 1:,}"
        raise DataError(what, remedy="Give suggestions for the same points, in the same order")

    def matrix(entries: tuple[list[int], list[int], list[float]]) -> csr_array:
        ends, labels, scores = entries
        arrays = (np.array(scores, np.float32), np.array(labels, np.int32), np.array(ends))
        return csr_array(arrays, shape=(len(ends) - 1, len(numbers)))

    Y, S, T = (None if part is None else matrix(part) for part in parts)
    assert Y is not None
    assert S is not None
    Y.data[:] = 1
    if T is not None:
        T.data[:] = 1
    return Y, S, T


def _entries(rows: Any, what: str, numbers: dict[str, int]) -> tuple[list[int], list[int], list[float]]:
    """Return row ends, labels and scores; a list of names is scored by rank."""
    if not are_lists(rows) or isinstance(rows, str | Mapping):
        raise DataError(f"{what} is not a list of lists, as the other one is", remedy=_LISTS_FORM)
    ends, labels, scores = [0], list[int](), list[float]()
    for number, row in enumerate(rows):
        if row is None or (isinstance(row, float) and row != row):
            row = []  # a missing value of a data frame
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            raise DataError(f"{what} has {row!r} where a list belongs", row=number, remedy=_LISTS_FORM)
        own: dict[int, float] = {}
        for rank, one in enumerate(row.items() if isinstance(row, Mapping) else row):
            name, score = one if isinstance(one, tuple | list) and len(one) == 2 else (one, 1 / (1 + rank))
            own.setdefault(numbers.setdefault(str(name), len(numbers)), float(score))
        labels += own.keys()
        scores += own.values()
        ends.append(len(labels))
    return ends, labels, scores
