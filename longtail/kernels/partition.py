"""Split points in two so that one ranking of labels suits each half: the nDCG partition of FastXML.

Each side ranks the labels for all of its points; the gain of a point is the nDCG of that ranking against its labels.
Points start on random sides. Two steps alternate: the sides rank the labels so that the gain of their points is largest
(by the summed weights of their points: Prabhu and Varma, 2014, theorem 1), and the points move to the side of larger
gain. Neither step can lower the sum of gains, so this ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit
from longtail.kernels.topk import top_k_pairs

_ABSENT = np.float32(1e-9)  # weight of a point of the other side: its labels rank after all labels of this side


class LabelGains(NamedTuple):
    """The quantities of the gain of a point."""

    weights: np.ndarray  # (L,) weight of each label, 1 or its inverse propensity
    ideal: np.ndarray  # (N,) 1 / the best possible gain of each point
    discounts: np.ndarray  # of the ranks 1, 2, ...


@njit(cache=True, nogil=True)
def ideal_gains(indptr, discounts):
    """Return 1 / the largest possible gain of each point, which normalises its gain."""
    n = indptr.shape[0] - 1
    inverse = np.empty(n, np.float32)
    for i in range(n):
        total = 0.0
        for rank in range(indptr[i + 1] - indptr[i]):
            total += discounts[rank]
        inverse[i] = 1.0 / total if total > 0 else 0.0
    return inverse


@njit(cache=True, nogil=True)
def rank_labels(points, sides, side, Y, gains, total, discount):
    """Fill `discount` with the discounts of one side's ranking, 1 / log2(1 + rank), for all labels of the points.

    Labels that only the other side has come last, by their frequency there; leaving them unranked lost half a point of
    P@5 on held-out points of Bibtex. total : scratch of L zeros, zeros again at the end. Ties go to the smaller label.
    """
    indptr, indices, weights, ideal, discounts = Y.ptr, Y.idx, gains.weights, gains.ideal, gains.discounts
    discount[:] = 0.0
    size = 0
    for a in range(points.shape[0]):
        size += indptr[points[a] + 1] - indptr[points[a]]
    met = np.empty(min(size, total.shape[0]), np.int32)
    n = 0
    for a in range(points.shape[0]):
        share = ideal[points[a]] if sides[a] == side else _ABSENT
        for p in range(indptr[points[a]], indptr[points[a] + 1]):
            label = indices[p]
            if total[label] == 0.0:
                met[n] = label
                n += 1
            total[label] += weights[label] * share
    sums = np.empty(n, np.float32)
    for a in range(n):
        sums[a] = total[met[a]]
        total[met[a]] = 0.0
    order, descending = np.empty(n, np.int32), np.empty(n, np.float32)
    top_k_pairs(met[:n], sums, n, order, descending)
    for rank in range(n):
        discount[order[rank]] = discounts[rank]


@njit(cache=True, nogil=True)
def partition(points, Y, gains, sides, total, discount, rounds):
    """Split `points` into two sides; `sides` (0 or 1 per point) holds where they start and receives where they end.

    Y : labels of all points (`ptr` and `idx`); gains : :class:`LabelGains`; total (L,), discount (2, L) : scratch.
    Return the size of side 1.
    """
    indptr, indices, weights = Y.ptr, Y.idx, gains.weights
    ones = 0
    for _ in range(rounds):
        for side in range(2):
            rank_labels(points, sides, side, Y, gains, total, discount[side])
        changed = False
        ones = 0
        for a in range(points.shape[0]):
            gain = np.float32(0.0)
            for p in range(indptr[points[a]], indptr[points[a] + 1]):
                label = indices[p]
                gain += weights[label] * (discount[1, label] - discount[0, label])
            if (gain > 0 and sides[a] == 0) or (gain < 0 and sides[a] == 1):
                sides[a] = 1 - sides[a]
                changed = True
            ones += sides[a]
        if not changed:
            break
    return ones
