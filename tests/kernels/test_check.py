"""What the kernels accept that compare a model folder or a point with its rules, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.kernels import check
from longtail.sparse import frozen


def hold_nodes(ptr: np.ndarray, nodes: np.ndarray, first_label: int, n_nodes: int) -> bool:
    """Do what `rows_hold_nodes` does, row by row."""
    if ptr[0] < 0 or ptr[-1] > len(nodes) or (np.diff(ptr) < 0).any():
        return False
    for row in range(len(ptr) - 1):
        own = nodes[ptr[row] : ptr[row + 1]].astype(np.int64)
        low, high = (first_label, n_nodes) if row % 2 else (0, first_label)
        if (np.diff(own) <= 0).any() or (own < low).any() or (own >= high).any():
            return False
    return True


@pytest.mark.parametrize("kind", [np.uint16, np.int32])
def test_rows_of_nodes_are_accepted_exactly_where_a_plain_loop_accepts_them(kind: type) -> None:
    rng = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        first_label, n_nodes = sorted(rng.integers(1, 9, 2))
        rows = [
            np.flatnonzero(rng.random(high - low) < rng.choice([0.0, 0.5])) + low
            for _ in range(rng.integers(1, 6))
            for low, high in ((0, first_label), (first_label, n_nodes))
        ]
        nodes = np.concatenate([*rows, [0, 1]]).astype(kind)  # what lies behind belongs to another tree
        ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
        for _ in range(rng.integers(3)):
            part = ptr if rng.random() < 0.3 else nodes
            part[[rng.integers(len(part))]] += rng.choice([-1, 1, 5], 1).astype(part.dtype)  # -1 wraps without a sign
        expected = hold_nodes(ptr, nodes, first_label, n_nodes)
        assert check.rows_hold_nodes(frozen(ptr), frozen(nodes), first_label, n_nodes) == expected
        seen[expected] += 1
    assert min(seen.values()) > 300


def test_the_range_of_some_bits() -> None:
    words = np.random.default_rng(0).integers(1 << 32, size=1000, dtype=np.uint32)
    for mask in (np.uint32(0xFFFFFFFF), np.uint32(0x7FFFFFFF)):
        assert check.bit_range(frozen(words), mask) == ((words & mask).min(), (words & mask).max())
    assert check.bit_range(frozen(words[:0]), mask) == (0xFFFFFFFF, 0)


@pytest.mark.parametrize(
    ("indices", "values", "state"),
    [
        ([], [], check.FINE),
        ([0, 4], [1, -1], check.FINE),
        ([4, 0], [1, 1], check.UNORDERED),
        ([2, 2], [1, 1], check.UNORDERED),
        ([2], [0], check.UNORDERED),
        ([5], [1], check.IMPOSSIBLE),
        ([-1], [1], check.IMPOSSIBLE),
        ([4, 0, 5], [1, 1, 1], check.IMPOSSIBLE),
        ([1], [np.nan], check.IMPOSSIBLE),
        ([1], [np.inf], check.IMPOSSIBLE),
    ],
)
def test_the_state_of_a_point(indices: list[int], values: list[float], state: int) -> None:
    assert check.point_state(np.array(indices, np.int32), np.array(values, np.float32), 5) == state
