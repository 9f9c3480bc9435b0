"""RankNet's passes over the candidates of one point: forward, backward with the optimiser's steps, and final ranking.

A point has n candidate labels with the scores of the base model, the best first. Their logits y pass through a shared
part, which has the same few weights for all labels, and through residual blocks, which have one row per label:

    y0_i = logit(s_i) + g(phi_i)                         phi_i: score, rank, margin, training points of the label, text
    y_i  = y_i + t_i (b_i + U_i tanh(c + sum_j p_j V_j)) p = sigmoid(y); low rank, V and U have rank numbers per label
    y_i  = y_i + t_i (b_i + sum_j R_ij p_j)              full rank; R is sparse, over labels that occur together

t_i = n_i / (n_i + trust), so that a label with few training points is changed almost only by the shared part. Work and
memory are proportional to the number of candidates, never to the number of labels. Kernels are serial and release the
interpreter lock.

They are compiled without fast maths. With it, LLVM may reorder sums in loops that also write, depending on a check at
run time of whether arrays overlap in memory. The same point could then get scores that differ in the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit
from longtail.kernels.solve import next_random
from longtail.kernels.topk import ABOVE_ZERO, fill_places

N_FEATURES = 8
LOGISTIC, POPULATION = 0, 1
_SCORE_LOW, _SCORE_HIGH = np.float32(1e-9), np.float32(1 - 1e-6)
_EPSILON = np.float32(1e-6)


class RerankNet(NamedTuple):
    """Tables of the network: H hidden units, F features, B blocks, L labels."""

    inner: np.ndarray  # (H, F)
    outer: np.ndarray  # (H,)
    start: np.ndarray  # (B, rank)
    down: np.ndarray  # (B, L, rank)
    up: np.ndarray  # (B, L, rank)
    bias: np.ndarray  # (B, L)
    weights: np.ndarray  # (B, pairs); this and the next two are empty unless the blocks have full rank
    pair_ptr: np.ndarray  # (L + 1,)
    pair_idx: np.ndarray  # (pairs,)
    trust: np.float32  # number of training points at which a label's own rows get half their full effect


class RerankState(NamedTuple):
    """Adagrad's state for each table of the network."""

    inner: np.ndarray
    outer: np.ndarray
    start: np.ndarray
    down: np.ndarray
    up: np.ndarray
    bias: np.ndarray
    weights: np.ndarray


class RerankScratch(NamedTuple):
    """Working memory of ``forward`` for up to m candidates. The backward pass uses its contents."""

    phi: np.ndarray  # (m, F)
    hidden: np.ndarray  # (m, H)
    trust: np.ndarray  # (m,)
    p: np.ndarray  # (B, m)
    code: np.ndarray  # (B, rank)
    slots: np.ndarray  # (m, m), or empty
    y: np.ndarray  # (B + 1, m) logits


class CandidateLists(NamedTuple):
    """Candidates of all points as CSR, the best first."""

    ptr: np.ndarray  # (N + 1,) int64
    labels: np.ndarray  # (nnz,) int32
    scores: np.ndarray  # (nnz,) float32
    text: np.ndarray  # (nnz,) similarity of point and label text; (0,) in prediction without text


class RerankLearning(NamedTuple):
    """Targets and settings of a training pass."""

    right: np.ndarray  # (nnz,) whether the point has the label
    points: np.ndarray  # (nnz,) training points of the label
    value: np.ndarray  # (L,) weight of a label in the logistic loss
    loss: int  # LOGISTIC or POPULATION
    weight: np.float32  # of irrelevant labels in the population-aware loss
    margin: np.float32
    n_irrelevant: int  # number of irrelevant candidates drawn per point, -1 for all
    rate: np.float32
    decay: np.float32


class RankingRule(NamedTuple):
    """Settings of the ranking. In position j, a correct label gains plain[j] + scale[j] * gain[label], at most 1."""

    gain: np.ndarray  # (L,)
    plain: np.ndarray  # (positions,); the last one holds for all further positions
    scale: np.ndarray  # (positions,)
    n_candidates: int  # number of candidates that are re-ranked; the others follow them
    learnt: bool  # rank by the probabilities of the network; otherwise by the scores of the base model


@njit(cache=True, nogil=True, borrows=True)
def _sigmoid(y):
    y = min(max(y, np.float32(-60.0)), np.float32(60.0))  # keeps exp finite
    return np.float32(1.0) / (np.float32(1.0) + np.exp(-y))


@njit(cache=True, nogil=True, borrows=True)
def describe_candidates(scores, points, text, phi, y):
    """Compute the features of each candidate, phi (n, N_FEATURES), each about 1 in size, and the logits y of scores."""
    n = scores.shape[0]
    total = np.float32(0.0)
    for i in range(n):
        s = min(max(scores[i], _SCORE_LOW), _SCORE_HIGH)
        total += s
        y[i] = np.log(s / (np.float32(1.0) - s))
    for i in range(n):
        phi[i, 0] = 1.0
        phi[i, 1] = y[i] * np.float32(0.25)
        phi[i, 2] = (y[0] - y[i]) * np.float32(0.25)
        phi[i, 3] = np.log(np.float32(i + 1)) * np.float32(0.5)
        phi[i, 4] = np.log(np.float32(1.0) + points[i]) * np.float32(0.25)
        phi[i, 5] = np.log(np.float32(1.0) + points[0]) * np.float32(0.25)
        phi[i, 6] = np.log(np.float32(0.1) + total)
        phi[i, 7] = text[i]


@njit(cache=True, nogil=True, borrows=True)
def _shared(phi, inner, outer, hidden, y):
    """Add g(phi) = outer . relu(inner phi) to the logits. Store the hidden units in hidden (n, H)."""
    for i in range(y.shape[0]):
        for h in range(outer.shape[0]):
            unit = np.float32(0.0)
            for f in range(N_FEATURES):
                unit += inner[h, f] * phi[i, f]
            unit = max(unit, np.float32(0.0))
            hidden[i, h] = unit
            y[i] += outer[h] * unit


@njit(cache=True, nogil=True, borrows=True)
def _low_rank(labels, net, work, b):
    """Apply the low-rank block b to the logits work.y[b], giving work.y[b + 1]. Keep p and code for the way back."""
    n, rank = labels.shape[0], work.code.shape[1]
    before, after = work.y[b], work.y[b + 1]
    down, up, bias = net.down[b], net.up[b], net.bias[b]
    p, code = work.p[b], work.code[b]
    for r in range(rank):
        code[r] = net.start[b, r]
    for i in range(n):
        p[i] = _sigmoid(before[i])
        row = down[labels[i]]
        for r in range(rank):
            code[r] += p[i] * row[r]
    for r in range(rank):
        code[r] = np.tanh(code[r])
    for i in range(n):
        row = up[labels[i]]
        move = bias[labels[i]]
        for r in range(rank):
            move += row[r] * code[r]
        after[i] = before[i] + work.trust[i] * move


@njit(cache=True, nogil=True, borrows=True)
def find_pairs(labels, n, pair_ptr, pair_idx, slots):
    """Set slots[i, j] to the position of the weight of candidates i and j, or -1 if they never occur together."""
    for i in range(n):
        begin, end = pair_ptr[labels[i]], pair_ptr[labels[i] + 1]
        for j in range(n):
            lo, hi = begin, end
            while lo < hi:
                middle = (lo + hi) // 2
                if pair_idx[middle] < labels[j]:
                    lo = middle + 1
                else:
                    hi = middle
            slots[i, j] = lo if lo < end and pair_idx[lo] == labels[j] and i != j else -1


@njit(cache=True, nogil=True, borrows=True)
def _full_rank(labels, net, work, b):
    """Apply the full-rank block b to the logits work.y[b], giving work.y[b + 1]."""
    n = labels.shape[0]
    before, after, p, slots = work.y[b], work.y[b + 1], work.p[b], work.slots
    weights, bias = net.weights[b], net.bias[b]
    for i in range(n):
        p[i] = _sigmoid(before[i])
    for i in range(n):
        move = bias[labels[i]]
        for j in range(n):
            if slots[i, j] >= 0:
                move += weights[slots[i, j]] * p[j]
        after[i] = before[i] + work.trust[i] * move


@njit(cache=True, nogil=True, borrows=True)
def forward(labels, scores, points, text, net, work):
    """Fill work.y (B + 1, m) with the logits of a point's n candidates after each block.

    net : RerankNet; work : RerankScratch, which the backward pass uses afterwards.
    """
    n = labels.shape[0]
    describe_candidates(scores, points, text, work.phi, work.y[0])
    _shared(work.phi, net.inner, net.outer, work.hidden, work.y[0, :n])
    for i in range(n):
        work.trust[i] = points[i] / max(points[i] + net.trust, _EPSILON)
    full = net.pair_idx.shape[0] > 0
    if full:
        find_pairs(labels, n, net.pair_ptr, net.pair_idx, work.slots)
    for b in range(net.bias.shape[0]):
        if full:
            _full_rank(labels, net, work, b)
        else:
            _low_rank(labels, net, work, b)


@njit(cache=True, nogil=True, borrows=True)
def _adagrad(w, v, at, g, rate, decay):
    """Take one Adagrad step of the number w[at] by the gradient g."""
    g += decay * w[at]
    v[at] += g * g
    w[at] -= rate * g / (np.sqrt(v[at]) + _EPSILON)


@njit(cache=True, nogil=True)
def _backward(labels, net, state, work, g, rate, decay):
    """Propagate g, the gradient of the last logits, back to the first ones, and update the tables on the way."""
    inner, outer, start, down, up, bias, weights = (
        net.inner,
        net.outer,
        net.start,
        net.down,
        net.up,
        net.bias,
        net.weights,
    )
    v_inner, v_outer, v_start, v_down, v_up, v_bias, v_weights = state
    phi, hidden, trust, p, code, slots, _ = work
    n, rank = labels.shape[0], code.shape[1]
    d_code = np.empty(rank, np.float32)
    d_p = np.empty(n, np.float32)
    for b in range(bias.shape[0] - 1, -1, -1):
        d_p[:] = 0.0
        if weights.shape[1] > 0:
            for i in range(n):
                for j in range(n):
                    if slots[i, j] >= 0:
                        d_p[j] += g[i] * trust[i] * weights[b, slots[i, j]]
                        _adagrad(weights[b], v_weights[b], slots[i, j], g[i] * trust[i] * p[b, j], rate, decay)
        else:
            d_code[:] = 0.0
            for i in range(n):
                row, v_row, d = up[b, labels[i]], v_up[b, labels[i]], g[i] * trust[i]
                for r in range(rank):
                    d_code[r] += d * row[r]
                    _adagrad(row, v_row, r, d * code[b, r], rate, decay)
            for r in range(rank):
                d_code[r] *= np.float32(1.0) - code[b, r] * code[b, r]
                _adagrad(start[b], v_start[b], r, d_code[r], rate, np.float32(0.0))
            for i in range(n):
                row, v_row = down[b, labels[i]], v_down[b, labels[i]]
                for r in range(rank):
                    d_p[i] += d_code[r] * row[r]
                    _adagrad(row, v_row, r, d_code[r] * p[b, i], rate, decay)
        for i in range(n):
            _adagrad(bias[b], v_bias[b], labels[i], g[i] * trust[i], rate, decay)
            g[i] += d_p[i] * p[b, i] * (np.float32(1.0) - p[b, i])
    d_inner = np.zeros_like(inner)
    d_outer = np.zeros_like(outer)
    for i in range(n):
        for h in range(outer.shape[0]):
            if hidden[i, h] > 0:
                d_outer[h] += g[i] * hidden[i, h]
                d = g[i] * outer[h]
                for f in range(N_FEATURES):
                    d_inner[h, f] += d * phi[i, f]
    for h in range(outer.shape[0]):
        _adagrad(outer, v_outer, h, d_outer[h], rate, np.float32(0.0))
        for f in range(N_FEATURES):
            _adagrad(inner[h], v_inner[h], f, d_inner[h, f], rate, np.float32(0.0))


@njit(cache=True, nogil=True, borrows=True)
def logistic_loss(y, right, value, used, scale, g):
    """Return the logistic loss of the used candidates, and compute its gradient g.

    Candidates are weighted by the value of their label. Irrelevant ones are also weighted by `scale`.
    """
    total = 0.0
    for i in range(y.shape[0]):
        g[i] = 0.0
        if used[i]:
            weight = value[i] * (np.float32(1.0) if right[i] else scale)
            y_true = y[i] if right[i] else -y[i]
            total += weight * (np.log1p(np.exp(-abs(y_true))) + max(-y_true, np.float32(0.0)))
            g[i] = weight * (_sigmoid(y[i]) - np.float32(right[i]))
    return total


@njit(cache=True, nogil=True, borrows=True)
def population_loss(y, right, points, used, scale, learning, g):
    """Return the loss of the paper, and compute its gradient g.

    It ranks the rarer of two relevant labels above the other one, and both above irrelevant labels by a margin. It is
    the sum over relevant i, j of [(n_i - n_j) / (n_i + n_j) (y_i - y_j)]+, plus `weight` times the sum over relevant i
    and irrelevant k of [y_k - y_i + margin]+, where each used k is weighted by `scale`.
    """
    weight, margin = learning.weight, learning.margin
    total = 0.0
    n = y.shape[0]
    for i in range(n):
        g[i] = 0.0
    for i in range(n):
        if not right[i]:
            continue
        for j in range(n):
            if right[j]:
                pull = (points[i] - points[j]) / max(points[i] + points[j], np.float32(1.0))
                if pull * (y[i] - y[j]) > 0:
                    total += pull * (y[i] - y[j])
                    g[i] += pull
                    g[j] -= pull
            elif used[j] and y[j] - y[i] + margin > 0:
                total += weight * scale * (y[j] - y[i] + margin)
                g[j] += weight * scale
                g[i] -= weight * scale
    return total


@njit(cache=True, nogil=True, no_cpython_wrapper=False, borrows=True)
def _draw_used(right, n_irrelevant, place, used, state):
    """Use all relevant candidates and draw n_irrelevant others.

    Return the number of irrelevant candidates that each drawn one represents, and the state of the random numbers.
    """
    others = 0
    for i in range(right.shape[0]):
        used[i] = right[i]
        if not right[i]:
            place[others] = i
            others += 1
    take = others if n_irrelevant < 0 else min(n_irrelevant, others)
    for a in range(take):
        if take < others:
            state = next_random(state)
            b = a + np.int64(state % np.uint64(others - a))
            place[a], place[b] = place[b], place[a]
        used[place[a]] = True
    return np.float32(others / max(take, 1)), state


@njit(cache=True, nogil=True)
def scratch(m, net):
    """Return working memory for up to m candidates."""
    n_blocks = net.bias.shape[0]
    side = m if net.pair_idx.shape[0] > 0 else 0
    return RerankScratch(
        np.empty((m, N_FEATURES), np.float32),
        np.empty((m, net.outer.shape[0]), np.float32),
        np.empty(m, np.float32),
        np.empty((n_blocks, m), np.float32),
        np.empty((n_blocks, net.start.shape[1]), np.float32),
        np.empty((side, side), np.int64),
        np.empty((n_blocks + 1, m), np.float32),
    )


@njit(cache=True, nogil=True)
def learn(rows, candidates, net, state, learning, seed):
    """Train for one pass over the points `rows`, with a step after each point. Return the sum of their losses.

    candidates : CandidateLists; net : RerankNet and state : RerankState, changed in place; learning : RerankLearning.
    """
    ptr, labels, scores, text = candidates
    right, points = learning.right, learning.points
    random = np.uint64(seed) * np.uint64(2654435761) + np.uint64(88172645463325252)
    m = 0
    for row in rows:
        m = max(m, ptr[row + 1] - ptr[row])
    work = scratch(m, net)
    g = np.empty(m, np.float32)
    value = np.empty(m, np.float32)
    used = np.empty(m, np.bool_)
    place = np.empty(m, np.int64)
    n_blocks = work.p.shape[0]
    total = 0.0
    for row in rows:
        lo, hi = ptr[row], ptr[row + 1]
        n = hi - lo
        if n == 0:
            continue
        own = labels[lo:hi]
        forward(own, scores[lo:hi], points[lo:hi], text[lo:hi], net, work)
        scale, random = _draw_used(right[lo:hi], learning.n_irrelevant, place, used, random)
        last = work.y[n_blocks, :n]
        if learning.loss == LOGISTIC:
            for i in range(n):
                value[i] = learning.value[own[i]]
            total += logistic_loss(last, right[lo:hi], value, used, scale, g[:n])
        else:
            total += population_loss(last, right[lo:hi], points[lo:hi], used, scale, learning, g[:n])
        _backward(own, net, state, work, g[:n], learning.rate, learning.decay)
    return total


@njit(cache=True, nogil=True)
def rerank(candidates, net, points, rule, first, last, top):
    """Re-rank the candidates of rows first..last, and keep the best, as many as fit into `top`.

    They are ranked by the probability that the label is correct (from the network or from the base model), and by the
    gain of a correct label in each position.

    candidates : CandidateLists; net : RerankNet; points : (L,) training points per label; rule : RankingRule;
    top : TopLabels, filled.
    """
    ptr, labels, scores, text = candidates
    k, m = top.labels.shape[1], rule.n_candidates
    work = scratch(m, net)
    n_blocks = work.p.shape[0]
    known = np.empty(m, np.float32)
    similar = np.zeros(m, np.float32)
    probability = np.empty(m, np.float32)
    own = np.empty(m, np.int32)
    for row in range(first, last):
        lo = ptr[row]
        n = min(ptr[row + 1] - lo, m)
        for i in range(n):
            own[i] = labels[lo + i]
        if rule.learnt and n > 0:
            for i in range(n):
                known[i] = points[own[i]]
                if text.shape[0] > 0:
                    similar[i] = text[lo + i]
            forward(own[:n], scores[lo : lo + n], known[:n], similar[:n], net, work)
            for i in range(n):
                probability[i] = _sigmoid(work.y[n_blocks, i])
        else:
            for i in range(n):
                probability[i] = scores[lo + i]
        out_labels, out_scores = top.labels[row], top.scores[row]
        kept = fill_places(own[:n], probability[:n], rule.gain, rule.plain, rule.scale, k, out_labels, out_scores)
        for i in range(lo + n, min(ptr[row + 1], lo + k)):  # only if more labels are requested than are re-ranked
            share = scores[i] / max(scores[lo + n - 1], ABOVE_ZERO)
            out_labels[kept] = labels[i]
            out_scores[kept] = max(out_scores[n - 1] * share, ABOVE_ZERO)
            kept += 1
        top.counts[row] = kept


@njit(cache=True, nogil=True, borrows=True)
def similarity(x, ptr, labels, z, first, last, out):
    """Set out[i] to the cosine of the point and the label text, for each candidate i of rows first..last.

    x, z : SparseRows of points and of label texts, the latter of length 1; ptr, labels : candidates as CSR. Label texts
    are short, and the features of a point ascend: each word of a label is found among them by bisection.
    """
    for row in range(first, last):
        begin, end = x.ptr[row], x.ptr[row + 1]
        square = 0.0
        for q in range(begin, end):
            square += np.float64(x.val[q]) * np.float64(x.val[q])
        unit = 1.0 / np.sqrt(square) if square > 0 else 0.0
        for i in range(ptr[row], ptr[row + 1]):
            product = 0.0
            for q in range(z.ptr[labels[i]], z.ptr[labels[i] + 1]):
                lo, hi = begin, end
                while lo < hi:
                    middle = (lo + hi) // 2
                    if x.idx[middle] < z.idx[q]:
                        lo = middle + 1
                    else:
                        hi = middle
                if lo < end and x.idx[lo] == z.idx[q]:
                    product += z.val[q] * x.val[lo]
            out[i] = np.float32(product * unit)
