"""Blend: the contract, members given and chosen, the time budget, labels by text alone, and what it must refuse."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.errors import DataError, ModelError, SettingsError
from longtail.kernels.encode import SparseRows
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.blend import Blend
from longtail.models.blend.budget import Budget
from longtail.models.bonsai import Bonsai
from longtail.models.decaf import DECAF
from longtail.models.dismec import DiSMEC
from longtail.models.dxml import training as training_of_dxml
from longtail.models.glas import GLaS
from longtail.models.knn import KNN
from longtail.models.parabel import Parabel
from longtail.models.popular import Popular
from longtail.models.textmatch import TextMatch
from longtail.models.training_part import TrainingPart
from longtail.neural import loop
from longtail.sparse import resized
from tests.contract import D, L, RankerContract, toy
from tests.fuzz.models import KINDS


def small_decaf() -> DECAF:
    return DECAF(n_networks=1, dim=32, epochs=6, batch_size=32, learning_rate=0.03)


class TestBlendOfListers(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Blend([Parabel(n_trees=1, max_leaf=4), KNN()], **params)  # type: ignore[arg-type]


class TestBlendWithANetwork(RankerContract):
    exact_rows = False

    def make(self, **params: object) -> Ranker:
        return Blend([Bonsai(n_trees=1), small_decaf()], **params)  # type: ignore[arg-type]


class TestBlendOfOne(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Blend((DiSMEC(),), **params)  # type: ignore[arg-type]


def precision(model: Ranker) -> float:
    X, Y, _ = toy(seed=1)
    return evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"]


def halves(seed: int = 0, n: int = 600) -> tuple[csr_array, csr_array]:
    """Points of ten labels with ten features of noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(10, size=n)
    X = np.zeros((n, 20), np.float32)
    X[np.arange(n), labels] = 1
    X[:, 10:] = 0.6 * rng.random((n, 10))
    return csr_array(X), csr_array(np.eye(10, dtype=np.float32)[labels])


class Half(DiSMEC):
    """Sees the features of one half of the labels only."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self.first = first

    def _cut(self, X: csr_array) -> csr_array:
        dense = X.toarray()
        dense[:, self.first : self.first + 5] = 0
        return csr_array(dense)

    def _fit(self, X: csr_array, Y: csr_array, Z: object, validation: object) -> None:
        super()._fit(self._cut(X), Y, Z, validation)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return super()._predict(self._cut(X), k)


def test_members_that_know_different_things_are_better_together() -> None:
    X, Y = halves()
    test_X, test_Y = halves(1)
    model = Blend([Half(0), Half(5)]).fit(X, Y)
    together, one, two = (
        evaluate(test_Y, ranker.predict(test_X, 1), ks=(1,))["P@1"] for ranker in (model, *model.members_)
    )
    assert together > max(one, two) + 15
    assert [row["model"] for row in model.report_] == ["dismec", "dismec", "blend"]
    goals = [row["goal"] for row in model.report_]
    assert goals[-1] == max(goals)
    assert "combined" in model.why_


def test_members_are_chosen_by_the_data() -> None:
    X, Y, Z = toy()
    blend = Blend()
    assert [member.kind for member in blend._members(X, Y, Z)] == ["dismec", "knn", "textmatch", "decaf"]
    assert [member.kind for member in blend._members(X, Y, None)] == ["dismec", "knn", "glas"]
    many = [member.kind for member in blend._members(csr_array((1_000, 5)), csr_array((1_000, 3)), None)]
    assert many == ["dismec", "knn", "fastxml", "mnn", "glas"]
    words = blend._members(csr_array((1_000, 50_000)), csr_array((1_000, 3)), None)
    assert [member.kind for member in words] == ["dismec", "knn", "glas"]
    assert blend._members(X, csr_array((X.shape[0], 50_000)), Z)[0].get_params()["n_trees"] == 1
    assert Blend(seconds=60)._members(X, Y, Z)[0].get_params()["n_trees"] == 3
    model = blend.fit(X, Y, label_features=Z)
    assert precision(model) > 90


def test_members_given_are_recipes() -> None:
    X, Y, _ = toy()
    member = DiSMEC()
    Blend([member]).fit(X, Y)
    assert not hasattr(member, "n_labels_")


@pytest.mark.parametrize("network", [GLaS(dim=16, epochs=4, batch_size=32, learning_rate=0.03), small_decaf()])
def test_a_network_in_a_blend_is_saved_and_loaded(network: Ranker, tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y, Z = toy()
    model = Blend([KNN(), TextMatch(), network]).fit(X, Y, label_features=Z)
    model.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X).toarray(), model.predict(X).toarray())
    assert [member.kind for member in loaded.members_] == [member.kind for member in model.members_]
    assert loaded.why_ == model.why_


def test_two_networks_are_combined() -> None:
    X, Y, Z = toy()
    glas = GLaS(dim=16, epochs=4, batch_size=32, learning_rate=0.03)
    assert precision(Blend([small_decaf(), glas]).fit(X, Y, label_features=Z)) > 90


def test_labels_by_text_alone_are_suggested_and_added(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y, Z = toy(n=600)
    keep = np.flatnonzero(np.asarray(Y[:, L - 4 :].sum(axis=1)).ravel() == 0)
    X, Y = X[keep], csr_array(Y[keep])
    queries = csr_array(Z.toarray()[L - 4 :])  # points that have just the words of the labels
    model = Blend([KNN(), TextMatch(), small_decaf()]).fit(X, Y, label_features=Z)
    assert np.isin(np.arange(L - 4, L), model.predict(queries, L).indices).all()
    later = Blend([KNN(), TextMatch(), small_decaf()])
    later.fit(X, csr_array(Y[:, : L - 4]), label_features=csr_array(Z[: L - 4]))
    assert later.add_labels(Z[L - 4 :]) is later
    assert later.n_labels_ == L
    assert np.isin(np.arange(L - 4, L), later.predict(queries, L).indices).all()
    later.save(tmp_path / "m")
    np.testing.assert_array_equal(
        longtail.load(tmp_path / "m").predict(queries, L).toarray(), later.predict(queries, L).toarray()
    )
    with pytest.raises(ModelError, match="textmatch"):
        Blend([KNN()]).fit(X, Y).add_labels(np.ones((1, D)))


def test_labels_with_text_that_no_point_has_do_no_harm() -> None:
    X, Y, Z = toy()
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], L + 6))
    text = csr_array(np.vstack([Z.toarray(), np.eye(6, D, dtype=np.float32)]))
    assert precision_of(Blend([DiSMEC(), TextMatch()]).fit(X, wide, label_features=text), wide.shape[1]) > 80


def test_a_network_without_text_says_the_same_of_labels_without_points_in_training_and_after() -> None:
    X, Y, _ = toy()
    wider = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], L + 3))
    scorer = GLaS(dim=16, epochs=2).fit(X, wider).scorer_
    encoded = scorer.encode(SparseRows.of(X[:2]), 1)
    unknown, rows = np.array([[L, L + 1], [L + 2, L]]), np.array([0, 0, 1, 1])
    told = scorer.log_odds(encoded, unknown, 1)
    np.testing.assert_array_equal(scorer.text_log_odds(encoded, rows, np.array([0, L, 1, L + 2]), 1), told.ravel())


def precision_of(model: Ranker, n_labels: int) -> float:
    X, Y, _ = toy(seed=1)
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], n_labels))
    return evaluate(wide, model.predict(X, 1), ks=(1,))["P@1"]


def test_a_validation_part_is_used() -> None:
    X, Y, Z = toy()
    model = Blend([DiSMEC(), KNN()]).fit(X, Y, label_features=Z, validation=toy(seed=3)[:2])
    assert len(model.report_) == 3
    assert precision(model) > 90


def test_without_points_to_hold_out_members_are_averaged() -> None:
    X, Y, _ = toy(n=3)
    model = Blend([DiSMEC(), KNN()]).fit(X, Y)
    assert model.report_ == []
    assert "no held-out point has a known label" in model.why_


def test_the_cost_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.models.label_tree import LabelTreeRanker

    searched = []
    original = LabelTreeRanker._choose_cost

    def counted(self: LabelTreeRanker, *args: object) -> float:
        if self.cost is None and "_settled" not in self.__dict__:
            searched.append(self)
        return original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(LabelTreeRanker, "_choose_cost", counted)
    X, Y, _ = toy()
    Blend([Bonsai(n_trees=1), KNN()]).fit(X, Y)
    assert len(searched) == 1


def test_a_budget_is_obeyed_and_explained(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, Z = toy()
    costs = {"bonsai": 8.0, "decaf": 100.0, "knn": 0.0, "dismec": 1000.0}
    monkeypatch.setattr(Budget, "_measure", lambda self, member, part: costs[member.kind])
    members = [Bonsai(n_trees=3), KNN(), DECAF(n_networks=1, dim=16, epochs=10, batch_size=32), DiSMEC()]
    with caplog.at_level(logging.INFO, "longtail.models"):
        model = Blend(members, seconds=60).fit(X, Y, label_features=Z)
    assert "dismec" not in [member.kind for member in model.members_]
    assert "decaf was trained for" in model.why_
    assert "dismec was left out" in model.why_
    assert "Blend fits" in caplog.text


def test_bonsai_takes_the_place_of_dismec_where_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, Z = toy()
    costs = {"dismec": 1000.0, "bonsai": 8.0}
    monkeypatch.setattr(Budget, "_measure", lambda self, member, part: costs.get(member.kind, 0.0))
    model = Blend().fit(X, Y, label_features=Z)
    assert "bonsai" in [member.kind for member in model.members_]
    assert "bonsai replaces dismec" in model.why_


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("settings", [{}, {"refit": False}, {"validation_fraction": 0.0}])
@pytest.mark.parametrize("kind", ["mnn", "dxml", "glas"])
def test_a_budget_counts_every_training(
    kind: str, settings: dict[str, float], given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[float] = []
    planned: list[float] = []
    train, plan = loop.train, Budget.plan

    def training(learner: Any, n: int, settings: loop.LoopSettings, *rest: Any) -> Any:
        if settings.stage != "learning the held-out points":  # a share of a training
            counted.append(1)
        return train(learner, n, settings, *rest)

    def planning(budget: Budget, members: list[Ranker], part: TrainingPart, *more: Any) -> list[Ranker]:
        kept = plan(budget, members, part, *more)
        again = 0.0 if part.rest is None else kept[0]._rest_share(len(part.rows))
        planned.extend((kept[0]._n_trainings(part) + again, budget._expected[id(kept[0])]))
        counted.clear()
        return kept

    monkeypatch.setattr(loop, "train", training)
    monkeypatch.setattr(training_of_dxml, "train", training)
    monkeypatch.setattr(Budget, "plan", planning)
    monkeypatch.setattr(Budget, "_measure", lambda self, member, part: 2.0 if member.kind == kind else 0.0)
    X, Y, _ = toy()
    member = longtail.make(kind).set_params(dim=8, epochs=2, batch_size=64, **settings)
    Blend([member, KNN()], seconds=600).fit(X, Y, validation=toy(seed=1)[:2] if given else None)
    expected, seconds = planned
    assert len(counted) == int(expected)  # less than one for points that are taken in without a training
    assert seconds == pytest.approx(1.15 * 2 * expected)


@pytest.mark.parametrize(("first", "times"), [(5.0, 2), (0.2, 1)])
def test_kernels_that_are_compiled_during_a_measurement_do_not_count(
    first: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y, Z = toy(n=900)
    part = TrainingPart.divide(X, Y, Z, None, 0.2, 0, 2000)
    measured = iter([(0.02, 0.1, first), (0.01, 0.2, 0.3)])
    monkeypatch.setattr(Budget, "_measure_parts", lambda *args: next(measured))
    member = longtail.make("glas").set_params(epochs=10, batch_size=len(part.rows) // 50)
    step, once = (0.01, 0.3) if times == 2 else (0.02, 0.2)
    n_steps = len(part.rows) / member._batch_size(len(part.rows))
    assert Budget(600.0)._measure(member, part) == pytest.approx(10 * (step * n_steps + 0.1) + once)
    assert len(list(measured)) == 2 - times


@pytest.mark.parametrize("kind", ["mnn", "dxml", "glas"])
def test_a_budget_counts_the_measurement_after_each_epoch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On small data, measuring an epoch of MNN takes as long as its steps; its time was expected 1.65 times too low."""
    trained: list[loop.LoopSettings] = []
    train = loop.train

    def training(learner: Any, n: int, settings: loop.LoopSettings, *rest: Any) -> Any:
        trained.append(settings)
        measure = learner.measure

        def slowly() -> dict[str, float]:
            time.sleep(0.05 if learner.validation is not None else 0.0)
            return measure()

        learner.measure = slowly
        return train(learner, n, settings, *rest)

    monkeypatch.setattr(loop, "train", training)
    monkeypatch.setattr(training_of_dxml, "train", training)
    X, Y, Z = toy(n=900)
    part = TrainingPart.divide(X, Y, Z, None, 0.2, 0, 2000)
    member = longtail.make(kind).set_params(dim=8, epochs=40, **({"n_networks": 1} if kind == "dxml" else {}))
    expected = Budget(600.0)._measure(member, part)
    assert expected >= 40 * 0.05
    assert len(trained) in (1, 2)  # it is measured again if kernels may have been compiled; nothing is chosen
    measured = trained[-1].batch_size
    trained.clear()
    member.set_params(epochs=1)._fit_part(part)
    assert {settings.batch_size for settings in trained} == {measured}


def test_members_that_do_not_help_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "_measure", lambda self, member, part: 1000.0 if member.kind == "parabel" else 0.0)
    X, Y, _ = toy(n=900)
    model = Blend([DiSMEC(), Popular(), Parabel()], seconds=60).fit(X, Y)
    assert [member.kind for member in model.members_] == ["dismec"]
    assert precision(model) > 90


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"members": []}, r"members is \[\]"),
        ({"members": "bonsai"}, "members is 'bonsai'"),
        ({"members": [Bonsai]}, r"Give an instance: Bonsai\(\)"),
        ({"members": ["bonsai"]}, "given the name 'bonsai'"),
        ({"seconds": 0}, "seconds is 0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"validation_fraction": 0.9}, "validation_fraction is 0.9"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        Blend(**settings).fit(X, Y)  # type: ignore[arg-type]


def test_by_name() -> None:
    model = longtail.make("blend([bonsai(n_trees=1), knn], seconds=60)")
    assert [member.kind for member in model.members] == ["bonsai", "knn"]
    assert longtail.make("blend").members is None


def test_further_points_are_known_at_once(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y, Z = toy(n=400)
    model = Blend([Parabel(n_trees=1), KNN(), small_decaf()]).fit(X[:300], Y[:300], label_features=Z)
    new = csr_array((np.ones(3, np.float32), ([0, 0, 0], [1, 5, 9])), shape=(1, D))
    wide = csr_array((np.ones(2, np.float32), ([0, 0], [3, L])), shape=(1, L + 1))  # one label is new
    before = model.predict(new, L).toarray()[0]
    assert model.partial_fit(new, wide) is model
    after = model.predict(new, L + 1).toarray()[0]
    assert after[3] > before[3]
    assert after[L] > 0
    assert model.n_labels_ == L + 1
    counts = np.asarray(Y[:300].sum(axis=0)).ravel()
    counts[3] += 1
    expected = np.log1p(np.append(counts, 1)) / np.log1p(301)
    np.testing.assert_allclose(model.predictor_.frequency, expected, rtol=1e-6)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(
        longtail.load(tmp_path / "m").predict(new, 9).toarray(), model.predict(new, 9).toarray()
    )
    centroids = model.predictor_.profile.centroids
    assert centroids is not None
    np.testing.assert_allclose(centroids[[L]].toarray(), new.toarray() / np.sqrt(3), rtol=1e-6)


def test_only_a_blend_with_neighbours_takes_further_points() -> None:
    X, Y, _ = toy()
    assert hasattr(Blend(), "partial_fit")
    assert not hasattr(Blend([Parabel()]), "partial_fit")
    assert not hasattr(Blend([Parabel()]).fit(X, Y), "partial_fit")
    once = Blend([Parabel(n_trees=1), KNN()]).partial_fit(X, Y)
    np.testing.assert_array_equal(
        once.predict(X).toarray(), Blend([Parabel(n_trees=1), KNN()]).fit(X, Y).predict(X).toarray()
    )
    with pytest.raises(DataError, match="Y has 5 labels"):
        once.partial_fit(X, Y[:, :5])


def test_a_blend_without_time_for_the_rest_keeps_labels_of_held_out_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = Y = Z = csr_array(np.eye(200, dtype=np.float32))  # each point has a label of its own, so those held out too
    monkeypatch.setattr(Budget, "fits_rest", lambda self, members, part: False)
    model = Blend([Bonsai(n_trees=1), DECAF(dim=16, epochs=2, batch_size=32)]).fit(X, Y, label_features=Z)
    model.save(tmp_path / "model")
    loaded = longtail.load(tmp_path / "model")
    assert (loaded.predict(X, 3) != model.predict(X, 3)).nnz == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "vector" not in kind])
@pytest.mark.parametrize("how", ["add_labels", "partial_fit"])
def test_a_blend_with_appended_labels_predicts_and_loads(kind: str, how: str, tmp_path: Path) -> None:
    """Members that do not learn labels by their text know fewer of them than the blend from then on."""
    X, Y, Z = toy()
    member = longtail.make(*KINDS[kind])
    model: Any = Blend([member, TextMatch(), KNN()]).fit(X, Y, label_features=Z)
    fresh = csr_array(np.eye(5, D, k=30, dtype=np.float32))
    if how == "add_labels":
        model.add_labels(fresh)
    else:
        model.partial_fit(X[:40], resized(Y[:40], n_columns=29))
    assert model.n_labels_ == 29
    model.save(tmp_path / "m")
    loaded: Any = longtail.load(tmp_path / "m")
    assert (loaded.predict(X, 8) != model.predict(X, 8)).nnz == 0
    loaded.add_labels(fresh).save(tmp_path / "m")
    assert longtail.load(tmp_path / "m").predict(X, 8).shape[1] == 34
