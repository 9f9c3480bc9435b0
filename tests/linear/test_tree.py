"""Label trees: shape, balance and what becomes of groups that need no cut."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.linear import tree
from tests.contract import toy


def vectors(n_labels: int) -> csr_array:
    X, Y, _ = toy(n=40 * n_labels, n_labels=n_labels)
    return tree.mean_label_vectors(X, Y, 256, 1)


def check(grown: tree.LabelTree, n_labels: int) -> None:
    assert sorted(grown.labels.tolist()) == list(range(n_labels))
    assert grown.child_ptr[0] == 0
    assert grown.child_ptr[-1] == grown.n_nodes
    assert (np.diff(grown.child_ptr) > 0).all()
    assert len(grown.child_ptr) - 1 == 1 + grown.level_ptr[-2]  # the root and every node above the last level


@pytest.mark.parametrize(("arity", "max_leaf", "levels"), [(2, 4, [2, 4, 8]), (4, 4, [2, 8]), (8, 4, [8]), (2, 24, [])])
def test_balanced_trees_have_the_wanted_levels(arity: int, max_leaf: int, levels: list[int]) -> None:
    v = vectors(24)
    grown = tree.build_tree(np.arange(24), tree.balanced_cuts(v, arity, max_leaf), max_leaf, 0, 1)
    check(grown, 24)
    assert np.diff(grown.level_ptr).tolist() == [*levels, 24]
    leaves = np.diff(grown.child_ptr)[-levels[-1] :] if levels else np.diff(grown.child_ptr)
    assert leaves.max() - leaves.min() <= 1
    assert leaves.max() <= max_leaf


def test_k_means_trees_pass_small_groups_through() -> None:
    v = vectors(24)
    grown = tree.build_tree(np.arange(24), [tree.k_means_cut(v, 3)] * 2, 6, 0, 2)
    check(grown, 24)
    assert np.diff(grown.child_ptr).max() <= 24
    assert grown.depth <= 3


def test_a_large_group_is_cut_by_a_sample(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    v = vectors(400)
    monkeypatch.setattr(tree, "_LABELS_SAMPLED", 60)
    monkeypatch.setattr(tree, "_LARGE", 100)
    one, two = (tree.k_means_cut(v, 5, n_jobs=jobs)(np.arange(400), 3) for jobs in (1, 2))
    assert [part.tolist() for part in one] == [part.tolist() for part in two]
    assert sorted(np.concatenate(one).tolist()) == list(range(400))
    centroids = np.stack([np.asarray(v[part].sum(axis=0)).ravel() for part in one])
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    nearest = np.argmax(v @ centroids.T, axis=1)
    own = np.repeat(np.arange(len(one)), [len(part) for part in one])
    assert np.mean(nearest[np.concatenate(one)] == own) > 0.7  # labels are with those that they resemble


def test_parts_that_take_long_to_train_are_halved() -> None:
    v, counts = vectors(48), np.repeat([50, 1], 24)
    parts = [np.arange(24), np.arange(24, 48)]
    halved = tree.bounded_cut(lambda members, seed: parts, v, counts, 1000, 8000)(np.arange(48), 0)
    assert [len(part) for part in halved] == [6, 6, 6, 6, 24]  # 24 labels of all 1,000 points, and 24 of 24
    assert sorted(np.concatenate(halved[:4]).tolist()) == list(range(24))
    assert all((part == np.arange(24, 48)).all() for part in halved[4:])
    grown = tree.build_tree(np.arange(48), [tree.bounded_cut(tree.k_means_cut(v, 2), v, counts, 1000, 8000)], 4, 0, 1)
    check(grown, 48)
    assert np.diff(grown.child_ptr)[0] > 2


def test_no_cut_means_labels_under_the_root() -> None:
    grown = tree.build_tree(np.array([3, 5, 9]), [], 1, 0, 1)
    assert grown.level_ptr.tolist() == [0, 3]
    assert grown.labels.tolist() == [3, 5, 9]


def test_labels_that_cannot_be_told_apart_are_still_placed() -> None:
    same = csr_array(np.ones((30, 2), np.float32) / np.sqrt(2))
    check(tree.build_tree(np.arange(30), tree.balanced_cuts(same, 2, 4), 4, 0, 1), 30)
    check(tree.build_tree(np.arange(30), [tree.k_means_cut(same, 5)] * 2, 4, 0, 1), 30)


def test_labels_without_features_are_still_placed() -> None:
    empty = csr_array((16, 3), dtype=np.float32)
    check(tree.build_tree(np.arange(16), tree.balanced_cuts(empty, 2, 4), 4, 0, 1), 16)
    check(tree.build_tree(np.arange(16), [tree.k_means_cut(empty, 4)], 4, 0, 1), 16)
