"""Split points into a training part and a held-out part."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import SettingsError
from longtail.kernels.hold_out import mark_spare_rows
from longtail.params import DROPOUT, seed_of
from longtail.sparse import label_counts, labelled_rows, select_entries, unit_rows

_MIN_USED_COLUMNS = 0.5  # if fewer columns occur, the vocabulary was not learnt from these texts

FEW = 20_000  # points; with fewer, training twice and trying settings is cheap, and every point matters


def hold_out_points(
    Y: Any,
    fraction: float,
    random_state: Any = 0,
    *,
    keep_labels: bool = False,
    labelled_only: bool = False,
    at_least: int = 0,
    at_most: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw points to hold out of training.

    Parameters
    ----------
    Y : sparse matrix, shape (N, L)
        Labels of the points.
    fraction : float
        Fraction of the points to hold out, at least 0 and below 1.
    random_state : None, int, sequence of int, Generator or RandomState, default=0
        Seed. None gives another split at each call.
    keep_labels : bool, default=False
        Never hold out the last training point of a label. If there are many rare labels, the held-out points then have
        fewer rare labels than new points, and fewer points may be held out than `fraction` requests. Without it, points
        are drawn uniformly, and a label may lose all its training points.
    labelled_only : bool, default=False
        Leave out points without labels from both parts. `fraction` then refers to the remaining points.
    at_least : int, default=0
        Smallest number of points to hold out. One point always stays in training.
    at_most : int, optional
        Largest number of points to hold out. It overrides `at_least`.

    Returns
    -------
    train_rows, held_rows : int64 arrays
        Row numbers, ascending.

    Examples
    --------
    >>> Y = csr_array(np.ones((10, 1), np.float32))
    >>> train_rows, held_rows = hold_out_points(Y, 0.2)
    >>> len(train_rows), len(held_rows)
    (8, 2)
    """
    if not DROPOUT.allows(fraction):
        raise SettingsError(f"fraction is {fraction!r}; give {DROPOUT}")
    Y = _without_repeats(csr_array(Y))
    rows = labelled_rows(Y) if labelled_only else np.arange(Y.shape[0])
    wanted = max(fraction * len(rows), min(at_least, len(rows) - 1))
    if at_most is not None:
        wanted = min(wanted, at_most)
    if isinstance(random_state, np.random.RandomState):
        random_state = seed_of(random_state)
    order = np.random.default_rng(random_state).permutation(rows)
    if keep_labels:
        is_held = mark_spare_rows(Y.indptr, Y.indices, Y.shape[1], order, round(wanted))
    else:
        is_held = np.zeros(Y.shape[0], np.bool_)
        is_held[order[: int(wanted)]] = True
    return rows[~is_held[rows]], rows[is_held[rows]]


def split(Y: Any, fraction: float = 0.1, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    """Hold out points at random, but never the last training point of a label.

    A plain random split removes some rare labels from the training part; this one does not. If too few points can be
    held out without that, fewer are held out than requested. :func:`hold_out_points` has more options.

    Parameters
    ----------
    Y : sparse matrix, shape (N, L)
        Labels of the points.
    fraction : float, default=0.1
        Fraction of the points to hold out, at least 0 and below 1.
    random_state : None, int, Generator or RandomState, default=0
        Seed. None gives another split at each call.

    Returns
    -------
    train_rows, held_rows : int64 arrays
        Row numbers, ascending. Each row is in one of the two.

    Examples
    --------
    >>> Y = csr_array(np.eye(3, dtype=np.float32)[[0, 0, 1, 1, 2]])
    >>> train_rows, held_rows = split(Y, 0.4)
    >>> len(train_rows), len(held_rows)
    (3, 2)
    """
    return hold_out_points(Y, fraction, random_state, keep_labels=True)


def as_new_points(X: csr_array, Y: csr_array, Z: csr_array | None, held: np.ndarray) -> csr_array:
    """Return held-out points with the features that they would have if the vocabulary had been learnt without them.

    The vocabulary was learnt from all texts, so that it also has words that occur in no other point than a held-out
    one. A new text cannot have such words. Its other words then have larger weights in a row of length 1, and its
    scores are higher: on Tate titles, those of TextMatch by 3 %. This function removes the words that occur only in
    held-out points, and scales the rows to length 1 again.

    Parameters
    ----------
    X, Y : csr_array, (N, D) and (N, L)
        All points and their labels.
    Z : csr_array, (L, D), optional
        Features of the label texts. Their words stay, except for labels that only held-out points have.
    held : int array
        Rows that are held out.

    Returns
    -------
    csr_array, (len(held), D)
        The held-out points. They are unchanged unless the data looks like texts: all rows have length 1, and at least
        half of the columns occur in the points or the label texts. Not all columns need occur, because these points may
        be a part of a larger dataset.

    Examples
    --------
    >>> X = csr_array(np.array([[0.6, 0.8, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]], np.float32))
    >>> as_new_points(X, csr_array(np.ones((4, 1))), None, np.array([0, 3])).toarray()
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    points, counts = X[held], label_counts(X)
    removed = counts == label_counts(points)
    if Z is not None:
        labels = label_counts(Y)
        counts = counts + label_counts(Z)
        removed &= label_counts(Z[(labels == 0) | (labels > label_counts(Y[held]))]) == 0
    if np.count_nonzero(counts) < _MIN_USED_COLUMNS * len(counts) or not removed.any() or unit_rows(X) is not X:
        return points
    return unit_rows(select_entries(points, ~removed[points.indices]))


def _without_repeats(Y: csr_array) -> csr_array:
    """Return Y without stored zeros and duplicate labels, which would be counted as points. Copy it only if needed."""
    if Y.has_canonical_format and Y.data.all():
        return Y
    Y = Y.copy()
    Y.sum_duplicates()
    Y.eliminate_zeros()
    return Y
