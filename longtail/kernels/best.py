"""Select the best pairs of an item and a value (ties: the smaller item), or the best of a range of numbers."""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import inner, njit
from longtail.kernels.maximum import larger

_GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)  # of Ciura; found by trials, and good for thousands of values


@inner(borrows=True)
def keep_best(items, values, n, k):
    """Move the k highest of the first n values (ties: the smaller item) to the front, unsorted. Return their number."""
    if n <= k:
        return n
    lo, hi = 0, n - 1
    while lo < hi:
        middle = (lo + hi) >> 1
        pivot, pivot_item = values[middle], items[middle]
        a, b = lo, hi
        while a <= b:
            while values[a] > pivot or (values[a] == pivot and items[a] < pivot_item):
                a += 1
            while values[b] < pivot or (values[b] == pivot and items[b] > pivot_item):
                b -= 1
            if a <= b:
                values[a], values[b] = values[b], values[a]
                items[a], items[b] = items[b], items[a]
                a += 1
                b -= 1
        if k - 1 <= b:
            hi = b
        elif k - 1 >= a:
            lo = a
        else:
            break
    return k


@njit(cache=True, nogil=True, borrows=True)
def kth_highest(values, k):
    """Return the k-th highest value (k from 1). This changes the order of the values.

    NumPy's partition does the same, but takes five seconds to compile.
    """
    lo, hi = 0, values.shape[0] - 1
    while lo < hi:
        pivot, a, b = values[(lo + hi) >> 1], lo, hi
        while a <= b:
            while values[a] > pivot:
                a += 1
            while values[b] < pivot:
                b -= 1
            if a <= b:
                values[a], values[b] = values[b], values[a]
                a += 1
                b -= 1
        if k - 1 <= b:
            hi = b
        elif k - 1 >= a:
            lo = a
        else:
            break
    return values[k - 1]


@inner(borrows=True)
def sort_descending(items, values, n):
    """Sort the first n values, the highest first, ties by the smaller item, by Shell's sort."""
    for gap in _GAPS:
        for a in range(gap, n):
            value, item = values[a], items[a]
            b = a - gap
            while b >= 0 and (values[b] < value or (values[b] == value and items[b] > item)):
                values[b + gap] = values[b]
                items[b + gap] = items[b]
                b -= gap
            values[b + gap] = value
            items[b + gap] = item


@inner(borrows=True)
def insert(items, values, n, k, item, value):
    """Insert an item into a sorted list of at most k, highest value first (ties: smaller item). Return its length."""
    if n < k:
        n += 1
    elif value < values[k - 1] or (value == values[k - 1] and item > items[k - 1]):
        return n
    a = n - 1
    while a > 0 and (values[a - 1] < value or (values[a - 1] == value and items[a - 1] > item)):
        values[a] = values[a - 1]
        items[a] = items[a - 1]
        a -= 1
    values[a] = value
    items[a] = item
    return n


@inner(borrows=True)
def highest(values, first, last):
    """Return the highest of values[first:last], with vector instructions. The range must not be empty."""
    top = values[first]
    for i in range(np.uint64(first + 1), np.uint64(last)):
        top = larger(top, values[i])
    return top


def n_lanes(k):
    """Return the number of groups for :func:`reached`: 1.5 k, rounded up to a multiple of 8."""
    return (k + (k >> 1) + 7) // 8 * 8


@inner(borrows=True)
def reached(values, first, last, k, lanes):
    """Return a threshold that at least k of values[first:last] reach, but not many more.

    Values are distributed over len(lanes) groups. The threshold is the k-th largest maximum of a group.
    lanes : scratch of n_lanes(k) numbers, not longer than the range.
    """
    n = np.uint64(len(lanes))  # unsigned, so that indices are not checked for being negative
    start, end = np.uint64(first), np.uint64(last)
    for j in range(n):
        lanes[j] = values[start + j]
    start += n
    while start + np.uint64(4) * n <= end:  # four rounds at once, so that the lanes are loaded and stored only once
        second, third, fourth = start + n, start + np.uint64(2) * n, start + np.uint64(3) * n
        for j in range(n):
            others = larger(values[third + j], values[fourth + j])
            lanes[j] = larger(lanes[j], larger(larger(values[start + j], values[second + j]), others))
        start += np.uint64(4) * n
    while start + n <= end:
        for j in range(n):
            lanes[j] = larger(lanes[j], values[start + j])
        start += n
    floor = np.float32(np.inf)  # the smallest lane that fewer than k lanes exceed, found without branches
    for a in range(n):
        n_higher = np.int32(0)
        for b in range(n):
            n_higher += lanes[b] > lanes[a]
        floor = min(floor, lanes[a] if n_higher < k else np.float32(np.inf))
    return floor
