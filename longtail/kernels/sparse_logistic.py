"""Solve logistic regression with an L1 regulariser, which gives separators with few features.

    min |w|_1 + sum_i C_i log(1 + exp(-y_i w.x_i))

The method is Newton's, with coordinate descent inside (Yuan, Ho and Lin, 2012, "An improved GLMNET"). The loss is
replaced by its quadratic model at w, which is minimised one weight (one column of X) at a time. A line search follows.
Most weights are zero and stay so: a column whose gradient is well inside (-1, 1) is skipped in the following passes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit

_FLOOR = np.float32(1e-6)  # added to curvatures, so that a step is finite even where the curvature is 0


class PointColumns(NamedTuple):
    """Points in column-major order (CSC). The last column has ones, for the bias."""

    starts: np.ndarray
    rows: np.ndarray
    values: np.ndarray


class Quadratic(NamedTuple):
    """The quadratic model of the loss at the current weights."""

    gradient: np.ndarray  # (columns,)
    curvature: np.ndarray  # (columns,)
    second: np.ndarray  # (points,) second derivative of the loss of each point


@njit(cache=True, nogil=True)
def to_columns(indptr, indices, data, n_features):
    """Transpose rows to columns, and append a column of ones for the bias."""
    n = indptr.shape[0] - 1
    nnz = indptr[n]
    starts = np.zeros(n_features + 2, np.int64)
    for p in range(nnz):
        starts[indices[p] + 1] += 1
    for f in range(n_features):
        starts[f + 1] += starts[f]
    starts[n_features + 1] = nnz + n
    rows = np.empty(nnz + n, np.int32)
    values = np.empty(nnz + n, np.float32)
    cursor = starts[:n_features].copy()
    for i in range(n):
        for p in range(indptr[i], indptr[i + 1]):
            at = cursor[indices[p]]
            cursor[indices[p]] += 1
            rows[at] = i
            values[at] = data[p]
        rows[nnz + i] = i
        values[nnz + i] = 1.0
    return PointColumns(starts, rows, values)


@njit(cache=True, nogil=True, inline="always")
def _violation(weight, gradient):
    """Return the distance of 0 from the set of subgradients. It is 0 if the weight is optimal."""
    if weight > 0:
        return abs(gradient + np.float32(1.0))
    if weight < 0:
        return abs(gradient - np.float32(1.0))
    return max(abs(gradient) - np.float32(1.0), np.float32(0.0))


@njit(cache=True, nogil=True, inline="always")
def _loss(margin):
    """Compute log(1 + exp(-margin)) without overflow."""
    return math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0)


@njit(cache=True, nogil=True, borrows=True)
def _quadratic_pass(X, model, trial, columns, moved):
    """Minimise the quadratic model over each of `columns` once.

    Return the number of columns that stay active, which are moved to the front, and the sum of violations. trial : the
    weights that are changed; moved : the resulting change of the points' scores.
    """
    starts, rows, values = X.starts, X.rows, X.values
    gradient, curvature, second = model.gradient, model.curvature, model.second
    stay = 0
    total = np.float32(0.0)
    for j in columns:
        begin, end = np.uint64(starts[j]), np.uint64(starts[j + 1])
        slope = gradient[j]
        for p in range(begin, end):
            i = np.uint64(rows[p])
            slope += values[p] * second[i] * moved[i]
        old = trial[j]
        if old == 0.0 and abs(slope) < np.float32(0.9):
            continue
        columns[stay] = j
        stay += 1
        total += _violation(old, slope)
        h = curvature[j]
        target = old * h - slope  # shrunk towards zero by 1 and divided by h, it is the minimum
        if target > 1.0:
            new = (target - np.float32(1.0)) / h
        elif target < -1.0:
            new = (target + np.float32(1.0)) / h
        else:
            new = np.float32(0.0)
        step = min(max(new - old, np.float32(-10.0)), np.float32(10.0))
        if step != 0.0:
            trial[j] = old + step
            for p in range(begin, end):
                moved[np.uint64(rows[p])] += values[p] * step
    return stay, total


@njit(cache=True, nogil=True, borrows=True)
def _restart(active, n, columns):
    """Copy the first n active columns, and return n."""
    # A loop, because an assignment of slices takes seconds to compile, due to its error messages.
    for a in range(n):
        columns[a] = active[a]
    return n


@njit(cache=True, nogil=True)
def solve(X, signs, costs, tolerance, rounds, passes):
    """Return the optimal weights of the columns, float32.

    X : :class:`PointColumns`; signs : +1 or -1 per point; costs : C_i. The solver stops when the sum of violations is
    at most `tolerance` times that of zero weights, or after `rounds` Newton steps of at most `passes` passes each.
    """
    starts, rows, values = X.starts, X.rows, X.values
    n, d = signs.shape[0], starts.shape[0] - 1
    weights = np.zeros(d, np.float32)
    trial = np.zeros(d, np.float32)
    gradient = np.empty(d, np.float32)
    curvature = np.empty(d, np.float32)
    score = np.zeros(n, np.float32)
    first = np.empty(n, np.float32)
    second = np.empty(n, np.float32)
    moved = np.empty(n, np.float32)
    active = np.empty(d, np.int32)
    columns = np.empty(d, np.int32)
    model = Quadratic(gradient, curvature, second)
    at_zero = np.float32(-1.0)
    inner = np.float32(0.5)
    for _ in range(rounds):
        for i in range(n):
            chance = np.float32(1.0 / (1.0 + math.exp(signs[i] * score[i])))  # probability of an error
            first[i] = -costs[i] * signs[i] * chance
            second[i] = costs[i] * chance * (np.float32(1.0) - chance)
        n_active = 0
        total = np.float32(0.0)
        for j in range(d):
            g, h = np.float32(0.0), np.float32(0.0)
            for p in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                i = np.uint64(rows[p])
                v = values[p]
                g += v * first[i]
                h += v * v * second[i]
            gradient[j] = g
            curvature[j] = h + _FLOOR
            if weights[j] == 0.0 and abs(g) < np.float32(0.8):
                continue
            active[n_active] = j
            n_active += 1
            total += _violation(weights[j], g)
        if at_zero < 0:
            at_zero = total
        if total <= tolerance * at_zero:
            break
        moved[:] = 0.0
        for j in range(d):
            trial[j] = weights[j]
        stay = _restart(active, n_active, columns)
        for _ in range(passes):
            whole = stay == n_active
            stay, left = _quadratic_pass(X, model, trial, columns[:stay], moved)
            if left <= inner * total:
                if whole:
                    break
                stay = _restart(active, n_active, columns)  # check all columns once more
        inner = max(np.float32(0.05), inner * np.float32(0.5))
        if not _line_search(weights, trial, gradient, score, moved, signs, costs):
            break
    return weights


@njit(cache=True, nogil=True, borrows=True)
def _line_search(weights, trial, gradient, score, moved, signs, costs):
    """Move `weights` towards `trial` as far as the objective decreases enough (Armijo), or return False."""
    promised, norm = 0.0, 0.0
    for j in range(weights.shape[0]):
        norm += abs(trial[j]) - abs(weights[j])
        promised += gradient[j] * (trial[j] - weights[j])
    promised += norm
    if promised >= 0.0:
        return False
    share = 1.0
    for _ in range(10):
        change = 0.0
        for j in range(weights.shape[0]):
            if trial[j] != weights[j]:
                change += abs(weights[j] + share * (trial[j] - weights[j])) - abs(weights[j])
        for i in range(signs.shape[0]):
            margin = float(signs[i] * score[i])
            change += costs[i] * (_loss(margin + share * signs[i] * moved[i]) - _loss(margin))
        if change <= 0.01 * share * promised:
            for j in range(weights.shape[0]):
                weights[j] += np.float32(share) * (trial[j] - weights[j])
            for i in range(signs.shape[0]):
                score[i] += np.float32(share) * moved[i]
            return True
        share *= 0.5
    return False
