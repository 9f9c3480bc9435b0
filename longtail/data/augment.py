"""Make altered copies of points: some features are dropped, and the values of others exchanged (TAug, §3.3)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.sparse import select_entries


def drop_features(X: csr_array, keep: float, rng: np.random.Generator) -> csr_array:
    """Keep each feature with probability `keep`. A point that would lose all its features keeps all of them."""
    kept = rng.random(X.nnz) < keep
    lengths = np.diff(X.indptr)
    n_kept = np.concatenate([[0], np.cumsum(kept)])
    kept |= np.repeat(n_kept[X.indptr[1:]] == n_kept[X.indptr[:-1]], lengths)
    return select_entries(X, kept)


def swap_values(X: csr_array, share: float, rng: np.random.Generator) -> csr_array:
    """Exchange the values of random pairs of features, so that about `share` of a point's features change."""
    data, starts, lengths = X.data.copy(), X.indptr[:-1], np.diff(X.indptr)
    n_swaps = np.where(lengths > 1, np.ceil(share * lengths / 2), 0).astype(np.int64)
    for step in range(int(n_swaps.max(initial=0))):
        rows = np.flatnonzero(n_swaps > step)
        n = lengths[rows]
        first = starts[rows] + (rng.random(len(rows)) * n).astype(np.int64)
        second = starts[rows] + (first - starts[rows] + 1 + (rng.random(len(rows)) * (n - 1)).astype(np.int64)) % n
        data[first], data[second] = data[second], data[first]
    return csr_array((data, X.indices, X.indptr), shape=X.shape)


def augmented(
    X: csr_array, Y: csr_array, n_copies: int, keep: float, share: float, seed: int
) -> tuple[csr_array, csr_array]:
    """Return the points and labels, followed by `n_copies` altered copies of each point with the same labels."""
    rng = np.random.default_rng(seed)
    copies = [swap_values(drop_features(X, keep, rng), share, rng) for _ in range(n_copies)]
    return csr_array(vstack([X, *copies], format="csr")), csr_array(vstack([Y] * (n_copies + 1), format="csr"))
