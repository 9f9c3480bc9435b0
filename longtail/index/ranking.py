"""Turn search results into a matrix of scores: the ids that were found, or the votes of the rows that were found."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.topk import csr_top_k_serial

_QUERIES_AT_ONCE = 4096  # queries whose votes are in memory at once


def as_matrix(ids: np.ndarray, scores: np.ndarray, n_columns: int) -> csr_array:
    """Return ids and scores (n, k), best first, as a sparse matrix with entries in that order; -1 is no id."""
    there = ids >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    indptr = indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)
    return csr_array((scores[there], ids[there].astype(np.int32, copy=False), indptr), shape=(len(ids), n_columns))


def top_k(scores: csr_array, k: int) -> csr_array:
    """Return the k best entries of each row, best first; equal scores rank by smaller column."""
    indptr, indices, data = csr_top_k_serial(scores.indptr, scores.indices, scores.data, k)
    return csr_array((data, indices, indptr), shape=scores.shape)


def weighted_vote(ids: np.ndarray, weights: np.ndarray, Y: csr_array, k: int) -> csr_array:
    """Let the rows that a search found vote for their labels; return the k best labels per query.

    Parameters
    ----------
    ids : array, (n, m)
        Rows of Y that were found for each query; -1 for none.
    weights : array, (n, m)
        Weight of each row's vote, 0 or more. Only their ratios within a query matter.
    Y : csr_array, (N, L)
        Labels of the rows.
    k : int
        Labels to keep per query.

    Returns
    -------
    csr_array, (n, L)
        Share of the votes of each label, 0 to 1, the highest first.
    """
    weights = np.where(ids >= 0, weights, 0).astype(np.float32)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    parts = []
    for start in range(0, max(1, len(ids)), _QUERIES_AT_ONCE):
        block = slice(start, start + _QUERIES_AT_ONCE)
        parts.append(top_k(as_matrix(ids[block], weights[block], Y.shape[0]) @ Y, k))
    if len(parts) == 1:
        return parts[0]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts]))])
    indices, data = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "data"))
    return csr_array((data, indices, indptr.astype(np.int64)), shape=(len(ids), Y.shape[1]))
