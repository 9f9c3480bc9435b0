"""Altered copies of points: without some features, or with the values of some exchanged (TAug, §3.3)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.sparse import select_entries


def drop_features(X: csr_array, keep: float, rng: np.random.Generator) -> csr_array:
    """Keep each feature with probability `keep`; a point that would lose all features keeps all."""
    stays = rng.random(X.nnz) < keep
    lengths = np.diff(X.indptr)
    left = np.concatenate([[0], np.cumsum(stays)])
    stays |= np.repeat(left[X.indptr[1:]] == left[X.indptr[:-1]], lengths)
    return select_entries(X, stays)


def swap_values(X: csr_array, share: float, rng: np.random.Generator) -> csr_array:
    """Exchange the values of pairs of features drawn at random, for about `share` of a point's features."""
    data, starts, lengths = X.data.copy(), X.indptr[:-1], np.diff(X.indptr)
    times = np.where(lengths > 1, np.ceil(share * lengths / 2), 0).astype(np.int64)
    for step in range(int(times.max(initial=0))):
        rows = np.flatnonzero(times > step)
        n = lengths[rows]
        one = starts[rows] + (rng.random(len(rows)) * n).astype(np.int64)
        two = starts[rows] + (one - starts[rows] + 1 + (rng.random(len(rows)) * (n - 1)).astype(np.int64)) % n
        data[one], data[two] = data[two], data[one]
    return csr_array((data, X.indices, X.indptr), shape=X.shape)


def augmented(
    X: csr_array, Y: csr_array, n_copies: int, keep: float, share: float, seed: int
) -> tuple[csr_array, csr_array]:
    """Return points and labels, followed by `n_copies` altered copies of each point with the point's labels."""
    rng = np.random.default_rng(seed)
    copies = [swap_values(drop_features(X, keep, rng), share, rng) for _ in range(n_copies)]
    return csr_array(vstack([X, *copies], format="csr")), csr_array(vstack([Y] * (n_copies + 1), format="csr"))
