"""Auto: the contract, that it keeps to its budget, and that it tells what it did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import longtail
from longtail.errors import SettingsError
from longtail.metrics import evaluate
from longtail.models import auto
from longtail.models.auto import Auto, Candidate
from longtail.models.base import Ranker
from tests.contract import RankerContract, toy
from tests.fake import Centroid


class TestAuto(RankerContract):
    def make(self, **params: object) -> Ranker:
        return Auto(candidates=["bonsai", "dismec"], **params)  # type: ignore[arg-type]


class Slow(Centroid):
    """Says that it takes a second a point, by moving the clock."""

    def _fit(self, X, Y, Z, validation):  # type: ignore[no-untyped-def]
        super()._fit(X, Y, Z, validation)
        Clock.now += X.shape[0]


class Fails(Centroid):
    def _fit(self, X, Y, Z, validation):  # type: ignore[no-untyped-def]
        raise SettingsError("Training needs about 900 GiB of memory.")


class Clock:
    now = 0.0

    @classmethod
    def perf_counter(cls) -> float:
        return cls.now


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = {
        "slow": Candidate("tests.models.test_auto:Slow", growth=1.0),
        "other": Candidate("tests.models.test_auto:Slow", {"sharpness": 3.0}, growth=1.0),
        "fails": Candidate("tests.models.test_auto:Fails"),
        "never": Candidate("tests.models.test_auto:Fails", unless=lambda facts: "it is Sunday"),
    }
    monkeypatch.setattr(auto, "CANDIDATES", candidates)
    monkeypatch.setattr(auto, "time", Clock)
    monkeypatch.setattr(auto, "_SMALLEST", 10)
    monkeypatch.setattr(Clock, "now", 0.0)


def test_all_candidates_by_default_and_each_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("decaf", "glas", "mnn"):
        small = replace(auto.CANDIDATES[name], params={"dim": 8, "epochs": 1})
        monkeypatch.setitem(auto.CANDIDATES, name, small)
    X, Y, Z = toy()
    model = longtail.best(X, Y, label_features=Z, seconds=60)
    assert {row["model"] for row in model.report_} >= set(auto.CANDIDATES)
    assert model.report_[-1]["chosen"]
    assert model.report_[-1]["model"].startswith("blend of ")
    assert "on the held-out points" in model.why_
    test_X, test_Y, _ = toy(seed=1)
    assert evaluate(test_Y, model.predict(test_X, 1), ks=(1,))["P@1"] > 90


def test_time_is_estimated_and_kept_to(slow: None) -> None:
    X, Y, _ = toy()
    model = Auto(seconds=500, candidates=["slow", "other"]).fit(X, Y)
    assert Clock.now < 500
    skipped = [row for row in model.report_ if "skipped" in row]
    assert [row["model"] for row in skipped] == ["other"]
    assert "s are left" in skipped[0]["skipped"]
    assert "time to fit 0 of 1" in model.why_


def test_with_time_enough_members_are_fitted_to_all_points(slow: None) -> None:
    X, Y, _ = toy()
    model = Auto(seconds=5000, candidates=["slow"]).fit(X, Y)
    assert "then fitted to all points" in model.why_
    assert Clock.now < 5000


def test_the_first_candidate_is_fitted_to_fewer_points_rather_than_not_at_all(slow: None) -> None:
    X, Y, _ = toy()
    model = Auto(seconds=150, candidates=["slow"]).fit(X, Y)
    row = next(row for row in model.report_ if row["model"] == "slow")
    assert 10 < row["points"] < 150
    assert Clock.now < 200


def test_candidates_that_fail_or_do_not_suit_are_told_of(slow: None) -> None:
    X, Y, _ = toy()
    model = Auto(seconds=5000, candidates=["fails", "never", "slow"]).fit(X, Y)
    told = {row["model"]: row["skipped"] for row in model.report_ if "skipped" in row}
    assert "900 GiB" in told["fails"]
    assert told["never"] == "it is Sunday"
    with pytest.raises(SettingsError, match=r"No candidate could be trained.*900 GiB"):
        Auto(candidates=["fails", "never"]).fit(X, Y)


def test_a_validation_part_is_used() -> None:
    X, Y, Z = toy()
    model = Auto(candidates=["dismec"]).fit(X, Y, label_features=Z, validation=toy(seed=2)[:2])
    assert "being given" in model.why_


def test_too_few_points_to_choose_by() -> None:
    X, Y, _ = toy(n=3)
    model = Auto(candidates=["dismec"]).fit(X, Y)
    assert "too few points" in model.why_
    assert model.predict(X).shape == Y.shape


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seconds": 0}, "seconds is 0"),
        ({"candidates": ["bonsia"]}, "give names out of bonsai, "),
        ({"candidates": "bonsai"}, "give names out of"),
        ({"candidates": []}, "give names out of"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        Auto(**settings).fit(X, Y)  # type: ignore[arg-type]


def test_the_report_is_saved(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y, Z = toy()
    model = longtail.make("auto(candidates=['dismec'])").fit(X, Y, label_features=Z)
    model.save(tmp_path / "m")
    again = longtail.load(tmp_path / "m")
    assert again.report_ == model.report_
    assert again.why_ == model.why_
    labels, _ = again.rank(X.indices[: X.indptr[1]], X.data[: X.indptr[1]])
    np.testing.assert_array_equal(labels, model.predict(X[:1]).indices)
