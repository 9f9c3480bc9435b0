"""Ensemble: the contract, that it is never worse than its members where it was chosen, its settings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.errors import SettingsError
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.dismec import DiSMEC
from longtail.models.ensemble import Ensemble
from longtail.models.fastxml import FastXML
from longtail.models.label_text import LabelText
from longtail.models.parabel import Parabel
from longtail.models.popular import Popular
from tests.contract import RankerContract, toy


class TestEnsemble(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Ensemble([Parabel(n_trees=1, max_leaf=4), FastXML(n_trees=8, cost=2.0)], **params)  # type: ignore[arg-type]


class TestEnsembleWithoutText(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Ensemble([DiSMEC(), Popular()], label_text=False, **params)  # type: ignore[arg-type]


class TestEnsembleOfOne(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Ensemble((DiSMEC(),), **params)  # type: ignore[arg-type]


def halves(seed: int = 0, n: int = 600) -> tuple[csr_array, csr_array]:
    """Points of ten labels, whose features are blurred in one half of the labels or the other."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(10, size=n)
    X = np.zeros((n, 20), np.float32)
    X[np.arange(n), labels] = 1
    X[:, 10:] = 0.6 * rng.random((n, 10))
    return csr_array(X), csr_array(np.eye(10, dtype=np.float32)[labels])


class Half(DiSMEC):
    """Knows one half of the features."""

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
    model = Ensemble([Half(0), Half(5)]).fit(X, Y)
    together, one, two = (
        evaluate(test_Y, ranker.predict(test_X, 1), ks=(1,))["P@1"] for ranker in (model, *model.members_)
    )
    assert together > max(one, two) + 15
    assert model.best_ is None
    assert [row["model"] for row in model.report_][-1] == "blend"
    goals = [row["goal"] for row in model.report_]
    assert goals[-1] == max(goals)


def test_the_best_member_answers_alone_where_no_blend_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.models import blend

    X, Y, Z = toy()
    kept = blend.measures
    monkeypatch.setattr(  # a measure by which the blend, which scores with more labels than the members, is worse
        blend, "measures", lambda Y, scores, train_Y: kept(Y, scores, train_Y) | {"goal": -float(scores.nnz)}
    )
    model = Ensemble([Popular(), DiSMEC()], depth=3).fit(X, Y, label_features=Z)
    assert model.best_ == 0
    np.testing.assert_array_equal(model.predict(X).toarray(), model.members_[0].predict(X).toarray())


def test_members_are_recipes() -> None:
    X, Y, _ = toy()
    member = DiSMEC()
    Ensemble([member]).fit(X, Y)
    assert not hasattr(member, "n_labels_")
    fitted = DiSMEC().fit(X[:100], Y[:100])
    before = fitted.predict(X).toarray()
    Ensemble([fitted]).fit(X, Y)
    np.testing.assert_array_equal(fitted.predict(X).toarray(), before)


def test_a_validation_part_is_used() -> None:
    X, Y, Z = toy()
    held = toy(seed=2)[:2]
    model = Ensemble([DiSMEC(), Popular()]).fit(X, Y, label_features=Z, validation=held)
    assert len(model.report_) == 3


def test_too_few_points_to_hold_out() -> None:
    X, Y, Z = toy(n=3)
    model = Ensemble([DiSMEC(), Popular()]).fit(X, Y, label_features=Z)
    assert model.best_ == 0
    assert model.report_ == []
    assert model.predict(X).shape == Y.shape


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "Give a list of rankers"),
        (DiSMEC(), "Give a list of rankers"),
        ("bonsai", "Give a list of rankers"),
        ([DiSMEC(), "bonsai"], "was given the name 'bonsai'"),
        ([DiSMEC], "Give an instance"),
        ([None], "Give a ranker"),
    ],
)
def test_members_that_are_no_rankers_are_refused(members: object, message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        Ensemble(members).fit(X, Y)  # type: ignore[arg-type]


def test_by_name() -> None:
    model = longtail.make("ensemble([parabel(n_trees=1), labeltext(dismec)], depth=20)", {"parabel.beam": 5})
    one, two = model.members
    assert (one.n_trees, one.beam, model.depth) == (1, 5, 20)
    assert isinstance(two, LabelText)
    assert isinstance(two.base, DiSMEC)


def test_nested_ensembles_are_saved_with_all_their_parts(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y, Z = toy()
    model = Ensemble([Ensemble([DiSMEC(), Popular()]), LabelText(Parabel(n_trees=1, max_leaf=4))])
    model.fit(X, Y, label_features=Z).save(tmp_path / "m")
    assert (tmp_path / "m" / "member_0" / "member_1" / "model.json").exists()
    again = longtail.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X).toarray(), model.predict(X).toarray())
    assert again.report_ == model.report_
