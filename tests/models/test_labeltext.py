"""LabelText: the contract around several rankers, its settings, and that text is made use of."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import longtail
from longtail.errors import SettingsError
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.bonsai import Bonsai
from longtail.models.dismec import DiSMEC
from longtail.models.fastxml import FastXML
from longtail.models.glas import GLaS
from longtail.models.labeltext import LabelText
from longtail.models.parabel import Parabel
from longtail.models.popular import Popular
from tests.contract import D, L, N, RankerContract, toy
from tests.fake import Centroid


def few() -> Parabel:
    return Parabel(n_trees=1, max_leaf=4)


class TestLabelTextOfParabel(RankerContract):
    def make(self, **params: object) -> Ranker:
        return LabelText(few(), **params)  # type: ignore[arg-type]


class TestTheFormula(RankerContract):
    def make(self, **params: object) -> Ranker:
        return LabelText(few(), method="formula", **params)  # type: ignore[arg-type]


class TestLabelTextOfFastXML(RankerContract):
    def make(self, **params: object) -> Ranker:
        return LabelText(FastXML(n_trees=8, cost=2.0), **params)  # type: ignore[arg-type]


class TestLabelTextOfPopular(RankerContract):
    learns = False

    def make(self, **params: object) -> Ranker:
        return LabelText(Popular(), **params)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", [Bonsai(n_trees=1), DiSMEC(), GLaS(dim=16, epochs=4), LabelText(few())])
def test_other_bases(base: Ranker) -> None:
    X, Y, Z = toy()
    model = LabelText(base).fit(X, Y, label_features=Z)
    test_X, test_Y, _ = toy(seed=1)
    whole, alone = (evaluate(test_Y, one.predict(test_X, 1), ks=(1,))["P@1"] for one in (model, model.base_))
    assert whole > alone - 2
    assert not hasattr(base, "n_labels_")


def rare(seed: int = 0, n: int = 400) -> tuple[csr_array, csr_array, csr_array]:
    """200 labels of two points each, whose texts say what they are about."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 200
    X, Y = np.zeros((n, 300), np.float32), np.zeros((n, 200), np.float32)
    Y[np.arange(n), labels] = 1
    X[np.arange(n), labels] = 0.5
    for _ in range(4):
        X[np.arange(n), rng.integers(200, 300, size=n)] += 1
    return csr_array(X), csr_array(Y), csr_array(np.eye(200, 300, dtype=np.float32))


@pytest.mark.parametrize("method", ["learnt", "formula"])
def test_text_finds_labels_that_have_few_points(method: str) -> None:
    X, Y, Z = rare()
    test_X, test_Y, _ = rare(seed=1)
    base = Centroid(sharpness=4.0)
    model = LabelText(base, method=method).fit(X, Y, label_features=Z)
    whole, alone = (evaluate(test_Y, one.predict(test_X, 1), ks=(1,))["P@1"] for one in (model, model.base_))
    assert whole > alone + 5
    assert [row["model"] for row in model.report_] == ["base", method]
    assert not model.alone_


def test_the_formula_weighs_by_validation_or_as_told() -> None:
    X, Y, Z = toy()
    noise = csr_array(np.roll(Z.toarray(), 7, axis=0))
    model = LabelText(DiSMEC(), method="formula").fit(X, Y, label_features=noise)
    test_X, test_Y, _ = toy(seed=1)
    whole, alone = (evaluate(test_Y, one.predict(test_X, 1), ks=(1,))["P@1"] for one in (model, model.base_))
    assert whole > alone - 1
    assert LabelText(few(), method="formula", alpha=0.25).fit(X, Y, label_features=Z).alpha_ == 0.25
    assert LabelText(few(), method="formula").fit(X, Y).alone_


def test_the_formula_gives_nothing_for_text_that_shares_no_word() -> None:
    X, Y, _ = toy()
    shifted = csr_array((X.data, X.indices + 1, X.indptr), shape=(N, D + 1))  # no point has the first word
    model = LabelText(few(), method="formula", alpha=0.5)
    model.fit(shifted, Y, label_features=csr_array(([1.0], ([0], [0])), shape=(L, D + 1), dtype=np.float32))
    found, base = model.predict(shifted, 5), model.base_.predict(shifted, 5)
    assert_allclose(found.data, base.data / 2, atol=1e-6)


def test_candidates_come_from_text_too() -> None:
    X, Y, Z = toy()
    model = LabelText(Centroid(), n_matches=3, n_candidates=1).fit(X, Y, label_features=Z)
    assert np.diff(model.predict(X, 10).indptr).max() > 1


def test_labels_without_points_are_not_suggested_by_text() -> None:
    X, Y, Z = toy()
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(N, L + 2))
    text = csr_array(np.vstack([Z.toarray(), Z.toarray()[:2]]))
    model = LabelText(few()).fit(X, wide, label_features=text)
    assert model.predict(X, L + 2).indices.max() < L


def test_a_validation_part_is_used_and_the_base_fitted_once() -> None:
    X, Y, Z = toy()
    held_X, held_Y, _ = toy(seed=2)
    model = LabelText(Centroid()).fit(X, Y, label_features=Z, validation=(held_X, held_Y))
    assert model.base_.had_validation_
    assert len(model.report_) == 2


def test_without_points_to_hold_out_the_base_is_alone() -> None:
    X, Y, Z = toy(n=3)
    model = LabelText(Centroid()).fit(X, Y, label_features=Z)
    assert model.alone_
    assert model.report_ == []
    np.testing.assert_array_equal(model.predict(X).toarray(), model.base_.predict(X).toarray())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "one of learnt, formula"),
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"n_matches": -1}, "n_matches is -1"),
        ({"n_candidates": 0}, "n_candidates is 0"),
        ({"base": "parabel"}, r"longtail.make\('labeltext\(parabel\)'\)"),
        ({"base": Parabel}, r"Give an instance: Parabel\(\)"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        LabelText(**{"base": few(), **settings}).fit(X, Y)  # type: ignore[arg-type]


def test_by_name() -> None:
    model = longtail.make("labeltext(parabel(n_trees=1), method=formula)", {"labeltext.n_matches": 5})
    assert (model.base.n_trees, model.method, model.n_matches) == (1, "formula", 5)
    with pytest.raises(SettingsError, match="did you mean 'labeltext'"):
        longtail.make("labeltex(parabel)")


def test_features_may_be_anything() -> None:
    X, Y, Z = toy()
    assert LabelText(few()).fit(-X, Y, label_features=Z).predict(X[:5]).shape == (5, L)
    assert X.shape[1] == D
