"""Points to train on, points held out to measure on, and the labels that have training points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from longtail.data.split import FEW, hold_out_points
from longtail.sparse import Pair, labelled_rows, take_labels

_MOST_HELD = 2000  # points held out: more cost training points and measure hardly better


class TrainingParts(NamedTuple):
    """What a ranker trains on and what it is measured on, over the labels that have training points."""

    rows: np.ndarray  # points to train on
    labels: np.ndarray  # (L',) int32, labels that these points have
    Y: csr_array  # (N, L'), of all points
    held: Pair | None  # held-out points that have some of these labels


def training_parts(X: csr_array, Y: csr_array, validation: Pair | None, fraction: float, seed: int) -> TrainingParts:
    """Divide points into those to train on and those held out (see :func:`divide_points`)."""
    rows, held = divide_points(X, Y, validation, fraction, seed)
    labels = np.unique(Y[rows].indices).astype(np.int32)
    return TrainingParts(rows, labels, take_labels(Y, labels), measurable(held, labels))


def divide_points(
    X: csr_array, Y: csr_array, validation: Pair | None, fraction: float, seed: int
) -> tuple[np.ndarray, Pair | None]:
    """Return rows to train on and held-out points; every label keeps a point to be learnt from.

    Held-out points are the validation part where it is given, else `fraction` of the points, 2,000 at most. Points
    without labels are in neither.
    """
    if validation is not None or fraction == 0:
        return labelled_rows(Y), validation
    rows, held = hold_out_points(Y, fraction, seed, keep_labels=True, labelled_only=True, at_most=_MOST_HELD)
    return rows, (X[held], Y[held]) if len(held) else None


def measurable(held: Pair | None, labels: np.ndarray) -> Pair | None:
    """Return held-out points over the labels seen in training; None where no point has any of them."""
    if held is None:
        return None
    return labelled(held[0], take_labels(held[1], labels))


def labelled(X: csr_array, Y: csr_array) -> Pair | None:
    """Return the points that have labels; None if none has."""
    some = labelled_rows(Y)
    return (X[some], Y[some]) if len(some) else None


def trains_again(refit: bool | None, n_points: int) -> bool:
    """Return whether to train once more with held-out points: as `refit` says or, for None, where points are few."""
    return n_points < FEW if refit is None else refit
