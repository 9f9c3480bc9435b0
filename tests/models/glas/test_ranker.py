"""GLaS: the contract with each of its alternatives, checkpoints, and what it must refuse."""

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
from longtail.data.split import hold_out_points
from longtail.errors import DataError, ModelError, SettingsError
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.glas import GLaS
from longtail.models.glas.presets import ADVANCED
from tests.contract import RankerContract, toy

SMALL = {"dim": 32, "epochs": 12, "batch_size": 32, "learning_rate": 0.03, "regularization": 1.0, "input_dropout": 0.1}


def glas(**params: object) -> GLaS:
    """A small model; what is not a parameter of the constructor goes to `advanced`."""
    advanced = {name: params.pop(name) for name in list(params) if name in ADVANCED}
    return GLaS(**{**SMALL, **params}, advanced=advanced or None)  # type: ignore[arg-type]


class Glas(RankerContract):
    exact_rows = False

    def make(self, **params: object) -> Ranker:
        return glas(**params)


class TestGlas(Glas):
    pass


class TestGlasOfThePaper(Glas):
    def make(self, **params: object) -> Ranker:
        return super().make(**{"preset": "paper", "epochs": 25, **params})


class TestGlasWithMargin(Glas):
    def make(self, **params: object) -> Ranker:
        settings = {"loss": "margin", "normalize": True, "scale": 1.0, "regularizer": "spreadout"}
        return super().make(**{**settings, **params})


class TestGlasWithDrawnCandidates(Glas):
    def make(self, **params: object) -> Ranker:
        return super().make(**{"n_candidates": 4, "loss": "softmax", "regularizer": "gravity", **params})


@pytest.mark.parametrize(
    "settings",
    [
        *({"affinity": how} for how in ("geometric", "pmi", "jaccard")),
        {"regularizer": "none"},
        {"relu": False},
        {"normalize": True},
        {"optimizer": "adagrad", "learning_rate": 0.1},
        {"optimizer": "sgd", "learning_rate": 0.5, "epochs": 40},
        {"n_candidates": 4},
        {"decay": 0.1},
        {"schedule": "cosine"},
        {"schedule": "constant", "validation_fraction": 0.0},
        {"refit": False},
        {"loss": "margin", "normalize": True, "scale": 1.0, "validation_fraction": 0.0},
    ],
    ids=str,
)
def test_every_alternative_learns(settings: dict[str, object]) -> None:
    X, Y, _ = toy()
    model = glas(**settings).fit(X, Y)
    X, Y, _ = toy(seed=1)
    assert evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"] > 90


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "give one of bce, softmax, margin"),
        ({"regularizer": "laplace"}, "give one of glas, spreadout, gravity"),
        ({"affinity": "cosine"}, "give one of arithmetic"),
        ({"optimizer": "lion"}, "give one of sgd, adagrad, adam"),
        ({"schedule": "steps"}, "one of constant, linear, cosine"),
        ({"dim": 0}, "dim is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"input_dropout": 1.0}, "input_dropout is 1.0"),
        ({"regularization": -1.0}, "regularization is -1.0"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        glas(**settings).fit(X, Y)


def test_the_preset_of_the_paper_is_its_base_setting() -> None:
    """Table 1, Algorithms 1 and 2: a given value still wins."""
    paper = GLaS(preset="paper").settings()
    assert (paper.loss, paper.relu, paper.normalize, paper.scale, paper.label_bias) == (
        "margin",
        True,
        True,
        1.0,
        False,
    )
    assert (paper.regularizer, paper.regularization, paper.affinity) == ("glas", 10.0, "arithmetic")
    assert (paper.input_dropout, paper.dropout, paper.start, paper.epochs, paper.dim) == (0.2, 0.0, 0.0, 10, 1024)
    assert paper.refit is False  # trained once
    assert [GLaS(preset="paper")._batch_size(n) for n in (1_000, 500_000)] == [32, 4096]
    assert GLaS(preset="paper", advanced={"n_regularized": 7}, dim=1024).settings().n_regularized == 7


def test_a_normalised_network_has_one_length_per_layer_and_no_label_bias() -> None:
    X, Y, _ = toy()
    model = glas(preset="paper", epochs=3, validation_fraction=0.0).fit(X, Y)
    met = np.asarray(X.sum(axis=0)).ravel() > 0
    columns = np.linalg.norm(model.scorer_.encoder.tokens[met], axis=0)
    np.testing.assert_allclose(columns, columns.mean(), rtol=0.05)  # but for tokens that no point has
    vectors = model.scorer_.network_tables()
    np.testing.assert_allclose(
        np.linalg.norm(vectors["labels"], axis=1), np.linalg.norm(vectors["labels"][0]), rtol=1e-4
    )
    assert not vectors["label_bias"].any()


def test_history_holds_both_curves() -> None:
    X, Y, _ = toy()
    history = glas(start=0.0, learning_rate=0.003).fit(X, Y).history_
    assert [entry["epoch"] for entry in history] == list(range(len(history)))
    assert history[-1]["train_P@1"] > history[0]["train_P@1"]
    assert history[-1]["loss"] < history[0]["loss"]
    assert {"validation_P@1", "validation_P@5"} <= history[0].keys()


def test_early_stopping_keeps_the_best_epoch() -> None:
    X, Y, _ = toy()
    held = toy(seed=4)
    wrong = csr_array(held[1][::-1])  # labels of other points: nothing to be learnt about them
    model = glas(epochs=30, patience=2).fit(X, Y, validation=(held[0], wrong))
    figures = [entry["monitor"] for entry in model.history_]
    assert len(figures) < 30
    assert len(figures) == int(np.argmax(figures)) + 3


def test_validation_without_labels_or_of_unseen_labels_only_is_no_validation() -> None:
    X, Y, _ = toy()
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], Y.shape[1] + 1))
    unseen = np.zeros((5, Y.shape[1] + 1), np.float32)
    unseen[:, -1] = 1
    model = GLaS(**SMALL).fit(X, wide, validation=(X[:5], unseen))  # type: ignore[arg-type]
    assert "monitor" not in model.history_[0]
    assert Y.shape[1] not in model.predict(X, 25).indices  # a label without points is never suggested


class Interrupt(Exception):
    pass


def interrupt_after(share: float, at: str = "training") -> Callable[[str, float], None]:
    def listener(stage: str, done: float) -> None:
        if stage.startswith(at) and done >= share:
            raise Interrupt

    return listener


def test_an_interrupted_run_goes_on_to_the_identical_model(tmp_path: Path) -> None:
    X, Y, _ = toy()
    settings = {**SMALL, "random_state": 3}
    whole = GLaS(**settings).fit(X, Y)  # type: ignore[arg-type]
    model = GLaS(**settings, checkpoint=str(tmp_path / "run"))  # type: ignore[arg-type]
    with pytest.raises(Interrupt), progress.listen(interrupt_after(0.4)):
        model.fit(X, Y)
    assert (tmp_path / "run").is_dir()
    resumed = GLaS(**settings, checkpoint=str(tmp_path / "run")).fit(X, Y)  # type: ignore[arg-type]
    np.testing.assert_array_equal(resumed.predict(X).toarray(), whole.predict(X).toarray())
    assert resumed.history_ == whole.history_
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_other_data_or_settings_is_refused(tmp_path: Path) -> None:
    X, Y, _ = toy()
    with pytest.raises(Interrupt), progress.listen(interrupt_after(0.4)):
        GLaS(**SMALL, checkpoint=str(tmp_path / "run")).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="other data or settings"):
        GLaS(**{**SMALL, "dim": 16}, checkpoint=str(tmp_path / "run")).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="other data or settings"):
        GLaS(**SMALL, checkpoint=str(tmp_path / "run")).fit(X[1:], Y[1:])  # type: ignore[arg-type]


def test_a_label_that_held_out_points_alone_have_is_learnt() -> None:
    X, Y, _ = toy()
    _, spare = hold_out_points(Y, 0.05, 0, labelled_only=True, at_most=2000)
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], Y.shape[1] + 1)).tolil()
    wide[spare[0], -1] = 1
    for refit, depth in ((False, 24), (True, 8)):  # a few steps teach less than training again
        model = GLaS(**SMALL, refit=refit).fit(X, csr_array(wide))  # type: ignore[arg-type]
        assert Y.shape[1] in model.predict(X[spare[:1]], depth).indices


def test_labels_that_held_out_points_alone_have_are_not_suggested_everywhere() -> None:
    """A start that gives such labels high scores for all points cannot be undone by the few steps that follow."""
    X, Y, _ = toy()
    rest, spare = hold_out_points(Y, 0.05, 0, labelled_only=True, at_most=2000)
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], Y.shape[1] + len(spare))).tolil()
    for column, row in enumerate(spare, Y.shape[1]):
        wide[row, column] = 1
    model = GLaS(**SMALL, refit=False).fit(X, csr_array(wide))  # type: ignore[arg-type]
    assert (model.predict(X[rest], 1).indices >= Y.shape[1]).mean() < 0.02


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"normalize": True},
        {"loss": "margin", "normalize": True, "scale": 1.0},
    ],
    ids=str,
)
def test_it_learns_on_with_new_points_and_new_labels(settings: dict[str, object], tmp_path: Path) -> None:
    X, Y, _ = toy()
    old = np.flatnonzero(Y[:, 20:].sum(axis=1) == 0)
    few = csr_array(Y[old][:, :20])
    model = glas(**settings).fit(X[old], few)
    before = evaluate(few, model.predict(X[old], 1), ks=(1,))["P@1"]
    model.save(tmp_path / "m")
    model = longtail.load(tmp_path / "m")  # its arrays are mapped, and must not be written to
    model.partial_fit(X, Y, epochs=12)
    assert model.n_labels_ == Y.shape[1]
    assert model.predict(X, 30).shape == Y.shape
    X, Y, _ = toy(seed=1)
    found = model.predict(X, 1)
    assert evaluate(Y, found, ks=(1,))["P@1"] > min(90, before - 5)
    assert (found.indices >= 20).any()
    assert longtail.load(tmp_path / "m").n_labels_ == 20
    with pytest.raises(DataError, match="append new ones"):
        model.partial_fit(X, Y[:, :5])


def test_learning_on_without_a_model_is_learning() -> None:
    X, Y, _ = toy()
    one, two = GLaS(**SMALL).fit(X, Y), GLaS(**SMALL).partial_fit(X, Y)  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())


def test_memory_is_asked_for_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    monkeypatch.setattr("longtail.engine.memory.available", lambda: 1000)
    with pytest.raises(SettingsError, match=r"GLaS needs about .* Lower dim"):
        GLaS(**SMALL).fit(X, Y)  # type: ignore[arg-type]


def test_threads_do_not_change_the_model() -> None:
    X, Y, _ = toy()
    one, two = (GLaS(**SMALL, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())


def test_a_rate_that_diverges_says_so() -> None:
    X, Y, _ = toy()
    model = glas(optimizer="sgd", learning_rate=1e30)
    with pytest.raises(SettingsError, match="Lower learning_rate"), np.errstate(all="ignore"):
        model.fit(X, Y)


def test_it_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np; from longtail.models.glas import GLaS; "
        "GLaS(dim=4, epochs=1).fit(np.eye(4), np.eye(4)).predict(np.eye(4)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_real_data_reaches_its_known_accuracy(shared_data: Callable[[str], Path]) -> None:
    data = longtail.read(shared_data("bibtex"))
    scores = GLaS(dim=128, epochs=12, learning_rate=0.006).fit(data.X, data.Y).predict(data.test.X, 5)
    measured = evaluate(data.test.Y, scores, train_Y=data.Y)
    assert measured["P@1"] > 62.0
    assert measured["P@5"] > 28.3
    assert measured["PSP@5"] > 57.5
