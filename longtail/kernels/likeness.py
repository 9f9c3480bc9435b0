"""How alike points and labels are as sparse vectors, for given pairs.

Serial, free of the interpreter lock, over a range of rows: see :mod:`longtail.kernels.pool`.
"""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit


@njit(cache=True, nogil=True)
def _feature_slot(keys, feature):
    """Slot of a feature in an open hash table whose length is a power of two; free slots hold -1."""
    mask = np.uint32(keys.shape[0] - 1)
    slot = (np.uint32(feature) * np.uint32(2654435761) >> np.uint32(8)) & mask
    while keys[slot] >= 0 and keys[slot] != feature:
        slot = (slot + np.uint32(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def write_likeness(points, vectors, labels, first, last, out):
    """Compare rows first..last with each of their listed labels, whose sparse vectors are `vectors` (ptr, idx, val).

    labels (N, S) : -1 after the last. out (N, S, 1 or 3) gets the inner product with the row scaled to length 1; then
    the share of the label's squared length that lies on features of the row, and the share of the row's that lies on
    features of the label.
    """
    shares = out.shape[2] > 1
    keys = np.empty(16, np.int32)
    values = np.empty(16, np.float32)
    for i in range(first, last):
        begin, end = points.ptr[i], points.ptr[i + 1]
        size = 16
        while size < 4 * (end - begin):
            size *= 2
        if size > keys.shape[0]:
            keys = np.empty(size, np.int32)
            values = np.empty(size, np.float32)
        table, held = keys[:size], values[:size]
        table[:] = -1
        square = 0.0
        for p in range(begin, end):
            square += np.float64(points.val[p]) * np.float64(points.val[p])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(1.0)
        for p in range(begin, end):
            slot = _feature_slot(table, points.idx[p])
            table[slot] = points.idx[p]
            held[slot] = points.val[p] * scale
        for a in range(labels.shape[1]):
            label = labels[i, a]
            out[i, a] = 0.0
            if label < 0:
                continue
            product, length, covered, covers = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
            for q in range(vectors.ptr[label], vectors.ptr[label + 1]):
                v = vectors.val[q]
                length += v * v
                slot = _feature_slot(table, vectors.idx[q])
                if table[slot] >= 0:
                    x = held[slot]
                    product += x * v
                    covered += v * v
                    covers += x * x
            out[i, a, 0] = product
            if shares:
                out[i, a, 1] = covered / length if length > 0 else np.float32(0.0)
                out[i, a, 2] = covers
