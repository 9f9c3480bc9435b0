"""Points to train on, points held out to measure on, and the labels that training knows."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.data.split import FEW, split

Pair = tuple[csr_array, csr_array]

_MOST = 2000  # points held out: more cost training points and measure hardly better


def hold_out(
    X: csr_array, Y: csr_array, validation: Pair | None, fraction: float, seed: int
) -> tuple[np.ndarray, Pair | None]:
    """Rows to train on, and the validation part: the one given, or `fraction` of the points, 2,000 at most."""
    some = np.flatnonzero(np.diff(Y.indptr))  # a point without labels teaches nothing here
    if validation is not None or fraction == 0:
        return some, validation
    train_rows, held_rows = split(Y[some], min(fraction, _MOST / len(some)), seed)
    held = some[held_rows]
    return some[train_rows], (X[held], Y[held]) if len(held) else None


def hold_out_at_random(
    Y: csr_array, validation: Pair | None, fraction: float, seed: int, most: int = _MOST
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows held out, `most` at most; none of these where a validation part is given.

    Held-out points have rare labels as often as new points have, even labels that are then without a training point.
    """
    some = np.flatnonzero(np.diff(Y.indptr))
    n = 0 if validation is not None else int(min(fraction * len(some), most, len(some) - 1))
    order = np.random.default_rng(seed).permutation(some)
    return np.sort(order[n:]), np.sort(order[:n])


def seen(Y: csr_array, labels: np.ndarray) -> csr_array:
    """The columns `labels` of Y."""
    if len(labels) == Y.shape[1]:
        return Y
    place = np.full(Y.shape[1], -1, np.int32)
    place[labels] = np.arange(len(labels))
    keep = place[Y.indices] >= 0
    indptr = np.concatenate([[0], np.cumsum(keep)])[Y.indptr].astype(Y.indptr.dtype)
    return csr_array((Y.data[keep], place[Y.indices[keep]], indptr), shape=(Y.shape[0], len(labels)))


def measurable(held: Pair | None, labels: np.ndarray) -> Pair | None:
    """The validation part over the labels seen in training; None where nothing is left to measure."""
    if held is None:
        return None
    return labelled(held[0], seen(held[1], labels))


def labelled(X: csr_array, Y: csr_array) -> Pair | None:
    """The points that have labels; None if none has."""
    some = np.flatnonzero(np.diff(Y.indptr))
    return (X[some], Y[some]) if len(some) else None


def trains_again(refit: bool | None, n_points: int) -> bool:
    """Whether to train once more, on the held-out points too: as told or, for None, where points are few."""
    return n_points < FEW if refit is None else refit
