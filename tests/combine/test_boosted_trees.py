"""Boosted trees over a few features, and the kernels under them."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.combine.boosted_trees import BoostedTrees
from longtail.kernels import oblivious_trees as kernels
from longtail.kernels.oblivious_trees import Binned, Derivatives


def fit(pairs: np.ndarray, right: np.ndarray, n_trees: int = 120) -> BoostedTrees:
    return BoostedTrees.fit(pairs, right, n_trees, 0.15)


def pairs(n: int = 6000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of which two act only together and one not at all; what is right; the true log odds."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 4)).astype(np.float32)
    odds = -1 + features[:, 0] + 3 * (features[:, 1] > 0.3) * (features[:, 2] > 0)
    return features, rng.random(n) < 1 / (1 + np.exp(-odds)), odds


def test_features_that_act_together_are_found() -> None:
    features, right, _ = pairs()
    other, _, odds = pairs(seed=1)
    found = fit(features, right).log_odds(other)
    assert np.corrcoef(found, odds)[0, 1] > 0.95
    assert 3 not in np.bincount(fit(features, right, 3).features.ravel(), minlength=4).nonzero()[0]


def test_chances_of_the_whole_are_those_of_the_data() -> None:
    features, right, _ = pairs()
    chance = 1 / (1 + np.exp(-fit(features, right).log_odds(features)))
    assert abs(chance.mean() - right.mean()) < 0.005


def test_answers_are_those_of_the_growing() -> None:
    features, right, _ = pairs(500)
    model = fit(features, right, 5)
    expected = np.full(500, model.bias[0])
    for t in range(5):
        leaf = np.zeros(500, int)
        for feature, edge in zip(model.features[t], model.edges[t], strict=True):
            leaf = 2 * leaf + (features[:, feature] > edge)
        expected += model.values[t, leaf]
    np.testing.assert_allclose(model.log_odds(features), expected, rtol=1e-12)
    assert (model.first(2).log_odds(features) != expected).any()


def test_a_tree_is_the_best_that_one_question_a_level_gives() -> None:
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 5, size=(300, 3)).astype(np.uint8)
    right = rng.random(300) < np.where(bins[:, 1] > 2, 0.8, 0.1)
    state = Derivatives(np.zeros(300), np.empty((300, 2)), np.empty(300, np.int64))
    odds, (grad, hess) = state.odds, state.slopes.T
    features, edges, values = np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(2)
    assert kernels.grow(Binned(bins, np.full(3, 5)), right, state, 1.0, 2.0, features, edges, values) == 1
    np.testing.assert_allclose(grad, 0.5 - right)
    np.testing.assert_allclose(hess, 0.25)
    gains = {}
    for f in range(3):
        for edge in range(4):
            sides = [bins[:, f] <= edge, bins[:, f] > edge]
            gains[f, edge] = sum(grad[side].sum() ** 2 / (hess[side].sum() + 2.0) for side in sides)
    assert (features[0], edges[0]) == max(gains, key=gains.get) == (1, 2)
    for side, value in zip((bins[:, 1] <= 2, bins[:, 1] > 2), values, strict=True):
        assert value == pytest.approx(-grad[side].sum() / (hess[side].sum() + 2.0))
        np.testing.assert_allclose(odds[side], value)


def test_derivatives_are_packed_without_loss_of_their_sums() -> None:
    rng = np.random.default_rng(0)
    for n, spread in ((1, 1.0), (7, 30.0), (20_000, 5.0)):
        right = rng.random(n) < 0.2
        state = Derivatives(rng.normal(size=n) * spread, np.empty((n, 2)), np.empty(n, np.int64))
        units = kernels.derive(right, state)
        chance = 1 / (1 + np.exp(-state.odds))
        np.testing.assert_allclose(state.slopes[:, 0], chance - right, atol=1e-12)
        np.testing.assert_allclose(state.slopes[:, 1], np.maximum(chance * (1 - chance), 1e-9), atol=1e-12)
        for rows in (np.ones(n, bool), right, ~right):
            total = int(state.packed[rows].sum())
            unpacked = (total >> 32) * units[0], (total & 0xFFFFFFFF) * units[1]
            bound = 0.5 * rows.sum() * np.array(units) + 1e-9
            assert (np.abs(np.array(unpacked) - state.slopes[rows].sum(axis=0)) <= bound).all()


def test_a_deep_tree_is_that_of_plain_sums() -> None:
    rng = np.random.default_rng(1)
    bins = rng.integers(0, 9, size=(800, 4)).astype(np.uint8)
    right = rng.random(800) < 1 / (1 + np.exp(-(bins[:, 0] / 2.0 - (bins[:, 1] > 4) * (bins[:, 2] > 2) * 4)))
    state = Derivatives(np.zeros(800), np.empty((800, 2)), np.empty(800, np.int64))
    features, edges, values = np.zeros(4, np.int32), np.zeros(4, np.int64), np.zeros(16)
    assert kernels.grow(Binned(bins, np.full(4, 9)), right, state, 0.5, 1.0, features, edges, values) == 4
    leaf, slopes = np.zeros(800, int), state.slopes
    for level in range(4):
        gains = {}
        for f in range(4):
            for edge in range(8):
                below = 2 * leaf + (bins[:, f] > edge)
                sums = np.array([slopes[below == a].sum(axis=0) for a in range(2 << level)])
                gains[f, edge] = (sums[:, 0] ** 2 / (sums[:, 1] + 1.0)).sum()
        assert (features[level], edges[level]) == max(gains, key=gains.get)
        leaf = 2 * leaf + (bins[:, features[level]] > edges[level])
    sums = np.array([slopes[leaf == a].sum(axis=0) for a in range(16)])
    np.testing.assert_allclose(values, -0.5 * sums[:, 0] / (sums[:, 1] + 1.0), atol=1e-12)
    np.testing.assert_allclose(state.odds, values[leaf])


def test_the_size_is_chosen_by_other_pairs() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 3)).astype(np.float32)
    model = fit(noise, rng.random(400) < 0.3)
    assert model.best_size(rng.normal(size=(4000, 3)).astype(np.float32), rng.random(4000) < 0.3) < 10
    features, right, _ = pairs()
    assert fit(features, right).best_size(*pairs(seed=1)[:2]) > 20


def test_all_or_none_right_and_no_pairs() -> None:
    features, right, _ = pairs(50)
    for fixed in (np.zeros_like(right), np.ones_like(right)):
        odds = fit(features, fixed).log_odds(features)
        assert ((odds > 0) == fixed).all()
    assert fit(features[:0], right[:0]).log_odds(features).tolist() == [0.0] * 50


def test_features_that_never_vary_do_no_harm() -> None:
    _, right, _ = pairs(200)
    odds = fit(np.ones((200, 2), np.float32), right).log_odds(np.ones((3, 2), np.float32))
    assert np.isfinite(odds).all()
