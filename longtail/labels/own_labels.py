"""Own labels: a label whose text has exactly the words of a point.

Where points and labels are things of one kind (products and the products bought with them, packages and those that they
need), the own label of a point is the thing itself. No label's text is more similar to the point, and it is never
correct. Published data sets of this kind come with a list of such pairs, which their metrics ignore; on other data the
training points show whether own labels are ever correct.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import spread
from longtail.kernels.word_keys import mask_own, write_word_keys
from longtail.sparse import entry_keys

_LEAST_PAIRS = 50  # of training points and their own labels, that are evidence enough
_RARELY = 0.01  # share of these pairs that may be correct nevertheless: different things that share all words


def word_keys(points: SparseRows, n_jobs: int | None = 1) -> np.ndarray:
    """Return a number per point, uint64, that is the same for points with the same words; 0 for those without any."""
    points, out = points.frozen(), np.empty(len(points.ptr) - 1, np.uint64)
    spread(lambda block: write_word_keys(points.ptr, points.idx, points.val, *block, out), len(out), n_jobs)
    return out


def is_own(point_keys: np.ndarray, label_keys: np.ndarray) -> np.ndarray:
    """Return which labels are own labels, from keys of points and of labels; without words nothing is its own label."""
    return (point_keys == label_keys) & (point_keys != 0)


def own_pairs(X: csr_array, Z: csr_array) -> csr_array:
    """Return which labels are each point's own, (N, L), from features of points (N, D) and of label text (L, D)."""
    keys, label_keys = word_keys(SparseRows.of(X)), word_keys(SparseRows.of(Z))
    order = np.argsort(label_keys, kind="stable").astype(np.int32)
    first, last = (np.searchsorted(label_keys[order], keys, side) for side in ("left", "right"))
    counts = np.where(keys == 0, 0, last - first)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    labels = order[np.repeat(first - ptr[:-1], counts) + np.arange(ptr[-1])]
    return csr_array((np.ones(len(labels), np.float32), labels, ptr.astype(np.int32)), (X.shape[0], Z.shape[0]))


def are_rarely_correct(own: csr_array, Y: csr_array) -> bool:
    """Return whether enough training points show that own labels are not correct; `own` as from :func:`own_pairs`."""
    if own.nnz < _LEAST_PAIRS:
        return False
    return bool(np.count_nonzero(np.isin(entry_keys(own), entry_keys(Y))) <= _RARELY * own.nnz)


def mask_own_labels(point_keys: np.ndarray, label_keys: np.ndarray, positions: np.ndarray, n_jobs: int | None) -> None:
    """Replace the own labels of points in lists of positions (N, S) by -1, in place.

    Parameters
    ----------
    point_keys : array, (N,)
        From :func:`word_keys`.
    label_keys : array, (n,)
        Likewise, of the texts of the labels that the positions mean.
    """
    spread(lambda block: mask_own(point_keys, label_keys, *block, positions), len(positions), n_jobs)
