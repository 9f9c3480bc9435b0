"""RankNet's passes over the candidates of one point: forward, backward with its steps, and the final ranking.

A point has n candidate labels with the base's scores, the best first. Their logits y pass through a shared part, the
same few weights for every label, and through residual blocks, which have rows for each label:

    y0_i = logit(s_i) + g(phi_i)                         phi_i: score, rank, margin, training points of the label, text
    y_i  = y_i + t_i (b_i + U_i tanh(c + sum_j p_j V_j)) p = sigmoid(y); low rank, V and U have rank numbers a label
    y_i  = y_i + t_i (b_i + sum_j R_ij p_j)              full rank; R is sparse, over labels that occur together

t_i = n_i / (n_i + trust), so that a label with few training points moves with the shared part alone. Work and memory go
with the candidates, never with the number of labels. Kernels are serial and release the interpreter lock.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.kernels.solve import _next
from longtail.kernels.topk import ABOVE_ZERO, fill_places

N_FEATURES = 8
LOGISTIC, POPULATION = 0, 1
_LOW, _HIGH = np.float32(1e-9), np.float32(1 - 1e-6)
_EPSILON = np.float32(1e-6)


@njit(cache=True, nogil=True, fastmath=True)
def _sigmoid(y):
    y = min(max(y, np.float32(-60.0)), np.float32(60.0))  # exp stays finite, as fast maths supposes
    return np.float32(1.0) / (np.float32(1.0) + np.exp(-y))


@njit(cache=True, nogil=True, fastmath=True)
def describe(scores, points, text, phi, y):
    """What the shared part sees of each candidate, phi (n, N_FEATURES), each about 1 in size; y becomes the logits."""
    n = scores.shape[0]
    total = np.float32(0.0)
    for i in range(n):
        s = min(max(scores[i], _LOW), _HIGH)
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


@njit(cache=True, nogil=True, fastmath=True)
def _shared(phi, inner, outer, hidden, y):
    """Add g(phi) = outer . relu(inner phi) to the logits; hidden (n, H) keeps the units."""
    for i in range(y.shape[0]):
        for h in range(outer.shape[0]):
            unit = np.float32(0.0)
            for f in range(N_FEATURES):
                unit += inner[h, f] * phi[i, f]
            unit = max(unit, np.float32(0.0))
            hidden[i, h] = unit
            y[i] += outer[h] * unit


@njit(cache=True, nogil=True, fastmath=True)
def _low_rank(labels, trust, before, start, down, up, bias, p, code, after):
    """One low-rank block; p (n,) and code (rank,) are kept for the way back."""
    n, rank = before.shape[0], code.shape[0]
    for r in range(rank):
        code[r] = start[r]
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
        after[i] = before[i] + trust[i] * move


@njit(cache=True, nogil=True)
def find_pairs(labels, n, pair_ptr, pair_idx, slots):
    """slots[i, j]: where the pair of candidates i and j has its weight, -1 if the two labels never occur together."""
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


@njit(cache=True, nogil=True, fastmath=True)
def _full_rank(labels, trust, before, weights, bias, slots, p, after):
    """One full-rank block."""
    n = before.shape[0]
    for i in range(n):
        p[i] = _sigmoid(before[i])
    for i in range(n):
        move = bias[labels[i]]
        for j in range(n):
            if slots[i, j] >= 0:
                move += weights[slots[i, j]] * p[j]
        after[i] = before[i] + trust[i] * move


@njit(cache=True, nogil=True, fastmath=True)
def forward(labels, scores, points, text, trust_at, net, phi, hidden, trust, p, code, slots, y):
    """Logits of a point's candidates after each block: y (n_blocks + 1, n). The rest is scratch, kept for the way back.

    net: inner (H, F), outer (H,), start (B, rank), down and up (B, L, rank), bias (B, L), and of the full-rank variant
    weights (B, pairs), pair_ptr (L + 1,) and pair_idx (pairs,), empty otherwise.
    """
    inner, outer, start, down, up, bias, weights, pair_ptr, pair_idx = net
    n = labels.shape[0]
    describe(scores, points, text, phi, y[0])
    _shared(phi, inner, outer, hidden, y[0, :n])
    for i in range(n):
        trust[i] = points[i] / max(points[i] + trust_at, _EPSILON)
    full = pair_idx.shape[0] > 0
    if full:
        find_pairs(labels, n, pair_ptr, pair_idx, slots)
    for b in range(bias.shape[0]):
        if full:
            _full_rank(labels, trust, y[b, :n], weights[b], bias[b], slots, p[b], y[b + 1])
        else:
            _low_rank(labels, trust, y[b, :n], start[b], down[b], up[b], bias[b], p[b], code[b], y[b + 1])


@njit(cache=True, nogil=True, fastmath=True)
def _step(w, v, at, g, rate, decay):
    """One Adagrad step of one number."""
    g += decay * w[at]
    v[at] += g * g
    w[at] -= rate * g / (np.sqrt(v[at]) + _EPSILON)


@njit(cache=True, nogil=True, fastmath=True)
def _backward(labels, net, state, phi, hidden, trust, p, code, slots, g, rate, decay):
    """Carry g, the gradient of the last logits, back to the first, and step what it passes. state is as net."""
    inner, outer, start, down, up, bias, weights, _, _ = net
    v_inner, v_outer, v_start, v_down, v_up, v_bias, v_weights = state
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
                        _step(weights[b], v_weights[b], slots[i, j], g[i] * trust[i] * p[b, j], rate, decay)
        else:
            d_code[:] = 0.0
            for i in range(n):
                row, v_row, d = up[b, labels[i]], v_up[b, labels[i]], g[i] * trust[i]
                for r in range(rank):
                    d_code[r] += d * row[r]
                    _step(row, v_row, r, d * code[b, r], rate, decay)
            for r in range(rank):
                d_code[r] *= np.float32(1.0) - code[b, r] * code[b, r]
                _step(start[b], v_start[b], r, d_code[r], rate, np.float32(0.0))
            for i in range(n):
                row, v_row = down[b, labels[i]], v_down[b, labels[i]]
                for r in range(rank):
                    d_p[i] += d_code[r] * row[r]
                    _step(row, v_row, r, d_code[r] * p[b, i], rate, decay)
        for i in range(n):
            _step(bias[b], v_bias[b], labels[i], g[i] * trust[i], rate, decay)
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
        _step(outer, v_outer, h, d_outer[h], rate, np.float32(0.0))
        for f in range(N_FEATURES):
            _step(inner[h], v_inner[h], f, d_inner[h, f], rate, np.float32(0.0))


@njit(cache=True, nogil=True, fastmath=True)
def logistic_loss(y, right, worth, used, scale, g):
    """Logistic loss of the used candidates, each by the worth of its label; an irrelevant one counts `scale` times."""
    total = 0.0
    for i in range(y.shape[0]):
        g[i] = 0.0
        if used[i]:
            weight = worth[i] * (np.float32(1.0) if right[i] else scale)
            y_true = y[i] if right[i] else -y[i]
            total += weight * (np.log1p(np.exp(-abs(y_true))) + max(-y_true, np.float32(0.0)))
            g[i] = weight * (_sigmoid(y[i]) - np.float32(right[i]))
    return total


@njit(cache=True, nogil=True, fastmath=True)
def population_loss(y, right, points, used, scale, weight, margin, g):
    """The paper's loss: the rarer of two relevant labels above the other, and both above irrelevant ones by a margin.

    Sum over relevant i, j of [(n_i - n_j) / (n_i + n_j) (y_i - y_j)]+, and `weight` times the sum over relevant i and
    irrelevant k of [y_k - y_i + margin]+, in which each used k counts `scale` times.
    """
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


@njit(cache=True, nogil=True)
def _draw(right, n_irrelevant, place, used, state):
    """Use every relevant candidate and n_irrelevant of the others; how many of them each stands for, and the state."""
    others = 0
    for i in range(right.shape[0]):
        used[i] = right[i]
        if not right[i]:
            place[others] = i
            others += 1
    take = others if n_irrelevant < 0 else min(n_irrelevant, others)
    for a in range(take):
        if take < others:
            state = _next(state)
            b = a + np.int64(state % np.uint64(others - a))
            place[a], place[b] = place[b], place[a]
        used[place[a]] = True
    return np.float32(others / max(take, 1)), state


@njit(cache=True, nogil=True)
def scratch(m, net):
    """Working memory of ``forward`` for up to m candidates: phi, hidden, trust, p, code, slots, y."""
    outer, start, bias, pair_idx = net[1], net[2], net[5], net[8]
    n_blocks = bias.shape[0]
    side = m if pair_idx.shape[0] > 0 else 0
    return (
        np.empty((m, N_FEATURES), np.float32),
        np.empty((m, outer.shape[0]), np.float32),
        np.empty(m, np.float32),
        np.empty((n_blocks, m), np.float32),
        np.empty((n_blocks, start.shape[1]), np.float32),
        np.empty((side, side), np.int64),
        np.empty((n_blocks + 1, m), np.float32),
    )


@njit(cache=True, nogil=True)
def learn(
    rows, ptr, labels, scores, points, text, right, worth, trust_at, net, state,
    loss, weight, margin, n_irrelevant, rate, decay, seed,
):  # fmt: skip
    """One pass over the points `rows`, a step after each; the sum of their losses. Tables change in place.

    ptr, labels, scores, points (training points of the label), text, right: the candidates of all points, as CSR.
    worth (L,) weighs a label in the logistic loss. n_irrelevant: how many irrelevant candidates are drawn, -1 for all.
    """
    chance = np.uint64(seed) * np.uint64(2654435761) + np.uint64(88172645463325252)
    m = 0
    for row in rows:
        m = max(m, ptr[row + 1] - ptr[row])
    phi, hidden, trust, p, code, slots, y = scratch(m, net)
    g = np.empty(m, np.float32)
    value = np.empty(m, np.float32)
    used = np.empty(m, np.bool_)
    place = np.empty(m, np.int64)
    n_blocks = p.shape[0]
    total = 0.0
    for row in rows:
        lo, hi = ptr[row], ptr[row + 1]
        n = hi - lo
        if n == 0:
            continue
        own = labels[lo:hi]
        forward(
            own, scores[lo:hi], points[lo:hi], text[lo:hi], trust_at, net, phi, hidden, trust, p, code, slots, y[:, :n]
        )
        scale, chance = _draw(right[lo:hi], n_irrelevant, place, used, chance)
        last = y[n_blocks, :n]
        if loss == LOGISTIC:
            for i in range(n):
                value[i] = worth[own[i]]
            total += logistic_loss(last, right[lo:hi], value, used, scale, g[:n])
        else:
            total += population_loss(last, right[lo:hi], points[lo:hi], used, scale, weight, margin, g[:n])
        _backward(own, net, state, phi, hidden, trust, p, code, slots, g[:n], rate, decay)
    return total


@njit(cache=True, nogil=True)
def rerank(
    ptr, labels, scores, text, points, worth, learnt, trust_at, net, m, k, first, last, out_labels, out_scores, counts
):
    """Rank anew the first m candidates of rows first..last and keep the k best: labels and scores (rows, k), counts.

    They are ranked by the chance that the label is right, as learnt or the base's own, and by worth = (gain, plain,
    scale), as in ``fill_places``. Candidates beyond m follow in their own order. points (L,); text as labels, or empty.
    """
    gain, plain, scale = worth
    phi, hidden, trust, p, code, slots, y = scratch(m, net)
    n_blocks = p.shape[0]
    known = np.empty(m, np.float32)
    similar = np.zeros(m, np.float32)
    chance = np.empty(m, np.float32)
    own = np.empty(m, np.int32)
    for row in range(first, last):
        lo = ptr[row]
        n = min(ptr[row + 1] - lo, m)
        own[:n] = labels[lo : lo + n]
        if learnt and n > 0:
            for i in range(n):
                known[i] = points[own[i]]
                if text.shape[0] > 0:
                    similar[i] = text[lo + i]
            forward(
                own[:n], scores[lo : lo + n], known[:n], similar[:n], trust_at, net,
                phi, hidden, trust, p, code, slots, y[:, :n],
            )  # fmt: skip
            for i in range(n):
                chance[i] = _sigmoid(y[n_blocks, i])
        else:
            for i in range(n):
                chance[i] = scores[lo + i]
        at = row - first
        kept = fill_places(own[:n], chance[:n], gain, plain, scale, k, out_labels[at], out_scores[at])
        for i in range(lo + n, min(ptr[row + 1], lo + k)):  # only where more are asked for than are ranked anew
            share = scores[i] / max(scores[lo + n - 1], ABOVE_ZERO)
            out_labels[at, kept] = labels[i]
            out_scores[at, kept] = max(out_scores[at, n - 1] * share, ABOVE_ZERO)
            kept += 1
        counts[at] = kept


@njit(cache=True, nogil=True)
def similarity(x_ptr, x_idx, x_val, ptr, labels, z_ptr, z_idx, z_val, first, last, out):
    """out[i]: cosine of the point and the text of each candidate of rows first..last. Rows of z have length 1.

    Label texts are short and a point's features ascend, so each word of a label is looked up among them.
    """
    for row in range(first, last):
        begin, end = x_ptr[row], x_ptr[row + 1]
        square = 0.0
        for q in range(begin, end):
            square += np.float64(x_val[q]) * np.float64(x_val[q])
        unit = 1.0 / np.sqrt(square) if square > 0 else 0.0
        for i in range(ptr[row], ptr[row + 1]):
            product = 0.0
            for q in range(z_ptr[labels[i]], z_ptr[labels[i] + 1]):
                lo, hi = begin, end
                while lo < hi:
                    middle = (lo + hi) // 2
                    if x_idx[middle] < z_idx[q]:
                        lo = middle + 1
                    else:
                        hi = middle
                if lo < end and x_idx[lo] == z_idx[q]:
                    product += z_val[q] * x_val[lo]
            out[i] = np.float32(product * unit)
