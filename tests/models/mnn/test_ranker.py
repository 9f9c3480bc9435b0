"""MNN: the contract with each way of scoring, learning on, checkpoints, and what it must refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail import progress
from longtail.errors import DataError, ModelError, SettingsError
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.mnn import MNN
from longtail.models.mnn.presets import NEGATIVES
from tests.contract import RankerContract, toy
from tests.models.glas.test_ranker import Interrupt, interrupt_after
from tests.presets import arranged

SMALL = {"dim": 32, "epochs": 12, "batch_size": 32, "learning_rate": 0.03, "input_dropout": 0.1, "refit": False}
SMALL |= {"n_negatives": 1}


def make(**params: object) -> MNN:
    return arranged(MNN, **{**SMALL, **params})


class Mnn(RankerContract):
    exact_rows = False
    scoring = "auto"

    def make(self, **params: object) -> Ranker:
        return make(scoring=self.scoring, **params)


class TestMnn(Mnn):
    pass


class TestMnnByCosine(Mnn):
    scoring = "cosine"


class TestMnnByVote(Mnn):
    scoring = "knn"


class TestMnnByBoth(Mnn):
    scoring = "both"


@pytest.mark.parametrize(
    "settings",
    [
        {"margin": 0.4},
        {"n_negatives": 1000},
        {"batch_size": 1000},
        {"optimizer": "adagrad", "learning_rate": 0.1},
        {"decay": 0.1},
        {"validation_fraction": 0.0, "scoring": "knn", "n_neighbors": 5},
        {"validation_fraction": 0.0},
        {"n_neighbors": 3, "scoring": "both"},
        {"refit": True},
        {"preset": "paper"},
    ],
    ids=str,
)
def test_every_alternative_learns(settings: dict[str, object]) -> None:
    X, Y, _ = toy()
    model = make(**settings).fit(X, Y)
    X, Y, _ = toy(seed=1)
    assert evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"] > 85


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scoring": "svm"}, "give one of auto, cosine, knn, both"),
        ({"optimizer": "lion"}, "give one of sgd, adagrad, adam, momentum"),
        ({"dim": 0}, "dim is 0"),
        ({"n_negatives": 0}, "n_negatives is 0"),
        ({"n_neighbors": 0}, "n_neighbors is 0"),
        ({"margin": 1.0}, "margin is 1.0"),
        ({"input_dropout": 1.0}, "input_dropout is 1.0"),
        ({"preset": "mine"}, "give one of fast, paper"),
        ({"advanced": {"dim": 3}}, r"MNN\(dim=…\)"),
        ({"advanced": {"margn": 3}}, "Did you mean 'margin'"),
        ({"advanced": "margin"}, "give a dict"),
        ({"decay": -1.0}, "decay is -1.0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        arranged(MNN, **settings).fit(X, Y)


def test_the_way_of_scoring_is_the_best_one_on_held_out_points() -> None:
    X, Y, _ = toy()
    held = toy(seed=4)
    figures = {}
    for how in ("cosine", "knn", "both", "auto"):
        model = make(scoring=how).fit(X, Y, validation=held[:2])
        figures[how] = evaluate(held[1], model.predict(held[0], 5), ks=(5,))["nDCG@5"]
    assert figures["auto"] == max(figures.values())


@pytest.mark.parametrize("how", ["cosine", "knn"])
def test_history_holds_both_curves(how: str) -> None:
    X, Y, _ = toy()
    history = make(scoring=how, learning_rate=0.003).fit(X, Y).history_
    assert history[-1]["train_P@1"] >= history[0]["train_P@1"] - 5
    assert history[-1]["loss"] < history[0]["loss"]
    assert "validation_P@1" in history[0]
    assert not any(key.startswith("vote_") for key in history[0])


def test_a_point_of_unseen_features_gets_the_most_frequent_labels() -> None:
    X, Y, _ = toy()
    wide = csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], X.shape[1] + 3))
    model = make().fit(wide, Y)
    unseen = np.zeros((2, wide.shape[1]), np.float32)
    unseen[0, -1] = 1
    unseen[1, 2] = 1  # a feature of label 1
    scores = model.predict(unseen, 3)
    frequent = np.argsort(-model.label_counts_, kind="stable")[:3]
    np.testing.assert_array_equal(scores.indices[:3], frequent)
    assert scores.indices[3] == 1


def test_validation_without_known_labels_is_no_validation() -> None:
    X, Y, _ = toy()
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], Y.shape[1] + 1))
    unseen = np.zeros((5, Y.shape[1] + 1), np.float32)
    unseen[:, -1] = 1
    model = make().fit(X, wide, validation=(X[:5], unseen))
    assert "monitor" not in model.history_[0]
    assert model.scorer_.scoring.how == "cosine"
    assert Y.shape[1] not in model.predict(X, 25).indices


def test_an_interrupted_run_goes_on_to_the_identical_model(tmp_path: Path) -> None:
    X, Y, _ = toy()
    whole = make(random_state=3).fit(X, Y)
    with pytest.raises(Interrupt), progress.listen(interrupt_after(0.4)):
        make(random_state=3, checkpoint=str(tmp_path / "run")).fit(X, Y)
    assert (tmp_path / "run").is_dir()
    with pytest.raises(ModelError, match="other data or settings"):
        make(random_state=3, dim=16, checkpoint=str(tmp_path / "run")).fit(X, Y)
    with pytest.raises(ModelError, match="other data or settings"):
        make(random_state=3, checkpoint=str(tmp_path / "run")).fit(X[1:], Y[1:])
    resumed = make(random_state=3, checkpoint=str(tmp_path / "run")).fit(X, Y)
    np.testing.assert_array_equal(resumed.predict(X).toarray(), whole.predict(X).toarray())
    assert resumed.history_ == whole.history_
    assert not (tmp_path / "run").exists()


def test_the_number_of_negatives_is_the_better_one_on_held_out_points(tmp_path: Path) -> None:
    X, Y, _ = toy()
    few = {"scoring": "cosine", "epochs": 3}

    def best(n_negatives: int) -> float:
        return max(entry["monitor"] for entry in make(n_negatives=n_negatives, **few).fit(X, Y).history_)

    model = make(n_negatives=None, **few).fit(X, Y)
    assert model.n_negatives_ == max(NEGATIVES, key=best)
    assert max(entry["monitor"] for entry in model.history_) == max(map(best, NEGATIVES))
    model.save(tmp_path / "m")
    assert longtail.load(tmp_path / "m").n_negatives_ == model.n_negatives_  # type: ignore[attr-defined]
    assert make(n_negatives=None, **few, validation_fraction=0.0).fit(X, Y).n_negatives_ == 1


@pytest.mark.parametrize("scoring", ["cosine", "knn", "both"])
def test_it_learns_on_with_new_points_and_new_labels(scoring: str, tmp_path: Path) -> None:
    X, Y, _ = toy()
    old = np.flatnonzero(Y[:, 20:].sum(axis=1) == 0)
    few = csr_array(Y[old][:, :20])
    model = make(scoring=scoring).fit(X[old], few)
    before = evaluate(few, model.predict(X[old], 1), ks=(1,))["P@1"]
    model.save(tmp_path / "m")
    model = longtail.load(tmp_path / "m")  # its arrays are mapped, and must not be written to
    model.partial_fit(X, Y, epochs=6)
    assert model.n_labels_ == Y.shape[1]
    assert model.predict(X, 30).shape == Y.shape
    X, Y, _ = toy(seed=1)
    found = model.predict(X, 1)
    assert evaluate(Y, found, ks=(1,))["P@1"] > min(85, before - 5)
    assert (found.indices >= 20).any()
    assert longtail.load(tmp_path / "m").n_labels_ == 20
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(longtail.load(tmp_path / "m").predict(X).toarray(), model.predict(X).toarray())
    with pytest.raises(DataError, match="append new ones"):
        model.partial_fit(X, Y[:, :5])


def test_learning_on_without_a_model_is_learning() -> None:
    X, Y, _ = toy()
    np.testing.assert_array_equal(make().fit(X, Y).predict(X).toarray(), make().partial_fit(X, Y).predict(X).toarray())


def test_memory_is_asked_for_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    monkeypatch.setattr("longtail.engine.memory.available", lambda: 1000)
    with pytest.raises(SettingsError, match=r"MNN needs about .* Lower dim"):
        make().fit(X, Y)


def test_threads_do_not_change_the_model() -> None:
    X, Y, _ = toy()
    one, two = (make(n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())


def test_it_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np; from longtail.models.mnn import MNN; "
        "MNN(dim=4, epochs=1).fit(np.eye(4), np.eye(4)).predict(np.eye(4)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_real_data_reaches_its_known_accuracy(shared_data: Callable[[str], Path]) -> None:
    data = longtail.read(shared_data("bibtex"))
    scores = MNN(refit=False).fit(data.X, data.Y).predict(data.test.X, 5)
    measured = evaluate(data.test.Y, scores, train_Y=data.Y)
    assert measured["P@1"] > 60.0
    assert measured["P@5"] > 26.0


def test_copies_share_a_settled_scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    model = make(n_negatives=None, scoring="auto", epochs=3)
    alone, tuned = model.unfitted().fit(X, Y), model.tuned(X, Y)
    monkeypatch.setattr(MNN, "_choose_scoring", lambda *_: pytest.fail("the scoring is settled"))
    monkeypatch.setattr(MNN, "_trial", lambda *_: pytest.fail("all is settled"))
    copy = tuned.tuned(X[:150], Y[:150]).unfitted().fit(X[:150], Y[:150])
    assert copy.scorer_.scoring == alone.scorer_.scoring
    assert copy.n_negatives_ == alone.n_negatives_
    assert copy.scoring == "auto"  # parameters stay as they were given
    np.testing.assert_array_equal(tuned.unfitted().fit(X, Y).predict(X).data, alone.predict(X).data)


def test_without_held_out_points_nothing_is_settled() -> None:
    X, Y, _ = toy()
    assert "_settled" not in vars(make(n_negatives=None, validation_fraction=0.0).tuned(X, Y))
    assert "_settled" not in vars(make(n_negatives=1, scoring="cosine").tuned(X, Y))
