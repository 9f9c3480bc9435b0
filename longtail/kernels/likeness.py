"""Compute the similarity of points and labels as sparse vectors, for given pairs.

Kernels are serial, release the interpreter lock and process a range of rows: see :mod:`longtail.kernels.pool`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inner, njit
from longtail.kernels.prefetch import LINE_BYTES, prefetch

_FEW_FEATURES = 32  # of a point, whose larger table stays in the fastest cache


class LabelVectors(NamedTuple):
    """Sparse vectors of labels, of length 1 or empty. If `ptr` has a single entry, there are no vectors at all."""

    ptr: np.ndarray  # (L + 1,)
    idx: np.ndarray
    val: np.ndarray


class Profile(NamedTuple):
    """The vectors for comparing pairs: label texts give 3 features of a pair, means of labels' points give 1."""

    text: LabelVectors
    centroids: LabelVectors


@inner(borrows=True)
def _feature_slot(keys, mask, feature):
    """Find the slot of a feature in an open hash table of mask + 1 slots, a power of two. Free slots hold -1."""
    slot = (np.uint32(feature) * np.uint32(2654435761) >> np.uint32(8)) & mask
    while keys[slot] >= 0 and keys[slot] != feature:
        slot = (slot + np.uint32(1)) & mask
    return slot


@inner(borrows=True)
def table_size(points, i):
    """Return the size of the hash table for the features of point i, most of whose slots stay free."""
    n = points.ptr[i + 1] - points.ptr[i]
    size = 16
    while size < (16 if n <= _FEW_FEATURES else 4) * n:
        size *= 2
    return size


@inner(borrows=True)
def fill_table(points, i, keys, values):
    """Write the features of point i, scaled to length 1, into a hash table of :func:`table_size`."""
    keys[:] = -1
    mask = np.uint32(keys.shape[0] - 1)
    square = 0.0
    for p in range(points.ptr[i], points.ptr[i + 1]):
        square += np.float64(points.val[p]) * np.float64(points.val[p])
    scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(1.0)
    for p in range(points.ptr[i], points.ptr[i + 1]):
        slot = _feature_slot(keys, mask, points.idx[p])
        keys[slot] = points.idx[p]
        values[slot] = points.val[p] * scale


@njit(cache=True, nogil=True, borrows=True)
def _compare(vectors, label, keys, values, n, row):
    """Compare a point with one label: n features, 1 or 3, at the start of a row.

    The first feature is the inner product. The second is the share of the label's squared length on features that the
    point has, the third the share of the point's squared length on features that the label has.
    """
    product, covered, covers = np.float32(0.0), np.float32(0.0), np.float32(0.0)
    mask = np.uint32(keys.shape[0] - 1)
    for q in range(np.uint64(vectors.ptr[label]), np.uint64(vectors.ptr[label + 1])):
        slot = _feature_slot(keys, mask, vectors.idx[q])
        if keys[slot] >= 0:
            v, x = vectors.val[q], values[slot]
            product += x * v
            covered += v * v
            covers += x * x
    row[0] = product
    if n > 1:
        row[1] = covered
        row[2] = covers


@inner(borrows=True)
def compare_profile(profile, label, keys, values, out):
    """Write all features of the comparison of a point with one label."""
    n = 0
    if profile.text.ptr.shape[0] > 1:
        _compare(profile.text, label, keys, values, 3, out)
        n = 3
    if profile.centroids.ptr.shape[0] > 1:
        _compare(profile.centroids, label, keys, values, 1, out[n:])


@inner(borrows=True)
def _prefetch_vector(vectors, label):
    """Begin to load the vector of a label."""
    for at in range(vectors.ptr[label], vectors.ptr[label + 1], LINE_BYTES // 4):
        prefetch(vectors.idx, at)
        prefetch(vectors.val, at)


@inner(borrows=True)
def prefetch_label(profile, label):
    """Begin to load the vectors of a label, which are mostly not in the cache."""
    if profile.text.ptr.shape[0] > 1:
        _prefetch_vector(profile.text, label)
    if profile.centroids.ptr.shape[0] > 1:
        _prefetch_vector(profile.centroids, label)


@njit(cache=True, nogil=True)
def write_likeness(points, profile, labels, first, last, out):
    """Compare rows first..last with each of their labels (N, S), where -1 means none: out (N, S, features)."""
    for i in range(first, last):
        size = table_size(points, i)
        keys, values = np.empty(size, np.int32), np.empty(size, np.float32)
        fill_table(points, i, keys, values)
        for a in range(labels.shape[1]):
            out[i, a] = 0.0
            if labels[i, a] >= 0:
                compare_profile(profile, labels[i, a], keys, values, out[i, a])
