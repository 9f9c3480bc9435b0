"""Chances from a few features."""

from __future__ import annotations

import numpy as np

from longtail.linear.additive import AdditiveLogistic


def pairs(n: int = 20_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of which one acts in a line, one with a bend, one not at all; the true chances."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, 3)).astype(np.float32)
    odds = -2 + features[:, 0] + 3 * np.abs(features[:, 1])
    chance = 1 / (1 + np.exp(-odds))
    return features, rng.random(n) < chance, odds


def test_it_finds_lines_and_bends() -> None:
    features, right, odds = pairs()
    model = AdditiveLogistic.fit(features, right)
    found = model.log_odds(features)
    inside = np.abs(features).max(axis=1) < 2
    assert np.abs(found - odds)[inside].mean() < 0.25
    assert abs(model.slopes[2]) < 0.2


def test_the_same_from_logistic_regression_without_bends() -> None:
    from sklearn.linear_model import LogisticRegression

    features, right, _ = pairs(3000)
    flags = (features > 0).astype(np.float32)  # two values: no knots
    model = AdditiveLogistic.fit(flags, right)
    assert len(model.knots) == 0
    other = LogisticRegression(C=1e6, tol=1e-8).fit(flags, right)
    np.testing.assert_allclose(model.slopes, other.coef_[0], atol=0.01)
    np.testing.assert_allclose(model.bias, other.intercept_, atol=0.01)


def test_beyond_what_was_seen_it_goes_on_in_a_line() -> None:
    features, right, _ = pairs()
    model = AdditiveLogistic.fit(features, right)
    far = np.zeros((3, 3), np.float32)
    far[:, 1] = [10, 20, 30]
    found = model.log_odds(far)
    np.testing.assert_allclose(np.diff(found)[0], np.diff(found)[1], rtol=1e-5)
    assert found[0] < found[1]


def test_chances_of_the_whole_are_those_of_the_data() -> None:
    features, right, _ = pairs()
    chance = 1 / (1 + np.exp(-AdditiveLogistic.fit(features, right).log_odds(features)))
    assert abs(chance.mean() - right.mean()) < 1e-4


def test_all_or_none_right() -> None:
    features, right, _ = pairs(50)
    for fixed in (np.zeros_like(right), np.ones_like(right)):
        odds = AdditiveLogistic.fit(features, fixed).log_odds(features)
        assert np.isfinite(odds).all()
        assert ((odds > 0) == fixed).all()


def test_features_that_never_vary_do_no_harm() -> None:
    features, right, _ = pairs(500)
    features[:, 2] = 7
    assert np.isfinite(AdditiveLogistic.fit(features, right).log_odds(features)).all()
