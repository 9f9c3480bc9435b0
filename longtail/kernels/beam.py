"""Search through label trees: sparse products, then a beam over the products.

The weights of a tree are kept feature by feature: for each feature, the nodes that use it, in the order of their
numbers, first those of the inner nodes, then those of the labels. A point's node scores are then sums over the rows of
its features. Two ways to make them, chosen for each point and tree by their cost, for inner nodes and labels apart:

- whole rows: all nodes are scored in one sweep with no search at all, which is the fastest where rows are short;
- masked rows: only the children of the nodes on the beam; siblings lie side by side in a row and are found by
  bisection. The cost does not depend on the number of labels.

Both add a node's terms in the order of the features, so the scores agree to the last bit.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_BISECTION = 80  # cost of finding one group in one row, in units of one multiply-add; measured
_HALVES = np.float32(0.5) ** np.arange(128, dtype=np.float32)  # 2^-n


@njit(cache=True, nogil=True, inline="always")
def _chance(margin):
    """The logistic function to about 1e-7, several times as fast as the library's exp: 2^-n times a polynomial."""
    z = -abs(margin)
    if z < np.float32(-80.0):
        z = np.float32(-80.0)
    t = z * np.float32(-1.4426950408889634)
    n = int(t + np.float32(0.5))
    r = (np.float32(n) - t) * np.float32(0.6931471805599453)  # within half of ln 2 of zero
    e = np.float32(1 / 120) + r * np.float32(1 / 720)
    e = np.float32(1 / 6) + r * (np.float32(1 / 24) + r * e)
    e = np.float32(1.0) + r * (np.float32(1.0) + r * (np.float32(0.5) + r * e))
    e *= _HALVES[n]
    return np.float32(1.0) / (np.float32(1.0) + e) if margin > 0 else e / (np.float32(1.0) + e)


@njit(cache=True, nogil=True)
def _keep_best(items, values, n, k):
    """Move the k highest of the first n values (ties: the smaller item) to the front, in no order. Returns how many."""
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


@njit(cache=True, nogil=True)
def _sort_descending(items, values, n):
    """Insertion sort of the first n, highest value first, ties by the smaller item; n is a beam or a k, so small."""
    for a in range(1, n):
        value, item = values[a], items[a]
        b = a - 1
        while b >= 0 and (values[b] < value or (values[b] == value and items[b] > item)):
            values[b + 1] = values[b]
            items[b + 1] = items[b]
            b -= 1
        values[b + 1] = value
        items[b + 1] = item


@njit(cache=True, nogil=True, inline="always")
def _first_at_least(nodes, lo, hi, wanted):
    """Bisection without a branch to foresee."""
    n = hi - lo
    while n > 1:
        half = n >> 1
        lo += half if nodes[np.uint64(lo + half - 1)] < wanted else 0
        n -= half
    return lo + 1 if n == 1 and nodes[np.uint64(lo)] < wanted else lo


@njit(cache=True, nogil=True)
def split_rows(ptr, nodes, inner, rows):
    """Where the two rows of each feature begin, (2 D + 1,): nodes below `inner`, and the others."""
    n_features = ptr.shape[0] - 1
    for f in range(n_features):
        rows[2 * f] = ptr[f]
        rows[2 * f + 1] = _first_at_least(nodes, ptr[f], ptr[f + 1], inner)
    rows[2 * n_features] = ptr[n_features]


@njit(cache=True, nogil=True)
def _whole_rows(x_idx, x_val, scale, begin, end, part, ptr, nodes, values, scores):
    """Products of all inner nodes (part 0) or of all labels (part 1)."""
    for p in range(np.uint64(begin), np.uint64(end)):  # unsigned: no check for negative indices in the inner loop
        f = 2 * x_idx[p] + part
        v = x_val[p] * scale
        for q in range(np.uint64(ptr[f]), np.uint64(ptr[f + 1])):
            scores[np.uint64(nodes[q])] += v * np.float32(values[q])


@njit(cache=True, nogil=True)
def _masked_rows(x_idx, x_val, scale, begin, end, part, ptr, nodes, values, first, last, scores):
    """Products of one group of siblings, nodes first..last."""
    for node in range(first, last):
        scores[node] = 0.0
    for p in range(begin, end):
        f = 2 * x_idx[p] + part
        v = x_val[p] * scale
        stop = ptr[f + 1]
        q = _first_at_least(nodes, ptr[f], stop, first)
        while q < stop and nodes[q] < last:
            scores[nodes[q]] += v * np.float32(values[q])
            q += 1


@njit(cache=True, nogil=True)
def _insert(items, values, n, k, item, value):
    """Add to a list of at most k kept in descending order (ties: the smaller item first). Returns its new length."""
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


@njit(cache=True, nogil=True, inline="always")
def _least_margin(ratio, slope):
    """The margin under which a chance is below `ratio`; a little less, against rounding."""
    if ratio <= 0.0 or ratio >= 1.0:
        return np.float32(-np.inf)
    return np.float32((math.log(ratio / (1.0 - ratio) + 1e-300) - 1e-3) / slope)


@njit(cache=True, nogil=True)
def search_tree(
    x_idx, x_val, scale, begin, end, ptr, nodes, values, steps, bias, child_ptr, level_ptr, labels, width, keep, slope,
    least, share, scores, groups, group_chance, best, best_chance, met, found, highest, n_found,
):  # fmt: skip
    """One point through one tree. Its `keep` best labels go to best and best_chance, in order.

    A child's chance is at most its parent's, so groups are opened from the most to the least likely, and no more are
    once the worst label kept beats the next group. A node's margin is `steps` times the sum of its values, plus its
    bias. Of several trees, a label can only be among the best of all if one tree gives it at least a `share` of
    `least`, a chance that the last of these best has at the least: such labels are added to found, their place there
    plus one to met, and their highest chance so far to highest.

    scores : scratch, one a node. groups, group_chance : the groups of labels that the beam reaches, the first of which
    are scored.
    Returns how many groups, groups scored, labels in best, and labels in found there are.
    """
    depth = level_ptr.shape[0] - 1
    inner = level_ptr[depth - 1]  # how many nodes are no labels
    inner_work, label_work = inner >> 3, (bias.shape[0] - inner) >> 3
    for p in range(begin, end):
        f = 2 * x_idx[p]
        inner_work += ptr[f + 1] - ptr[f]
        label_work += ptr[f + 2] - ptr[f + 1]
    group_work = (end - begin) * _BISECTION  # what a group costs in masked rows
    whole = depth <= 2 or inner_work <= (depth - 2) * width * group_work
    if whole and depth > 1:
        scores[:inner] = 0.0
        _whole_rows(x_idx, x_val, scale, begin, end, 0, ptr, nodes, values, scores)
    groups[0] = 0
    group_chance[0] = 1.0
    n_groups, n_open, n = 1, 0, 0
    for level in range(depth):
        last_level = level == depth - 1
        most = keep if last_level else width
        if last_level:
            whole = depth == 1 or label_work <= n_groups * group_work
            if whole:
                scores[inner : bias.shape[0]] = 0.0
                _whole_rows(x_idx, x_val, scale, begin, end, 1, ptr, nodes, values, scores)
        n, worst = 0, 0.0  # in best, and the chance of the last of them once it is full
        for g in range(n_groups):
            bar = max(worst, least) * share if last_level else worst
            if group_chance[g] < bar:
                break
            first, last = child_ptr[groups[g]], child_ptr[groups[g] + 1]
            if not whole:
                _masked_rows(x_idx, x_val, scale, begin, end, int(last_level), ptr, nodes, values, first, last, scores)
            n_open = g + 1
            floor = _least_margin(bar / group_chance[g], slope)
            for node in range(first, last):
                margin = steps[node] * scores[node] + bias[node]
                if margin < floor:
                    continue
                chance = group_chance[g] * _chance(slope * margin)
                item = node
                if last_level:
                    item = labels[node - level_ptr[level]]
                    if share < 1.0:
                        if met[item] == 0:
                            found[n_found] = item
                            highest[n_found] = chance
                            n_found += 1
                            met[item] = n_found
                        elif chance > highest[met[item] - 1]:
                            highest[met[item] - 1] = chance
                n = _insert(best, best_chance, n, most, item, chance)
                if n == most and best_chance[n - 1] > worst:
                    worst = best_chance[n - 1]
                    bar = max(worst, least) * share if last_level else worst
                    floor = _least_margin(bar / group_chance[g], slope)
        if not last_level:
            n_groups = n
            for g in range(n):
                groups[g] = best[g] + 1  # node n is group n + 1
                group_chance[g] = best_chance[g]
    return n_groups, n_groups if whole else n_open, n, n_found


@njit(cache=True, nogil=True)
def _group_of(node, child_ptr, groups, n_groups):
    """Which of some groups a node is in; n_groups where it is in none."""
    for g in range(n_groups):
        if child_ptr[groups[g]] <= node < child_ptr[groups[g] + 1]:
            return g
    return n_groups


@njit(cache=True, nogil=True)
def search(
    x_ptr, x_idx, x_val, first, last, ptr, nodes, values, steps, bias, child_ptr, level_ptr, labels,
    node_at, group_at, level_at, label_at, node_of, width, slope, unit, k,
    scores, found, chances, met, out_labels, out_scores, out_n,
):  # fmt: skip
    """Rows first..last of a batch through all trees; a label's score is the mean of its chances over the trees.

    ptr (T, 2 D + 1) gives each tree's rows, two a feature; `*_at` (T + 1,) say where each tree's nodes, groups, levels
    and labels begin in the arrays that hold all trees; node_of (T, L) gives the node of a label in each tree, -1 for
    none. A node's chance is the logistic function of `slope` times its margin: unlike the squared-hinge transform it
    has no ties. On held-out points the two differ by some tenths either way, with more gains than losses at 5 labels
    and on rare ones.
    unit : scale points to length 1. scores (T, nodes), found, chances : scratch. met : scratch of L zeros, zeros again
    at the end.
    """
    n_trees = ptr.shape[0]
    tiny, most = 1e-30, 1.0 - 2.0**-23
    size = max(width, k)
    groups, group_chance = np.empty((n_trees, width), np.int32), np.empty((n_trees, width), np.float64)
    best, best_chance = np.empty(size, np.int32), np.empty(size, np.float64)
    n_groups, n_scored = np.empty(n_trees, np.int64), np.empty(n_trees, np.int64)
    for row in range(first, last):
        begin, end = x_ptr[row], x_ptr[row + 1]
        scale = np.float32(1.0)
        if unit:
            square = np.float32(0.0)
            for p in range(begin, end):
                square += x_val[p] * x_val[p]
            if square > 0:
                scale = np.float32(1.0) / np.sqrt(square)
        n, n_found, least = 0, 0, 0.0
        for t in range(n_trees):
            n_groups[t], n_scored[t], n, n_found = search_tree(
                x_idx, x_val, scale, begin, end, ptr[t], nodes, values,
                steps[node_at[t] : node_at[t + 1]], bias[node_at[t] : node_at[t + 1]],
                child_ptr[group_at[t] : group_at[t + 1]], level_ptr[level_at[t] : level_at[t + 1]],
                labels[label_at[t] : label_at[t + 1]], width, k, slope, least, 1.0 / n_trees,
                scores[t], groups[t], group_chance[t], best, best_chance, met, found, chances, n_found,
            )  # fmt: skip
            if n == k:
                least = max(least, best_chance[n - 1])
        if n_trees == 1:
            found[:n] = best[:n]
            chances[:n] = best_chance[:n]
        else:
            n = 0
            for a in range(n_found):
                met[found[a]] = 0
                if chances[a] >= least / n_trees * 0.999999:
                    found[n] = found[a]
                    n += 1
            n_found = n
            chances[:n_found] = 0.0
            for t in range(n_trees):
                tree_bias, tree_steps = bias[node_at[t] : node_at[t + 1]], steps[node_at[t] : node_at[t + 1]]
                children = child_ptr[group_at[t] : group_at[t + 1]]
                for a in range(n_found):
                    node = node_of[t, found[a]]
                    g = _group_of(node, children, groups[t], n_groups[t])
                    if g == n_groups[t]:
                        continue  # not on the beam
                    while n_scored[t] <= g:
                        group = groups[t, n_scored[t]]
                        _masked_rows(
                            x_idx, x_val, scale, begin, end, 1, ptr[t], nodes, values, children[group],
                            children[group + 1], scores[t],
                        )  # fmt: skip
                        n_scored[t] += 1
                    margin = tree_steps[node] * scores[t, node] + tree_bias[node]
                    chances[a] += group_chance[t, g] * _chance(slope * margin)
            for a in range(n_found):
                chances[a] /= n_trees
            n = _keep_best(found, chances, n_found, k)
            _sort_descending(found, chances, n)
        at = row - first
        out_n[at] = n
        for a in range(n):
            out_labels[at, a] = found[a]
            out_scores[at, a] = min(max(chances[a], tiny), most)


@njit(cache=True, nogil=True)
def search_point(
    x_idx, x_val, n_features, ptr, nodes, values, steps, bias, child_ptr, level_ptr, labels,
    node_at, group_at, level_at, label_at, node_of, width, slope, unit, k, scores, found, chances, met,
    out_labels, out_scores,
):  # fmt: skip
    """One point through all trees; returns how many labels, or -1 where the point has a feature that cannot be."""
    for p in range(x_idx.shape[0]):
        if x_idx[p] < 0 or x_idx[p] >= n_features or not np.isfinite(x_val[p]):
            return -1
    x_ptr = np.empty(2, np.int32)
    x_ptr[0] = 0
    x_ptr[1] = x_idx.shape[0]
    count = np.empty(1, np.int32)
    search(
        x_ptr, x_idx, x_val, 0, 1, ptr, nodes, values, steps, bias, child_ptr, level_ptr, labels,
        node_at, group_at, level_at, label_at, node_of, width, slope, unit, k,
        scores, found, chances, met, out_labels, out_scores, count,
    )  # fmt: skip
    return count[0]
