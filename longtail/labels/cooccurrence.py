"""Affinity of pairs of labels, computed from how often they occur together.

``affinity(Y, how)`` is the matrix U of GLaS (Guo et al., 2019, eq. 3): 1 on the diagonal, 0 for labels that never
occur together. It is as sparse as A = YᵀY and never dense; training uses small blocks of it.

| how | U of labels i, j | from |
|---|---|---|
| ``arithmetic`` | ½ (A_ij / A_jj + A_ij / A_ii) | eq. 3, the paper's choice |
| ``geometric`` | A_ij / √(A_ii A_jj) | appendix B, theorem B.1 |
| ``pmi`` | log(N A_ij / (A_ii A_jj)) / −log(A_ij / N), negative ones 0 | §3.2: normalised, so that it lies in 0..1 |
| ``jaccard`` | A_ij / (A_ii + A_jj − A_ij) | §3.2 |
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import SettingsError

HOWS = ("arithmetic", "geometric", "pmi", "jaccard")


def affinity(Y: csr_array, how: str = "arithmetic") -> csr_array:
    """Compute the affinity of all pairs of labels that occur together.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of points, all values 1.
    how : {"arithmetic", "geometric", "pmi", "jaccard"}
        The formula: see this module.

    Returns
    -------
    csr_array, (L, L)
        Symmetric, float32, values in 0..1; the diagonal of a label with points is 1.
    """
    if how not in HOWS:
        raise SettingsError(f"affinity is {how!r}; choose one of {', '.join(HOWS)}")
    A = csr_array(Y.T @ Y)  # (L, L), as sparse as the pairs that occur
    counts = np.asarray(Y.sum(axis=0), np.float64).ravel()  # the diagonal of A
    left = np.repeat(counts, np.diff(A.indptr))
    right, both = counts[A.indices], A.data.astype(np.float64)
    if how == "arithmetic":
        value = 0.5 * (both / right + both / left)
    elif how == "geometric":
        value = both / np.sqrt(left * right)
    elif how == "jaccard":
        value = both / (left + right - both)
    else:
        n = Y.shape[0]
        rarity = -np.log(both / n)
        gain = np.log(n * both / (left * right))
        value = np.where(rarity > 0, np.maximum(gain, 0) / np.where(rarity > 0, rarity, 1), 1.0)
    return csr_array((value.astype(np.float32), A.indices.astype(np.int32), A.indptr), shape=A.shape)
