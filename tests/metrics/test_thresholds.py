"""Thresholds: the best of the grid, per frequency bin never worse, stored and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.errors import DataError, SettingsError
from longtail.metrics import decision_metrics
from longtail.metrics.thresholds import (
    GRID,
    ScoredPairs,
    Thresholds,
    check_threshold,
    choose_thresholds,
    threshold_of_probabilities,
    threshold_table,
)
from longtail.sparse import label_counts

GOALS = ("micro", "macro", "example")


@pytest.fixture
def problem() -> tuple[csr_array, csr_array]:
    """Truth drawn from the scores; rare labels score lower than they should."""
    rng = np.random.default_rng(0)
    scores = csr_array(random_array((400, 30), density=0.3, rng=rng))
    truth = (rng.random(scores.nnz) < scores.data).astype(float)
    scores.data[scores.indices > 10] *= 0.5
    Y = csr_array((truth, scores.indices, scores.indptr), shape=scores.shape)
    Y.eliminate_zeros()
    return Y, scores


@pytest.mark.parametrize("goal", GOALS)
def test_the_best_threshold_of_the_grid_is_chosen(problem: tuple[csr_array, csr_array], goal: str) -> None:
    Y, scores = problem
    found = choose_thresholds(Y, scores, goal=goal)
    decided = {value: scores.multiply(scores >= value) for value in GRID}
    f1 = {value: decision_metrics(Y, csr_array(kept))[f"{goal}-F1"] for value, kept in decided.items()}
    assert found.f1 == pytest.approx(max(f1.values()))
    assert f1[found.values[0]] == pytest.approx(found.f1)


@pytest.mark.parametrize("goal", GOALS)
def test_thresholds_by_frequency_are_at_least_as_good(problem: tuple[csr_array, csr_array], goal: str) -> None:
    Y, scores = problem
    counts = label_counts(Y)
    one, several = choose_thresholds(Y, scores, goal=goal), choose_thresholds(Y, scores, goal=goal, counts=counts)
    assert several.f1 >= one.f1
    kept = several.decide(scores, counts)
    assert decision_metrics(Y, kept)[f"{goal}-F1"] == pytest.approx(several.f1)
    assert Thresholds.from_json(json.loads(json.dumps(several.to_json()))) == several
    with pytest.raises(DataError, match="label counts"):
        several.decide(scores)


def test_half_of_the_best_f1_is_the_threshold_of_probabilities() -> None:
    rng = np.random.default_rng(1)
    scores = csr_array(random_array((3000, 30), density=0.3, rng=rng))
    scores.data **= 2
    Y = csr_array(((rng.random(scores.nnz) < scores.data).astype(float), scores.indices, scores.indptr), scores.shape)
    best = choose_thresholds(Y, scores)
    half = threshold_of_probabilities(Y, scores)
    # By chance alone, F1 at the two thresholds differs by about 0.15 here: 1,000 pairs lie between them, 15 more or
    # fewer of which are correct. 0.5 is what an automatic threshold may lose.
    assert decision_metrics(Y, Thresholds((half,)).decide(scores))["micro-F1"] > best.f1 - 0.5


def test_the_table_holds_every_limit_and_threshold(problem: tuple[csr_array, csr_array]) -> None:
    Y, scores = problem
    table = threshold_table(Y, scores, (1, 30), (0.2, 0.5))
    assert table.shape == (2, 2)
    kept = csr_array(scores.multiply(scores >= 0.5))
    assert table[1, 1] == pytest.approx(decision_metrics(Y, kept)["micro-F1"])
    assert choose_thresholds(Y, scores, limit=1).f1 >= table[0].max()


def test_counts_agree_with_the_metrics(problem: tuple[csr_array, csr_array]) -> None:
    Y, scores = problem
    pairs = ScoredPairs.of(Y, scores)
    for goal in GOALS:
        assert pairs.f1(np.zeros(len(pairs.rows), bool), goal) == pytest.approx(
            decision_metrics(Y, csr_array(Y.shape))[f"{goal}-F1"]
        )


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "high", None, float("nan"), True])
def test_a_threshold_outside_0_to_1_is_refused(threshold: object) -> None:
    with pytest.raises(SettingsError, match="give a number from 0 to 1"):
        check_threshold(threshold)


def test_an_unknown_goal_is_refused(problem: tuple[csr_array, csr_array]) -> None:
    with pytest.raises(SettingsError, match="micro, macro, example"):
        choose_thresholds(*problem, goal="weighted")


def test_scores_that_are_no_probabilities_get_the_best_threshold_found() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.01, 0.99, (4000, 5)).astype(np.float32)
    truth = csr_array((rng.random(scores.shape) < scores).astype(np.float32))
    found = threshold_of_probabilities(truth, csr_array(scores))
    assert found == choose_thresholds(truth, csr_array(scores)).f1 / 200
    shifted = csr_array(scores**4)  # the same order; a label of probability 0.5 scores 0.06
    assert threshold_of_probabilities(truth, shifted) == pytest.approx(found**4, abs=0.05)


def test_bins_with_one_threshold_are_described_once() -> None:
    """optimize --by-frequency listed the same threshold four times."""
    bins = (50, 7, 1, 0)
    assert str(Thresholds((0.76, 0.76, 0.76, 0.76), bins)) == "0.76"
    shown = str(Thresholds((0.3, 0.76, 0.76, 0.2), bins))
    assert shown == "0.3 (from 50 training points), 0.76 (from 1 training point), 0.2 (from 0 training points)"
