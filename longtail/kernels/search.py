"""Find nearest vectors by inner product: by an exact scan, with matrix products, or in partitions of 8-bit codes.

Vectors are rows of float32. Higher scores are better, and of equal scores the smaller id comes first. Every score that
a search returns is computed by `dot_product`, which adds in one fixed order. A query therefore has the same scores
alone, in a batch, and in every kind of index. Matrix products and 8-bit codes are less exact, and only select the
vectors to score.

All kernels are serial and release the interpreter lock. Values must be finite (see `squares`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inner, kernel, njit
from longtail.kernels.topk import sift_down, sort_heap, top_k_pairs, top_k_row

# Sums may be reordered into vector lanes, but NaN is handled correctly, unlike with fastmath=True.
_SUMS = {"reassoc", "contract", "nsz"}
_ROUNDING = 2.0**-23
_UNIT = 1e-6
_SCORES_AT_ONCE = 128
_CODE = np.float32(127.0)
_DEVIATIONS = np.float32(6.0 / math.sqrt(12.0))  # six standard deviations of the error of rounding to whole steps


class Heaps(NamedTuple):
    """The best vectors so far of each query, the worst of them at the root."""

    ids: np.ndarray  # (rows, k)
    scores: np.ndarray  # (rows, k)
    sizes: np.ndarray  # (rows,)


class Partitions(NamedTuple):
    """Vectors in partitions. The codes of a partition are contiguous in memory."""

    vectors: np.ndarray  # (n, d)
    centroids: np.ndarray  # (partitions, d); partitions are opened in the order of their scores
    indptr: np.ndarray  # (partitions + 1,) start of each partition in `order`
    order: np.ndarray  # (n,) ids of the vectors, partition after partition
    codes: np.ndarray  # (n, d) int8, in that order
    scales: np.ndarray  # (n,) a vector is approximately scale * code


class Effort(NamedTuple):
    """Limits of a search."""

    n_probe: int  # largest number of partitions to open
    reach: float  # stop at a partition whose centroid has less than this share of the best vector's score
    n_rescored: int  # largest number of vectors to score exactly
    hubs: bool  # whether the first partition is always opened first, independent of its centroid


@inner(fastmath=_SUMS)
def dot_product(a, b):
    """Return the inner product of two vectors, added in one fixed order."""
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _code_dot(query, code):
    # Numba would widen each step to 64 bits. With these casts, 16 products are one multiply-add instruction.
    total = np.int32(0)
    for i in range(query.shape[0]):
        total = np.int32(total + np.int32(np.int32(query[i]) * np.int32(code[i])))
    return total


@kernel
def _push(ids, values, size, new_id, value):
    """Add an entry to a heap that is not full (`size` < its capacity), with the worst entry at the root."""
    at = size
    ids[at], values[at] = new_id, value
    while at > 0:
        up = (at - 1) // 2
        if values[up] < value or (values[up] == value and ids[up] > new_id):
            break
        ids[at], values[at] = ids[up], values[up]
        at = up
    ids[at], values[at] = new_id, value


@kernel
def _offer(ids, values, size, k, new_id, value):
    """Add an entry to a heap of at most k entries, if it is good enough. Return the size of the heap."""
    if size < k:
        _push(ids, values, size, new_id, value)
        return size + 1
    if value > values[0] or (value == values[0] and new_id < ids[0]):
        ids[0], values[0] = new_id, value
        sift_down(ids, values, 0, k)
    return size


@kernel
def squares(rows, out):
    """Compute the squared length of each row. Return the first row whose length is too large or not finite, or -1."""
    for i in range(rows.shape[0]):
        out[i] = dot_product(rows[i], rows[i])
        if not out[i] <= 1e37:  # so that no product or squared distance of two rows overflows
            return i
    return -1


@kernel
def all_unit(squares):
    """Return whether all squared lengths are 1, up to rounding errors."""
    far = 0
    for i in range(squares.shape[0]):
        far += abs(squares[i] - 1) > _UNIT
    return far == 0


@kernel
def scale_rows(rows, out):
    """Scale rows to length 1. Rows of zeros, and rows that have length 1 already, are copied without any change."""
    for i in range(rows.shape[0]):
        largest = np.float32(0.0)
        for j in range(rows.shape[1]):
            largest = max(largest, abs(rows[i, j]))
        if largest == 0 or abs(dot_product(rows[i], rows[i]) - 1) <= _UNIT:
            out[i] = rows[i]
            continue
        for j in range(rows.shape[1]):  # first scale so that squares neither overflow nor underflow
            out[i, j] = rows[i, j] / largest
        length = np.float32(math.sqrt(dot_product(out[i], out[i])))
        for j in range(rows.shape[1]):
            out[i, j] /= length


@kernel
def scan(query, vectors, k, ids, scores):
    """Find the k best vectors for one query, best first, and return their number. `ids` and `scores` have k entries."""
    n = vectors.shape[0]
    size = 0
    block = np.empty(_SCORES_AT_ONCE, np.float32)
    for start in range(0, n, _SCORES_AT_ONCE):
        m = min(_SCORES_AT_ONCE, n - start)
        for i in range(m):
            block[i] = dot_product(query, vectors[start + i])
        for i in range(m):
            if size < k or block[i] > scores[0]:  # ids ascend, so that an equal score ranks after those kept
                size = _offer(ids, scores, size, k, start + i, block[i])
    sort_heap(ids, scores, size)
    return size


@kernel
def add_products(products, queries, vectors, start, slack, first, last, heaps):
    """Add a block of vectors to the heaps of query rows first..last, with exact scores.

    `products` (rows, n) is the matrix product of all query rows with vectors ``start..start + n``. The error of each
    entry is at most ``slack[row]``. Vectors that could be among the k best are scored again by `dot_product`, so that
    the heaps are exact after every block.
    """
    n, k = products.shape[1], heaps.ids.shape[1]
    for row in range(first, last):
        ids, scores = heaps.ids[row], heaps.scores[row]
        size = heaps.sizes[row]
        at = 0
        while at < n:
            stop = min(at + _SCORES_AT_ONCE, n)
            floor = np.float32(scores[0] - slack[row]) if size == k else np.float32(-np.inf)
            some = False
            for i in range(at, stop):
                some |= products[row, i] >= floor
            if some:
                for i in range(at, stop):
                    if size < k or products[row, i] >= scores[0] - slack[row]:
                        size = _offer(ids, scores, size, k, start + i, dot_product(queries[row], vectors[start + i]))
            at = stop
        heaps.sizes[row] = size


@kernel
def rounding_slack(query_squares, largest, width, slack):
    """Compute a bound on the difference between two sums of each query's product with any vector, in any order.

    The error of a sum of `width` terms is at most ``width * 2^-24 * |q| |v|``. `largest` is the largest squared length
    of a vector.
    """
    for row in range(query_squares.shape[0]):
        slack[row] = (width + 8) * _ROUNDING * math.sqrt(query_squares[row] * largest)


@kernel
def sort_rows(ids, scores, sizes, first, last):
    """Sort the heaps of rows first..last into lists, best first."""
    for row in range(first, last):
        sort_heap(ids[row], scores[row], sizes[row])


@kernel
def rescore(queries, vectors, candidates, first, last, ids, scores):
    """Score the `candidates` (rows, m) of another search exactly (-1 for none), and keep the best, as many as fit."""
    width, k = candidates.shape[1], ids.shape[1]
    some_ids = np.empty(width, np.int32)
    some_scores = np.empty(width, np.float32)
    for row in range(first, last):
        n = 0
        for j in range(width):
            if candidates[row, j] >= 0:
                some_ids[n] = candidates[row, j]
                some_scores[n] = dot_product(queries[row], vectors[candidates[row, j]])
                n += 1
        size = top_k_pairs(some_ids[:n], some_scores[:n], k, ids[row], scores[row])
        ids[row, size:] = -1
        scores[row, size:] = -np.inf


@kernel
def encode_int8(vectors, order, first, last, codes, scales):
    """Compute 8-bit codes of the vectors ``order[first..last]``: ``vector ~ scale * code``, one scale per vector."""
    for at in range(first, last):
        vector = vectors[order[at]]
        largest = np.float32(0.0)
        for j in range(vector.shape[0]):
            largest = max(largest, abs(vector[j]))
        scales[at] = largest / _CODE
        for j in range(vector.shape[0]):
            codes[at, j] = np.int8(np.rint(vector[j] / largest * _CODE)) if largest > 0 else np.int8(0)


@inner
def _fine_query(query, steps):
    """Round the query to multiples of a step. Return the multiples, and the size of the step.

    Steps are finer than those of the codes: as fine as possible without overflow of a 32-bit sum of all products.
    """
    largest = np.float32(0.0)
    for j in range(query.shape[0]):
        largest = max(largest, abs(query[j]))
    fine = np.zeros(query.shape[0], np.int16)
    if largest > 0:
        for j in range(query.shape[0]):
            fine[j] = np.int16(np.rint(query[j] / largest * steps))
    return fine, largest / steps


@kernel
def probe(query, parts, effort, k, ids, scores):
    """Find the k best vectors of the partitions nearest to one query, best first.

    Return the number of vectors that were found, and the number of partitions that were opened.

    Partitions are opened in the order of their centroids' scores, with the partition of hubs first, up to the limits of
    `effort`. If they have fewer vectors than should be scored exactly (at least 2 k), more are opened, so that
    min(k, n) vectors are always found. Vectors are first ranked by their codes. Those that could be among the k best
    are then scored exactly, assuming that the error of a code is less than six standard deviations of its rounding
    error.
    """
    n_partitions, width = parts.centroids.shape
    if n_partitions == 0:
        return 0, 0
    n_rescored = max(effort.n_rescored, 2 * k)
    near = np.empty(n_partitions, np.float32)
    for p in range(n_partitions):
        near[p] = dot_product(query, parts.centroids[p])
    if effort.hubs:
        near[0] = np.inf
    best = np.empty(n_partitions, np.int32)
    best_near = np.empty(n_partitions, np.float32)
    n_best = top_k_row(near, min(effort.n_probe, n_partitions), best, best_near)
    fine, unit = _fine_query(query, np.float32(min(8191, 16_000_000 // width)))
    heap = np.empty(n_rescored, np.int32)
    values = np.empty(n_rescored, np.float32)
    size = 0
    opened = 0
    top, coarsest = np.float32(-np.inf), np.float32(0.0)
    b = 0
    while b < n_partitions:
        if opened >= n_rescored and (b >= effort.n_probe or (top > 0 and best_near[b] < effort.reach * top)):
            break
        if b == n_best:  # too few vectors in the partitions ranked so far
            n_best = top_k_row(near, n_partitions, best, best_near)
        lo, hi = parts.indptr[best[b]], parts.indptr[best[b] + 1]
        opened += hi - lo
        for at in range(lo, hi):
            value = unit * parts.scales[at] * np.float32(_code_dot(fine, parts.codes[at]))
            top = max(top, value)
            coarsest = max(coarsest, parts.scales[at])
            if size < n_rescored:
                _push(heap, values, size, np.int32(at), value)
                size += 1
            elif value > values[0]:
                heap[0], values[0] = at, value
                sift_down(heap, values, 0, n_rescored)
        b += 1
    by_code = np.empty(min(k, size), np.int32)
    code_values = np.empty(min(k, size), np.float32)
    top_k_pairs(heap[:size], values[:size], k, by_code, code_values)
    error = coarsest * _DEVIATIONS * np.float32(math.sqrt(dot_product(query, query)))
    floor = code_values[-1] - 2 * error
    n = 0
    for s in range(size):
        if values[s] >= floor:
            found = parts.order[heap[s]]
            heap[n] = found
            values[n] = dot_product(query, parts.vectors[found])
            n += 1
    return top_k_pairs(heap[:n], values[:n], k, ids, scores), b


@kernel
def scan_codes(query, parts, k, ids, scores):
    """Find the k best of all vectors for one query, best first. Return the number of vectors that were found.

    All vectors are scored by their codes. Those that could be among the k best are then scored exactly, assuming that
    the error of a code is less than six standard deviations of its rounding error.
    """
    n, width = parts.codes.shape
    fine, unit = _fine_query(query, np.float32(min(8191, 16_000_000 // width)))
    error = _DEVIATIONS * np.float32(math.sqrt(dot_product(query, query)))
    values = np.empty(n, np.float32)
    for at in range(n):
        values[at] = unit * parts.scales[at] * np.float32(_code_dot(fine, parts.codes[at]))
    size = 0
    for at in range(n):
        surely = values[at] - error * parts.scales[at]
        if size < k or surely > scores[0]:
            size = _offer(ids, scores, size, k, at, surely)
    floor = scores[0] if size == k else np.float32(-np.inf)
    size = 0
    for at in range(n):
        if values[at] + error * parts.scales[at] >= floor:
            found = parts.order[at]
            size = _offer(ids, scores, size, k, found, dot_product(query, parts.vectors[found]))
    sort_heap(ids, scores, size)
    return size


@kernel
def scan_codes_of_rows(queries, first, last, parts, ids, scores):
    """Run `scan_codes` for rows first..last of the queries. k is the number of columns of `ids`."""
    for row in range(first, last):
        size = scan_codes(queries[row], parts, ids.shape[1], ids[row], scores[row])
        ids[row, size:] = -1
        scores[row, size:] = -np.inf


@kernel
def probe_rows(queries, first, last, parts, effort, ids, scores):
    """Run `probe` for rows first..last of the queries. k is the number of columns of `ids`."""
    for row in range(first, last):
        size, _ = probe(queries[row], parts, effort, ids.shape[1], ids[row], scores[row])
        ids[row, size:] = -1
        scores[row, size:] = -np.inf


@kernel
def nearest(products, first, last, out):
    """Write the column of the highest product of each of rows first..last, the first one of equals."""
    for row in range(first, last):
        best = 0
        high = np.float32(-np.inf)
        for c in range(products.shape[1]):
            if products[row, c] > high:
                high = products[row, c]
                best = c
        out[row] = best


@kernel
def sum_members(vectors, rows, partition, n_partitions):
    """Sum and count the vectors ``vectors[rows[i]]`` in each ``partition[i]``."""
    sums = np.zeros((n_partitions, vectors.shape[1]), np.float32)
    counts = np.zeros(n_partitions, np.int64)
    for i in range(rows.shape[0]):
        p = partition[i]
        counts[p] += 1
        vector = vectors[rows[i]]
        for j in range(vector.shape[0]):
            sums[p, j] += vector[j]
    return sums, counts
