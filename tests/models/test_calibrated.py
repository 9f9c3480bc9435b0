"""Calibrated: the contract, an unchanged ranking, better probabilities, and decisions made from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from scipy.special import expit

import longtail
from longtail.combine.score_map import ScoreMap, in_the_same_order
from longtail.errors import ModelError, SettingsError
from longtail.metrics import calibration_error, decision_metrics, evaluate
from longtail.models.base import Ranker
from longtail.models.blend import Blend
from longtail.models.calibrated import Calibrated
from longtail.models.decaf import DECAF
from longtail.models.glas import GLaS
from longtail.models.knn import KNN
from longtail.models.mnn import MNN
from longtail.models.parabel import Parabel
from longtail.models.popular import Popular
from longtail.models.wrapper import score_folds
from longtail.sparse import resized
from tests.contract import L, RankerContract, toy
from tests.fake import Centroid


def few() -> Parabel:
    return Parabel(n_trees=1, cost=1.0)


class TestCalibratedParabel(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Calibrated(few(), **params)  # type: ignore[arg-type]


class TestIsotonicPopular(RankerContract):
    learns = False

    def make(self, **params: object) -> Ranker:
        return Calibrated(Popular(), method="isotonic", **params)  # type: ignore[arg-type]


def noisy(seed: int, n: int = 3000) -> tuple[csr_array, csr_array]:
    """Make toy points of which a third of the labels is not recorded: no score may be near 1."""
    X, Y, _ = toy(seed, n)
    Y.data[np.random.default_rng(seed).random(Y.nnz) < 0.35] = 0
    Y.eliminate_zeros()
    return X, Y


@pytest.mark.parametrize("method", ["auto", "isotonic", "platt"])
@pytest.mark.parametrize("base", [few(), Centroid(sharpness=0.3)], ids=lambda base: base.kind)
def test_scores_become_probabilities_and_the_ranking_stays(base: Ranker, method: str) -> None:
    X, Y = noisy(0)
    X_test, Y_test = noisy(1)
    alone, model = base.unfitted().fit(X, Y), Calibrated(base, method=method).fit(X, Y)
    before, after = alone.predict(X_test, 10), model.predict(X_test, 10)
    assert evaluate(Y_test, after) == evaluate(Y_test, before)
    np.testing.assert_array_equal(after.indices, before.indices)
    most = 7 if method == "platt" else 4  # two parameters cannot follow every shape
    for k in (1, 5):
        assert calibration_error(Y_test, after, k) < most
        assert calibration_error(Y_test, after, k) < calibration_error(Y_test, before, k)
    assert model.method_ == ("platt" if method == "platt" else "isotonic")


@pytest.mark.parametrize(("base", "n_parts"), [(few(), 4), (KNN(), 20)], ids=lambda value: str(value))
def test_parts_are_disjoint_and_all_are_used_where_the_base_needs_no_training(
    base: Ranker, n_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[np.ndarray] = []

    def noted(copies: list[Ranker], parts: list[np.ndarray], *data: object) -> list[csr_array]:
        seen.extend(parts)
        return score_folds(copies, parts, *data)  # type: ignore[arg-type]

    monkeypatch.setattr("longtail.models.calibrated.score_folds", noted)
    monkeypatch.setattr("longtail.models.calibrated._FOLD", (100, 45))
    model = Calibrated(base)
    X, Y = noisy(0, 1000)
    model.fit(X, Y)
    assert [len(part) for part in seen] == [45] * n_parts
    assert len(np.unique(np.concatenate(seen))) == 45 * n_parts
    assert max(part[-1] for part in seen) > 980  # a sample of each part, not its first rows
    assert model.n_fits() == {"calibrated": 1, base.kind: n_parts + 1}


@pytest.mark.parametrize(
    "base",
    [GLaS(epochs=2, dim=8), MNN(epochs=2, dim=8), DECAF(epochs=2, dim=8, n_networks=1, validation_fraction=0.2)],
    ids=lambda base: base.kind,
)
def test_copies_score_on_the_scale_of_the_base(base: Ranker, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Ranker] = []

    def noted(some: list[Ranker], *data: object) -> list[csr_array]:
        copies.extend(some)
        return score_folds(some, *data)  # type: ignore[arg-type]

    monkeypatch.setattr("longtail.models.calibrated.score_folds", noted)
    X, Y, Z = toy(n=200)
    model = Calibrated(base).fit(X, Y, label_features=Z)
    assert len({_scale(ranker) for ranker in (model.base_, *copies)}) == 1


def _scale(ranker: Any) -> Any:
    """Return what a ranker has learnt from held-out points about how sure its scores are."""
    if isinstance(ranker, DECAF):
        assert ranker._adjustment is not None
        return ranker._adjustment
    return (
        (ranker.slope_, ranker.offset_) if isinstance(ranker, GLaS) else (ranker.scorer_.slope, ranker.scorer_.offset)
    )


def test_few_pairs_are_calibrated_by_platt() -> None:
    X, Y, _ = toy(n=200)
    assert Calibrated(few()).fit(X, Y).method_ == "platt"


def test_given_held_out_points_are_used_and_the_base_fitted_once() -> None:
    X, Y = noisy(0, 300)
    model = Calibrated(Centroid()).fit(X, Y, validation=noisy(2, 300))
    assert model.base_.had_validation_
    assert model.method_ == "platt"


def test_without_points_to_hold_out_scores_stay() -> None:
    X, Y, _ = toy(n=3)
    model = Calibrated(Centroid()).fit(X, Y)
    assert (model.method_, model.threshold_) == ("none", None)
    np.testing.assert_array_equal(model.predict(X).toarray(), model.base_.predict(X).toarray())


def test_order_within_rows_survives_any_mapping() -> None:
    rng = np.random.default_rng(0)
    raw = csr_array(np.sort(rng.integers(1, 6, (200, 8)), axis=1)[:, ::-1] / 8).astype(np.float32)
    mapped = rng.choice(np.array([1e-30, 0.25, 0.5], np.float32), raw.nnz)
    mapped = mapped[np.unique(raw.data, return_inverse=True)[1]]  # one value per score, not monotone
    kept = in_the_same_order(raw, mapped).reshape(200, 8)
    before = raw.toarray()
    assert (np.sign(np.diff(kept)) == np.sign(np.diff(before))).all()
    assert (kept > 0).all()
    alone = in_the_same_order(raw[[7]], mapped[56:64])
    np.testing.assert_array_equal(alone, kept[7])


def test_isotonic_agrees_with_the_shares_it_was_fitted_to() -> None:
    scores = np.repeat(np.array([0.1, 0.2, 0.4, 0.6], np.float32), 1000)
    correct = np.concatenate([np.arange(1000) < n for n in (100, 500, 400, 900)])
    found = ScoreMap.isotonic(scores, correct)
    assert expit(found(np.array([0.1, 0.6]))) == pytest.approx([0.1, 0.9], abs=0.01)
    between = expit(found(np.array([0.05, 0.2, 0.3, 0.4, 0.99])))
    assert (np.diff(between) >= 0).all()
    assert between[2] == pytest.approx(0.45, abs=0.02)


def test_decisions_are_an_indicator_matrix_for_scikit_learn() -> None:
    from sklearn.metrics import f1_score

    X, Y = noisy(0)
    X_test, Y_test = noisy(1)
    model = Calibrated(few()).fit(X, Y)
    decided = model.predict_labels(X_test, threshold="auto")
    assert set(np.unique(decided.data)) == {1}
    assert f1_score(Y_test, decided, average="micro") * 100 == pytest.approx(
        decision_metrics(Y_test, decided)["micro-F1"]
    )
    best = max(decision_metrics(Y_test, model.predict_labels(X_test, t))["micro-F1"] for t in np.linspace(0.05, 1, 20))
    assert decision_metrics(Y_test, decided)["micro-F1"] >= best - 0.5
    np.testing.assert_array_equal(
        model.predict_proba(X_test).toarray() >= 0.5, model.predict_labels(X_test).toarray() > 0
    )
    assert model.predict_labels(X_test, 1.0).nnz == 0
    assert model.predict_labels(X_test, 0.0, k=3).nnz == 3 * X_test.shape[0]


@pytest.mark.parametrize("threshold", [-1, 1.5, "best", None])
def test_thresholds_that_cannot_be_are_refused(threshold: object) -> None:
    X, Y, _ = toy(n=40)
    with pytest.raises(SettingsError, match="give a number from 0 to 1, or 'auto'"):
        Popular().fit(X, Y).predict_labels(X, threshold)


def test_no_automatic_threshold_says_how_to_get_one() -> None:
    X, Y, _ = toy(n=40)
    with pytest.raises(ModelError, match=r"calibrated\(popular\)"):
        Popular().fit(X, Y).predict_labels(X, "auto")


def test_a_blend_is_calibrated_by_itself(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y = noisy(0)
    X_test, Y_test = noisy(1)
    blend = Blend([few(), KNN()], validation_fraction=0.3).fit(X, Y)
    combiner = blend.predictor_.combiner
    assert combiner.first.log_odds.tolist() != combiner.others.log_odds.tolist()
    scores = blend.predict(X_test, 10)
    for k in (1, 5):
        assert calibration_error(Y_test, scores, k) < 5
    same = ScoreMap.same()
    blend.predictor_ = replace(blend.predictor_, combiner=replace(combiner, first=same, others=same))
    before = blend.predict(X_test, 10)
    np.testing.assert_array_equal(scores.indices, before.indices)
    assert (scores.data != before.data).any()
    assert evaluate(Y_test, scores) == evaluate(Y_test, before)


def test_points_whose_labels_are_all_new_do_not_lower_probabilities() -> None:
    X, Y = noisy(0, 400)
    alone = Calibrated(Centroid()).fit(X, Y, validation=noisy(2, 300))
    strange = csr_array(np.tile(np.eye(1, L + 1, L, dtype=np.float32), (300, 1)))  # a label that no training point has
    held_X, held_Y = noisy(2, 300)
    wide = vstack([resized(held_Y, n_columns=L + 1), strange], format="csr")
    both = Calibrated(Centroid()).fit(X, resized(Y, n_columns=L + 1), validation=(vstack([held_X, held_X]), wide))
    np.testing.assert_allclose(both.predict(X, 1).data, alone.predict(X, 1).data, rtol=1e-5)


def test_a_blend_chooses_its_threshold(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y = noisy(0, 1000)
    blend = Blend([few(), KNN()]).fit(X, Y)
    assert 0.05 < blend.threshold_ < 0.95
    blend.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    assert loaded.threshold_ == blend.threshold_
    assert loaded.predict_labels(X, "auto").shape == (1000, L)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"method": "magic"}, "one of auto, isotonic, platt"), ({"base": "parabel"}, r"make\('calibrated\(parabel\)'\)")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy(n=40)
    with pytest.raises(SettingsError, match=message):
        Calibrated(**{"base": few(), **settings}).fit(X, Y)  # type: ignore[arg-type]


def test_by_name() -> None:
    model = longtail.make("calibrated(parabel(n_trees=1), method=platt)")
    assert (model.base.n_trees, model.method) == (1, "platt")
