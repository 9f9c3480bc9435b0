"""Skip-gram and its parts, against the same in NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from longtail.kernels import walks as kernels

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


def scramble(state: int) -> int:
    z = state & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def below(random: int, n: int) -> int:
    return ((random >> 32) * n) >> 32


def edges_of(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> kernels.Edges:
    edges = kernels.Edges(indptr, indices, np.empty(len(data), np.float32), np.empty(len(data), np.int32), False)
    kernels.fill_alias_tables(edges, data, 0, len(indptr) - 1)
    return edges


def test_alias_tables_hold_the_shares_of_weights() -> None:
    rng = np.random.default_rng(0)
    sizes = [3, 0, 1, 40, 7]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    indices = np.concatenate([rng.permutation(50)[:n] for n in sizes]).astype(np.int32)
    data = rng.exponential(size=len(indices)).astype(np.float32) ** 3
    _, _, keep, other, _ = edges_of(indptr, indices, data)
    assert ((keep >= 0) & (keep <= 1)).all()
    for lo, hi in pairwise(indptr):
        chance = np.zeros(50)
        for p in range(lo, hi):
            chance[indices[p]] += keep[p] / (hi - lo)
            chance[other[p]] += (1 - keep[p]) / (hi - lo)
        expected = np.zeros(50)
        expected[indices[lo:hi]] = data[lo:hi] / max(data[lo:hi].sum(), 1e-30)
        np.testing.assert_allclose(chance, expected, atol=1e-6)


def test_a_walk_is_drawn_from_its_seed_and_number() -> None:
    indptr, indices = np.array([0, 2, 3, 5, 5]), np.array([1, 2, 0, 0, 3], np.int32)
    edges = edges_of(indptr, indices, np.array([1, 3, 1, 2, 1], np.float32))
    starts = np.array([0, 2, 1, 3], np.int32)
    for even in (False, True):
        out = np.empty((4, 6), np.int32)
        kernels.walk(edges._replace(even=even), starts, 77, 0, 4, out)
        for w, start in enumerate(starts):
            state, node, expected = scramble(77 + (w + 1) * STEP), int(start), [int(start)]
            while len(expected) < 6:
                lo, hi = int(indptr[node]), int(indptr[node + 1])
                if lo == hi:
                    expected += [-1] * (6 - len(expected))
                    break
                state = (state + STEP) & MASK
                random = scramble(state)
                at = lo + below(random, hi - lo)
                own = even or (random & 0xFFFFFF) * 2.0**-24 < edges.keep[at]
                node = int(indices[at] if own else edges.other[at])
                expected.append(node)
            assert out[w].tolist() == expected


def test_skip_gram_steps_as_numpy_does() -> None:
    rng = np.random.default_rng(0)
    walks = np.array([[0, 1, 2, 1, 3], [4, 0, 4, -1, -1]], np.int32)
    vectors = rng.standard_normal((5, 7)).astype(np.float32)
    contexts = rng.standard_normal((5, 7)).astype(np.float32)
    draws = np.array([0, 1, 1, 2, 3, 4], np.int32)
    V, C = vectors.astype(np.float64), contexts.astype(np.float64)
    kernels.skip_gram(walks, 3, 2, kernels.Space(vectors, contexts, draws), kernels.Pace(0.1, 3.0, 10.0), 9)

    state = scramble(9)
    for w, walk in enumerate(walks.tolist()):
        rate = 0.1 * max(0.01, 1 - (3 + w) / 10)
        walk = [node for node in walk if node >= 0]
        for i, node in enumerate(walk):
            state = (state + STEP) & MASK
            reach = 1 + below(scramble(state), 3)
            for j in range(max(0, i - reach), min(len(walk), i + reach + 1)):
                near = walk[j]
                if j == i or near == node:
                    continue
                change = np.zeros(7)
                pairs = [(near, 1.0)]
                for _ in range(2):
                    state = (state + STEP) & MASK
                    pairs.append((int(draws[below(scramble(state), len(draws))]), 0.0))
                for other, label in pairs:
                    if label == 0 and other == near:
                        continue
                    g = rate * (label - 1 / (1 + np.exp(-np.clip(V[node] @ C[other], -8, 8))))
                    change += g * C[other]
                    C[other] += g * V[node]
                V[node] += change
    np.testing.assert_allclose(vectors, V, atol=1e-5)
    np.testing.assert_allclose(contexts, C, atol=1e-5)
