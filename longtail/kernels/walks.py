"""Draw random walks on a graph, and train skip-gram vectors on them: the two parts of DeepWalk.

The random numbers of a walk depend only on the seed and the number of the walk, so that threads make no difference.
Skip-gram is stochastic gradient descent over all pairs of a walk. It runs on one thread, which makes it repeatable.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit

_LABEL_ONE = np.float32(1.0)


class Edges(NamedTuple):
    """Edges of a graph as CSR, with Walker's alias tables, which allow drawing a neighbour by weight in constant time.

    A position in a node's row is drawn uniformly. The neighbour at this position is taken with probability `keep`, and
    `other` otherwise.
    """

    ptr: np.ndarray  # (nodes + 1,) int64
    nodes: np.ndarray  # (edges,) int32
    keep: np.ndarray  # (edges,) float32, or empty if all edges have the same weight
    other: np.ndarray  # (edges,) int32, or empty
    even: bool  # whether all edges have the same weight


class Space(NamedTuple):
    """The vectors that skip-gram learns, in place, and the nodes from which it draws negatives."""

    vectors: np.ndarray  # (nodes, d)
    contexts: np.ndarray  # (nodes, d)
    draws: np.ndarray  # each node in proportion to how often it should be drawn as a negative


class CodedSpace(NamedTuple):
    """The vectors that skip-gram with hierarchical softmax learns, in place, and the path of each node in the tree."""

    vectors: np.ndarray  # (nodes, d)
    inner: np.ndarray  # (nodes - 1, d), inner nodes of the tree
    ptr: np.ndarray  # (nodes + 1,) int64
    path: np.ndarray  # (ptr[-1],) inner nodes from the root to each node
    right: np.ndarray  # (ptr[-1],) float32, 1 where the path goes right


class Pace(NamedTuple):
    """The learning rate, which falls linearly to 1 %: its initial value, the walks done before, and all walks."""

    rate: float
    done: float
    total: float


@njit(cache=True, nogil=True, inline="always")
def _scramble(state):
    """Return one output of splitmix64."""
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def _below(random, n):
    """Map 64 random bits to an integer from 0 to n - 1, where n < 2^31."""
    return np.int64(((random >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def fill_alias_tables(edges, data, first, last):
    """Compute `keep` and `other` from the edges' weights `data` (Walker, 1977; Vose, 1991), for nodes first..last."""
    keep, other, indices = edges.keep, edges.other, edges.nodes
    for i in range(first, last):
        lo, n = edges.ptr[i], edges.ptr[i + 1] - edges.ptr[i]
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
def walk(edges, starts, seed, first, last, out):
    """Draw walks first..last: out[w] (length,) begins at starts[w]. After a node without neighbours, it is -1."""
    step = np.uint64(0x9E3779B97F4A7C15)
    length = out.shape[1]
    for w in range(first, last):
        state = _scramble(np.uint64(seed) + np.uint64(w + 1) * step)
        node = starts[w]
        out[w, 0] = node
        for t in range(1, length):
            lo, hi = edges.ptr[node], edges.ptr[node + 1]
            if hi == lo:
                out[w, t:] = -1
                break
            state += step
            random = _scramble(state)
            at = lo + _below(random, hi - lo)
            node = edges.nodes[at]
            if not edges.even and np.float32(random & np.uint64(0xFFFFFF)) * np.float32(2.0**-24) >= edges.keep[at]:
                node = edges.other[at]
            out[w, t] = node


@njit(cache=True, nogil=True, fastmath=True)
def _pull(vector, other, label, rate, change):
    """Move `other` towards `vector` (label 1) or away from it (label 0), and add the step of `vector` to `change`."""
    d = vector.shape[0]
    dot = np.float32(0.0)
    for j in range(d):
        dot += vector[j] * other[j]
    dot = min(max(dot, np.float32(-8.0)), np.float32(8.0))
    g = rate * (label - _LABEL_ONE / (_LABEL_ONE + np.exp(-dot)))
    for j in range(d):
        change[j] += g * other[j]
        other[j] += g * vector[j]


@njit(cache=True, nogil=True, fastmath=True)
def skip_gram(walks, window, n_negative, space, pace, seed):
    """Train skip-gram with negative sampling for one pass over some walks.

    walks : (walks, length), -1 after the end; space : Space; pace : Pace.
    """
    vectors, contexts, draws = space
    step = np.uint64(0x9E3779B97F4A7C15)
    state = _scramble(np.uint64(seed))
    change = np.empty(vectors.shape[1], np.float32)
    n, length = walks.shape
    for w in range(n):
        now = np.float32(pace.rate * max(0.01, 1.0 - (pace.done + w) / pace.total))
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
                _pull(vector, contexts[near], _LABEL_ONE, now, change)
                for _ in range(n_negative):
                    state += step
                    far = draws[_below(_scramble(state), draws.shape[0])]
                    if far != near:
                        _pull(vector, contexts[far], np.float32(0.0), now, change)
                for a in range(change.shape[0]):
                    vector[a] += change[a]


@njit(cache=True, nogil=True, fastmath=True)
def skip_gram_coded(walks, window, space, pace, seed):
    """Train skip-gram with hierarchical softmax for one pass over some walks.

    walks : (walks, length), -1 after the end; space : CodedSpace; pace : Pace.
    """
    vectors, inner, ptr, path, right = space
    step = np.uint64(0x9E3779B97F4A7C15)
    state = _scramble(np.uint64(seed))
    change = np.empty(vectors.shape[1], np.float32)
    n, length = walks.shape
    for w in range(n):
        now = np.float32(pace.rate * max(0.01, 1.0 - (pace.done + w) / pace.total))
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
                for p in range(ptr[near], ptr[near + 1]):
                    _pull(vector, inner[path[p]], right[p], now, change)
                for a in range(change.shape[0]):
                    vector[a] += change[a]


@njit(cache=True, nogil=True)
def huffman_tree(weights):
    """Return the Huffman tree of ascending weights (n,), as parent, side (1 for right) and depth of its 2n - 1 nodes.

    The leaves come first. Inner nodes follow in the order in which they are made, so that their weights ascend, too.
    The lightest node is therefore always at the front of one of two queues.
    """
    n = weights.shape[0]
    size = 2 * n - 1
    weight = np.empty(size, np.float64)
    weight[:n] = weights
    parent, side = np.zeros(size, np.int64), np.zeros(size, np.float32)
    leaf, inner = 0, n
    for node in range(n, size):
        weight[node] = 0.0
        for turn in range(2):
            if leaf < n and (inner >= node or weight[leaf] <= weight[inner]):
                light = leaf
                leaf += 1
            else:
                light = inner
                inner += 1
            parent[light] = node
            side[light] = turn
            weight[node] += weight[light]
    depth = np.zeros(size, np.int64)
    for node in range(size - 2, -1, -1):
        depth[node] = depth[parent[node]] + 1
    return parent, side, depth


@njit(cache=True, nogil=True)
def fill_paths(labels, parent, side, ptr, path, right):
    """Write the path from the root to each leaf. Leaf i of the tree is labels[i]."""
    n = labels.shape[0]
    for i in range(n):
        node = i
        for at in range(ptr[labels[i] + 1] - 1, ptr[labels[i]] - 1, -1):
            right[at] = side[node]
            node = parent[node]
            path[at] = node - n
