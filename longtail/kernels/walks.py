"""Random walks on a graph, and skip-gram vectors of what they meet: the two halves of DeepWalk.

A walk draws its random numbers from (seed, its own number), so that threads do not change it. Skip-gram is stochastic
gradient descent over all pairs of a walk, one after the other on one thread, which is what makes it repeatable.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.float32(1.0)


@njit(cache=True, nogil=True, inline="always")
def _scramble(state):
    """One output of splitmix64."""
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def _below(random, n):
    """A whole number below n < 2^31 from 64 random bits."""
    return np.int64(((random >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def alias(indptr, indices, data, first, last, keep, other):
    """Tables from which a neighbour is drawn by weight in one look (Walker, 1977; Vose, 1991), for rows first..last.

    A place of the row is drawn evenly; its own neighbour is taken with the chance `keep`, else the node in `other`.
    """
    for i in range(first, last):
        lo, n = indptr[i], indptr[i + 1] - indptr[i]
        total = 0.0
        for p in range(lo, lo + n):
            total += data[p]
        share = np.empty(n, np.float64)  # 1 on average
        small, large = np.empty(n, np.int64), np.empty(n, np.int64)
        n_small = n_large = 0
        for p in range(n):
            share[p] = data[lo + p] * n / total
            keep[lo + p] = 1.0
            other[lo + p] = indices[lo + p]
            if share[p] < 1.0:
                small[n_small] = p
                n_small += 1
            else:
                large[n_large] = p
                n_large += 1
        while n_small > 0 and n_large > 0:
            n_small -= 1
            poor, rich = small[n_small], large[n_large - 1]
            keep[lo + poor] = share[poor]
            other[lo + poor] = indices[lo + rich]
            share[rich] -= 1.0 - share[poor]
            if share[rich] < 1.0:
                n_large -= 1
                small[n_small] = rich
                n_small += 1


@njit(cache=True, nogil=True)
def walk(indptr, indices, keep, other, even, starts, seed, first, last, out):
    """Walks number first..last, out[w] (length,) from starts[w]; -1 after a node without neighbours.

    keep, other : from `alias`; with `even`, unused: all edges of a node are as likely.
    """
    step = np.uint64(0x9E3779B97F4A7C15)
    length = out.shape[1]
    for w in range(first, last):
        state = _scramble(np.uint64(seed) + np.uint64(w + 1) * step)
        node = starts[w]
        out[w, 0] = node
        for t in range(1, length):
            lo, hi = indptr[node], indptr[node + 1]
            if hi == lo:
                out[w, t:] = -1
                break
            state += step
            random = _scramble(state)
            at = lo + _below(random, hi - lo)
            node = indices[at]
            if not even and np.float32(random & np.uint64(0xFFFFFF)) * np.float32(2.0**-24) >= keep[at]:
                node = other[at]
            out[w, t] = node


@njit(cache=True, nogil=True, fastmath=True)
def _pull(vector, other, label, rate, change):
    """One logistic step of `other` towards (label 1) or away from (0) `vector`; adds its pull on `vector`."""
    d = vector.shape[0]
    dot = np.float32(0.0)
    for j in range(d):
        dot += vector[j] * other[j]
    dot = min(max(dot, np.float32(-8.0)), np.float32(8.0))
    g = rate * (label - _ONE / (_ONE + np.exp(-dot)))
    for j in range(d):
        change[j] += g * other[j]
        other[j] += g * vector[j]


@njit(cache=True, nogil=True, fastmath=True)
def skip_gram(walks, window, draws, n_negative, vectors, contexts, seed, rate, done, total):
    """One pass of skip-gram with negative sampling over some walks.

    draws : nodes as often as they are to be drawn as negatives; vectors, contexts : (L, d), learnt in place;
    rate : learning rate, falling linearly to a hundredth with `done` + this pass's share of `total` walks.
    """
    step = np.uint64(0x9E3779B97F4A7C15)
    state = _scramble(np.uint64(seed))
    change = np.empty(vectors.shape[1], np.float32)
    n, length = walks.shape
    for w in range(n):
        now = np.float32(rate * max(0.01, 1.0 - (done + w) / total))
        for i in range(length):
            node = walks[w, i]
            if node < 0:
                break
            state += step
            reach = 1 + _below(_scramble(state), window)
            vector = vectors[node]
            for j in range(max(0, i - reach), min(length, i + reach + 1)):
                near = walks[w, j]
                if j == i or near == node:
                    continue
                if near < 0:
                    break
                change[:] = 0.0
                _pull(vector, contexts[near], _ONE, now, change)
                for _ in range(n_negative):
                    state += step
                    far = draws[_below(_scramble(state), draws.shape[0])]
                    if far != near:
                        _pull(vector, contexts[far], np.float32(0.0), now, change)
                for a in range(change.shape[0]):
                    vector[a] += change[a]
