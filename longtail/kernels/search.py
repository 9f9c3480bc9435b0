"""Nearest vectors: an exact scan, candidates of a matrix product made exact, and partitions scanned in eight bits.

Vectors are rows of float32. A score is an inner product, or minus the squared distance where `l2` is set; higher is
better, equal scores rank by smaller id. Every score that leaves this file comes from `_score`, which adds up in one
fixed order: a query has the same scores alone, in a batch, and in every kind of index. Matrix products and eight-bit
codes, whose sums differ in the last digits or more, only decide which vectors are worth scoring.

All kernels are serial and release the interpreter lock. Not-a-numbers must be kept out (see `squares`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from longtail.kernels.topk import _sift_down, _sort_heap, top_k_pairs, top_k_row

# Sums may be reordered into vector lanes, but not-a-number stays one, unlike under fastmath=True.
_SUMS = {"reassoc", "contract", "nsz"}
_ROUNDING = 2.0**-23
_UNIT = 1e-6
_BLOCK = 128
_CODE = np.float32(127.0)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _dot(a, b):
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _distance(a, b):
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        gap = a[i] - b[i]
        total += gap * gap
    return total


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _code_dot(query, code):
    # Casts keep every step in 32 bits, where Numba would widen to 64: this becomes one multiply-add of 16 products.
    total = np.int32(0)
    for i in range(query.shape[0]):
        total = np.int32(total + np.int32(np.int32(query[i]) * np.int32(code[i])))
    return total


@njit(cache=True, nogil=True)
def _score(query, vector, l2):
    return -_distance(query, vector) if l2 else _dot(query, vector)


@njit(cache=True, nogil=True)
def _push(ids, values, size, new_id, value):
    """Offer an entry to a heap that is not full yet (`size` < its capacity), worst entry at the root."""
    at = size
    ids[at], values[at] = new_id, value
    while at > 0:
        up = (at - 1) // 2
        if values[up] < value or (values[up] == value and ids[up] > new_id):
            break
        ids[at], values[at] = ids[up], values[up]
        at = up
    ids[at], values[at] = new_id, value


@njit(cache=True, nogil=True)
def _offer(ids, values, size, k, new_id, value):
    """Offer an entry to a heap of at most k; returns its size afterwards."""
    if size < k:
        _push(ids, values, size, new_id, value)
        return size + 1
    if value > values[0] or (value == values[0] and new_id < ids[0]):
        ids[0], values[0] = new_id, value
        _sift_down(ids, values, 0, k)
    return size


@njit(cache=True, nogil=True)
def squares(rows, out):
    """Squared length of each row; returns the first row whose length is not a number or too large, or -1."""
    for i in range(rows.shape[0]):
        out[i] = _dot(rows[i], rows[i])
        if not out[i] <= 1e37:  # so that no product or squared distance of two rows overflows
            return i
    return -1


@njit(cache=True, nogil=True)
def all_unit(squares):
    """Whether all these squared lengths are one, as far as float32 can tell."""
    far = 0
    for i in range(squares.shape[0]):
        far += abs(squares[i] - 1) > _UNIT
    return far == 0


@njit(cache=True, nogil=True)
def unit_rows(rows, out):
    """Rows of unit length. What is zero stays zero; what has unit length already stays as it is, bit for bit."""
    for i in range(rows.shape[0]):
        largest = np.float32(0.0)
        for j in range(rows.shape[1]):
            largest = max(largest, abs(rows[i, j]))
        if largest == 0 or abs(_dot(rows[i], rows[i]) - 1) <= _UNIT:
            out[i] = rows[i]
            continue
        for j in range(rows.shape[1]):  # first to a size whose square neither overflows nor vanishes
            out[i, j] = rows[i, j] / largest
        length = np.float32(math.sqrt(_dot(out[i], out[i])))
        for j in range(rows.shape[1]):
            out[i, j] /= length


@njit(cache=True, nogil=True)
def scan(query, vectors, l2, k, ids, scores):
    """The k best of all vectors for one query, best first; returns how many. `ids` and `scores` hold at least k."""
    n = vectors.shape[0]
    size = 0
    block = np.empty(_BLOCK, np.float32)
    for start in range(0, n, _BLOCK):
        m = min(_BLOCK, n - start)
        for i in range(m):
            block[i] = _score(query, vectors[start + i], l2)
        for i in range(m):
            if size < k or block[i] > scores[0]:  # ids only grow, so an equal score ranks after all that are kept
                size = _offer(ids, scores, size, k, start + i, block[i])
    _sort_heap(ids, scores, size)
    return size


@njit(cache=True, nogil=True)
def keep_best(
    products, queries, vectors, query_squares, squares, largest, l2, start, first, last, k, ids, scores, sizes
):
    """Take in a block of inner products, exactly, for query rows first..last.

    `products` (rows, n) are of all query rows with vectors ``start..start + n``, from a matrix product. Whatever could
    belong to the k best by more than rounding can explain is scored again by `_score`, so the heaps in ``ids[row]``,
    ``scores[row]`` and ``sizes[row]`` are exact after every block. `largest` bounds the squared length of a vector.
    """
    n = products.shape[1]
    width = vectors.shape[1]
    for row in range(first, last):
        own = query_squares[row]
        # Each of two sums of `width` products is off by at most width * 2^-24 * |q| |v|, whatever its order.
        if l2:
            slack = (width + 8) * _ROUNDING * (math.sqrt(own) + math.sqrt(largest)) ** 2
        else:
            slack = (width + 8) * _ROUNDING * math.sqrt(own * largest)
        size = sizes[row]
        at = 0
        while at < n:
            stop = min(at + _BLOCK, n)
            floor = np.float32(scores[row, 0] - slack) if size == k else np.float32(-np.inf)
            some = False
            if l2:
                for i in range(at, stop):
                    some |= np.float32(2.0) * products[row, i] - squares[start + i] - own >= floor
            else:
                for i in range(at, stop):
                    some |= products[row, i] >= floor
            if some:
                for i in range(at, stop):
                    near = products[row, i]
                    if l2:
                        near = np.float32(2.0) * near - squares[start + i] - own
                    if size < k or near >= scores[row, 0] - slack:
                        exact = _score(queries[row], vectors[start + i], l2)
                        size = _offer(ids[row], scores[row], size, k, start + i, exact)
            at = stop
        sizes[row] = size


@njit(cache=True, nogil=True)
def sort_rows(ids, scores, sizes, first, last):
    """Turn the heaps of rows first..last into lists, best first."""
    for row in range(first, last):
        _sort_heap(ids[row], scores[row], sizes[row])


@njit(cache=True, nogil=True)
def rescore(queries, vectors, l2, found, first, last, k, ids, scores):
    """The k best, exactly, among the candidates ``found`` (rows, m) of another search, -1 where it found fewer."""
    width = found.shape[1]
    some_ids = np.empty(width, np.int32)
    some_scores = np.empty(width, np.float32)
    for row in range(first, last):
        n = 0
        for j in range(width):
            if found[row, j] >= 0:
                some_ids[n] = found[row, j]
                some_scores[n] = _score(queries[row], vectors[found[row, j]], l2)
                n += 1
        size = top_k_pairs(some_ids[:n], some_scores[:n], k, ids[row], scores[row])
        ids[row, size:] = -1
        scores[row, size:] = -np.inf


@njit(cache=True, nogil=True)
def encode(vectors, order, first, last, codes, scales):
    """Eight-bit codes of the vectors ``order[first..last]``: ``vector ~ scale * code``, a scale for each."""
    for at in range(first, last):
        vector = vectors[order[at]]
        largest = np.float32(0.0)
        for j in range(vector.shape[0]):
            largest = max(largest, abs(vector[j]))
        scales[at] = largest / _CODE
        for j in range(vector.shape[0]):
            codes[at, j] = np.int8(np.rint(vector[j] / largest * _CODE)) if largest > 0 else np.int8(0)


@njit(cache=True, nogil=True)
def rank_partitions(query, centroids, centroid_squares, l2, scores):
    """How near each partition is to the query."""
    for p in range(centroids.shape[0]):
        near = _dot(query, centroids[p])
        scores[p] = np.float32(2.0) * near - centroid_squares[p] if l2 else near


@njit(cache=True, nogil=True)
def probe(
    query, vectors, squares, l2, centroids, centroid_squares, indptr, order, codes, scales, n_probe, n_rescored,
    k, ids, scores,
):  # fmt: skip
    """The k best vectors of the `n_probe` partitions nearest to one query, best first; returns how many.

    Codes of a partition lie together and are read in one stream. The `n_rescored` best by code are scored again
    exactly. More partitions are opened where these hold fewer vectors than that, so that min(k, n) are always found.
    """
    n_partitions, width = centroids.shape
    if n_partitions == 0:
        return 0
    n_rescored = max(n_rescored, 2 * k)
    near = np.empty(n_partitions, np.float32)
    rank_partitions(query, centroids, centroid_squares, l2, near)
    best = np.empty(n_partitions, np.int32)
    best_near = np.empty(n_partitions, np.float32)
    n_best = top_k_row(near, n_probe, best, best_near)
    total = 0
    for b in range(n_best):
        total += indptr[best[b] + 1] - indptr[best[b]]
    if total < n_rescored and n_best < n_partitions:
        n_best = top_k_row(near, n_partitions, best, best_near)

    largest = np.float32(0.0)
    for j in range(width):
        largest = max(largest, abs(query[j]))
    # The query has finer steps than the codes: as fine as a 32-bit sum of `width` products bears.
    steps = np.float32(min(8191, 16_000_000 // width))
    fine = np.zeros(width, np.int16)
    if largest > 0:
        for j in range(width):
            fine[j] = np.int16(np.rint(query[j] / largest * steps))
    unit = largest / steps * (np.float32(2.0) if l2 else np.float32(1.0))

    heap = np.empty(n_rescored, np.int32)
    values = np.empty(n_rescored, np.float32)
    size = 0
    opened = 0
    for b in range(n_best):
        if b >= n_probe and opened >= n_rescored:
            break
        lo, hi = indptr[best[b]], indptr[best[b] + 1]
        opened += hi - lo
        for at in range(lo, hi):
            value = unit * scales[at] * np.float32(_code_dot(fine, codes[at]))
            if l2:
                value -= squares[order[at]]
            if size < n_rescored:
                _push(heap, values, size, np.int32(at), value)
                size += 1
            elif value > values[0]:
                heap[0], values[0] = at, value
                _sift_down(heap, values, 0, n_rescored)
    for s in range(size):
        found = order[heap[s]]
        heap[s] = found
        values[s] = _score(query, vectors[found], l2)
    return top_k_pairs(heap[:size], values[:size], k, ids, scores)


@njit(cache=True, nogil=True)
def probe_rows(
    queries, first, last, vectors, squares, l2, centroids, centroid_squares, indptr, order, codes, scales, n_probe,
    n_rescored, k, ids, scores,
):  # fmt: skip
    """`probe` for rows first..last of the queries."""
    for row in range(first, last):
        size = probe(
            queries[row], vectors, squares, l2, centroids, centroid_squares, indptr, order, codes, scales, n_probe,
            n_rescored, k, ids[row], scores[row],
        )  # fmt: skip
        ids[row, size:] = -1
        scores[row, size:] = -np.inf


@njit(cache=True, nogil=True)
def nearest(products, centroid_squares, l2, first, last, out):
    """The nearest centroid of rows first..last from their inner products (rows, centroids) with all of them."""
    for row in range(first, last):
        best = 0
        high = np.float32(-np.inf)
        for c in range(products.shape[1]):
            near = products[row, c]
            if l2:
                near = np.float32(2.0) * near - centroid_squares[c]
            if near > high:
                high = near
                best = c
        out[row] = best


@njit(cache=True, nogil=True)
def sum_members(vectors, rows, partition, n_partitions):
    """Sum and number of the vectors ``vectors[rows[i]]`` in each ``partition[i]``."""
    sums = np.zeros((n_partitions, vectors.shape[1]), np.float32)
    counts = np.zeros(n_partitions, np.int64)
    for i in range(rows.shape[0]):
        p = partition[i]
        counts[p] += 1
        vector = vectors[rows[i]]
        for j in range(vector.shape[0]):
            sums[p, j] += vector[j]
    return sums, counts
