"""More points out of few: copies that lack some features, or have the values of some exchanged (TAug, §3.3)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, vstack


def drop(X: csr_array, keep: float, rng: np.random.Generator) -> csr_array:
    """Each feature stays with the chance `keep`; a point that would lose all keeps all."""
    stays = rng.random(X.nnz) < keep
    lengths = np.diff(X.indptr)
    left = np.concatenate([[0], np.cumsum(stays)])
    stays |= np.repeat(left[X.indptr[1:]] == left[X.indptr[:-1]], lengths)
    indptr = np.concatenate([[0], np.cumsum(stays)])[X.indptr].astype(X.indptr.dtype)
    return csr_array((X.data[stays], X.indices[stays], indptr), shape=X.shape)


def swap(X: csr_array, share: float, rng: np.random.Generator) -> csr_array:
    """Exchange the values of two features drawn at random, again and again, for about `share` of a point's features."""
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
    """Points and labels, followed by `n_copies` altered copies of each point with the labels of the point."""
    rng = np.random.default_rng(seed)
    copies = [swap(drop(X, keep, rng), share, rng) for _ in range(n_copies)]
    return csr_array(vstack([X, *copies], format="csr")), csr_array(vstack([Y] * (n_copies + 1), format="csr"))
