"""Choose points to hold out of training, but never the last training point of a label."""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit


@njit(cache=True, nogil=True)
def mark_spare_rows(indptr: np.ndarray, labels: np.ndarray, n_labels: int, order: np.ndarray, quota: int) -> np.ndarray:
    """Mark up to ``quota`` rows in the given order, skipping rows with which a label would lose its last unmarked row.

    Parameters
    ----------
    indptr, labels : arrays
        CSR structure of the (N, L) label matrix, without duplicate labels in a row.
    n_labels : int
        L.
    order : array, shape (N,)
        The rows, in the order in which they are considered.
    quota : int
        Largest number of rows to mark.

    Returns
    -------
    held : bool array, shape (N,)
    """
    left = np.zeros(n_labels, np.int64)  # unmarked rows per label
    for label in labels:
        left[label] += 1
    held = np.zeros(indptr.size - 1, np.bool_)
    for row in order:
        if quota <= 0:
            break
        spare = True
        for i in range(indptr[row], indptr[row + 1]):
            if left[labels[i]] < 2:
                spare = False
                break
        if spare:
            for i in range(indptr[row], indptr[row + 1]):
                left[labels[i]] -= 1
            held[row] = True
            quota -= 1
    return held
