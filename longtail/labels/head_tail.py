"""The split of labels into frequent ones (head) and rare ones (tail) of TAug (ICLR 2021 submission, §3.1)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import SettingsError, number_of
from longtail.sparse import label_counts


def head(Y: csr_array, tau: float) -> np.ndarray:
    """Select the head labels: the ⌊tau n⌋ most frequent ones of the n labels that have points.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of points.
    tau : float
        Share of head labels, above 0 and below 1.

    Returns
    -------
    bool array, (L,)
        True for head labels. Of labels with equally many points, those with the smaller number come first.
    """
    if not 0 < tau < 1:
        raise SettingsError(f"tau is {tau!r}; give the share of labels that are head labels, above 0 and below 1")
    counts = label_counts(Y)
    n_seen = int(np.count_nonzero(counts))
    n_head = int(tau * n_seen)
    if n_head in (0, n_seen):
        side = "head" if n_head == 0 else "tail"
        raise SettingsError(
            f"tau={tau} leaves no {side} label: of {number_of(n_seen, 'label')} with points, {n_head:,} would be head "
            "labels. Give another tau, or train the base without TAug."
        )
    is_head = np.zeros(Y.shape[1], bool)
    is_head[np.argsort(-counts, kind="stable")[:n_head]] = True
    return is_head
