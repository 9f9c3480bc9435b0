"""RankNet: the contract around several bases, its knob, its settings, and what it learns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.data import synthetic
from longtail.errors import ModelError, SettingsError
from longtail.metrics import evaluate, inverse_propensity
from longtail.models.base import Ranker
from longtail.models.fastxml import FastXML
from longtail.models.glas import GLaS
from longtail.models.parabel import Parabel
from longtail.models.popular import Popular
from longtail.models.ranknet import RankNet
from longtail.models.ranknet.reranker import typical_gain
from tests.contract import RankerContract, toy
from tests.presets import arranged


def small() -> Parabel:
    return Parabel(max_leaf=6, n_trees=1)


class TestRankNet(RankerContract):
    def make(self, **params: object) -> Ranker:
        return RankNet(small(), **params)  # type: ignore[arg-type]


class TestInversePropensity(RankerContract):
    def make(self, **params: object) -> Ranker:
        return RankNet(small(), method="inverse_propensity", **params)  # type: ignore[arg-type]


class TestFullRankWithThePopulationAwareLoss(RankerContract):
    def make(self, **params: object) -> Ranker:
        settings = {"bottleneck": None, "loss": "population", "n_blocks": 2, "n_irrelevant": 4, "tail": 0.0, **params}
        return arranged(RankNet, small(), **settings)


class TestAroundItself(RankerContract):
    def make(self, **params: object) -> Ranker:
        return RankNet(RankNet(small(), n_folds=2), n_folds=2, **params)  # type: ignore[arg-type]


class TestAroundPopular(RankerContract):
    learns = False

    def make(self, **params: object) -> Ranker:
        return RankNet(Popular(), n_candidates=10, **params)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["blocks", "inverse_propensity"])
@pytest.mark.parametrize("fact", ["typical", "largest"])
def test_positions_that_do_not_fit_together_are_refused_on_load(tmp_path: Path, fact: str, method: str) -> None:
    X, Y, _ = toy()
    RankNet(Popular(), method=method).fit(X, Y).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    document = json.loads(path.read_text())
    document["meta"][fact].append(1.0)
    path.write_text(json.dumps(document))
    if fact == "typical" and method != "blocks":  # not used
        longtail.load(tmp_path / "m")
        return
    with pytest.raises(ModelError, match="typical and largest"):
        longtail.load(tmp_path / "m")


@pytest.mark.parametrize("base", [FastXML(n_trees=5, cost=1.0), GLaS(dim=16, epochs=3)], ids=["fastxml", "glas"])
def test_other_kinds_of_bases(base: Ranker, tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y, Z = toy()
    model = RankNet(base, n_folds=2).fit(X, Y, label_features=Z)
    scores = model.predict(X, 30)
    assert evaluate(Y, scores, ks=(1,))["P@1"] > 60
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(longtail.load(tmp_path / "m").predict(X, 30).toarray(), scores.toarray())
    assert not hasattr(base, "n_labels_")  # a recipe: the base given is not fitted


@pytest.fixture(scope="module")
def skewed() -> tuple[csr_array, csr_array, csr_array, csr_array]:
    """Labels of very unequal frequency."""
    data = synthetic.make(n_points=2000, n_features=600, n_labels=300, test_fraction=0.5, random_state=0)
    return data.X, data.Y, data.test.X, data.test.Y  # type: ignore[union-attr,return-value]


@pytest.mark.parametrize("method", ["blocks", "inverse_propensity"])
def test_the_knob_moves_from_plain_to_propensity_scored_precision(method: str, skewed) -> None:  # type: ignore[no-untyped-def]
    X, Y, X_test, Y_test = skewed
    model = RankNet(Parabel(n_trees=1), method=method).fit(X, Y)
    weights, found = inverse_propensity(Y), []
    for tail in (0.0, 0.5, 1.0):
        scores = model.set_params(tail=tail).predict(X_test, 5)
        found.append(evaluate(Y_test, scores, inv_propensity=weights))
    assert found[0]["PSP@1"] < found[1]["PSP@1"] < found[2]["PSP@1"]
    assert found[0]["P@1"] > found[2]["P@1"]
    model.tail = 2.0
    with pytest.raises(SettingsError, match=r"tail is 2\.0"):
        model.predict(X_test)


def test_scores_are_chances(skewed) -> None:  # type: ignore[no-untyped-def]
    X, Y, X_test, Y_test = skewed
    scores = RankNet(Parabel(n_trees=1), tail=0.0).fit(X, Y).predict(X_test, 10)
    right = Y_test.toarray()[np.repeat(np.arange(1000), np.diff(scores.indptr)), scores.indices]
    for low, high in ((0.05, 0.3), (0.3, 0.6), (0.6, 1.0)):
        band = (scores.data >= low) & (scores.data < high)
        assert band.sum() > 30
        assert scores.data[band].mean() == pytest.approx(right[band].mean(), abs=0.08)


def test_a_block_learns_what_labels_say_of_each_other() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (2000, 2))
    X = csr_array(np.column_stack([bits, np.ones(2000)]).astype(np.float32))
    differ = bits[:, 0] != bits[:, 1]  # which no linear base can tell from the features
    Y = csr_array(np.column_stack([bits, differ, np.ones(2000)]).astype(np.float32))
    gaps = []
    base = Parabel(n_trees=1, normalize=False)
    for model in (base, RankNet(base, tail=0.0)):
        chance = model.fit(X, Y).predict(X, 4).toarray()[:, 2]
        gaps.append(chance[differ].mean() - chance[~differ].mean())
    assert gaps[0] < 0.3
    assert gaps[1] > 0.7


def test_a_typical_point_is_worth_less_a_place_the_more_places_there_are() -> None:
    Y = csr_array(np.array([[1, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], np.float32))
    worth = np.array([1, 5, 3, 2], np.float32)
    np.testing.assert_allclose(typical_gain(Y, worth, 4), [7 / 2, 10 / 4, 11 / 6, 11 / 8])  # of the points with labels


def test_places_further_down_go_to_rarer_labels() -> None:
    """Rare labels count more in PSP@k the larger k is, so that the first place is the last they win."""
    model = RankNet(small(), tail=0.5).fit(*toy()[:2])
    gain, plain, scale, *_ = model._rule()
    rare, frequent = gain.argmax(), gain.argmin()
    worth = plain[:, None] + scale[:, None] * gain[[rare, frequent]]
    assert (np.diff(worth[:, 0] / worth[:, 1]) > 0).all()
    np.testing.assert_allclose(plain + scale * model.largest_ * model.typical_, 1, rtol=1e-6)


def test_label_text_is_seen_only_where_given_and_wanted() -> None:
    X, Y, Z = toy()
    assert RankNet(small()).fit(X, Y).text_ is None
    assert RankNet(small(), text=False).fit(X, Y, label_features=Z).text_ is None
    assert RankNet(small()).fit(X, Y, label_features=Z).text_.shape == Z.shape  # type: ignore[union-attr]


def test_more_labels_than_candidates_may_be_asked_for() -> None:
    X, Y, _ = toy()
    model = RankNet(small(), n_candidates=3).fit(X, Y)
    few, many = model.predict(X, 3), model.predict(X, 10)
    assert np.diff(many.indptr).max() == 10
    for i in range(20):
        row = many.indices[many.indptr[i] : many.indptr[i + 1]]
        assert row[:3].tolist() == few.indices[few.indptr[i] : few.indptr[i + 1]].tolist()
        assert (np.diff(many.data[many.indptr[i] : many.indptr[i + 1]]) <= 0).all()
    labels, _ = model.rank(X.indices[: X.indptr[1]], X.data[: X.indptr[1]], 10)
    assert labels.tolist() == many.indices[: many.indptr[1]].tolist()


def test_a_base_that_is_never_right_is_left_as_it_is() -> None:
    X = csr_array(np.eye(6, dtype=np.float32))
    Y = csr_array(np.eye(6, dtype=np.float32))  # every label unknown to the copy that scores its only point
    model = RankNet(small(), n_folds=6, tail=0.0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X, 1).indices, model.base_.predict(X, 1).indices)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "give one of blocks, inverse_propensity"),
        ({"loss": "hinge"}, "give one of logistic, population"),
        ({"tail": -0.1}, "tail is -0.1"),
        ({"tail": "much"}, "tail is 'much'"),
        ({"n_candidates": 0}, "n_candidates is 0"),
        ({"n_blocks": -1}, "n_blocks is -1"),
        ({"bottleneck": 0}, "bottleneck is 0"),
        ({"n_irrelevant": 1.5}, "n_irrelevant is 1.5"),
        ({"trust": -1.0}, "trust is -1.0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"n_folds": 1}, "n_folds"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        arranged(RankNet, small(), **settings).fit(X, Y)


@pytest.mark.parametrize("base", ["bonsai", Parabel, None])
def test_what_is_no_ranker_is_refused_as_a_base(base: object) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match="RankNet was given"):
        RankNet(base).fit(X, Y)


def test_the_tail_follows_the_loss_unless_it_is_given() -> None:
    """The population-aware loss ranks rare labels first by itself: propensities do not count once more."""
    for settings in (
        RankNet(None, preset="paper").settings(),
        RankNet(None, advanced={"loss": "population"}).settings(),
    ):
        assert settings.tail == 0.0
    assert RankNet(None).settings().tail == 0.5
    assert RankNet(None, preset="paper", tail=0.5).settings().tail == 0.5
    X, Y, _ = toy()
    model = RankNet(small(), preset="paper", n_folds=2).fit(X, Y)
    plain = model.predict(X, 5).toarray()
    np.testing.assert_array_equal(plain, model.set_params(tail=0.0).predict(X, 5).toarray())


def test_by_name() -> None:
    model = longtail.make("ranknet(parabel(n_trees=1), tail=0.3)")
    assert isinstance(model, RankNet)
    assert isinstance(model.base, Parabel)
    with pytest.raises(SettingsError, match="did you mean 'ranknet'"):
        longtail.make("ranknte(bonsai)")
    with pytest.raises(SettingsError, match="ranknet needs base"):
        longtail.make("ranknet")


@pytest.mark.parametrize("method", ["blocks", "inverse_propensity"])
def test_scores_do_not_depend_on_labels_without_points(method: str) -> None:
    """Copies that calibration learns from lack the labels of held-out points alone; the final fit lacks none."""
    data = synthetic.make(400, 200, 40)
    model = RankNet(Parabel(n_trees=1, cost=1.0), method=method)
    wide = csr_array((data.Y.data, data.Y.indices, data.Y.indptr), shape=(data.Y.shape[0], data.Y.shape[1] + 1))
    alone, beside = (model.unfitted().fit(data.X, Y) for Y in (data.Y, wide))
    assert alone.largest_ == beside.largest_
    for a, b in zip(alone._rule()[1:], beside._rule()[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_copies_share_the_scale_of_scores() -> None:
    """More points have a larger largest propensity: scores of a fit to a part would be higher for the same labels."""
    data = synthetic.make(400, 200, 40)
    part = data.X[:200], data.Y[:200]
    model = RankNet(Parabel(n_trees=1, cost=1.0))
    tuned, alone = model.tuned(data.X, data.Y), model.unfitted().fit(data.X, data.Y)
    assert tuned.unfitted().fit(*part).largest_ == alone.largest_ != model.unfitted().fit(*part).largest_
