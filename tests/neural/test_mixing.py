"""The logistic regression that mixes views."""

from __future__ import annotations

import json

import numpy as np
import pytest

from longtail.neural.mixing import Mix, regress


def test_it_finds_the_weights_that_made_the_data() -> None:
    rng = np.random.default_rng(0)
    design = rng.standard_normal((20_000, 3)) * [1, 5, 0.2]
    true = np.array([0.5, -0.3, 2.0])
    right = rng.random(20_000) < 1 / (1 + np.exp(-design @ true))
    np.testing.assert_allclose(regress(design, right, np.zeros(3)), true, atol=0.15)


def test_it_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    design = rng.standard_normal((300, 2))
    design /= np.sqrt((design**2).mean(axis=0))
    right = rng.random(300) < 0.3
    theirs = LogisticRegression(C=1 / 3.0, fit_intercept=False, tol=1e-8).fit(design, right).coef_[0]
    np.testing.assert_allclose(regress(design, right, np.zeros(2)), theirs, atol=1e-4)


@pytest.mark.parametrize("right", [[True] * 4, [False] * 4, [True, False, True, False]])
def test_few_points_move_it_little_and_never_to_nonsense(right: list[bool]) -> None:
    mix = Mix.start(n_views=1, shared=True)
    design = np.array([[1, 9, 0.5, 4.5, 1, 3, 1, 1.5, 0.5, 1.5, 0.5, 0.9]] * 4, np.float32)
    mix.fit(design, np.array(right), np.arange(4))
    assert np.isfinite(mix.weights).all()
    mix.fit(np.empty((0, 12)), np.empty(0, bool), np.empty(0, int))
    assert np.isfinite(mix.weights).all()


def test_it_starts_from_the_network_or_the_mean() -> None:
    assert Mix.start(0, shared=False).weights.tolist() == [0, 1, 0, 0, 0]
    assert Mix.start(1, shared=False).weights.tolist() == [0, 1, *[0] * 10]
    assert Mix.start(1, shared=True).weights.tolist() == [0, 0.5, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0]


def test_trees_are_grown_of_enough_pairs_and_stored() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((8000, 12)).astype(np.float32)
    rows[:, 0] = 1
    right = rng.random(8000) < np.where((rows[:, 1] > 0) & (rows[:, 5] > 0), 0.7, 0.05)  # no weighted sum says so
    points = np.repeat(np.arange(400), 20)
    mix = Mix.start(1, shared=True)
    mix.fit(rows[:800], right[:800], points[:800])
    assert mix.trees is None
    mix.fit(rows, right, points)
    assert mix.trees is not None
    back = Mix.restored(json.loads(json.dumps(mix.state())))
    assert back.trees is not None
    np.testing.assert_array_equal(back.trees.log_odds(rows), mix.trees.log_odds(rows))
    for one, two in zip(back.forest(), mix.forest(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert Mix.restored(Mix.start(1, shared=True).state()).trees is None
