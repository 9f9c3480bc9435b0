"""Compute the margin loss with stochastic negative mining, row by row. Smooth losses are in neural/losses, in NumPy."""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit
from longtail.kernels.topk import top_k_row


@njit(cache=True, nogil=True)
def margin_rows(scores, ptr, places, c, n_hard, first, last):
    """Replace rows first..last of `scores` by the gradient of their loss, and return the sum of the losses.

    The loss of a row is the mean, over its positives p, of the sum of [s_n - s_p + c]+ over the `n_hard` negatives n
    with the highest scores.
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
        n_found = top_k_row(row, n_hard, hard, height)
        row[:] = 0.0
        for a in range(n_pos):
            for b in range(n_found):
                slack = height[b] - own[a] + c
                if slack > 0:
                    total += slack / n_pos
                    row[hard[b]] += np.float32(1.0 / n_pos)
                    row[places[ptr[i] + a]] -= np.float32(1.0 / n_pos)
    return total
