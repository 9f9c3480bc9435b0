"""The linear rankers: the contract, their settings, and what the papers say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.errors import SettingsError
from longtail.linear.forest import Forest
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.bonsai import Bonsai
from longtail.models.dismec import DiSMEC
from longtail.models.label_tree import _smallest_near_best
from longtail.models.parabel import Parabel
from longtail.models.training_part import TrainingPart
from longtail.sparse import label_counts, select_labels
from tests.contract import RankerContract, toy


class TestParabel(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Parabel(**{"max_leaf": 4, **params})  # type: ignore[arg-type]


class TestParabelOfHigherArity(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Parabel(**{"max_leaf": 2, "arity": 4, "n_trees": 1, **params})  # type: ignore[arg-type]


class TestParabelLogistic(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Parabel(**{"max_leaf": 6, "loss": "logistic", "cost": 10.0, **params})  # type: ignore[arg-type]


class TestParabelInFullPrecision(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Parabel(**{"max_leaf": 4, "dtype": "float32", **params})  # type: ignore[arg-type]


class TestBonsai(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Bonsai(**{"arity": 5, "max_leaf": 3, **params})  # type: ignore[arg-type]


class TestDiSMEC(RankerContract):
    def make(self, **params: object) -> Ranker:
        return DiSMEC(**params)  # type: ignore[arg-type]


def test_dismec_solves_only_the_labels_of_held_out_points_again() -> None:
    X, Y, _ = toy()
    rest = np.arange(0, X.shape[0], 9)
    rows = np.setdiff1d(np.arange(X.shape[0]), rest)
    met = label_counts(Y[rest]) > 0
    met[5:] = False  # so that some labels stay as they are, and some points have no other ones
    Y = csr_array(Y.toarray() * (met | ~np.isin(np.arange(X.shape[0]), rest)[:, None]))
    assert (np.diff(select_labels(Y, met).indptr) == 0).any()  # negatives of every label that is solved again
    part = TrainingPart(X, Y, None, rows, rest, None)
    exact: dict[str, Any] = {"cost": 1.0, "tolerance": 1e-6, "threshold": 0.0, "dtype": "float32"}
    first, whole = DiSMEC(**exact).fit(X[rows], Y[rows]), DiSMEC(**exact).fit(X, Y)
    model = DiSMEC(**exact)
    model._fit_part(part)
    model._fit_rest(part)
    n = Y.shape[1]
    scores, of_first, of_whole = (m.predict(X, n).toarray() for m in (model, first, whole))
    np.testing.assert_allclose(scores[:, met], of_whole[:, met], atol=0.002)
    np.testing.assert_array_equal(scores[:, ~met], of_first[:, ~met])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "give one of squared_hinge, logistic"),
        ({"n_trees": 0}, "n_trees is 0"),
        ({"beam": 1.5}, "beam is 1.5"),
        ({"cost": -1.0}, "cost is -1.0"),
        ({"threshold": -0.1}, "threshold is -0.1"),
        ({"arity": 6}, "power of two"),
        ({"dtype": "float16"}, "give one of int8, float32"),
        ({"arity": 1}, "from 2"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        Parabel(**settings).fit(X, Y)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Bonsai, Parabel, DiSMEC])
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_any_source_of_random_numbers_will_do(kind: type[Bonsai | Parabel | DiSMEC], make: Any) -> None:
    X, Y, _ = toy()
    one, two = (kind(random_state=make(3)).fit(X, Y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(one.toarray(), two.toarray())
    kind(random_state=None).fit(X, Y)
    with pytest.raises(SettingsError, match="random_state is 'a'"):
        kind(random_state="a").fit(X, Y)


def test_threads_do_not_change_the_model() -> None:
    X, Y, _ = toy()
    one, two = (Bonsai(arity=5, max_leaf=3, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())


@pytest.mark.parametrize("kind", [Bonsai, DiSMEC])
def test_the_cost_is_chosen_where_points_are_few(
    kind: type[Bonsai | DiSMEC], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y, _ = toy()
    model = kind().fit(X, Y)
    assert model.cost_ in (0.25, 0.5, 1.0)
    model.save(tmp_path / "m")
    assert longtail.load(tmp_path / "m").cost_ == model.cost_
    assert kind(loss="logistic").fit(X, Y).cost_ in (2.5, 5.0, 10.0)
    assert kind(cost=3.0).fit(X, Y).cost_ == 3.0
    alone = csr_array(np.eye(5, dtype=np.float32))
    assert kind().fit(alone, alone).cost_ == 1.0  # no point can be spared
    monkeypatch.setattr("longtail.models.label_tree.FEW", 10)
    assert kind().fit(X, Y).cost_ == 1.0


def test_the_trial_of_costs_is_bounded_where_labels_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    sizes: list[tuple[int, ...]] = []
    grow = Bonsai._grow

    def noted(self: Bonsai, trees: Any, X: csr_array, Y: csr_array, costs: Any, **rest: Any) -> Any:
        sizes.append((X.shape[0], len(costs)))
        return grow(self, trees, X, Y, costs, **rest)

    monkeypatch.setattr(Bonsai, "_grow", noted)
    monkeypatch.setattr("longtail.models.label_tree._TRIAL_POINTS", 40)
    for pairs, trial in ((0, 40), (70 * Y.shape[1], 70)):
        monkeypatch.setattr("longtail.models.label_tree._TRIAL_PAIRS", pairs)
        sizes.clear()
        assert Bonsai(n_trees=1).fit(X, Y).cost_ in (0.25, 0.5, 1.0)
        assert sizes == [(trial, 3), (X.shape[0], 1)]


def test_dismec_takes_a_cost_that_a_validation_part_likes() -> None:
    X, Y, _ = toy()
    held = X[:60], Y[:60]
    model = DiSMEC().fit(X[60:], Y[60:], validation=held)

    def worth(cost: float) -> float:
        scores = DiSMEC(cost=cost).fit(X[60:], Y[60:]).predict(X[:60], 5)
        figures = evaluate(Y[:60], scores, train_Y=Y[60:], ks=(5,))
        return figures["nDCG@5"] + figures["PSnDCG@5"]

    assert worth(model.cost_) >= 0.99 * max(map(worth, (1.0, 0.5, 0.25)))


@pytest.mark.parametrize(
    ("worths", "chosen"),
    [
        ([[50.0, 50.2], [50.1, 50.0], [49.0, 50.0]], 0),  # a draw: the smallest
        ([[49.9, 49.8], [50.0, 50.0], [49.0, 49.0]], 1),  # behind by more than its error
        ([[40.0, 60.0], [60.0, 42.0], [59.0, 40.0]], 1),  # behind within a large error, but by more than a hundredth
        ([[50.0], [51.0], [52.0]], 2),  # one part says nothing of errors
    ],
)
def test_a_draw_between_costs_goes_to_the_smaller(worths: list[list[float]], chosen: int) -> None:
    assert _smallest_near_best(np.array(worths)) == chosen


def test_seeds_give_different_trees() -> None:
    X, Y, _ = toy()
    one, two = (Parabel(max_leaf=3, n_trees=1, random_state=seed).fit(X, Y) for seed in (0, 1))
    assert one.forest_.labels.tolist() != two.forest_.labels.tolist()


def test_a_beam_wider_than_the_tree_takes_no_more_memory() -> None:
    X, Y, _ = toy()
    model = Parabel(max_leaf=3, n_trees=1, beam=64).fit(X, Y)
    before = model.predict(X).toarray()
    np.testing.assert_array_equal(model.set_params(beam=2**31 - 1).predict(X).toarray(), before)


def test_buffers_that_memory_has_no_room_for_leave_the_old_ones_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    model = Parabel(max_leaf=2, n_trees=1, beam=1).fit(X, Y)
    model.n_jobs = 1  # the buffers are those of this thread
    model.predict(X)
    model.beam = 6

    def no_memory(self: Forest, width: int) -> int:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Forest, "_most_candidates", no_memory)
        for _ in range(2):  # the second call took the buffers of a narrower beam
            with pytest.raises(MemoryError):
                model.predict(X)
    expected = Parabel(max_leaf=2, n_trees=1, beam=6).fit(X, Y).predict(X)
    np.testing.assert_array_equal(model.predict(X).toarray(), expected.toarray())


def test_a_wide_beam_equals_the_exhaustive_product_of_chances() -> None:
    X, Y, _ = toy()
    model = Parabel(max_leaf=3, n_trees=1, beam=64).fit(X, Y)
    forest, scores = model.forest_, model.predict(X, 24).toarray()
    dense = np.zeros((X.shape[1], len(forest.bias)))
    for f in range(X.shape[1]):
        span = slice(forest.ptr[0, 2 * f], forest.ptr[0, 2 * f + 2])
        dense[f, forest.nodes[span]] = forest.values[span] * forest.scale[forest.nodes[span]]
    chance = 1 / (1 + np.exp(-4 * (X @ dense + forest.bias)))  # (N, nodes)
    group = np.repeat(np.arange(len(forest.child_ptr) - 1), np.diff(forest.child_ptr))
    for node in range(len(forest.bias)):  # parents come before their children
        if group[node] > 0:
            chance[:, node] *= chance[:, group[node] - 1]
    expected = np.zeros_like(scores)
    expected[:, forest.labels] = chance[:, forest.level_ptr[-2] :]
    np.testing.assert_allclose(scores, np.minimum(expected, 1 - 2.0**-23), rtol=2e-5)


def test_the_trees_of_real_data_reach_their_known_accuracy(shared_data) -> None:  # type: ignore[no-untyped-def]
    data = longtail.read(shared_data("bibtex"))
    scores = Bonsai(n_trees=1).fit(data.X, data.Y).predict(data.test.X, 5)
    measured = evaluate(data.test.Y, scores, train_Y=data.Y)
    assert measured["P@1"] > 62.5
    assert measured["P@5"] > 27.5
    assert measured["PSP@5"] > 56.0


def test_grid_search_of_scikit_learn_runs() -> None:
    from sklearn.model_selection import GridSearchCV

    X, Y, _ = toy()
    search = GridSearchCV(Parabel(max_leaf=4, n_trees=1), {"cost": [0.01, 1.0]}, cv=2, refit=False)
    search.fit(X, Y)
    assert search.best_score_ > 0.8
