"""Frequent labels and rare ones: the split of TAug (ICLR 2021 submission, §3.1)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import SettingsError


def head(Y: csr_array, tau: float) -> np.ndarray:
    """Which labels are head labels: the ⌊tau L⌋ most frequent ones, L being the labels that have points.

    Parameters
    ----------
    Y : csr_array, (N, L)
    tau : float
        Share of labels, above 0 and below 1.

    Returns
    -------
    bool array, (L,)
        Equal counts go by smaller index.
    """
    if not 0 < tau < 1:
        raise SettingsError(f"tau is {tau!r}; give the share of labels that are head labels, above 0 and below 1")
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    n_seen = int(np.count_nonzero(counts))
    n_head = int(tau * n_seen)
    if n_head in (0, n_seen):
        side = "head" if n_head == 0 else "tail"
        raise SettingsError(
            f"tau={tau} leaves no {side} label: {n_seen:,} label(s) have points, and {n_head:,} of them would be head "
            "labels. Give another tau, or train the base without TAug."
        )
    found = np.zeros(Y.shape[1], bool)
    found[np.argsort(-counts, kind="stable")[:n_head]] = True
    return found


def only(Y: csr_array, labels: np.ndarray) -> csr_array:
    """Y with the entries of some labels (a mask) alone, in its own shape."""
    keep = labels[Y.indices]
    indptr = np.concatenate([[0], np.cumsum(keep)])[Y.indptr].astype(Y.indptr.dtype)
    return csr_array((Y.data[keep], Y.indices[keep], indptr), shape=Y.shape)
