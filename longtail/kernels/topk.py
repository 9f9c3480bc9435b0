"""Select the k best scores of a dense row, of a list of candidates, or of every row of a CSR matrix.

The rule is the same everywhere: higher scores first, and of equal scores the smaller index. A ranking therefore never
depends on the order of the candidates. The k best entries are kept in a heap in the caller's output arrays, with the
worst of them at the root. Nothing is allocated, and a score that is too low costs one comparison. Scores must not be
NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inner, njit

# So many scores are compared with the threshold in a loop without an early exit, which LLVM can vectorise.
_COMPARED_AT_ONCE = 128
ABOVE_ZERO, BELOW_ONE, _TRACE_LESS = np.float32(1e-30), np.float32(1 - 2**-23), np.float32(1 - 1e-6)


class TopLabels(NamedTuple):
    """The best labels of each row, their scores, and their number. Kernels fill it."""

    labels: np.ndarray  # (rows, k) int32
    scores: np.ndarray  # (rows, k) float32
    counts: np.ndarray  # (rows,) int64

    @classmethod
    def empty(cls, n_rows: int, k: int) -> TopLabels:
        """Return room for the k best labels of some rows."""
        return cls(np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32), np.zeros(n_rows, np.int64))


@inner(borrows=True)
def sift_down(idx: np.ndarray, val: np.ndarray, at: int, size: int) -> None:
    """Restore the heap below ``at``: every parent ranks after its children, so that the root is the worst entry."""
    i, v = idx[at], val[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (val[right] < val[child] or (val[right] == val[child] and idx[right] > idx[child])):
            child = right
        if v < val[child] or (v == val[child] and i > idx[child]):
            break
        idx[at], val[at] = idx[child], val[child]
        at = child
    idx[at], val[at] = i, v


@njit(cache=True, nogil=True, borrows=True)
def _heapify(idx: np.ndarray, val: np.ndarray, size: int) -> None:
    for at in range(size // 2 - 1, -1, -1):
        sift_down(idx, val, at, size)


@inner(borrows=True)
def sort_heap(idx: np.ndarray, val: np.ndarray, size: int) -> None:
    """Sort the heap into a list, best first, by repeatedly moving the root, which is the worst entry, to the end."""
    for last in range(size - 1, 0, -1):
        idx[0], idx[last] = idx[last], idx[0]
        val[0], val[last] = val[last], val[0]
        sift_down(idx, val, 0, last)


@njit(cache=True, nogil=True, borrows=True)
def top_k_row(scores: np.ndarray, k: int, out_idx: np.ndarray, out_val: np.ndarray) -> int:
    """Write the k best entries of a dense row, best first, ties by smaller index.

    Parameters
    ----------
    scores : array, shape (n,)
        The row. No NaN; minus infinity is an ordinary score.
    k : int
        Number of entries to keep.
    out_idx, out_val : arrays, shape (>= min(k, n),)
        Output: positions and scores. ``out_val`` must have the type of ``scores``, or rounding may cause ties.

    Returns
    -------
    int
        Number of entries written: min(k, n).
    """
    n = scores.shape[0]
    size = min(k, n)
    if size <= 0:
        return 0
    for i in range(size):
        out_idx[i] = i
        out_val[i] = scores[i]
    _heapify(out_idx, out_val, size)
    threshold = out_val[0]
    start = size
    while start < n:
        stop = min(start + _COMPARED_AT_ONCE, n)
        enters = False
        for i in range(start, stop):
            enters |= scores[i] > threshold
        if enters:
            for i in range(start, stop):
                # Indices ascend, so that an equal score ranks after all kept entries: only a greater score can enter.
                if scores[i] > threshold:
                    out_idx[0] = i
                    out_val[0] = scores[i]
                    sift_down(out_idx, out_val, 0, size)
                    threshold = out_val[0]
        start = stop
    sort_heap(out_idx, out_val, size)
    return size


@njit(cache=True, nogil=True, borrows=True)
def top_k_pairs(ids: np.ndarray, scores: np.ndarray, k: int, out_idx: np.ndarray, out_val: np.ndarray) -> int:
    """Write the k best of the candidates ``(ids[i], scores[i])``, best first, ties by smaller id. Return their number.

    This is ``top_k_row`` for a sparse row or a list of candidates. The ids must be distinct, but may be in any order.
    """
    n = ids.shape[0]
    size = min(k, n)
    if size <= 0:
        return 0
    for i in range(size):
        out_idx[i] = ids[i]
        out_val[i] = scores[i]
    _heapify(out_idx, out_val, size)
    for i in range(size, n):
        if scores[i] > out_val[0] or (scores[i] == out_val[0] and ids[i] < out_idx[0]):
            out_idx[0] = ids[i]
            out_val[0] = scores[i]
            sift_down(out_idx, out_val, 0, size)
    sort_heap(out_idx, out_val, size)
    return size


@njit(cache=True, nogil=True, borrows=True)
def fill_places(labels, chance, gain, plain, scale, k, out_labels, out_scores):
    """Fill positions greedily: position j gets the label with the largest chance * (plain[j] + scale[j] gain[label]).

    The last weight holds for all further positions. The score of a label is its probability (`chance`) times its weight
    in the first position. If that is higher than the score of the previous position, it is set slightly below that
    score, so that scores decrease along the ranking. This changes the order of `labels` and `chance`. Return the number
    of positions that were filled.
    """
    n, last = labels.shape[0], plain.shape[0] - 1
    ahead = min(last, n, k)
    for j in range(ahead):
        best, most = j, np.float32(-1.0)
        for i in range(j, n):
            value = chance[i] * (plain[j] + scale[j] * gain[labels[i]])
            if value > most or (value == most and labels[i] < labels[best]):
                best, most = i, value
        labels[j], labels[best] = labels[best], labels[j]
        chance[j], chance[best] = chance[best], chance[j]
        out_labels[j] = labels[j]
        out_scores[j] = chance[j] * (plain[0] + scale[0] * gain[labels[j]])
    for i in range(ahead, n):
        chance[i] *= plain[last] + scale[last] * gain[labels[i]]
    kept = ahead + top_k_pairs(labels[ahead:], chance[ahead:], k - ahead, out_labels[ahead:], out_scores[ahead:])
    for j in range(ahead, kept):
        worth = gain[out_labels[j]]
        out_scores[j] *= (plain[0] + scale[0] * worth) / max(plain[last] + scale[last] * worth, ABOVE_ZERO)
    for j in range(kept):
        highest = BELOW_ONE if j == 0 else out_scores[j - 1] * _TRACE_LESS
        out_scores[j] = max(min(out_scores[j], highest), ABOVE_ZERO)
    return kept


@njit(cache=True, nogil=True)
def _top_k_indptr(indptr: np.ndarray, k: int) -> np.ndarray:
    out = np.zeros_like(indptr)
    for row in range(indptr.shape[0] - 1):
        out[row + 1] = out[row] + min(max(k, 0), indptr[row + 1] - indptr[row])
    return out


@njit(cache=True, nogil=True)
def csr_top_k_serial(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keep the k best stored entries of each row of a CSR matrix, best first, ties by smaller index.

    Stored zeros count as entries. Of rows shorter than k, all entries are kept and sorted.

    Returns
    -------
    indptr, indices, data : arrays
        The kept entries, with the types of the input.
    """
    out_indptr = _top_k_indptr(indptr, k)
    out_indices = np.empty(out_indptr[-1], indices.dtype)
    out_data = np.empty(out_indptr[-1], data.dtype)
    for row in range(indptr.shape[0] - 1):
        lo, hi = indptr[row], indptr[row + 1]
        to, end = out_indptr[row], out_indptr[row + 1]
        top_k_pairs(indices[lo:hi], data[lo:hi], end - to, out_indices[to:end], out_data[to:end])
    return out_indptr, out_indices, out_data
