"""Dual coordinate descent for many binary problems over the same points.

The children of a tree node share their training points and differ only in their signs, so they are solved eight at a time:
the weights of eight problems lie side by side, and one walk over a point's features serves all eight with vector
instructions. A full pass in lockstep finds the points that matter to each problem; few do (the support vectors), and those
are then refined one problem after another. Full passes and refinement alternate until no full pass finds a violation.

Signs and dual variables are folded together: beta = y * alpha, so beta has the sign of y or is zero, and w = sum beta_i x_i.

Squared hinge:  min 1/2 |w|^2 + C sum max(0, 1 - y w.x)^2   (Hsieh et al., 2008, Alg. 1, L2 loss)
Logistic:       min 1/2 |w|^2 + C sum log(1 + exp(-y w.x))  (Yu et al., 2011, Alg. 5)

Every point carries a bias feature of value 1, kept as the last row of the weights.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

LANES = 8
_SHIFT_A, _SHIFT_B, _SHIFT_C, _SHIFT_D = np.uint64(13), np.uint64(7), np.uint64(17), np.uint64(11)


@njit(cache=True, nogil=True, inline="always")
def _next(state: np.uint64) -> np.uint64:
    """One step of a xorshift generator: enough randomness for a visiting order, at the cost of three shifts."""
    state ^= state << _SHIFT_A
    state ^= state >> _SHIFT_B
    state ^= state << _SHIFT_C
    return state


@njit(cache=True, nogil=True)
def _shuffle(order: np.ndarray, state: np.uint64) -> np.uint64:
    for a in range(order.shape[0] - 1, 0, -1):
        state = _next(state)
        b = int((state >> _SHIFT_D) % np.uint64(a + 1))
        order[a], order[b] = order[b], order[a]
    return state


@njit(cache=True, nogil=True, fastmath=True)
def lockstep_pass(indptr, indices, data, norms, signs, damp, order, weights, beta, gap):  # type: ignore[no-untyped-def]
    """One pass over all points for eight problems; leaves each problem's largest violation in `gap`.

    indptr, indices, data : points as CSR; norms : |x|^2 + 1 (bias) + damp; signs, beta : (n, 8); weights : (d + 1, 8).
    """
    bias = weights.shape[0] - 1
    score = np.empty(LANES, np.float32)
    step = np.empty(LANES, np.float32)
    gap[:] = 0.0
    for i in order:
        for j in range(LANES):
            score[j] = weights[bias, j]
        for p in range(indptr[i], indptr[i + 1]):
            f = indices[p]
            v = data[p]
            for j in range(LANES):
                score[j] += v * weights[f, j]
        inverse = np.float32(1.0) / norms[i]
        moved = 0
        for j in range(LANES):
            y = signs[i, j]
            old = beta[i, j]
            slope = score[j] - y + damp * old
            new = old - slope * inverse
            if new * y < 0:
                new = np.float32(0.0)
            change = new - old
            step[j] = change
            gap[j] = max(gap[j], abs(change) * norms[i])
            moved += change != 0
            beta[i, j] = new
        if moved:
            for j in range(LANES):
                weights[bias, j] += step[j]
            for p in range(indptr[i], indptr[i + 1]):
                f = indices[p]
                v = data[p]
                for j in range(LANES):
                    weights[f, j] += v * step[j]


@njit(cache=True, nogil=True, fastmath=True)
def refine_pass(indptr, indices, data, norms, sign, damp, weights, beta, active, state):  # type: ignore[no-untyped-def]
    """One pass over the `active` points of one problem, in random order.

    Points whose beta has become zero and that lie safely outside the margin are left out of later passes.
    Returns how many points stay active, the largest violation met, and the generator's state.
    """
    bias = weights.shape[0] - 1
    gap = np.float32(0.0)
    stay = active.shape[0]
    a = 0
    while a < stay:
        state = _next(state)
        b = a + int((state >> _SHIFT_D) % np.uint64(stay - a))
        i = active[b]
        active[b] = active[a]
        active[a] = i
        score = weights[bias]
        for p in range(indptr[i], indptr[i + 1]):
            score += data[p] * weights[indices[p]]
        y = sign[i]
        old = beta[i]
        slope = score - y + damp * old
        if old == 0.0 and slope * y > 0:
            stay -= 1
            active[a] = active[stay]
            active[stay] = i
            continue
        new = old - slope / norms[i]
        if new * y < 0:
            new = np.float32(0.0)
        change = new - old
        gap = max(gap, abs(change) * norms[i])
        if change != 0.0:
            beta[i] = new
            weights[bias] += change
            for p in range(indptr[i], indptr[i + 1]):
                weights[indices[p]] += data[p] * change
        a += 1
    return stay, gap, state


@njit(cache=True, nogil=True)
def squared_hinge(indptr, indices, data, norms, signs, cost, tolerance, rounds, passes, seed, weights):  # type: ignore[no-untyped-def]
    """Solve eight problems; `weights` (d + 1, 8) comes in as zeros and goes out solved.

    norms : |x|^2 + 1. At most `rounds` full passes, at most `passes` refining passes after each but the last.
    """
    n = indptr.shape[0] - 1
    damp = np.float32(0.5 / cost)
    norms = norms + damp
    order = np.arange(n)
    beta = np.zeros((n, LANES), np.float32)
    gap = np.empty(LANES, np.float32)
    state = np.uint64(seed) * np.uint64(2654435761) + np.uint64(88172645463325252)
    active = np.empty(n, np.int64)
    one_weights = np.empty(weights.shape[0], np.float32)
    one_beta = np.empty(n, np.float32)
    one_sign = np.empty(n, np.float32)
    for _ in range(rounds):
        state = _shuffle(order, state)
        lockstep_pass(indptr, indices, data, norms, signs, damp, order, weights, beta, gap)
        if gap.max() <= tolerance:
            break
        for j in range(LANES):
            if gap[j] <= tolerance:
                continue
            stay = 0
            for i in range(n):
                one_beta[i] = beta[i, j]
                one_sign[i] = signs[i, j]
                if one_beta[i] != 0.0:
                    active[stay] = i
                    stay += 1
            one_weights[:] = weights[:, j]
            for _ in range(passes):
                stay, worst, state = refine_pass(
                    indptr, indices, data, norms, one_sign, damp, one_weights, one_beta, active[:stay], state
                )
                if worst <= tolerance:
                    break
            weights[:, j] = one_weights
            beta[:, j] = one_beta


@njit(cache=True, nogil=True, fastmath=True)
def logistic(indptr, indices, data, norms, signs, cost, tolerance, rounds, passes, seed, weights):  # type: ignore[no-untyped-def]
    """As :func:`squared_hinge` for the logistic loss, whose dual variables are never zero: one problem at a time.

    Each coordinate, alpha in (0, C), is moved by a few Newton steps on
    1/2 q z^2 + margin z + (alpha + z) log(alpha + z) + (C - alpha - z) log(C - alpha - z).
    """
    n = indptr.shape[0] - 1
    bias = weights.shape[0] - 1
    order = np.arange(n)
    state = np.uint64(seed) * np.uint64(2654435761) + np.uint64(88172645463325252)
    w = np.empty(weights.shape[0], np.float32)
    alpha = np.empty(n, np.float64)
    for j in range(signs.shape[1]):
        start = min(0.001 * cost, 1e-8)  # where Yu et al. start every coordinate
        w[:] = 0.0
        for i in range(n):
            alpha[i] = start
            step = np.float32(start * signs[i, j])
            w[bias] += step
            for p in range(indptr[i], indptr[i + 1]):
                w[indices[p]] += data[p] * step
        for _ in range(rounds * (1 + passes)):
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
                gradient = margin + math.log(old / (cost - old))
                worst = max(worst, min(abs(gradient), abs(gradient) * old))
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
                step = np.float32((new - old) * y)
                if step != 0.0:
                    w[bias] += step
                    for p in range(indptr[i], indptr[i + 1]):
                        w[indices[p]] += data[p] * step
            if worst <= tolerance:
                break
        weights[:, j] = w
