"""Losses row by row: the logistic one in a single pass, and the margin loss with stochastic negative mining."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from longtail.kernels.topk import top_k_row

_LOG2_E = np.float32(1.4426950408889634)
_LN_2 = np.float32(0.6931471805599453)
_ROOT_2 = np.float32(1.4142135)


@njit(cache=True, nogil=True, fastmath=True)
def logistic(scores, ptr, places, weights, scale, first, last):
    """Replace rows first..last of `scores` by `scale` times the gradient of their loss; returns the sum of the losses.

    Row i: log(1 + e^-s) over its positives, and weights * log(1 + e^s) over the others. Exponential and logarithm are
    written out, as a power of two put together from its bits and a polynomial, good to about 1e-7: unlike calls to a
    library these become vector instructions.
    """
    n = scores.shape[1]
    power = np.empty(n, np.float32)
    bits = power.view(np.int32)
    one = np.float32(1.0)
    total = 0.0
    for i in range(first, last):
        row = scores[i]
        own = row[places[ptr[i] : ptr[i + 1]]]
        for j in range(n):  # e^s = 2^k e^r
            s = min(max(row[j], np.float32(-80.0)), np.float32(80.0))
            k = np.floor(s * _LOG2_E + np.float32(0.5))
            r = s - k * _LN_2
            e = np.float32(1 / 120) + r * np.float32(1 / 720)
            e = np.float32(1 / 6) + r * (np.float32(1 / 24) + r * e)
            row[j] = one + r * (one + r * (np.float32(0.5) + r * e))
            bits[j] = np.int32(np.int32(np.int32(k) + np.int32(127)) << np.int32(23))
        for j in range(n):
            e = power[j] * row[j]
            row[j] = scale * weights[j] * (e / (one + e))
            power[j] = one + e
        loss = np.float32(0.0)
        for j in range(n):  # log(2^k y) = k log 2 + log y, y within a factor of root two of one
            k = np.float32(np.int32(bits[j] >> np.int32(23)) - np.int32(127))
            bits[j] = np.int32(np.int32(bits[j] & np.int32(0x7FFFFF)) | np.int32(0x3F800000))
            y = power[j]
            high = y > _ROOT_2
            y = np.float32(0.5) * y if high else y
            k = k + one if high else k
            z = (y - one) / (y + one)
            q = z * z
            series = one + q * (np.float32(1 / 3) + q * (np.float32(1 / 5) + q * np.float32(1 / 7)))
            loss += weights[j] * (k * _LN_2 + np.float32(2.0) * z * series)
        total += loss
        for a in range(own.shape[0]):
            place = places[ptr[i] + a]
            s = min(max(np.float64(own[a]), -80.0), 80.0)
            soft = math.log1p(math.exp(-abs(s))) + max(s, 0.0)
            total += soft * (1.0 - weights[place]) - own[a]
            row[place] = scale * np.float32(1.0 / (1.0 + math.exp(-s)) - 1.0)
    return total


@njit(cache=True, nogil=True)
def margin(scores, ptr, places, c, n_hard, first, last):
    """Replace rows first..last of `scores` by the gradient of their loss; returns the sum of the losses.

    Row i: mean over its positives p of the sum over its `n_hard` highest negatives n of [s_n - s_p + c]+.
    """
    n = scores.shape[1]
    hard = np.empty(min(n_hard, n), np.int64)
    height = np.empty(min(n_hard, n), np.float32)
    total = 0.0
    for i in range(first, last):
        row = scores[i]
        n_pos = ptr[i + 1] - ptr[i]
        if n_pos == 0:
            row[:] = 0.0
            continue
        own = np.empty(n_pos, np.float32)
        for a in range(n_pos):
            own[a] = row[places[ptr[i] + a]]
            row[places[ptr[i] + a]] = -np.inf
        found = top_k_row(row, n_hard, hard, height)
        row[:] = 0.0
        for a in range(n_pos):
            for b in range(found):
                slack = height[b] - own[a] + c
                if slack > 0:
                    total += slack / n_pos
                    row[hard[b]] += np.float32(1.0 / n_pos)
                    row[places[ptr[i] + a]] -= np.float32(1.0 / n_pos)
    return total
