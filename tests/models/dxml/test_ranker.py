"""DXML: the contract with its variants, learning on, keeping, and what it must refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail import progress
from longtail.errors import DataError, ModelError, SettingsError
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.dxml import DXML, deepwalk, training
from longtail.models.dxml.presets import default_rate
from tests.contract import RankerContract, toy
from tests.presets import arranged

SMALL = {"dim": 24, "hidden": 32, "epochs": 12, "batch_size": 32, "learning_rate": 0.02, "n_networks": 1}


def make(**params: Any) -> DXML:
    return arranged(DXML, **params)


class TestDXML(RankerContract):
    def make(self, **params: object) -> Ranker:
        return make(**{**SMALL, **params})


class TestDXMLInPartitions(RankerContract):
    def make(self, **params: object) -> Ranker:
        settings = {"n_partitions": 12, "n_networks": 2, "idf": True}
        return make(**{**SMALL, **settings, **params})


def toy_precision(model: Ranker) -> float:
    X, Y, _ = toy(seed=1)
    return evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"]


@pytest.mark.parametrize(
    "settings",
    [
        {"relu": False},
        {"weighted": False},
        {"optimizer": "momentum", "learning_rate": 0.1, "epochs": 30},
        {"n_neighbors": 5, "sharpness": 0.0, "feature_weight": 0.0, "label_weight": 0.0},
        {"whiten": False},
        {"n_partitions": 6, "n_probe": 2},
        {"validation_fraction": 0.0},
        {"hierarchy": [[label, label // 2] for label in range(1, 24)]},
        {"idf": True, "input_dropout": 0.0, "dropout": 0.5},
        {"preset": "paper"},
        {"hierarchical": True, "unit_targets": False, "summed": True, "learning_rate": 0.001},
    ],
    ids=str,
)
def test_every_alternative_learns(settings: dict[str, object]) -> None:
    X, Y, _ = toy()
    assert toy_precision(make(**{**SMALL, **settings}).fit(X, Y)) > 85


def test_a_given_value_always_wins_over_the_preset() -> None:
    settings = DXML(preset="paper", epochs=3).settings()
    assert (settings.epochs, settings.optimizer, settings.n_networks, settings.window) == (3, "momentum", 1, 5)
    fast, paper = DXML._presets["fast"], DXML._presets["paper"]
    for name, value in fast.items():  # also where it equals the other preset's
        given = make(preset="paper", **{name: value}).settings()
        if value is not None or name in DXML._advanced:
            assert getattr(given, name) == value
        for other in set(paper) - {name}:
            assert getattr(given, other) == paper[other]
    assert DXML().settings().optimizer == "adam"
    assert DXML(preset="fast") is not None


def test_the_rate_of_the_paper_is_its_own_whatever_the_batch() -> None:
    paper = DXML(preset="paper")
    assert paper._loop_for(paper.settings(), 4000).rate == 0.015
    given = DXML(preset="paper", learning_rate=0.1)
    assert given._loop_for(given.settings(), 4000).rate == 0.1
    assert default_rate(64) == pytest.approx(0.003)


def test_the_sizes_of_the_paper_follow_the_number_of_labels() -> None:
    """§4.1: 100 and 256 for small data, 300 and 512 for large."""
    sizes = {n: (s.dim, s.hidden) for n in (159, 983, 30_938, 670_091) for s in [DXML(preset="paper")._run_settings(n)]}
    assert sizes == {159: (100, 256), 983: (100, 256), 30_938: (300, 512), 670_091: (300, 512)}
    assert DXML(preset="paper", dim=50)._run_settings(30_938).dim == 50
    assert DXML()._run_settings(30_938).dim == 100


def test_the_label_graph_does_not_see_held_out_points(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    seen: list[int] = []
    graph = DXML._label_graph

    def watched(self: DXML, settings: Any, Y: csr_array) -> csr_array:
        seen.append(Y.shape[0])
        return graph(self, settings, Y)

    monkeypatch.setattr(DXML, "_label_graph", watched)
    make(**SMALL, validation_fraction=0.25, refit=True).fit(X, Y)
    assert seen == [X.shape[0] - round(X.shape[0] * 0.25), X.shape[0]]  # once without them, once for the final network


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"hidden": 1.5}, "hidden is 1.5"),
        ({"n_networks": 0}, "n_networks is 0"),
        ({"n_walks": 0.5}, "n_walks is 0.5"),
        ({"feature_weight": -1.0}, "feature_weight is -1.0"),
        ({"optimizer": "lion"}, "give one of sgd, adagrad, adam, momentum"),
        ({"schedule": "steps"}, "one of constant, linear, cosine"),
        ({"preset": "mine"}, "give one of fast, paper"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"input_dropout": 1.0}, "input_dropout is 1.0"),
        ({"recall": 1.5}, "recall is 1.5"),
        ({"sharpness": -1.0}, "sharpness is -1.0"),
        ({"n_neighbors": 0}, "n_neighbors is 0"),
        ({"n_probe": 0}, "n_probe is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        make(**settings).fit(X, Y)


# What comes in ---------------------------------------------------------------------------------------------------


def test_a_hierarchy_from_a_file_that_names_unknown_labels_is_refused(tmp_path: Path) -> None:
    X, Y, _ = toy()
    (tmp_path / "edges.tsv").write_text("0\t1\n1\t2\n5\t99\n")
    with pytest.raises(DataError, match=r"edges.tsv:3: there is no label 99\. Labels are numbered from 0 to 23"):
        make(**SMALL, hierarchy=str(tmp_path / "edges.tsv")).fit(X, Y)
    with pytest.raises(SettingsError, match="give a path, or a list of pairs"):
        make(**SMALL, hierarchy=[]).fit(X, Y)


def test_points_of_one_label_each_need_no_graph() -> None:
    X, Y, _ = toy(n=400)
    one = np.flatnonzero(np.diff(Y.indptr) == 1)
    model = make(**SMALL).fit(X[one], Y[one])
    assert model.edges_.nnz == 0
    X, Y, _ = toy(seed=1)
    one = np.flatnonzero(np.diff(Y.indptr) == 1)
    assert evaluate(Y[one], model.predict(X[one], 1), ks=(1,))["P@1"] > 80


def test_unlabelled_points_are_no_neighbours_and_empty_ones_have_an_answer() -> None:
    X, Y, _ = toy()
    empty = Y.toarray()
    empty[10:60] = 0
    model = make(**SMALL).fit(X, empty)
    assert len(model.neighbours_.index) == 250
    assert np.diff(model.neighbours_.labels.indptr).min() > 0
    found = model.predict(csr_array((1, X.shape[1]), dtype=np.float32), 5)
    assert found.nnz > 0


def test_more_neighbours_than_a_partition_or_the_data_holds() -> None:
    X, Y, _ = toy(n=30)
    settings = {**SMALL, "n_neighbors": 100, "n_partitions": 10, "n_probe": 1}
    settings |= {"validation_fraction": 0.0, "sharpness": 0.0, "feature_weight": 0.0, "label_weight": 0.0}
    model = make(**settings).fit(X, Y)
    share = np.asarray(Y.toarray().mean(axis=0))
    np.testing.assert_allclose(model.predict(X[:1], 24).toarray()[0], share, rtol=1e-4)


def test_a_validation_part_is_used_and_does_not_join() -> None:
    X, Y, _ = toy()
    held = toy(seed=4)
    model = make(**SMALL).fit(X, Y, validation=held[:2])
    assert len(model.neighbours_.index) == 300
    assert "validation_P@1" in model.history_[0]
    own = make(**SMALL).fit(X, Y)
    assert len(own.neighbours_.index) == 300  # the held-out points have joined
    none = make(**SMALL, validation_fraction=0.0).fit(X, Y)
    assert "monitor" not in none.history_[0]
    assert none.neighbours_.tried == []


# Keeping and learning on -----------------------------------------------------------------------------------------


def test_a_second_model_on_the_same_labels_reuses_their_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y, _ = toy()
    deepwalk.vector_cache.clear()
    first = make(**SMALL, cache=str(tmp_path)).fit(X, Y)
    monkeypatch.setattr(deepwalk, "_by_skip_gram", None)
    again = make(**{**SMALL, "relu": False}).fit(X, Y)
    np.testing.assert_array_equal(again.label_vectors_, first.label_vectors_)
    deepwalk.vector_cache.clear()
    np.testing.assert_array_equal(
        make(**SMALL, cache=str(tmp_path)).fit(X, Y).label_vectors_,
        first.label_vectors_,
    )


class Interrupt(Exception):
    pass


def interrupt_after(share: float) -> Callable[[str, float], None]:
    def listener(stage: str, done: float) -> None:
        if stage == "training" and done > share:
            raise Interrupt

    return listener


def test_an_interrupted_run_goes_on_to_the_identical_model(tmp_path: Path) -> None:
    X, Y, _ = toy()
    settings = {**SMALL, "n_networks": 2}
    whole = make(**settings).fit(X, Y)
    with pytest.raises(Interrupt), progress.listen(interrupt_after(0.4)):
        make(**settings, checkpoint=str(tmp_path / "run")).fit(X, Y)
    with pytest.raises(ModelError, match="other data or settings"):
        make(**settings, dropout=0.1, checkpoint=str(tmp_path / "run")).fit(X, Y)
    resumed = make(**settings, checkpoint=str(tmp_path / "run")).fit(X, Y)
    np.testing.assert_array_equal(resumed.predict(X).toarray(), whole.predict(X).toarray())
    assert resumed.history_ == whole.history_


@pytest.mark.parametrize("n_partitions", [1, 10])
def test_it_learns_on_with_new_points_and_new_labels(n_partitions: int, tmp_path: Path) -> None:
    X, Y, _ = toy()
    old = np.flatnonzero(Y[:, 20:].sum(axis=1) == 0)
    new = np.flatnonzero(Y[:, 20:].sum(axis=1) > 0)
    model = make(**SMALL, n_partitions=n_partitions).fit(X[old], csr_array(Y[old][:, :20]))
    model.save(tmp_path / "m")
    model = longtail.load(tmp_path / "m")  # its arrays are mapped, and must not be written to
    model.partial_fit(X[new], Y[new], epochs=10)
    assert model.n_labels_ == 24
    assert model.neighbours_.vectors.shape == (24, 24)
    assert len(model.neighbours_.index) == 300
    assert toy_precision(model) > 80
    X1, Y1, _ = toy(seed=1)
    fresh = np.flatnonzero(Y1[:, 20:].sum(axis=1) > 0)
    assert (model.predict(X1[fresh], 1).indices >= 20).mean() > 0.2
    assert model.near_labels(22)["graph"][0].size == 0
    assert longtail.load(tmp_path / "m").n_labels_ == 20
    model.save(tmp_path / "n")
    np.testing.assert_array_equal(longtail.load(tmp_path / "n").predict(X1).toarray(), model.predict(X1).toarray())
    with pytest.raises(DataError, match="append new ones"):
        model.partial_fit(X, Y[:, :5])


def test_learning_on_without_epochs_only_adds_neighbours() -> None:
    X, Y, _ = toy()
    model = make(**SMALL).fit(X[:200], Y[:200])
    before = model._embed(X)
    model.partial_fit(X[200:], Y[200:], epochs=0)
    np.testing.assert_array_equal(model._embed(X), before)
    assert len(model.neighbours_.index) == 300


def test_learning_on_without_a_model_is_learning() -> None:
    X, Y, _ = toy()
    one, two = make(**SMALL).fit(X, Y), make(**SMALL).partial_fit(X, Y)
    np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())


def test_memory_is_asked_for_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    monkeypatch.setattr("longtail.engine.memory.available", lambda: 1000)
    with pytest.raises(SettingsError, match=r"DXML needs about .* Lower hidden"):
        make(**SMALL).fit(X, Y)


def test_threads_do_not_change_the_model() -> None:
    X, Y, _ = toy()
    one, two = (make(**SMALL, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())


def test_labels_near_a_label() -> None:
    rng = np.random.default_rng(0)
    Y = np.zeros((400, 12), np.float32)
    for i in range(400):  # labels go together in threes
        Y[i, 3 * (i % 4) + rng.permutation(3)[:2]] = 1
    X = csr_array(Y @ rng.standard_normal((12, 30)).astype(np.float32))
    model = make(**SMALL, n_walks=60).fit(X, Y)
    near = model.near_labels(4, 2)
    assert set(near["graph"][0]) == set(near["vectors"][0]) == {3, 5}
    assert (np.diff(near["vectors"][1]) <= 0).all()
    with pytest.raises(DataError, match="there is no label 12"):
        model.near_labels(12)


def test_prediction_needs_neither_torch_nor_faiss(tmp_path: Path) -> None:
    X, Y, _ = toy()
    make(**SMALL).fit(X, Y).save(tmp_path / "m")
    code = (
        f"import sys, numpy as np, longtail; model = longtail.load({str(tmp_path / 'm')!r}); "
        "model.predict(np.eye(2, model.n_features_in_)); assert not {'torch', 'faiss'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_real_data_reaches_its_known_accuracy(shared_data: Callable[[str], Path]) -> None:
    data = longtail.read(shared_data("bibtex"))
    model = DXML(n_networks=1, epochs=10).fit(data.X, data.Y)
    measured = evaluate(data.test.Y, model.predict(data.test.X, 5), train_Y=data.Y)
    assert measured["P@1"] > 61.0
    assert measured["P@3"] > 37.5
    assert measured["PSP@5"] > 55.0


def test_widths_chosen_by_the_number_of_points_stay_when_it_learns_on(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    monkeypatch.setattr(training, "FEW", 50)
    model = make(epochs=1, n_walks=2).fit(X[100:], Y[100:])
    assert (len(model.networks_), model.networks_[0]["W1"].shape[1]) == (3, 256)
    assert model.partial_fit(X[:20], Y[:20]).networks_[0]["W1"].shape[1] == 256
    monkeypatch.undo()
    model = make(epochs=1, n_walks=2).fit(X[100:], Y[100:])
    assert (len(model.networks_), model.networks_[0]["W1"].shape[1]) == (6, 512)


def test_copies_share_a_settled_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    model = make(**SMALL, refit=False)
    alone, tuned = model.unfitted().fit(X, Y), model.tuned(X, Y)
    monkeypatch.setattr(DXML, "_trial", lambda *_: pytest.fail("the vote is settled"))
    copy = tuned.tuned(X[:150], Y[:150]).unfitted().fit(X[:150], Y[:150])
    assert copy.neighbours_.vote == alone.neighbours_.vote
    assert copy.n_neighbors is None  # parameters stay as they were given
    np.testing.assert_array_equal(tuned.unfitted().fit(X, Y).predict(X).data, alone.predict(X).data)
