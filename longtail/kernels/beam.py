"""Beam search through label trees.

The score of a label is the product of the probabilities on its path, averaged over the trees. A tree whose beam does
not reach the label contributes 0. Nodes that cannot change the result are not scored:

- A child is at most as probable as its parent. Groups of siblings are therefore opened from the most to the least
  probable. The search ends when the worst label that is kept is more probable than the next group.
- With several trees, the top k labels of the first tree are averaged over all trees, and the lowest average is a bound.
  A label below the bound in every tree cannot exceed it on average, and is skipped. A group is skipped if none of its
  labels can exceed the bound, given the probabilities of their groups in the other trees.

For each point and tree, the cheaper of whole and masked products (see :mod:`longtail.kernels.products`) is chosen, once
for the inner nodes and once for the labels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from longtail.kernels import products
from longtail.kernels.best import highest, insert, keep_best, n_lanes, reached, sort_descending
from longtail.kernels.compiling import inner, kernel
from longtail.kernels.products import INNER_NODES, LABELS, Point, Tree, score_nodes, whole_cost
from longtail.kernels.topk import ABOVE_ZERO, BELOW_ONE

_FEW = 4  # with more children than this, a probability is only computed if the margin is high enough
_AT_ONCE = 32  # margins that are compared with the smallest useful one together, with vector instructions
_REJECTIONS = 8  # after so many rejected probabilities, the smallest useful margin is computed again (a logarithm)
_HALVES = np.float32(0.5) ** np.arange(128, dtype=np.float32)  # 2^-n
_NONE = np.int64(0)
_LIKELY = 0.15  # when a group is opened, groups with at least this share of its probability are opened, too


class Trees(NamedTuple):
    """All trees of a model, joined into long arrays. The arrays ``*_at`` (T + 1,) give the start of each tree."""

    ptr: np.ndarray  # (T, 2 D + 1)
    nodes: np.ndarray
    values: np.ndarray
    dense_at: np.ndarray  # (T, 2 D)
    dense: np.ndarray
    skip_at: np.ndarray  # (T, 2 D)
    skips: np.ndarray
    steps: np.ndarray
    bias: np.ndarray
    child_ptr: np.ndarray
    level_ptr: np.ndarray
    labels: np.ndarray
    node_at: np.ndarray
    group_at: np.ndarray
    level_at: np.ndarray
    label_at: np.ndarray


class Options(NamedTuple):
    """Settings of the search.

    A node's probability is the logistic function of `slope` times its margin. Unlike the squared-hinge transform, it
    has no ties. On held-out points, the two differ by a few tenths of a percentage point in either direction; the
    logistic function is more often better at 5 labels and on rare labels.
    """

    width: int  # nodes kept per level
    slope: np.float32
    unit: bool  # scale points to length 1
    k: int


class Scratch(NamedTuple):
    """Buffers of one thread, reused between calls, so that the search allocates no arrays (see `borrows` of `njit`)."""

    margins: np.ndarray  # (T, nodes)
    found: np.ndarray  # (candidates,) labels
    chances: np.ndarray  # (candidates,)
    met: np.ndarray  # (L,) False before and after a search
    reach: np.ndarray  # (T, groups + 1) probability of each group on a beam; 0 before and after a search
    groups: np.ndarray  # (T, width); this and the next two hold the beams of all trees
    group_chances: np.ndarray
    scored: np.ndarray
    n_groups: np.ndarray  # (T,)
    nodes: np.ndarray  # (width,)
    node_chances: np.ndarray  # (width,)
    lanes: np.ndarray  # (n_lanes(width),)
    spans: np.ndarray  # (width + 1, 2), see `score_nodes`
    order: np.ndarray  # (width,) positions on a beam
    label_lanes: np.ndarray  # (n_lanes(k),)
    scaled: np.ndarray  # (non-zeros of the longest row or more,)

    @classmethod
    def empty(cls, trees: Trees, n_candidates: int, n_labels: int, width: int) -> Scratch:
        """Allocate the buffers that do not depend on rows and k. :meth:`for_rows` adds the others."""
        n_trees = len(trees.ptr)
        return cls(
            margins=np.empty((n_trees, int(np.diff(trees.node_at).max())), np.float32),
            found=np.empty(n_candidates, np.int32),
            chances=np.empty(n_candidates, np.float64),
            met=np.zeros(n_labels, np.bool_),
            # One group more than any tree has: labels that a tree does not have point to it, as position -1.
            reach=np.zeros((n_trees, int(np.diff(trees.group_at).max())), np.float64),
            groups=np.empty((n_trees, width), np.int32),
            group_chances=np.empty((n_trees, width), np.float64),
            scored=np.empty((n_trees, width), np.bool_),
            n_groups=np.empty(n_trees, np.int64),
            nodes=np.empty(width, np.int32),
            node_chances=np.empty(width, np.float64),
            lanes=np.empty(n_lanes(width), np.float32),
            spans=np.empty((width + 1, 2), np.int32),
            order=np.empty(width, np.int32),
            label_lanes=np.empty(0, np.float32),
            scaled=np.empty(0, np.float32),
        )

    def for_rows(self, longest: int, k: int) -> Scratch:
        """Return buffers for k labels and rows of at most `longest` non-zeros: these, if they are large enough."""
        if longest <= len(self.scaled) and len(self.label_lanes) == n_lanes(k):
            return self
        scaled = np.empty(2 * longest, np.float32) if longest > len(self.scaled) else self.scaled
        return self._replace(label_lanes=np.empty(n_lanes(k), np.float32), scaled=scaled)


class Candidates(NamedTuple):
    """The buffers for combining several trees."""

    found: np.ndarray
    chances: np.ndarray
    met: np.ndarray
    reach: np.ndarray


class Results(NamedTuple):
    """The best labels of each row, their scores, and their number."""

    labels: np.ndarray  # (n, k)
    scores: np.ndarray  # (n, k)
    counts: np.ndarray  # (n,)


class Beam(NamedTuple):
    """The groups that the beam has reached in one tree, from the most to the least probable."""

    groups: np.ndarray  # (width,)
    chances: np.ndarray  # (width,)
    scored: np.ndarray  # (width,) whether the children of a group have their margins
    margins: np.ndarray  # (nodes,)
    spans: np.ndarray  # scratch of `score_nodes`
    order: np.ndarray  # (width,) scratch of `_open_together`


class Best(NamedTuple):
    """The k best nodes or labels so far, the best first."""

    items: np.ndarray
    chances: np.ndarray
    lanes: np.ndarray  # scratch of n_lanes(k)


@inner(borrows=True)
def _chance(margin):
    """Compute the logistic function with an error of about 1e-7, as 2^-n times a polynomial, much faster than exp."""
    z = -abs(margin)
    if not z >= np.float32(-80.0):  # in this form also true for NaN, which would give an invalid index below
        z = np.float32(-80.0)
    t = z * np.float32(-1.4426950408889634)
    n = int(t + np.float32(0.5))
    r = (np.float32(n) - t) * np.float32(0.6931471805599453)  # within half of ln 2 of zero
    e = np.float32(1 / 120) + r * np.float32(1 / 720)
    e = np.float32(1 / 6) + r * (np.float32(1 / 24) + r * e)
    e = np.float32(1.0) + r * (np.float32(1.0) + r * (np.float32(0.5) + r * e))
    e *= _HALVES[n]
    return np.float32(1.0) / (np.float32(1.0) + e) if margin > 0 else e / (np.float32(1.0) + e)


@inner(borrows=True)
def _least_margin(ratio, slope):
    """Return the margin below which a probability is below `ratio`, minus a little because of rounding errors."""
    if ratio <= 0.0 or ratio >= 1.0:
        return np.float32(-np.inf)
    return np.float32((math.log(ratio / (1.0 - ratio) + 1e-300) - 1e-3) / slope)


@inner(borrows=True, apart=True)
def _open_together(tree, point, beam, n_open):
    """Compute the margins of the children of some groups, whose positions on the beam are in `beam.order`.

    All groups are opened in one pass over the features, because most rows have to be loaded from memory.
    """
    order, n = beam.order, 0
    for a in range(n_open):
        beam.scored[order[a]] = True
        group, b = beam.groups[order[a]], n
        first = tree.child_ptr[group]
        if tree.child_ptr[group + 1] - first == 1:  # an only child has no weights
            beam.margins[first] = tree.bias[first]
            continue
        while b > 0 and order[b - 1] > group:
            order[b] = order[b - 1]
            b -= 1
        order[b] = group
        n += 1
    if n > 0:
        part = LABELS if tree.child_ptr[order[0]] >= tree.level_ptr[tree.level_ptr.shape[0] - 2] else INNER_NODES
        score_nodes(tree, point, part, order[:n], beam.margins, beam.spans)


@inner(borrows=True, apart=True)
def expand_beam(tree, point, beam, n_groups, slope, k, best):
    """Find the k best children of the groups on the beam, as nodes or, on the last level, as labels.

    Return their number. Only a few children are examined one by one: most margins are below that of the worst child
    that is kept, or below the k-th margin of their group.
    """
    margins, items, chances = beam.margins, best.items, best.chances
    labels, first_label = tree.labels, np.int64(tree.level_ptr[tree.level_ptr.shape[0] - 2])
    n = _NONE
    for g in range(n_groups):
        above = beam.chances[g]
        if n == k and above < chances[n - 1]:
            break
        if not beam.scored[g]:
            n_open = _NONE
            for other in range(g, n_groups):
                if not beam.scored[other] and beam.chances[other] >= _LIKELY * above:
                    beam.order[n_open] = other
                    n_open += 1
            _open_together(tree, point, beam, n_open)
        first, last = np.int64(tree.child_ptr[beam.groups[g]]), np.int64(tree.child_ptr[beam.groups[g] + 1])
        worst = chances[n - 1] if n == k else 0.0
        floor, rejected = np.float32(-np.inf), 0
        if last - first > _FEW:
            if worst > 0.0:
                floor = _least_margin(worst / above, slope)
                if highest(margins, first, last) < floor:
                    continue
            if last - first >= 3 * len(best.lanes):
                floor = max(floor, reached(margins, first, last, k, best.lanes))
        for begin in range(first, last, _AT_ONCE):
            end = min(begin + _AT_ONCE, last)
            if highest(margins, begin, end) < floor:
                continue
            for node in range(begin, end):
                if margins[node] < floor:
                    continue
                chance = above * _chance(slope * margins[node])
                if chance < worst:
                    rejected += 1
                    if rejected == _REJECTIONS:
                        floor, rejected = max(floor, _least_margin(worst / above, slope)), 0
                    continue
                item = labels[node - first_label] if node >= first_label else np.int32(node)
                n = insert(items, chances, n, k, item, chance)
                if n == k:
                    worst = chances[n - 1]
    return n


@inner(borrows=True)
def descend(tree, point, options, beam, best):
    """Follow one point down one tree to the groups of labels. Return the number of groups that the beam reaches."""
    depth = tree.level_ptr.shape[0] - 1
    beam.groups[0] = 0
    beam.chances[0] = 1.0
    n_groups = np.int64(1)
    if depth == 1:
        return n_groups
    masked_cost = (depth - 2) * options.width * len(point.features) * products.FINDING
    whole = depth == 2 or whole_cost(tree, point, INNER_NODES) <= masked_cost
    if whole:
        score_nodes(tree, point, INNER_NODES, beam.groups[:0], beam.margins, beam.spans)
    for _ in range(depth - 1):
        for g in range(n_groups):
            beam.scored[g] = whole
        n_groups = expand_beam(tree, point, beam, n_groups, options.slope, options.width, best)
        for g in range(n_groups):
            beam.groups[g] = best.items[g] + 1  # node n is group n + 1
            beam.chances[g] = best.chances[g]
    return n_groups


@inner(borrows=True)
def _likely_groups(tree, beam, n_groups, k):
    """Estimate the number of groups that will be opened for the k best labels of one tree."""
    n, n_labels = _NONE, _NONE
    while n < n_groups and (n_labels < k or beam.chances[n] >= _LIKELY * beam.chances[0]):
        n_labels += tree.child_ptr[beam.groups[n] + 1] - tree.child_ptr[beam.groups[n]]
        n += 1
    return n


@inner(borrows=True, apart=True)
def score_labels(tree, point, beam, n_groups, likely):
    """Score all labels at once if that costs no more than scoring `likely` groups; otherwise score none yet."""
    masked_cost = likely * len(point.features) * products.FINDING
    whole = tree.level_ptr.shape[0] == 2 or whole_cost(tree, point, LABELS) <= masked_cost
    for g in range(n_groups):
        beam.scored[g] = whole
    if whole:
        score_nodes(tree, point, LABELS, beam.groups[:0], beam.margins, beam.spans)


@inner(borrows=True)
def _can_reach(tree, t, label_places, reach, group, above, needed, met):
    """Return whether a label of a group of tree t that is not found yet may reach the sum `needed` over all trees."""
    first_label = tree.level_ptr[tree.level_ptr.shape[0] - 2]
    for node in range(tree.child_ptr[group], tree.child_ptr[group + 1]):
        label = tree.labels[node - first_label]
        total = above
        for other in range(label_places.shape[0]):
            if other != t:
                total += reach[other, label_places[other, label, 1]]
        if total >= needed and not met[label]:
            return True
    return False


@inner(borrows=True, apart=True)
def _add_likely(tree, t, point, label_places, bound, slope, beam, n_groups, pool, n_found):
    """Add the labels whose probability in tree t reaches `bound` (and a few just below it) to the candidates.

    Return the number of candidates. Labels that cannot reach `bound` on average are left out if that saves a product.
    """
    first_label = tree.level_ptr[tree.level_ptr.shape[0] - 2]
    needed, n_open = bound * label_places.shape[0], _NONE
    for g in range(n_groups):
        above = beam.chances[g]
        if (
            above >= bound
            and not beam.scored[g]
            and _can_reach(tree, t, label_places, pool.reach, beam.groups[g], above, needed, pool.met)
        ):
            beam.order[n_open] = g
            n_open += 1
    _open_together(tree, point, beam, n_open)
    for g in range(n_groups):
        above = beam.chances[g]
        if above < bound:
            break
        if not beam.scored[g]:
            continue
        first, last = np.int64(tree.child_ptr[beam.groups[g]]), np.int64(tree.child_ptr[beam.groups[g] + 1])
        few, floor = last - first <= _FEW, np.float32(0.0)
        if not few:
            floor = _least_margin(bound / above, slope)
            if highest(beam.margins, first, last) < floor:
                continue
        for node in range(first, last):
            margin = beam.margins[node]
            if above * _chance(slope * margin) >= bound if few else margin >= floor:
                label = tree.labels[node - first_label]
                if not pool.met[label]:
                    pool.met[label] = True
                    pool.found[n_found] = label
                    n_found += 1
    return n_found


@inner(borrows=True, apart=True)
def _add_chances(tree, point, places, slope, beam, n_groups, labels, chances, likely):
    """Add the probabilities that one tree gives to some labels, whose nodes and groups are in `places` (L, 2).

    The first `likely` groups are opened together with the groups of these labels, as they will be needed next.
    """
    n_open = _NONE
    for g in range(likely):
        if not beam.scored[g]:
            beam.scored[g] = True
            beam.order[n_open] = g
            n_open += 1
    for turn in range(2):  # first collect the groups to open, then add the labels' probabilities
        for a in range(len(labels)):
            node, group, g = places[labels[a], 0], places[labels[a], 1], 0
            while g < n_groups and beam.groups[g] != group:
                g += 1
            if g == n_groups:
                continue  # the label is not on the beam
            if turn == 1:
                chances[a] += beam.chances[g] * _chance(slope * beam.margins[node])
            elif not beam.scored[g]:
                beam.scored[g] = True
                beam.order[n_open] = g
                n_open += 1
        if turn == 0:
            _open_together(tree, point, beam, n_open)


@inner(_nrt=False, apart=True)  # it returns views: safe only because its callers do not count references, either
def tree_at(trees, t):
    """Return one of the trees."""
    nodes = slice(trees.node_at[t], trees.node_at[t + 1])
    return Tree(
        trees.ptr[t],
        trees.nodes,
        trees.values,
        trees.dense_at[t],
        trees.dense,
        trees.skip_at[t],
        trees.skips,
        trees.steps[nodes],
        trees.bias[nodes],
        trees.child_ptr[trees.group_at[t] : trees.group_at[t + 1]],
        trees.level_ptr[trees.level_at[t] : trees.level_at[t + 1]],
        trees.labels[trees.label_at[t] : trees.label_at[t + 1]],
    )


@inner(borrows=True, apart=True)
def _best_of_all(trees, label_places, point, options, beams, n_groups, n, pool):
    """Find the labels with the k highest means over all trees, given the n best of the first tree.

    Return their number.
    """
    k, slope, n_trees = options.k, options.slope, len(n_groups)
    found, chances, met, reach = pool.found, pool.chances, pool.met, pool.reach
    bound = chances[n - 1] if n == k else 0.0  # a guess: assume that labels are as probable in the other trees
    n_found = _NONE
    # Three passes over the trees: compute the means of the n labels, find further candidates, compute their means.
    for turn in range(3):
        start = _NONE if turn == 0 else n
        stop = n if turn == 0 else n_found
        if turn != 1:
            for a in range(start, stop):
                chances[a] = 0.0
        for t in range(n_trees):
            tree = tree_at(trees, t)
            beam = Beam(beams.groups[t], beams.chances[t], beams.scored[t], beams.margins[t], beams.spans, beams.order)
            likely = _NONE
            if turn == 0:
                for g in range(n_groups[t]):
                    reach[t, beam.groups[g]] = beam.chances[g]
                likely += 1
                while likely < n_groups[t] and beam.chances[likely] >= bound:
                    likely += 1
                if t > 0:
                    score_labels(tree, point, beam, n_groups[t], likely)
            if turn == 1:
                n_found = _add_likely(tree, t, point, label_places, bound, slope, beam, n_groups[t], pool, n_found)
            else:
                some, theirs = found[start:stop], chances[start:stop]
                _add_chances(tree, point, label_places[t], slope, beam, n_groups[t], some, theirs, likely)
        if turn == 0:
            lowest = np.inf
            for a in range(n):
                lowest = min(lowest, chances[a])
                met[found[a]] = True
            bound = lowest / n_trees * 0.999999 if n == k else 0.0  # exact now, but for rounding errors
            n_found = n
    for t in range(n_trees):
        for g in range(n_groups[t]):
            reach[t, beams.groups[t, g]] = 0.0
    for a in range(n_found):
        met[found[a]] = False
        chances[a] /= n_trees
    n = keep_best(found, chances, n_found, k)
    sort_descending(found, chances, n)
    return n


@inner(borrows=True)
def _scale(values, unit, out):
    """Copy the values of a point. Scale them to length 1 if `unit`."""
    square = np.float32(0.0)
    for p in range(len(values)):
        square += values[p] * values[p]
    scale = np.float32(1.0)
    if unit and square > 0:
        scale = np.float32(1.0) / np.sqrt(square)
    for p in range(len(values)):
        out[p] = values[p] * scale


@kernel(borrows=True)
def search_trees(rows, first, last, trees, label_places, options, scratch, results):
    """Find the k best labels of rows first..last (:class:`longtail.kernels.csr.Csr`). Results begin at row 0.

    label_places (T, L, 2) has the node and the group of each label, -1 for none. With one tree it is None, and the code
    for several trees is not even compiled.
    """
    n_trees, k = trees.ptr.shape[0], options.k
    beams = Beam(scratch.groups, scratch.group_chances, scratch.scored, scratch.margins, scratch.spans, scratch.order)
    n_groups, scaled = scratch.n_groups, scratch.scaled
    best = Best(scratch.nodes, scratch.node_chances, scratch.lanes)
    best_labels = Best(scratch.found, scratch.chances, scratch.label_lanes)
    pool = Candidates(scratch.found, scratch.chances, scratch.met, scratch.reach)
    for row in range(first, last):
        span = slice(rows.ptr[row], rows.ptr[row + 1])
        point = Point(rows.idx[span], scaled[: rows.ptr[row + 1] - rows.ptr[row]])
        at = row - first
        _scale(rows.val[span], options.unit, point.values)
        for turn in range(n_trees):
            t = n_trees - 1 - turn  # the first tree comes last, because its labels are the first candidates
            tree = tree_at(trees, t)
            beam = Beam(beams.groups[t], beams.chances[t], beams.scored[t], beams.margins[t], beams.spans, beams.order)
            n_groups[t] = descend(tree, point, options, beam, best)
        score_labels(tree, point, beam, n_groups[0], _likely_groups(tree, beam, n_groups[0], k))
        n = expand_beam(tree, point, beam, n_groups[0], options.slope, k, best_labels)
        if label_places is not None:
            n = _best_of_all(trees, label_places, point, options, beams, n_groups, n, pool)
        results.counts[at] = n
        for a in range(n):
            results.labels[at, a] = scratch.found[a]
            results.scores[at, a] = min(max(scratch.chances[a], ABOVE_ZERO), BELOW_ONE)
