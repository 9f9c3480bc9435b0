"""What the kernels accept that compare a model folder or a point with its rules, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from longtail.data import synthetic
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


def test_how_far_some_bits_are_above_a_bound() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(100, 1 << 32, size=1000, dtype=np.uint32)
    for mask in (np.uint32(0xFFFFFFFF), np.uint32(0x7FFFFFFF)):
        assert check.most_above(frozen(words), mask, np.uint32(0)) == (words & mask).max()
    assert check.most_above(frozen(words % 100 + 100), mask, np.uint32(100)) == (words % 100).max()
    words[7] = 99  # below the bound: it wraps around
    assert check.most_above(frozen(words % 1000), mask, np.uint32(100)) == 2**32 - 1
    assert check.most_above(frozen(words[:0]), mask, np.uint32(0)) == 0


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_values_descend_where_one_is_smaller_than_the_one_before(kind: type) -> None:
    limits = np.iinfo(kind)
    for n in (0, 1, 2, 100):
        values = np.arange(n, dtype=kind) // 2
        assert check.never_descends(frozen(values))
        for at in range(1, n):
            for smaller in (values[at - 1] - 1, limits.min):
                changed = values.copy()
                changed[at:] = smaller
                assert not check.never_descends(frozen(changed))
    assert check.never_descends(frozen(np.array([limits.min, 0, limits.max], kind)))


def test_many_descents_are_counted() -> None:
    for n in (1 << 15, (1 << 15) + 1, (1 << 16) + 1, 5 << 15):  # counts of 16 bits must not overflow
        nodes = frozen(np.zeros(n, np.int32))
        one_row, one_row_each = np.array([0, 0, n], np.int32), np.arange(n + 1, dtype=np.int32).repeat(2)[:-1]
        assert not check.rows_hold_nodes(frozen(one_row), nodes, 0, n)
        assert check.rows_hold_nodes(frozen(one_row_each), nodes, 0, n)


def test_trees_of_points_lead_to_leaves_exactly_where_a_plain_rule_says_so() -> None:
    rng, seen = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(2000):
        n = int(rng.integers(1, 9))
        child = np.array(
            [rng.integers(-4, 0) if i + 2 >= n else rng.integers(i + 1, n - 1) for i in range(n)], np.int32
        )
        child[rng.integers(n)] += rng.choice([0, 0, -1, 1, -9, 2**30])
        expected = all(node < to < n - 1 if to >= 0 else -to <= 4 for node, to in enumerate(child.tolist()))
        assert check.lead_to_leaves(frozen(child), 4) == expected
        seen[expected] += 1
    assert min(seen.values()) > 200


def test_label_trees_fit_together_exactly_where_plain_rules_say_so() -> None:
    rng, seen = np.random.default_rng(0), {True: 0, False: 0}
    drawn = synthetic.make(80, 40, 12, random_state=0)
    forest = longtail.make("bonsai(n_trees=2, max_leaf=3, arity=2)").fit(drawn.X, drawn.Y).forest_  # type: ignore[attr-defined]
    sound = {name: np.array(getattr(forest, name)) for name in check.LabelTrees._fields}
    for _ in range(3000):
        arrays = {name: array.copy() for name, array in sound.items()}
        for _ in range(rng.integers(3)):
            array = arrays[rng.choice(list(arrays))]
            array[rng.integers(len(array))] = rng.choice([*array, -1, 2**31 - 1])
        limits = np.empty((2, 2), np.int64)
        expected = fit_together(arrays, drawn.Y.shape[1])
        trees = check.LabelTrees(**{name: frozen(array) for name, array in arrays.items()})
        assert check.are_label_trees(trees, np.empty(drawn.Y.shape[1], bool), limits) == expected
        seen[expected] += 1
    assert min(seen.values()) > 500


def fit_together(arrays: dict[str, np.ndarray], n_labels: int) -> bool:
    """Do what `are_label_trees` does, with NumPy."""
    for t in range(2):
        levels, children, labels = (
            arrays[name][arrays[at][t] : arrays[at][t + 1]].astype(np.int64)
            for name, at in (("level_ptr", "level_at"), ("child_ptr", "group_at"), ("labels", "label_at"))
        )
        n_nodes = arrays["node_at"][t + 1] - arrays["node_at"][t]
        if len(levels) < 2 or levels[0] != 0 or (np.diff(levels) <= 0).any() or levels[-1] != n_nodes:
            return False
        if len(children) != levels[-2] + 2 or children[0] != 0 or (np.diff(children) < 0).any():
            return False
        if (children[1 + levels[:-1]] != levels[1:]).any() or len(labels) != levels[-1] - levels[-2]:
            return False
        if len(set(labels)) < len(labels) or min(labels) < 0 or max(labels) >= n_labels:
            return False
    return True


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
        ([1, 2], [1], check.UNEQUAL),
    ],
)
def test_the_state_of_a_point(indices: list[int], values: list[float], state: int) -> None:
    assert check.point_state(np.array(indices, np.int32), np.array(values, np.float32), 5) == state
