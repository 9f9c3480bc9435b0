"""Dual coordinate descent for many binary problems over the same points.

The children of a tree node share their training points and differ only in their signs, so they are solved eight at a
time: the weights of eight problems are neighbours in memory, and one pass over a point's features updates all eight
with vector instructions. Where points are many, they begin with their positives and a sample of the other points. A
full pass over all points finds those that matter to each problem (the support vectors, few), which are then refined one
problem after another. Full passes and refinement alternate until no full pass finds a violation. Where points are few
and most of them are support vectors, full passes are cheaper and come first. Two siblings alone, as in a binary tree,
are solved as a pair, with a quarter of the weights to read.

Signs and dual variables are stored as one number: beta = y * alpha, so beta has the sign of y or is zero, and w = sum
beta_i x_i.

Squared hinge:  min 1/2 |w|^2 + C sum max(0, 1 - y w.x)^2   (Hsieh et al., 2008, Alg. 1, L2 loss)
Logistic:       min 1/2 |w|^2 + C sum log(1 + exp(-y w.x))  (Yu et al., 2011, Alg. 5)

Every point has a bias feature of value 1, whose weights are the last row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inner, njit
from longtail.kernels.prefetch import LINE_BYTES, prefetch

LANES = 8
_0, _1, _2, _3, _4, _5, _6, _7 = (np.uint64(j) for j in range(LANES))
_LANES = np.uint64(LANES)
_11, _13, _17 = np.uint64(11), np.uint64(13), np.uint64(17)
_LINE = np.uint64(LINE_BYTES // 4)
_AHEAD, _FAR_AHEAD = 2, 6  # visits before that of a point, at which its features, and where they are, are loaded
_LARGEST_BLOCK, _BLOCKS = 32, 1024  # points that a full pass visits in a row; blocks of them, at least
_SAMPLED, _FIRST_SHARE, _FIRST_PASSES = 64, 0.25, 3  # of the points with which problems of many points begin
_IN_ORDER = {"nnan", "nsz", "arcp", "contract"}  # fast maths that keeps the order of a sum
_FEW = 64  # points and features per support vector, from which on a problem is refined among its siblings' weights


class SolverRows(NamedTuple):
    """Points as CSR, and the squared length of each, bias included."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    norms: np.ndarray  # |x|^2 + 1


class Limits(NamedTuple):
    """When a solver stops."""

    tolerance: float  # no dual gradient is larger
    rounds: int  # full passes followed by a refinement, at most, and as many without one
    effort: float  # visits of a refinement, as a share of all points


@inner(inline="always")
def next_random(state):
    """Advance a xorshift generator: random enough for a visiting order, at the cost of three shifts."""
    state ^= state << _13
    state ^= state >> _7
    state ^= state << _17
    return state


@njit(cache=True, nogil=True, borrows=True)
def _shuffle(order, state):
    """Shuffle at random; passes in one fixed order converge several times more slowly."""
    for a in range(order.shape[0] - 1, 0, -1):
        state = next_random(state)
        b = int((state >> _11) % np.uint64(a + 1))
        order[a], order[b] = order[b], order[a]
    return state


@njit(borrows=True, cache=True)
def block_size(n):
    """Return how many points a full pass visits in a row.

    Neighbours in memory are read twice as fast as points here and there. They should be in random order.
    """
    return max(1, min(_LARGEST_BLOCK, n // _BLOCKS))


@njit(cache=True, nogil=True, borrows=True)
def _bias_at(indices):
    """Return the number of the bias feature: the one after the last feature that any point has."""
    last = np.int64(-1)
    for f in indices:
        last = max(last, np.int64(f))
    return last + 1


@njit(cache=True, nogil=True, inline="always")
def _load(points, signs, beta, lanes, i):
    """Begin to load what a visit of point i needs; without it, time per visit grows with the points."""
    prefetch(signs, i * lanes)
    prefetch(beta, i * lanes)
    prefetch(points.norms, i)
    for p in range(np.uint64(points.indptr[i]), np.uint64(points.indptr[i + _1]), _LINE):
        prefetch(points.indices, p)
        prefetch(points.data, p)


@njit(cache=True, nogil=True, inline="always")
def _load_ahead(points, signs, beta, lanes, order, at):
    """Begin to load what the visits after the one at `at` need."""
    prefetch(points.indptr, np.uint64(order[min(at + _FAR_AHEAD, order.shape[0] - 1)]))
    _load(points, signs, beta, lanes, np.uint64(order[min(at + _AHEAD, order.shape[0] - 1)]))


@njit(cache=True, nogil=True, inline="always")
def _block(points, order, size, at):
    """Return the first point of a block, its end, and the point whose visit follows the last ones of the block."""
    begin, last = np.int64(order[at]) * size, order.shape[0] - 1
    prefetch(points.indptr, np.uint64(order[min(at + _FAR_AHEAD, last)]) * np.uint64(size))
    following = np.int64(order[min(at + 1, last)]) * size if size > 1 else np.int64(order[min(at + 2, last)]) - 1
    return begin, min(begin + size, points.norms.shape[0]), following


@njit(cache=True, nogil=True, inline="always")
def _load_in_block(points, signs, beta, lanes, i, end, following):
    """Begin to load what the visit after the next one needs, in this block, which ends at `end`, or in the next one."""
    ahead = np.uint64(i + _AHEAD if i + _AHEAD < end else following + i + _AHEAD - end)
    _load(points, signs, beta, lanes, min(ahead, np.uint64(points.norms.shape[0] - 1)))


@njit(cache=True, nogil=True, slp=True, fastmath=_IN_ORDER)
def lockstep_pass(points, signs, damp, order, size, weights, beta, gap):
    """Make one pass over all points for eight problems, and write the largest violation of each to `gap`.

    `order` are blocks of `size` points. The norms of the points include `damp`; signs, beta : (n, 8); weights : flat
    (d + 1) * 8. The eight sums are written out, and unsigned indices need no check for negative ones, so that the
    compiler makes one vector instruction per feature. If it could change the order of a sum, it would instead take the
    features of a point together, whose weights lie far apart: that took more than twice as long.
    """
    indptr, indices, data, norms = points.indptr, points.indices, points.data, points.norms
    bias = np.uint64(weights.shape[0]) - _LANES
    step = np.empty(LANES, np.float32)
    gap[:] = 0.0
    for at in range(order.shape[0]):
        first, last, following = _block(points, order, size, at)
        for i in range(first, last):
            _load_in_block(points, signs, beta, _LANES, i, last, following)
            begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            s0, s1, s2, s3 = weights[bias], weights[bias + _1], weights[bias + _2], weights[bias + _3]
            s4, s5, s6, s7 = weights[bias + _4], weights[bias + _5], weights[bias + _6], weights[bias + _7]
            for p in range(begin, end):
                f = np.uint64(indices[p]) * _LANES
                v = data[p]
                s0 += v * weights[f]
                s1 += v * weights[f + _1]
                s2 += v * weights[f + _2]
                s3 += v * weights[f + _3]
                s4 += v * weights[f + _4]
                s5 += v * weights[f + _5]
                s6 += v * weights[f + _6]
                s7 += v * weights[f + _7]
            step[0], step[1], step[2], step[3], step[4], step[5], step[6], step[7] = s0, s1, s2, s3, s4, s5, s6, s7
            inverse = np.float32(1.0) / norms[i]
            moved = np.float32(0.0)
            for j in range(LANES):
                y = signs[i, j]
                old = beta[i, j]
                new = old - (step[j] - y + damp * old) * inverse
                new = new if new * y > 0 else np.float32(0.0)
                beta[i, j] = new
                change = new - old
                step[j] = change
                violation = abs(change) * norms[i]
                moved += violation
                gap[j] = max(gap[j], violation)
            if moved > 0:
                s0, s1, s2, s3, s4, s5, s6, s7 = step[0], step[1], step[2], step[3], step[4], step[5], step[6], step[7]
                weights[bias] += s0
                weights[bias + _1] += s1
                weights[bias + _2] += s2
                weights[bias + _3] += s3
                weights[bias + _4] += s4
                weights[bias + _5] += s5
                weights[bias + _6] += s6
                weights[bias + _7] += s7
                for p in range(begin, end):
                    f = np.uint64(indices[p]) * _LANES
                    v = data[p]
                    weights[f] += v * s0
                    weights[f + _1] += v * s1
                    weights[f + _2] += v * s2
                    weights[f + _3] += v * s3
                    weights[f + _4] += v * s4
                    weights[f + _5] += v * s5
                    weights[f + _6] += v * s6
                    weights[f + _7] += v * s7


@njit(cache=True, nogil=True, fastmath=True, borrows=True)
def pair_pass(points, signs, damp, order, size, weights, beta, gap):
    """Do the same as :func:`lockstep_pass` for two problems: signs, beta : (n, 2); weights : flat (d + 1) * 2."""
    indptr, indices, data, norms = points.indptr, points.indices, points.data, points.norms
    bias = np.uint64(weights.shape[0]) - _2
    gap[:] = 0.0
    for at in range(order.shape[0]):
        first, last, following = _block(points, order, size, at)
        for i in range(first, last):
            _load_in_block(points, signs, beta, _2, i, last, following)
            begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            s0, s1 = weights[bias], weights[bias + _1]
            for p in range(begin, end):
                f = np.uint64(indices[p]) * _2
                s0 += data[p] * weights[f]
                s1 += data[p] * weights[f + _1]
            norm = norms[i]
            y, old = signs[i, 0], beta[i, 0]
            new = old - (s0 - y + damp * old) / norm
            new = new if new * y > 0 else np.float32(0.0)
            beta[i, 0] = new
            s0 = new - old
            y, old = signs[i, 1], beta[i, 1]
            new = old - (s1 - y + damp * old) / norm
            new = new if new * y > 0 else np.float32(0.0)
            beta[i, 1] = new
            s1 = new - old
            if s0 != 0.0 or s1 != 0.0:
                gap[0] = max(gap[0], abs(s0) * norm)
                gap[1] = max(gap[1], abs(s1) * norm)
                weights[bias] += s0
                weights[bias + _1] += s1
                for p in range(begin, end):
                    f = np.uint64(indices[p]) * _2
                    weights[f] += data[p] * s0
                    weights[f + _1] += data[p] * s1


@njit(cache=True, nogil=True, fastmath=True, borrows=True)
def refine_pass(points, signs, damp, weights, beta, active, shift, lane):
    """Make one pass over the `active` points of one problem, the `lane` among 2 to the power of `shift` in flat arrays.

    Points whose beta is zero and that are clearly outside the margin are left out of later passes.
    Return how many points stay active (moved to the front, in order) and the largest violation.
    """
    indptr, indices, data, norms = points.indptr, points.indices, points.data, points.norms
    lanes = _1 << shift
    bias = np.uint64(weights.shape[0]) - lanes + lane
    gap = np.float32(0.0)
    stay = 0
    for at in range(active.shape[0]):
        i = np.uint64(active[at])
        _load_ahead(points, signs, beta, lanes, active, at)
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        score = weights[bias]
        for p in range(begin, end):
            score += data[p] * weights[(np.uint64(indices[p]) << shift) + lane]
        own = (i << shift) + lane
        y = signs[own]
        old = beta[own]
        slope = score - y + damp * old
        if old == 0.0 and slope * y > 0:
            continue
        active[stay] = i
        stay += 1
        new = old - slope / norms[i]
        new = new if new * y > 0 else np.float32(0.0)
        change = new - old
        if change != 0.0:
            gap = max(gap, abs(change) * norms[i])
            beta[own] = new
            weights[bias] += change
            for p in range(begin, end):
                weights[(np.uint64(indices[p]) << shift) + lane] += data[p] * change
    return stay, gap


@njit(cache=True, nogil=True, borrows=True)
def _refine(points, signs, damp, weights, beta, active, shift, lane, limits, state):
    """Refine one problem until it is solved on its active points, or has taken the visits that it may."""
    stay, visits = active.shape[0], 0
    while visits < limits.effort * points.norms.shape[0]:
        visits += stay
        state = _shuffle(active[:stay], state)
        stay, worst = refine_pass(points, signs, damp, weights, beta, active[:stay], shift, lane)
        if worst <= limits.tolerance or stay == 0:
            break
    return state


@njit(cache=True, nogil=True, borrows=True)
def _first_points(signs, first):
    """Write the points that are positives of some problem, and a sample of the others; return how many they are.

    A few passes over these find biases and rough weights, without which a full pass is half wasted.
    """
    n_first = 0
    for i in range(signs.shape[0]):
        wanted = i % _SAMPLED == 0
        for j in range(signs.shape[1]):
            wanted |= signs[i, j] > 0
        first[n_first] = i
        n_first += wanted
    return n_first


@njit(cache=True, nogil=True)
def squared_hinge(points, signs, costs, limits, seed):
    """Solve eight or two problems for each of several costs, ascending; return the weights (n_costs, d + 1, 8 or 2).

    The points should be in random order. signs : (n, 8 or 2). Each cost starts from the solution of the one before,
    which is near. After each full pass but the last, a problem is refined until it is solved on its active points or
    has made `effort` times as many visits as there are points. Where eight problems together have more active points
    than there are points, up to `rounds` further full passes come first. The weights of a problem whose signs are all 0
    stay 0.
    """
    n, lanes = signs.shape
    tolerance, d1 = limits.tolerance, _bias_at(points.indices) + 1
    found = np.zeros((costs.shape[0], d1, lanes), np.float32)
    beta = np.zeros((n, lanes), np.float32)
    gap = np.empty(lanes, np.float32)
    size = block_size(n)
    order = np.empty(-(-n // size), np.int32)
    for i in range(order.shape[0]):
        order[i] = i
    touched, active = np.empty(n, np.int32), np.empty(n, np.int32)
    flat_signs, flat_beta = signs.reshape(-1), beta.reshape(-1)
    state = np.uint64(seed) * np.uint64(2654435761) + np.uint64(88172645463325252)
    one_weights = np.empty(d1, np.float32)
    one_beta = np.empty(n, np.float32)
    one_sign = np.empty(n, np.float32)
    norms = np.empty(n, np.float32)
    damped = SolverRows(points.indptr, points.indices, points.data, norms)
    # Loops instead of operations on whole arrays, which take seconds to compile.
    for c in range(costs.shape[0]):
        weights = found[c]
        if c > 0:
            for f in range(d1):
                for j in range(lanes):
                    weights[f, j] = found[c - 1, f, j]
        flat = weights.reshape(-1)
        damp = np.float32(0.5 / costs[c])
        for i in range(n):
            norms[i] = points.norms[i] + damp
        n_first = _first_points(signs, touched) if c == 0 and lanes == LANES and size > 1 else n
        if n_first < _FIRST_SHARE * n:
            for _ in range(_FIRST_PASSES):
                state = _shuffle(touched[:n_first], state)
                lockstep_pass(damped, signs, damp, touched[:n_first], 1, flat, beta, gap)
        turn, further = 0, limits.rounds
        while True:
            state = _shuffle(order, state)
            if lanes == 2:
                pair_pass(damped, signs, damp, order, size, flat, beta, gap)
            else:
                lockstep_pass(damped, signs, damp, order, size, flat, beta, gap)
            if turn == limits.rounds - 1:
                break
            solved = True
            for j in range(lanes):
                solved &= gap[j] <= tolerance
            if solved:
                break
            n_touched, n_active = 0, 0
            for i in range(n):
                some = False
                for j in range(lanes):
                    some |= beta[i, j] != 0.0
                    n_active += beta[i, j] != 0.0 and gap[j] > tolerance
                touched[n_touched] = i
                n_touched += some
            if lanes == LANES and n_active > n and further > 0:  # one pass over all points is cheaper than refining
                further -= 1
                continue
            turn += 1
            for j in range(lanes):
                if gap[j] <= tolerance:
                    continue
                stay = 0
                for at in range(n_touched):
                    active[stay] = touched[at]
                    stay += beta[touched[at], j] != 0.0
                if lanes == LANES and stay * _FEW < n + d1:
                    place = _3, np.uint64(j)
                    state = _refine(damped, flat_signs, damp, flat, flat_beta, active[:stay], *place, limits, state)
                    continue
                for i in range(n):
                    one_beta[i] = beta[i, j]
                    one_sign[i] = signs[i, j]
                for f in range(d1):
                    one_weights[f] = weights[f, j]
                state = _refine(damped, one_sign, damp, one_weights, one_beta, active[:stay], _0, _0, limits, state)
                for f in range(d1):
                    weights[f, j] = one_weights[f]
                for i in range(n):
                    beta[i, j] = one_beta[i]
    return found


@njit(cache=True, nogil=True, fastmath=True)
def logistic(points, signs, costs, limits, seed):
    """Solve the same problems as :func:`squared_hinge` for the logistic loss, one problem and one cost at a time.

    Its dual variables are never zero, so there is nothing to leave out or to refine. Each coordinate, alpha in (0, C),
    is moved by a few Newton steps on 1/2 q z^2 + margin z + (alpha + z) log(alpha + z) + (C - alpha - z) log(C - alpha
    - z).
    """
    indptr, indices, data, norms = points.indptr, points.indices, points.data, points.norms
    tolerance = limits.tolerance
    n = indptr.shape[0] - 1
    bias = _bias_at(indices)
    found = np.zeros((costs.shape[0], bias + 1, signs.shape[1]), np.float32)
    w = np.empty(bias + 1, np.float32)
    order = np.arange(n)
    state = np.uint64(seed) * np.uint64(2654435761) + np.uint64(88172645463325252)
    alpha = np.empty(n, np.float64)
    for c in range(costs.shape[0]):
        cost = costs[c]
        for j in range(signs.shape[1]):
            if n == 0 or signs[0, j] == 0.0:
                continue
            start = min(0.001 * cost, 1e-8)  # the start of every coordinate in Yu et al.
            w[:] = 0.0
            for i in range(n):
                alpha[i] = start
                step = np.float32(start * signs[i, j])
                w[bias] += step
                for p in range(indptr[i], indptr[i + 1]):
                    w[indices[p]] += data[p] * step
            for _ in range(4 * limits.rounds):
                state = _shuffle(order, state)
                worst = 0.0
                for i in order:
                    score = w[bias]
                    for p in range(indptr[i], indptr[i + 1]):
                        score += data[p] * w[indices[p]]
                    y = signs[i, j]
                    margin = float(score * y)
                    old = alpha[i]
                    q = float(norms[i])
                    new = old
                    for _ in range(8):
                        slope = q * (new - old) + margin + math.log(new / (cost - new))
                        if abs(slope) < 0.1 * tolerance:
                            break
                        target = new - slope / (q + cost / (new * (cost - new)))
                        if target <= 0.0:
                            target = 0.1 * new
                        elif target >= cost:
                            target = cost - 0.1 * (cost - new)
                        new = target
                    alpha[i] = new
                    worst = max(worst, abs(new - old) * q)
                    step = np.float32((new - old) * y)
                    if step != 0.0:
                        w[bias] += step
                        for p in range(indptr[i], indptr[i + 1]):
                            w[indices[p]] += data[p] * step
                if worst <= tolerance:
                    break
            for f in range(bias + 1):
                found[c, f, j] = w[f]
    return found
