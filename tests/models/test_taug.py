"""TAug: the contract around several rankers, what is learnt from what, its settings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.data import synthetic
from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.bonsai import Bonsai
from longtail.models.dismec import DiSMEC
from longtail.models.fastxml import FastXML
from longtail.models.glas import GLaS
from longtail.models.labeltext import LabelText
from longtail.models.parabel import Parabel
from longtail.models.taug import TAug
from tests.contract import L, N, RankerContract, toy
from tests.fake import Centroid


class TestTAugOfParabel(RankerContract):
    def make(self, **params: object) -> Ranker:
        return TAug(Parabel(n_trees=1, max_leaf=4), **params)  # type: ignore[arg-type]


class TestTAugOfDiSMEC(RankerContract):
    def make(self, **params: object) -> Ranker:
        return TAug(DiSMEC(), n_aug=1, tilt=0.0, **params)  # type: ignore[arg-type]


class TestTAugOfFastXML(RankerContract):
    def make(self, **params: object) -> Ranker:
        return TAug(FastXML(n_trees=8, cost=2.0), n_aug=2, **params)  # type: ignore[arg-type]


class TestTAugOfThePaper(RankerContract):
    def make(self, **params: object) -> Ranker:
        return TAug(DiSMEC(), preset="paper", **params)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", [Bonsai(n_trees=1), GLaS(dim=16, epochs=4), LabelText(DiSMEC()), TAug(DiSMEC())])
def test_other_bases(base: Ranker) -> None:
    X, Y, Z = toy()
    model = TAug(base, n_aug=1).fit(X, Y, label_features=Z)
    assert np.isfinite(model.predict(X).data).all()
    assert not hasattr(base, "n_labels_")


class Recorder(Centroid):
    """Remembers what each copy was fitted to."""

    fitted: list[tuple[csr_array, csr_array, bool]] = []  # noqa: RUF012

    def _fit(self, X: csr_array, Y: csr_array, Z: object, validation: object) -> None:
        Recorder.fitted.append((X, Y, Z is not None))
        super()._fit(X, Y, Z, validation)


def test_head_and_tail_are_learnt_apart_and_the_tail_from_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "fitted", [])
    X, Y, Z = toy()
    TAug(Recorder(), tau=0.25, n_aug=3, advanced={"rest": False}, n_jobs=1).fit(X, Y, label_features=Z)
    *_, (head_X, head_Y, _), (tail_X, tail_Y, with_text) = Recorder.fitted
    assert len(Recorder.fitted) == 4  # twice for the held-out part, twice for all
    order = np.argsort(-Y.sum(axis=0), kind="stable")
    assert set(head_Y.indices) == set(order[:6])
    assert set(tail_Y.indices) == set(order[6:])
    n_tail = int((Y.toarray()[:, order[6:]].sum(axis=1) > 0).sum())
    assert tail_X.shape[0] == 4 * n_tail
    assert head_X.shape[0] == int((Y.toarray()[:, order[:6]].sum(axis=1) > 0).sum())
    assert with_text


def test_the_rest_is_learnt_as_one_label_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "fitted", [])
    X, Y, Z = toy()
    model = TAug(Recorder(), tau=0.25, n_aug=0, advanced={"whole": True}, n_jobs=1).fit(X, Y, label_features=Z)
    *_, (head_X, head_Y, _), (tail_X, tail_Y, _), (all_X, all_Y, _) = Recorder.fitted
    np.testing.assert_array_equal(all_X.toarray(), X.toarray())  # a copy for all labels, as the base itself would be
    np.testing.assert_array_equal(all_Y.toarray(), Y.toarray())
    assert head_X.shape == tail_X.shape == X.shape
    for side in (head_Y, tail_Y):
        assert side.shape == (N, L + 1)
        assert (np.diff(side.indptr) > 0).all()
        alone = side.toarray()[:, L] == 1
        assert 0 < alone.sum() < N
        assert side.toarray()[alone].sum() == alone.sum()
    assert model.predict(X, L).indices.max() < L


def skewed(seed: int, n: int = 1500) -> tuple[csr_array, csr_array]:
    """Every point has one of three frequent labels, and one in four also one of 60 rare ones."""
    rng = np.random.default_rng(seed)
    X, Y = 0.3 * (rng.random((n, 100)) < 0.05), np.zeros((n, 63), np.float32)
    frequent, rare = rng.integers(3, size=n), 3 + rng.integers(60, size=n)
    for labels, some in ((frequent, np.ones(n, bool)), (rare, rng.random(n) < 0.25)):
        rows = np.flatnonzero(some)
        X[rows, labels[rows]] += 1
        Y[rows, labels[rows]] = 1
    return csr_array(X.astype(np.float32)), csr_array(Y)


def test_tilting_raises_rare_labels_at_a_small_price() -> None:
    X, Y = skewed(0)
    test_X, test_Y = skewed(1)
    plain, tilted = (
        evaluate(test_Y, TAug(DiSMEC(), tau=0.1, tilt=tilt).fit(X, Y).predict(test_X, 5), train_Y=Y)
        for tilt in (0.0, None)
    )
    assert tilted["PSP@1"] > plain["PSP@1"]
    assert tilted["P@1"] > plain["P@1"] - 3
    assert plain["P@1"] > 95


def test_the_report_tells_every_tilt_tried() -> None:
    X, Y = skewed(0)
    model = TAug(DiSMEC(), n_aug=1).fit(X, Y)
    assert [row["tilt"] for row in model.report_][:2] == [0.0, 0.125]
    assert model.tilt_ in [row["tilt"] for row in model.report_]


def test_the_share_of_head_labels_follows_their_number() -> None:
    """§4: 0.1 for EUR-Lex (3,993 labels), 0.01 for data of 13,330 labels and more."""
    for n_labels, paper, fast in ((3_993, 399, 399), (13_330, 133, 1333), (200_000, 2000, 2000)):
        Y = csr_array((np.ones(n_labels, np.float32), np.arange(n_labels), np.arange(n_labels + 1)))
        sizes = [int(TAug(DiSMEC(), preset=preset)._head(Y).sum()) for preset in ("paper", "fast")]
        assert sizes == [paper, fast]


def test_with_few_labels_neither_side_is_empty() -> None:
    X, Y, _ = toy()
    for n_labels in (2, 3, 9):
        model = TAug(DiSMEC(), n_aug=0).fit(X, csr_array(Y[:, :n_labels]))
        assert model.tail_ is not None


def test_one_label_is_the_base_alone() -> None:
    X, Y, _ = toy()
    model = TAug(DiSMEC()).fit(X, csr_array(Y[:, :1]))
    assert model.tail_ is None
    np.testing.assert_array_equal(model.predict(X).toarray(), model.base_.predict(X).toarray())


def test_sides_are_fitted_one_after_the_other_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    expected = TAug(DiSMEC(), n_aug=1).fit(X, Y).predict(X).toarray()
    monkeypatch.setattr(memory, "available", lambda: 1000)
    monkeypatch.setattr(memory, "require", lambda *args: None)
    np.testing.assert_array_equal(TAug(DiSMEC(), n_aug=1).fit(X, Y).predict(X).toarray(), expected)


def test_a_validation_part_is_used() -> None:
    X, Y, Z = toy()
    model = TAug(DiSMEC(), n_aug=1).fit(X, Y, label_features=Z, validation=toy(seed=3)[:2])
    assert model.report_
    assert longtail.evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"] > 90


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tau": 0.01}, "tau=0.01 leaves no head label: of 24 labels"),
        ({"tau": 1.0}, "tau is 1.0"),
        ({"n_aug": -1}, "n_aug is -1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"swap": 2}, "swap is 2"),
        ({"tilt": -1}, "tilt is -1"),
        ({"n_candidates": 0}, "n_candidates is 0"),
        ({"base": "bonsai"}, r"longtail.make\('taug\(bonsai\)'\)"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        TAug(**{"base": DiSMEC(), **settings}).fit(X, Y)  # type: ignore[arg-type]


def test_by_name() -> None:
    model = longtail.make("taug(labeltext(parabel), tau=0.2)")
    assert isinstance(model.base.base, Parabel)
    assert model.tau == 0.2


def test_the_tilt_is_a_choice_that_copies_share() -> None:
    data = synthetic.make(800, 300, 60)
    model, part = TAug(Parabel(n_trees=1, cost=1.0)), (data.X[:400], data.Y[:400])
    alone, tuned = model.unfitted().fit(data.X, data.Y), model.tuned(data.X, data.Y)
    assert tuned.tilt == alone.tilt_ != model.unfitted().fit(*part).tilt_
    assert tuned.unfitted().fit(*part).tilt_ == alone.tilt_
    np.testing.assert_array_equal(tuned.fit(data.X, data.Y).predict(data.X).data, alone.predict(data.X).data)


def test_scores_do_not_depend_on_labels_without_points() -> None:
    """Copies that calibration learns from lack the labels of held-out points alone; the final fit lacks none."""
    data = synthetic.make(400, 200, 40)
    model = TAug(Parabel(n_trees=1, cost=1.0), preset="paper", tilt=0.5, tau=0.2)
    wide = csr_array((data.Y.data, data.Y.indices, data.Y.indptr), shape=(data.Y.shape[0], data.Y.shape[1] + 1))
    alone, beside = (model.unfitted().fit(data.X, Y) for Y in (data.Y, wide))
    assert alone.weights_.max() < beside.weights_.max() == 1
    np.testing.assert_array_equal(alone.weights_, beside.weights_[:-1])
