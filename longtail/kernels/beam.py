"""Search through label trees: products with the inner nodes, a beam over them, then the labels that it reaches.

A label's score is the mean over the trees of the product of the chances on its path; a tree whose beam does not reach
the label adds nothing. Nothing is scored that cannot matter: a child's chance is at most its parent's, so groups are
opened from the most to the least likely, and no more are once the worst label kept beats the next group. Of several
trees, the first gives k labels, whose means over all trees are a bar: a label that no tree gives such a chance cannot
have such a mean. Whole or masked products (see :mod:`longtail.kernels.products`) are chosen for each point and tree by
their cost, for inner nodes and labels apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.kernels import products
from longtail.kernels.best import highest, insert, keep_best, n_lanes, reached, sort_descending
from longtail.kernels.products import Tree, masked_rows, whole_rows

_FEW = 4  # of so many nodes the chances are made at once; of more only where the margin is worth it
_PATIENCE = 8  # chances made in vain before the margin that is worth one is made again, which takes a logarithm
_UNNAMED = np.empty(0, np.int32)
_HALVES = np.float32(0.5) ** np.arange(128, dtype=np.float32)  # 2^-n


class Trees(NamedTuple):
    """All trees of a model; ``*_at`` (T + 1,) say where each begins in the arrays that hold all of them."""

    ptr: np.ndarray  # (T, 2 D + 1)
    nodes: np.ndarray
    values: np.ndarray
    full_at: np.ndarray  # (T, 2 D)
    full: np.ndarray
    steps: np.ndarray
    bias: np.ndarray
    child_ptr: np.ndarray
    level_ptr: np.ndarray
    labels: np.ndarray
    node_at: np.ndarray
    group_at: np.ndarray
    level_at: np.ndarray
    label_at: np.ndarray
    node_of: np.ndarray  # (T, L) the node of a label, -1 for none; empty where there is one tree


class Beam(NamedTuple):
    """What the beam has reached in one tree, the most likely first. Scratch, for `width` groups."""

    groups: np.ndarray
    chances: np.ndarray
    scored: np.ndarray  # whether the labels of a group have their scores
    margins: np.ndarray  # one a node


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


@njit(cache=True, nogil=True, inline="always")
def _least_margin(ratio, slope):
    """The margin under which a chance is below `ratio`; a little less, against rounding."""
    if ratio <= 0.0 or ratio >= 1.0:
        return np.float32(-np.inf)
    return np.float32((math.log(ratio / (1.0 - ratio) + 1e-300) - 1e-3) / slope)


@njit(cache=True, nogil=True)
def _keep_children(margins, first, last, chance_above, slope, k, lanes, names, shift, best, best_chance, n):
    """Add nodes first..last to the k best so far, of which there are n, as ``names[node - shift]`` or as they are.

    Few are looked at one by one: most margins are below that of the worst kept, or of the k-th of these nodes.
    """
    worst = best_chance[n - 1] if n == k else 0.0
    floor, in_vain = np.float32(-np.inf), 0
    if last - first > _FEW:
        floor = _least_margin(worst / chance_above, slope)
        if highest(margins, first, last) < floor:
            return n
        if last - first >= 3 * len(lanes):
            floor = max(floor, reached(margins, first, last, k, lanes))
    for node in range(first, last):
        if margins[node] < floor:
            continue
        chance = chance_above * _chance(slope * margins[node])
        if chance < worst:
            in_vain += 1
            if in_vain == _PATIENCE:
                floor, in_vain = max(floor, _least_margin(worst / chance_above, slope)), 0
            continue
        n = insert(best, best_chance, n, k, names[node - shift] if len(names) else node, chance)
        if n == k:
            worst = best_chance[n - 1]
    return n


@njit(cache=True, nogil=True)
def descend(tree, features, weights, width, slope, beam, best, best_chance, lanes):
    """One point down one tree, as far as the groups of labels. Returns how many the beam reaches, at most `width`."""
    groups, chances, margins = beam.groups, beam.chances, beam.margins
    depth = tree.level_ptr.shape[0] - 1
    groups[0] = 0
    chances[0] = 1.0
    n_groups = 1
    if depth == 1:
        return n_groups
    masked_work = (depth - 2) * width * len(features) * products.BISECTION
    whole = depth == 2 or products.work(tree, features, 0) <= masked_work
    if whole:
        whole_rows(tree, features, weights, 0, margins)
    for _ in range(depth - 1):
        n = 0
        for g in range(n_groups):
            if n == width and chances[g] < best_chance[n - 1]:
                break
            first, last = tree.child_ptr[groups[g]], tree.child_ptr[groups[g] + 1]
            if not whole:
                masked_rows(tree, features, weights, 0, groups[g : g + 1], margins)
            n = _keep_children(margins, first, last, chances[g], slope, width, lanes, _UNNAMED, 0, best, best_chance, n)
        n_groups = n
        for g in range(n):
            groups[g] = best[g] + 1  # node n is group n + 1
            chances[g] = best_chance[g]
    return n_groups


@njit(cache=True, nogil=True)
def score_labels(tree, features, weights, likely, ahead, beam, n_groups, order):
    """Score all labels at once, where that is no more work than `likely` groups; else those of the `ahead` first.

    order : scratch.
    """
    masked_work = likely * len(features) * products.BISECTION
    beam.scored[:n_groups] = False
    if tree.level_ptr.shape[0] == 2 or products.work(tree, features, 1) <= masked_work:
        beam.scored[:n_groups] = True
        whole_rows(tree, features, weights, 1, beam.margins)
    elif ahead > 0:
        beam.scored[:ahead] = True
        for g in range(ahead):
            group, a = beam.groups[g], g
            while a > 0 and order[a - 1] > group:
                order[a] = order[a - 1]
                a -= 1
            order[a] = group
        masked_rows(tree, features, weights, 1, order[:ahead], beam.margins)


@njit(cache=True, nogil=True)
def best_labels(tree, features, weights, k, slope, beam, n_groups, best, best_chance, lanes):
    """The k best labels of one tree that its beam reaches, in order. Returns how many."""
    groups, group_chances, margins, scored = beam.groups, beam.chances, beam.margins, beam.scored
    child_ptr, labels = tree.child_ptr, tree.labels
    inner = tree.level_ptr[tree.level_ptr.shape[0] - 2]
    n = 0
    for g in range(n_groups):
        if n == k and group_chances[g] < best_chance[n - 1]:
            break
        first, last = child_ptr[groups[g]], child_ptr[groups[g] + 1]
        if not scored[g]:
            masked_rows(tree, features, weights, 1, groups[g : g + 1], margins)
            scored[g] = True
        n = _keep_children(margins, first, last, group_chances[g], slope, k, lanes, labels, inner, best, best_chance, n)
    return n


@njit(cache=True, nogil=True)
def add_likely(tree, features, weights, bar, slope, beam, n_groups, met, found, n_found):
    """Add the labels that one tree gives a chance of `bar`, and maybe a few just below, to those found and met.

    Returns how many are found.
    """
    groups, group_chances, margins, scored = beam.groups, beam.chances, beam.margins, beam.scored
    child_ptr, labels = tree.child_ptr, tree.labels
    inner = tree.level_ptr[tree.level_ptr.shape[0] - 2]
    for g in range(n_groups):
        if group_chances[g] < bar:
            break
        first, last = child_ptr[groups[g]], child_ptr[groups[g] + 1]
        if not scored[g]:
            masked_rows(tree, features, weights, 1, groups[g : g + 1], margins)
            scored[g] = True
        few, floor = last - first <= _FEW, np.float32(0.0)
        if not few:
            floor = _least_margin(bar / group_chances[g], slope)
            if highest(margins, first, last) < floor:
                continue
        for node in range(first, last):
            if group_chances[g] * _chance(slope * margins[node]) >= bar if few else margins[node] >= floor:
                label = labels[node - inner]
                if not met[label]:
                    met[label] = True
                    found[n_found] = label
                    n_found += 1
    return n_found


@njit(cache=True, nogil=True)
def _group_of(node, child_ptr, groups, n_groups):
    """Which of some groups a node is in; n_groups where it is in none."""
    for g in range(n_groups):
        if child_ptr[groups[g]] <= node < child_ptr[groups[g] + 1]:
            return g
    return n_groups


@njit(cache=True, nogil=True)
def add_chances(tree, features, weights, node_of, slope, beam, n_groups, found, chances):
    """Add to the chances of some labels what one tree gives them."""
    groups, group_chances, margins, scored = beam.groups, beam.chances, beam.margins, beam.scored
    child_ptr = tree.child_ptr
    for a in range(len(found)):
        node = node_of[found[a]]
        g = _group_of(node, child_ptr, groups, n_groups)
        if g == n_groups:
            continue  # not on the beam
        if not scored[g]:
            masked_rows(tree, features, weights, 1, groups[g : g + 1], margins)
            scored[g] = True
        chances[a] += group_chances[g] * _chance(slope * margins[node])


@njit(cache=True, nogil=True)
def _tree(trees, t):
    """One of the trees."""
    nodes = slice(trees.node_at[t], trees.node_at[t + 1])
    return Tree(
        trees.ptr[t], trees.nodes, trees.values, trees.full_at[t], trees.full, trees.steps[nodes], trees.bias[nodes],
        trees.child_ptr[trees.group_at[t] : trees.group_at[t + 1]],
        trees.level_ptr[trees.level_at[t] : trees.level_at[t + 1]],
        trees.labels[trees.label_at[t] : trees.label_at[t + 1]],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _scale(values, unit, scaled):
    """A copy of a point's values, of length 1 if `unit`."""
    scale = np.float32(1.0)
    if unit:
        square = np.float32(0.0)
        for v in values:
            square += v * v
        if square > 0:
            scale = np.float32(1.0) / np.sqrt(square)
    for p in range(len(values)):
        scaled[p] = values[p] * scale


@njit(cache=True, nogil=True)
def _best_of_all(
    trees, features, weights, k, slope, groups, group_chances, scored, margins, n_groups, n, met, found, chances, order
):  # fmt: skip
    """The labels with the k highest means over all trees, in order, from the n best of the first. Returns how many."""
    n_trees = len(n_groups)
    bar = chances[n - 1] if n == k else 0.0  # a guess: the best labels are as likely in other trees
    chances[:n] = 0.0
    for t in range(n_trees):
        tree, beam = _tree(trees, t), Beam(groups[t], group_chances[t], scored[t], margins[t])
        if t > 0:
            likely = 1
            while likely < n_groups[t] and group_chances[t, likely] >= bar:
                likely += 1
            score_labels(tree, features, weights, likely, likely, beam, n_groups[t], order)
        add_chances(tree, features, weights, trees.node_of[t], slope, beam, n_groups[t], found[:n], chances)
    bar = chances[:n].min() / n_trees * 0.999999 if n == k else 0.0  # no guess; a little less, against rounding
    for a in range(n):
        met[found[a]] = True
    n_found = n
    for t in range(n_trees):
        beam = Beam(groups[t], group_chances[t], scored[t], margins[t])
        n_found = add_likely(_tree(trees, t), features, weights, bar, slope, beam, n_groups[t], met, found, n_found)
    more, their_chances = found[n:n_found], chances[n:n_found]
    their_chances[:] = 0.0
    for t in range(n_trees):
        beam = Beam(groups[t], group_chances[t], scored[t], margins[t])
        add_chances(_tree(trees, t), features, weights, trees.node_of[t], slope, beam, n_groups[t], more, their_chances)
    for a in range(n_found):
        met[found[a]] = False
        chances[a] /= n_trees
    n = keep_best(found, chances, n_found, k)
    sort_descending(found, chances, n)
    return n


@njit(cache=True, nogil=True)
def search(
    x_ptr, x_idx, x_val, first, last, trees, width, slope, unit, k, margins, found, chances, met,
    out_labels, out_scores, out_n,
):  # fmt: skip
    """Rows first..last of a batch through all trees: their k best labels, the scores of these, and how many there are.

    A node's chance is the logistic function of `slope` times its margin: unlike the squared-hinge transform it has no
    ties. On held-out points the two differ by some tenths either way, with more gains than losses at 5 labels and on
    rare ones.
    unit : scale points to length 1. margins (T, nodes), found, chances : scratch. met : scratch of L times False, as it
    is left at the end.
    """
    n_trees = trees.ptr.shape[0]
    tiny, most = 1e-30, 1.0 - 2.0**-23
    groups, group_chances = np.empty((n_trees, width), np.int32), np.empty((n_trees, width), np.float64)
    scored, n_groups = np.empty((n_trees, width), np.bool_), np.empty(n_trees, np.int64)
    best, best_chance = np.empty(width, np.int32), np.empty(width, np.float64)
    inner_lanes, label_lanes = np.empty(n_lanes(width), np.float32), np.empty(n_lanes(k), np.float32)
    longest = 0
    for row in range(first, last):
        longest = max(longest, x_ptr[row + 1] - x_ptr[row])
    scaled = np.empty(longest, np.float32)
    for row in range(first, last):
        features = x_idx[x_ptr[row] : x_ptr[row + 1]]
        weights = scaled[: len(features)]
        _scale(x_val[x_ptr[row] : x_ptr[row + 1]], unit, weights)
        for t in range(n_trees):
            beam = Beam(groups[t], group_chances[t], scored[t], margins[t])
            tree = _tree(trees, t)
            n_groups[t] = descend(tree, features, weights, width, slope, beam, best, best_chance, inner_lanes)
        tree, beam = _tree(trees, 0), Beam(groups[0], group_chances[0], scored[0], margins[0])
        score_labels(tree, features, weights, n_groups[0], 0, beam, n_groups[0], best)
        n = best_labels(tree, features, weights, k, slope, beam, n_groups[0], found, chances, label_lanes)
        if n_trees > 1:
            n = _best_of_all(
                trees, features, weights, k, slope, groups, group_chances, scored, margins, n_groups, n, met, found,
                chances, best,
            )  # fmt: skip
        at = row - first
        out_n[at] = n
        for a in range(n):
            out_labels[at, a] = found[a]
            out_scores[at, a] = min(max(chances[a], tiny), most)


@njit(cache=True, nogil=True)
def search_point(x_idx, x_val, n_features, trees, width, slope, unit, k, margins, found, chances, met, labels, values):
    """One point through all trees; returns how many labels, or -1 where the point has a feature that cannot be."""
    for p in range(x_idx.shape[0]):
        if x_idx[p] < 0 or x_idx[p] >= n_features or not np.isfinite(x_val[p]):
            return -1
    x_ptr = np.empty(2, np.int32)
    x_ptr[0] = 0
    x_ptr[1] = x_idx.shape[0]
    count = np.empty(1, np.int32)
    search(
        x_ptr, x_idx, x_val, 0, 1, trees, width, slope, unit, k, margins, found, chances, met, labels, values, count
    )  # fmt: skip
    return count[0]
