"""Compute keys of rows that depend only on the set of their features."""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit

_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@njit(cache=True, nogil=True, borrows=True)
def write_word_keys(ptr, idx, val, first, last, out):
    """Write one key per row: the sum of hashes (splitmix64) of its features, or 0 for a row without features.

    Rows with the same features have the same key. Rows with other features have the same key by chance, in one of 2^64
    pairs.
    """
    for i in range(first, last):
        key = np.uint64(0)
        for p in range(ptr[i], ptr[i + 1]):
            if val[p] != 0:
                h = (np.uint64(idx[p]) + np.uint64(1)) * _STEP
                h = (h ^ (h >> _SHIFTS[0])) * _FIRST
                h = (h ^ (h >> _SHIFTS[1])) * _SECOND
                key += h ^ (h >> _SHIFTS[2])
        out[i] = key


@njit(cache=True, nogil=True, borrows=True)
def mask_own(point_keys, label_keys, first, last, positions):
    """Replace those listed labels (N, S) that have the same key as the point by -1."""
    for i in range(first, last):
        key = point_keys[i]
        if key != 0:
            for a in range(positions.shape[1]):
                if positions[i, a] >= 0 and label_keys[positions[i, a]] == key:
                    positions[i, a] = -1
