"""Count for the metrics which predictions are correct, and the gains of these and of the best possible ranking.

The kernels are serial: 100,000 points take tens of milliseconds. Sums are in the order of the rows, so that metrics do
not depend on the number of threads. They may be called from any thread.
"""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit
from longtail.kernels.topk import top_k_pairs


@njit(cache=True, nogil=True)
def _is_in(sorted_ids: np.ndarray, lo: int, hi: int, label: int) -> bool:
    """Return whether ``label`` is in ``sorted_ids[lo:hi]``. Use bisection, as a point may have hundreds of labels."""
    while lo < hi:
        middle = (lo + hi) // 2
        if sorted_ids[middle] < label:
            lo = middle + 1
        elif sorted_ids[middle] > label:
            hi = middle
        else:
            return True
    return False


@njit(cache=True, nogil=True)
def first_repeat(indptr: np.ndarray, indices: np.ndarray, n_labels: int) -> int:
    """Return the first row with a duplicate label, or -1."""
    last_row = np.zeros(n_labels, np.int64)  # of each label, counted from 1
    for row in range(indptr.shape[0] - 1):
        for p in range(indptr[row], indptr[row + 1]):
            if last_row[indices[p]] == row + 1:
                return row
            last_row[indices[p]] = row + 1
    return -1


@njit(cache=True, nogil=True)
def csr_is_in(indptr: np.ndarray, indices: np.ndarray, set_indptr: np.ndarray, set_indices: np.ndarray) -> np.ndarray:
    """Return for each entry of a CSR pattern whether another pattern, with sorted rows, has it, too: (nnz,) bool."""
    found = np.zeros(indices.shape[0], np.bool_)
    for row in range(indptr.shape[0] - 1):
        lo, hi = set_indptr[row], set_indptr[row + 1]
        if lo < hi:
            for i in range(indptr[row], indptr[row + 1]):
                found[i] = _is_in(set_indices, lo, hi, indices[i])
    return found


@njit(cache=True, nogil=True)
def csr_top_k_scaled(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, factors: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rank each row by ``data * factors[indices]`` and keep the k best, best first. Return indptr and indices."""
    n_rows = indptr.shape[0] - 1
    out_indptr = np.zeros_like(indptr)
    longest = 0
    for row in range(n_rows):
        length = indptr[row + 1] - indptr[row]
        longest = max(longest, length)
        out_indptr[row + 1] = out_indptr[row] + min(k, length)
    out_indices = np.empty(out_indptr[n_rows], indices.dtype)
    kept = np.empty(k, data.dtype)
    scaled = np.empty(longest, data.dtype)
    for row in range(n_rows):
        lo, hi = indptr[row], indptr[row + 1]
        for i in range(lo, hi):
            scaled[i - lo] = data[i] * factors[indices[i]]
        top_k_pairs(indices[lo:hi], scaled[: hi - lo], k, out_indices[out_indptr[row] :], kept)
    return out_indptr, out_indices


@njit(cache=True, nogil=True)
def tally(
    true_indptr: np.ndarray,
    true_indices: np.ndarray,
    ranked_indptr: np.ndarray,
    ranked_indices: np.ndarray,
    weights: np.ndarray,
    ks: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Count the correct predictions of a ranking at each k, and sum their gains.

    Parameters
    ----------
    true_indptr, true_indices : arrays
        CSR pattern of the truth, rows sorted and without duplicates. Rows without labels are skipped.
    ranked_indptr, ranked_indices : arrays
        CSR pattern of the predictions, each row best first.
    weights : array, shape (L,)
        Weight of each label: its inverse propensity.
    ks : int array, shape (K,)
        Cut-offs, ascending and distinct.

    Returns
    -------
    sums : array, shape (K, 7)
        Sums over the rows that have labels, for the first ``ks[j]`` predictions: number of correct ones; their weights;
        their weights times the discounts of their ranks; the last two sums for the best possible ranking; nDCG; recall.
    right_at : int array, shape (nnz of the predictions,)
        The rank, from 1, of each correct prediction; 0 for the others and for those beyond the largest k.
    n_points : int
        Number of rows with labels.
    twice : int
        The first row with a duplicate label within the largest k, or -1. If there is one, all other results are
        meaningless.
    """
    depth = ks[-1]
    discount = 1.0 / np.log2(np.arange(depth) + 2.0)
    ideal_dcg = np.cumsum(discount)
    sums = np.zeros((ks.shape[0], 7))
    right_at = np.zeros(ranked_indices.shape[0], np.int32)
    best = np.empty(depth)  # the largest weights of the row, descending: the best possible ranking
    n_points = 0
    for row in range(true_indptr.shape[0] - 1):
        lo, hi = true_indptr[row], true_indptr[row + 1]
        n_true = hi - lo
        if n_true == 0:
            continue
        n_points += 1
        n_best = 0
        for i in range(lo, hi):
            weight = weights[true_indices[i]]
            if n_best < depth:
                at = n_best
                n_best += 1
            elif weight > best[depth - 1]:
                at = depth - 1
            else:
                continue
            while at > 0 and best[at - 1] < weight:
                best[at] = best[at - 1]
                at -= 1
            best[at] = weight
        start, n_ranked = ranked_indptr[row], ranked_indptr[row + 1] - ranked_indptr[row]
        right = 0
        dcg = gained = gained_dcg = best_gain = best_dcg = 0.0
        j = 0
        for rank in range(depth):
            if rank < n_ranked:
                label = ranked_indices[start + rank]
                for i in range(start, start + rank):
                    if ranked_indices[i] == label:
                        return sums, right_at, n_points, row
                if _is_in(true_indices, lo, hi, label):
                    right += 1
                    right_at[start + rank] = rank + 1
                    dcg += discount[rank]
                    gained += weights[label]
                    gained_dcg += weights[label] * discount[rank]
            if rank < n_best:
                best_gain += best[rank]
                best_dcg += best[rank] * discount[rank]
            if rank + 1 == ks[j]:
                sums[j, 0] += right
                sums[j, 1] += gained
                sums[j, 2] += gained_dcg
                sums[j, 3] += best_gain
                sums[j, 4] += best_dcg
                sums[j, 5] += dcg / ideal_dcg[min(rank + 1, n_true) - 1]
                sums[j, 6] += right / n_true
                j += 1
    return sums, right_at, n_points, -1
