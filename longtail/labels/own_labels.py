"""Own labels: labels whose text has exactly the words of a point.

In some data sets points and labels are things of the same kind, such as products and the products bought with them, or
packages and the packages that they need. There the own label of a point is the thing itself. Its text is the most
similar of all, but it is never correct. Published data sets of this kind come with a list of such pairs, and their
metrics ignore these. On other data, the training points show whether own labels are ever correct.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import spread
from longtail.kernels.word_keys import mask_own, write_word_keys
from longtail.sparse import entry_keys

_LEAST_PAIRS = 50  # pairs of a training point and its own label that are needed as evidence
_RARELY = 0.01  # share of these pairs that may be correct: different things may have the same words


def word_keys(points: SparseRows, n_jobs: int | None = 1) -> np.ndarray:
    """Return one key per point (uint64). Points with the same words have the same key; points without words have 0."""
    points, out = points.frozen(), np.empty(len(points.ptr) - 1, np.uint64)
    spread(lambda block: write_word_keys(points.ptr, points.idx, points.val, *block, out), len(out), n_jobs)
    return out


def is_own(point_keys: np.ndarray, label_keys: np.ndarray) -> np.ndarray:
    """Return where the keys of points equal those of labels; a point without words has no own label."""
    return (point_keys == label_keys) & (point_keys != 0)


def own_pairs(X: csr_array, Z: csr_array) -> csr_array:
    """Return the own labels of each point as a matrix of ones (N, L), given points X (N, D) and label text Z (L, D)."""
    keys, label_keys = word_keys(SparseRows.of(X)), word_keys(SparseRows.of(Z))
    order = np.argsort(label_keys, kind="stable").astype(np.int32)
    first, last = (np.searchsorted(label_keys[order], keys, side) for side in ("left", "right"))
    counts = np.where(keys == 0, 0, last - first)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    labels = order[np.repeat(first - ptr[:-1], counts) + np.arange(ptr[-1])]
    return csr_array((np.ones(len(labels), np.float32), labels, ptr.astype(np.int32)), (X.shape[0], Z.shape[0]))


def are_rarely_correct(own: csr_array, Y: csr_array) -> bool:
    """Return whether the training points show that own labels are not correct; `own` is from :func:`own_pairs`."""
    if own.nnz < _LEAST_PAIRS:
        return False
    return bool(np.count_nonzero(np.isin(entry_keys(own), entry_keys(Y))) <= _RARELY * own.nnz)


def mask_own_labels(point_keys: np.ndarray, label_keys: np.ndarray, positions: np.ndarray, n_jobs: int | None) -> None:
    """Replace the own labels of points by -1, in place.

    Parameters
    ----------
    point_keys : array, (N,)
        Keys of the points, from :func:`word_keys`.
    label_keys : array, (n,)
        Keys of the label texts, from :func:`word_keys`.
    positions : array, (N, S)
        Labels of each point, as positions in `label_keys`; -1 for none.
    n_jobs : int or None
        Number of threads; all cores for None.
    """
    spread(lambda block: mask_own(point_keys, label_keys, *block, positions), len(positions), n_jobs)
