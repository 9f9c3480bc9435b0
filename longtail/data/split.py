"""Splits that leave every label something to be learnt from."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import SettingsError
from longtail.kernels.split import hold_out

FEW = 20_000  # points; with fewer, to train again or to try settings first is cheap, and each point counts


def split(Y: Any, fraction: float = 0.1, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    """Hold out points at random, but never the last training point of a label.

    With many rare labels a plain random split takes labels out of training altogether; here such points stay. Where too
    few points can be spared, fewer are held out than asked for.

    Parameters
    ----------
    Y : sparse matrix, shape (N, L)
        Labels of the points.
    fraction : float, default=0.1
        Share of the points to hold out, at least 0 and below 1.
    random_state : int, Generator or None, default=0
        Seed; None for another split each time.

    Returns
    -------
    train_rows, held_rows : int64 arrays
        Row numbers, ascending; together all of them.

    Examples
    --------
    >>> train, held = split(Y, 0.2)
    >>> model.fit(X[train], Y[train], validation=(X[held], Y[held]))
    """
    if not 0 <= fraction < 1:
        raise SettingsError(f"fraction={fraction} must be at least 0 and below 1")
    Y = csr_array(Y)
    if not Y.has_canonical_format or not Y.data.all():  # a repeated label would count as two points
        Y = Y.copy()
        Y.sum_duplicates()
        Y.eliminate_zeros()
    order = np.random.default_rng(random_state).permutation(Y.shape[0])
    held = hold_out(Y.indptr, Y.indices, Y.shape[1], order, round(fraction * Y.shape[0]))
    return np.flatnonzero(~held), np.flatnonzero(held)
