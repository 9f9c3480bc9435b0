"""FastXML and PfastreXML: the contract, their settings, and what the papers say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.linear.point_forest import centroids
from longtail.metrics import evaluate, inverse_propensity
from longtail.models import pfastrexml
from longtail.models.base import Ranker
from longtail.models.fastxml import FastXML
from longtail.models.pfastrexml import PfastreXML
from tests.contract import RankerContract, toy


class TestFastXML(RankerContract):
    def make(self, **params: object) -> Ranker:
        return FastXML(**{"n_trees": 20, **params})  # type: ignore[arg-type]


class TestPfastreXML(RankerContract):
    def make(self, **params: object) -> Ranker:
        return PfastreXML(**{"n_trees": 20, **params})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_trees": 0}, "n_trees is 0"),
        ({"max_leaf": 1.5}, "max_leaf is 1.5"),
        ({"labels_per_leaf": "20"}, "labels_per_leaf is '20'"),
        ({"cost": 0.0}, "cost is 0.0"),
        ({"alpha": 1.2}, "alpha is 1.2"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"propensity_a": -0.5}, "propensity_a is -0.5"),
        ({"propensity_b": 0.0}, "propensity_b is 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        PfastreXML(**settings).fit(X, Y)  # type: ignore[arg-type]


def test_the_cost_is_chosen_on_held_out_points_and_kept(tmp_path: Path) -> None:
    X, Y, _ = toy()
    for validation in (None, toy(seed=1)[:2]):
        model = FastXML(n_trees=2).fit(X, Y, validation=validation)
        assert model.cost is None
        assert model.cost_ in FastXML._COSTS
    model.save(tmp_path / "model")
    assert longtail.load(tmp_path / "model").cost_ == model.cost_  # type: ignore[union-attr]
    assert FastXML(n_trees=2, cost=3.0).fit(X, Y).cost_ == 3.0


def test_centroids_are_computed_once_for_all_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(X: csr_array, *rest: Any) -> csr_array:
        calls.append(X.shape[0])
        return centroids(X, *rest)

    monkeypatch.setattr(pfastrexml, "centroids", counted)
    X, Y, _ = toy()
    PfastreXML(n_trees=1).fit(X, Y)
    assert len(calls) == 2  # for the trial, and for all points


def test_a_cost_is_found_where_no_point_can_be_spared() -> None:
    X, Y = csr_array(np.eye(5, dtype=np.float32)), csr_array(np.eye(5, dtype=np.float32))
    assert FastXML(n_trees=1).fit(X, Y).cost_ in FastXML._COSTS


@pytest.mark.parametrize("kind", [FastXML, PfastreXML])
def test_the_unit_of_features_does_not_matter(kind: type[FastXML]) -> None:
    X, Y, _ = toy()
    one = kind(n_trees=3).fit(X, Y).predict(X, 3)
    other = kind(n_trees=3).fit(X * np.float32(8), Y).predict(X * np.float32(8), 3)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.data, other.data, rtol=1e-5)


@pytest.mark.parametrize("kind", [FastXML, PfastreXML])
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_any_source_of_random_numbers_will_do(kind: type[FastXML], make: Any) -> None:
    X, Y, _ = toy()
    one, two = (kind(n_trees=2, cost=4.0, random_state=make(3)).fit(X, Y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(one.toarray(), two.toarray())
    kind(n_trees=2, random_state=None).fit(X, Y)


def test_threads_do_not_change_the_model() -> None:
    X, Y, _ = toy()
    one, two = (FastXML(n_trees=6, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    for name, array in one.forest_.arrays().items():
        np.testing.assert_array_equal(array, two.forest_.arrays()[name])


def test_seeds_and_trees_differ() -> None:
    X, Y, _ = toy()
    one, two = (FastXML(n_trees=2, random_state=seed).fit(X, Y).forest_ for seed in (0, 1))
    assert one.labels.tolist() != two.labels.tolist()
    middle = one.roots[1]
    assert one.bias[:middle].tolist() != one.bias[middle:].tolist()


def test_points_that_cannot_be_parted_are_one_leaf() -> None:
    X, Y = csr_array(np.ones((40, 3), np.float32)), csr_array(np.tile(np.eye(4, dtype=np.float32), (10, 1)))
    model = FastXML(n_trees=2).fit(X, Y)
    assert len(model.forest_.child) == 2
    np.testing.assert_allclose(model.predict(X[:1], 4).data, 0.25)


def test_rare_labels_rise_with_propensities() -> None:
    rng = np.random.default_rng(0)
    X = csr_array(np.eye(4, dtype=np.float32)[rng.integers(4, size=400)])
    Y = np.zeros((400, 2), np.float32)
    Y[:, 0] = rng.random(400) < 0.9
    Y[:12, 1] = 1
    plain = FastXML(n_trees=5).fit(X, Y).predict(X, 2)
    weighed = PfastreXML(n_trees=5, alpha=1.0).fit(X, Y).predict(X, 2)
    ratio = [scores.toarray()[:, 1].sum() / scores.toarray()[:, 0].sum() for scores in (plain, weighed)]
    assert ratio[1] > 1.5 * ratio[0]


def test_centroids_are_the_means_of_the_labels_points() -> None:
    X, Y, _ = toy()
    expected = (Y.T @ X).toarray() / Y.sum(axis=0)[:, None]
    np.testing.assert_allclose(centroids(X, Y, 1000, 2).toarray(), expected, atol=1e-5)
    narrow = centroids(X, Y, 5, 1).toarray()
    assert ((narrow != 0).sum(axis=1) == 5).all()
    np.testing.assert_allclose(narrow[narrow != 0], expected[narrow != 0], atol=1e-5)


def test_too_little_memory_is_said_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1000)
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=r"FastXML needs about .* MiB"):
        FastXML().fit(X, Y)


def test_few_trees_on_real_data_come_near_the_papers(shared_data) -> None:  # type: ignore[no-untyped-def]
    data = longtail.read(shared_data("bibtex"))
    plain, tail = (
        evaluate(data.test.Y, model.fit(data.X, data.Y).predict(data.test.X, 5), train_Y=data.Y)
        for model in (FastXML(n_trees=10), PfastreXML(n_trees=10))
    )
    assert plain["P@1"] > 57.5
    assert plain["P@5"] > 25.0
    assert tail["PSP@1"] > plain["PSP@1"] + 2


@pytest.mark.parametrize("kind", [FastXML, PfastreXML])
def test_copies_share_a_settled_cost(kind: type[FastXML], monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    alone, tuned = kind(n_trees=2).fit(X, Y), kind(n_trees=2).tuned(X, Y)
    assert tuned.cost is None  # parameters stay as they were given
    monkeypatch.setattr(kind, "_choose_cost", lambda *_: pytest.fail("the cost is settled"))
    assert tuned.tuned(X[:50], Y[:50]).unfitted().fit(X[:50], Y[:50]).cost_ == alone.cost_
    np.testing.assert_array_equal(tuned.fit(X, Y).predict(X).data, alone.predict(X).data)


def test_scores_are_relative_to_a_usual_label() -> None:
    """A label's weight falls as points are added, and with it the scores: calibration learns from fits to fewer."""
    X, Y, _ = toy()
    model = PfastreXML(n_trees=4, cost=2.0).fit(X, Y)
    raw = FastXML._predict(model, X, 5)
    found = model.predict(X, 5)
    np.testing.assert_array_equal(found.indices, raw.indices)
    weights = inverse_propensity(Y)[Y.indices]
    s = raw.data / (weights.mean() / weights.max()) ** model.alpha
    np.testing.assert_allclose(found.data, s / (1 + s), rtol=1e-5)
