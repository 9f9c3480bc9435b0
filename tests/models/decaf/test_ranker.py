"""DECAF: the contract with each preset, its ablations, labels by text alone, checkpoints, and what it must refuse."""

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
from longtail.kernels.encode import SparseRows
from longtail.metrics import evaluate
from longtail.models.base import Ranker
from longtail.models.decaf import DECAF
from longtail.models.decaf.learner import TextLearner
from longtail.models.decaf.modules import Training
from longtail.models.decaf.presets import ADVANCED, paper_sizes
from longtail.models.decaf.token_vectors import read_token_vectors
from longtail.models.decaf.trained import TrainedNetwork
from longtail.neural.batch import Candidates
from tests.contract import D, L, RankerContract, toy

SMALL = {"dim": 32, "n_networks": 1, "epochs": 8, "batch_size": 32, "learning_rate": 0.03}
PAPER = {**SMALL, "preset": "paper", "surrogate_epochs": 4, "n_networks": 2, "n_clusters": 8, "epochs": 6}


def decaf(**params: object) -> DECAF:
    """A small model; what is not a parameter of the constructor goes to `advanced`."""
    params = {**SMALL, **params}
    advanced = {name: params.pop(name) for name in list(params) if name in ADVANCED}
    return DECAF(**params, advanced=advanced or None)  # type: ignore[arg-type]


class Decaf(RankerContract):
    exact_rows = False

    def make(self, **params: object) -> Ranker:
        return decaf(**params)


class TestDecaf(Decaf):
    pass


class TestDecafInInt8WithDrawnCandidates(Decaf):
    def make(self, **params: object) -> Ranker:
        return decaf(**{"dtype": "int8", "n_candidates": 4, **params})


class TestDecafOfThePaper(Decaf):
    def make(self, **params: object) -> Ranker:
        return decaf(**{**PAPER, **params})


def precision(model: DECAF, n: int = 300) -> float:
    X, Y, _ = toy(seed=1, n=n)
    return evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"]


@pytest.mark.parametrize(
    "settings",
    [
        {"classifier": "text"},
        {"classifier": "refinement"},
        {"init": "random"},
        {"shortlist": "tree"},
        {"shortlist": "clusters"},
        {"n_networks": 2},
        {"correction": 1.0, "n_candidates": 6},
        {"shared": False, "shortlist": "clusters", "n_clusters": 8},
        {"validation_fraction": 0.0},
        {"schedule": "cosine", "input_dropout": 0.2, "dropout": 0.5, "forget": 0.3},
    ],
    ids=str,
)
def test_every_alternative_learns(settings: dict[str, object]) -> None:
    X, Y, Z = toy()
    assert precision(decaf(**settings).fit(X, Y, label_features=Z)) > 85


def test_the_preset_of_the_paper_follows_its_supplement() -> None:
    paper = DECAF(preset="paper").settings()
    assert (paper.n_networks, paper.batch_size, paper.learning_rate, paper.schedule) == (3, 255, 0.008, "halved")
    assert (paper.surrogate_epochs, paper.epochs, paper.dropout, paper.spectral) == (20, 10, 0.2, True)
    assert paper.validation_fraction == 0  # all epochs on all points
    sizes = {131_073: (300, 1 << 15), 312_330: (300, 1 << 17), 1_305_265: (512, 1 << 17), 14_658: (300, 2048)}
    assert {n: paper_sizes(n) for n in sizes} == sizes


def test_the_ranker_of_the_paper_learns_from_whole_shortlists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Module IV: the positives and the shortlist of a point, all of it, and no label drawn beside them."""
    widths, step = [], TextLearner._shortlist_mask

    def watched(self: TextLearner, rows: np.ndarray, candidates: Candidates) -> np.ndarray:
        mask = step(self, rows, candidates)
        own = [set(line[line >= 0]) for line in self.sampler.shortlist[rows]]  # type: ignore[index]
        right = [set(self.Y.indices[self.Y.indptr[row] : self.Y.indptr[row + 1]]) for row in rows]
        widths.extend(int(n) for n in mask.sum(axis=1))
        assert [set(candidates.labels[line]) for line in mask] == [a | b for a, b in zip(own, right, strict=True)]
        assert set(candidates.labels) == set().union(*own, *right)
        return mask

    monkeypatch.setattr(TextLearner, "_shortlist_mask", watched)
    X, Y, Z = toy()
    decaf(**{**PAPER, "epochs": 1, "beam": 3}).fit(X, Y, label_features=Z)
    assert 0 < max(widths) < L


def test_token_vectors_of_a_damaged_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    np.save(path, np.ones((3, 2), np.float32))
    content = path.read_bytes()
    for header in (content.replace(b"}", b"("), content.replace(b"'descr'", b"\0descr'")):  # of two kinds to NumPy
        path.write_bytes(header)
        with pytest.raises(DataError, match="holds no array"):
            read_token_vectors(path, 3, None)


def test_training_starts_from_given_token_vectors(tmp_path: Path) -> None:
    """DECAF-FFT: vectors of a file in the place of Module I."""
    X, Y, Z = toy()
    file, vectors = tmp_path / "vectors.npy", np.random.default_rng(0).random((D, 16))
    np.save(file, vectors)
    given = {**PAPER, "n_networks": 1, "surrogate_epochs": 0, "epochs": 1, "learning_rate": 1e-6, "dim": None}
    model = decaf(**given, token_vectors=str(file)).fit(X, Y, label_features=Z)
    np.testing.assert_allclose(model.scorer_.networks[0].encoder.tokens, vectors, atol=1e-3)
    with pytest.raises(SettingsError, match="dim is 8, but the vectors"):
        decaf(token_vectors=str(file), dim=8).fit(X, Y)
    wrong = {"3 vectors for": np.ones((3, 4)), "not finite": np.full((D, 4), np.nan), "no matrix": np.ones(D)}
    for message, array in wrong.items():
        np.save(file, array)
        with pytest.raises(DataError, match=message):
            decaf(token_vectors=str(file), dim=None).fit(X, Y)
    file.write_text("no array")
    with pytest.raises(DataError, match="holds no array"):
        decaf(token_vectors=str(file)).fit(X, Y)


def test_lite_learns_on_token_vectors_that_stay() -> None:
    X, Y, Z = toy()
    model = decaf(**{**PAPER, "surrogate_epochs": 20, "lite": True}).fit(X, Y, label_features=Z)
    assert precision(model) > 35  # a twelfth would be right at random; module I saw clusters of three labels only


def test_a_graph_of_neighbours_shortlists_too(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    X, Y, Z = toy()
    model = decaf(shortlist="hnsw", surrogate_epochs=2).fit(X, Y, label_features=Z)
    assert precision(model) > 85
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(longtail.load(tmp_path / "m").predict(X).toarray(), model.predict(X).toarray())
    model.add_labels(Z[:3])  # the graph is of centroids, and new labels are met by the direction of their text
    assert model.scorer_.networks[0].index.vectors[-3:, -1].max() == 0  # type: ignore[union-attr]
    assert model.predict(X, 50).indices.max() >= Z.shape[0]


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_it_works_without_label_text(preset: str) -> None:
    X, Y, _ = toy()
    settings = SMALL if preset == "fast" else PAPER
    model = decaf(**{**settings, "preset": preset}).fit(X, Y)
    assert precision(model) > 85
    with pytest.raises(ModelError, match="without label text"):
        model.add_labels(np.ones((1, D)))


def hidden() -> tuple[csr_array, csr_array, csr_array, np.ndarray]:
    """The toy with points of the last four labels left out."""
    X, Y, Z = toy(n=600)
    keep = np.flatnonzero(np.asarray(Y[:, L - 4 :].sum(axis=1)).ravel() == 0)
    return X[keep], csr_array(Y[keep]), Z, np.arange(L - 4, L)


@pytest.mark.parametrize("settings", [{}, {"preset": "paper", "surrogate_epochs": 2, "n_networks": 1}], ids=str)
def test_a_label_with_text_and_no_point_is_suggested(settings: dict[str, object], tmp_path: Path) -> None:
    X, Y, Z, unseen = hidden()
    dense = Z.toarray()
    shared = np.zeros((L, D), np.float32)
    shared[:, :] = dense
    model = decaf(**settings).fit(X, Y, label_features=csr_array(shared))
    queries = csr_array(dense[unseen])  # a point that says just what the label says
    found = model.predict(queries, L)
    assert np.isin(unseen, found.indices).all()
    before = model.predict(X[:20]).toarray()

    later = decaf(**settings).fit(X, csr_array(Y[:, : L - 4]), label_features=csr_array(shared[: L - 4]))
    assert later.add_labels(shared[L - 4 :]) is later
    assert later.n_labels_ == L
    np.testing.assert_array_equal(later.predict(X[:20]).toarray(), before)
    np.testing.assert_array_equal(later.predict(queries, L).toarray(), found.toarray())
    later.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(queries, L).toarray(), found.toarray())
    loaded.add_labels(shared[:2])
    assert loaded.predict(queries, L + 2).shape == (4, L + 2)


def test_labels_added_by_text_must_fit() -> None:
    X, Y, Z = toy()
    model = decaf(epochs=1).fit(X, Y, label_features=Z)
    with pytest.raises(DataError, match="features"):
        model.add_labels(np.ones((2, D + 1)))
    with pytest.raises(ModelError, match="Call fit first"):
        decaf().add_labels(np.ones((2, D)))
    model.add_labels(np.zeros((3, D)))  # not a known word among them: numbered, never suggested
    found = model.predict(X, L + 3)
    assert found.shape == (300, L + 3)
    assert found.indices.max() < L


def test_empty_and_equal_label_texts_are_taken() -> None:
    X, Y, Z = toy()
    text = Z.toarray()
    text[::3] = 0  # no text
    text[1::3] = text[1]  # one text for all of these
    assert precision(decaf().fit(X, Y, label_features=csr_array(text))) > 80
    empty = csr_array((L, D), dtype=np.float32)
    assert precision(decaf().fit(X, Y, label_features=empty)) > 85


def test_fewer_labels_than_clusters() -> None:
    X, Y, Z = toy()
    model = decaf(**{**PAPER, "n_clusters": 4096}).fit(X, Y, label_features=Z)
    assert precision(model) > 80


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "slow"}, "give one of fast, paper"),
        ({"classifier": "words"}, "give one of both, text, refinement"),
        ({"init": "zero"}, "give one of text, random"),
        ({"shortlist": "guess"}, "give one of search, clusters, hnsw, tree"),
        ({"schedule": "steps"}, "schedule is 'steps'"),
        ({"dtype": "int4"}, "give one of float32, int8"),
        ({"dim": 0}, "dim is 0"),
        ({"n_networks": 0}, "n_networks is 0"),
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"beam": 0}, "beam is 0"),
        ({"n_candidates": 2.5}, "n_candidates is 2.5"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"input_dropout": 1.0}, "input_dropout is 1.0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"forget": -0.1}, "forget is -0.1"),
        ({"correction": -1.0}, "correction is -1.0"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"lite": True}, "surrogate_epochs=0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=message):
        decaf(**settings).fit(X, Y)


class Interrupt(Exception):
    pass


def interrupt_in(module: str, share: float) -> Callable[[str, float], None]:
    def listener(stage: str, done: float) -> None:
        if stage.startswith(module) and done > share:
            raise Interrupt

    return listener


@pytest.mark.parametrize("module", ["module I", "module II of", "module IV of network 2"])
def test_an_interrupted_module_goes_on_to_the_identical_model(module: str, tmp_path: Path) -> None:
    X, Y, Z = toy()
    whole = decaf(**PAPER).fit(X, Y, label_features=Z)
    model = decaf(**PAPER, checkpoint=str(tmp_path / "run"))
    with pytest.raises(Interrupt), progress.listen(interrupt_in(module, 0.6)):
        model.fit(X, Y, label_features=Z)
    stages: set[str] = set()
    with progress.listen(lambda stage, done: stages.add(stage) if 0 < done < 1 else None):
        resumed = decaf(**PAPER, checkpoint=str(tmp_path / "run")).fit(X, Y, label_features=Z)
    np.testing.assert_array_equal(resumed.predict(X).toarray(), whole.predict(X).toarray())
    assert resumed.history_ == whole.history_
    assert not (tmp_path / "run").exists()
    with pytest.raises(Interrupt), progress.listen(interrupt_in(module, 0.6)):
        model.fit(X, Y, label_features=Z)
    with pytest.raises(ModelError, match="other data or settings"):
        decaf(**{**PAPER, "dim": 16}, checkpoint=str(tmp_path / "run")).fit(X, Y, label_features=Z)


def test_memory_is_asked_for_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = toy()
    monkeypatch.setattr("longtail.engine.memory.available", lambda: 1000)
    with pytest.raises(SettingsError, match=r"DECAF needs about .* Lower dim"):
        decaf().fit(X, Y)


def test_threads_do_not_change_the_model() -> None:
    X, Y, Z = toy()
    one, two = (decaf(n_jobs=jobs).fit(X, Y, label_features=Z) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())


def test_it_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np; from longtail.models.decaf import DECAF; eye = np.eye(4); "
        "DECAF(dim=4, epochs=1).fit(eye, eye, label_features=eye).predict(eye); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_history_follows_each_epoch() -> None:
    X, Y, Z = toy()
    history = decaf().fit(X, Y, label_features=Z).history_
    assert history[-1]["loss"] < history[0]["loss"]
    assert {"validation_P@1", "validation_PSP@5"} <= history[0].keys()


def items(n: int = 240, own_is_correct: bool = False) -> tuple[csr_array, csr_array]:
    """Things of 12 kinds, each with a word of its kind and two of its own, and those that each is bought with."""
    rng = np.random.default_rng(0)
    kind = np.arange(n) % 12
    X = np.zeros((n, 12 + 60), np.float32)
    X[np.arange(n), kind] = 1
    for row in X:
        row[12 + rng.permutation(60)[:2]] = 1
    Y = np.zeros((n, n), np.float32)
    for step in (12, 24):
        Y[np.arange(n), (np.arange(n) + step) % n] = 1
    if own_is_correct:
        Y += np.eye(n, dtype=np.float32)
    return csr_array(X), csr_array(Y)


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_a_thing_is_not_suggested_for_itself(preset: str, tmp_path: Path) -> None:
    X, Y = items()
    settings = SMALL if preset == "fast" else PAPER
    model = decaf(**{**settings, "n_networks": 2}).fit(X, Y, label_features=X)
    own = model.predict(X, 20).diagonal()
    assert not own.any()
    assert evaluate(Y, model.predict(X, 2), ks=(1,))["P@1"] > 15  # by chance 10
    model.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    assert (loaded.predict(X, 20) != model.predict(X, 20)).nnz == 0
    for i in range(0, 240, 24):
        labels, scores = loaded.rank(*_row(X, i), 20)
        batch = loaded.predict(X[[i]], 20)
        np.testing.assert_array_equal(labels, batch.indices)
        np.testing.assert_allclose(scores, batch.data, rtol=1e-5)


def _row(X: csr_array, i: int) -> tuple[np.ndarray, np.ndarray]:
    span = slice(X.indptr[i], X.indptr[i + 1])
    return X.indices[span], X.data[span]


def test_a_thing_is_suggested_for_itself_where_that_is_correct_or_wanted() -> None:
    X, Y = items(own_is_correct=True)
    model = decaf().fit(X, Y, label_features=X)
    assert np.mean(model.predict(X, 20).diagonal() > 0) > 0.5
    X, Y = items()
    model = decaf(own_labels="keep", epochs=2).fit(X, Y, label_features=X)
    assert model.predict(X, 20).diagonal().any()


def test_a_label_added_by_text_is_not_suggested_for_itself() -> None:
    X, Y = items()
    model = decaf().fit(X, Y, label_features=X)
    fresh = csr_array((np.ones(3, np.float32), [0, 20, 30], [0, 3]), shape=(1, X.shape[1]))
    model.add_labels(fresh)
    assert 240 not in model.predict(fresh, 241).indices
    similar = csr_array((np.ones(3, np.float32), [0, 20, 31], [0, 3]), shape=(1, X.shape[1]))
    assert 240 in model.predict(similar, 241).indices


def test_in_the_pairs_of_a_blend_a_thing_itself_has_the_lowest_score() -> None:
    X, Y = items()
    model = decaf().fit(X, Y, label_features=X)
    scorer = model._pair_scorer()
    points = SparseRows.of(X)
    encoded = scorer.encode(points, 1)
    odds = scorer.log_odds(encoded, np.tile(np.arange(240, dtype=np.int32), (240, 1)), 1)
    others = odds[~np.eye(240, dtype=bool)].reshape(240, 239)
    assert (np.diag(odds) <= others.min(axis=1)).all()
    rows = np.arange(240)
    text_odds = scorer.text_log_odds(encoded, rows, rows, 1)
    assert (text_odds <= -12).all()


def test_copies_for_a_calibration_leave_out_own_labels_as_the_base_does() -> None:
    X, Y = items(72)
    own_pairs = csr_array(X[:60])  # in a part of the points there are fewer than are evidence
    names = csr_array((own_pairs.data, own_pairs.indices, np.append(own_pairs.indptr, [own_pairs.nnz] * 12)), X.shape)
    base = decaf(epochs=1, validation_fraction=0.0).fit(X, Y, label_features=names)
    assert base.scorer_.label_keys is not None
    alone = decaf(epochs=1, validation_fraction=0.0).fit(X[:40], Y[:40], label_features=names)
    assert alone.scorer_.label_keys is None
    copy = base._scored_like(base).fit(X[:40], Y[:40], label_features=names)
    assert copy.scorer_.label_keys is not None
    assert alone._scored_like(alone).fit(X, Y, label_features=names).scorer_.label_keys is None


def test_points_and_labels_without_words_are_not_their_own() -> None:
    X, Y = items()
    X = csr_array(np.where(np.arange(240)[:, None] == 7, 0, X.toarray()).astype(np.float32))
    model = decaf(epochs=1).fit(X, Y, label_features=X)
    scorer = model._pair_scorer()
    encoded = scorer.encode(SparseRows.of(X[[7]]), 1)
    assert scorer.text_log_odds(encoded, np.zeros(1, np.int64), np.array([7]), 1)[0] > -12


def test_labels_added_to_a_model_of_eight_bits_are_rounded_at_once(tmp_path: Path) -> None:
    X, Y, Z = toy()
    model = decaf(dtype="int8").fit(X, Y, label_features=Z)
    model.add_labels(csr_array(np.eye(5, D, k=30, dtype=np.float32)))
    model.save(tmp_path / "m")
    assert (longtail.load(tmp_path / "m").predict(X, 20) != model.predict(X, 20)).nnz == 0


@pytest.mark.parametrize(("settings", "listing"), [({}, 2), ({**PAPER}, 3), ({"shortlist": "clusters"}, 3)], ids=str)
def test_all_networks_list_candidates_but_the_third_of_a_search(
    settings: dict[str, object], listing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y, Z = toy()
    model = decaf(**{**settings, "n_networks": 3, "epochs": 2}).fit(X, Y, label_features=Z)
    asked: list[int] = []
    usual = TrainedNetwork.shortlist

    def shortlist(network: TrainedNetwork, *args: object) -> np.ndarray:
        asked.append(id(network))
        return usual(network, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(TrainedNetwork, "shortlist", shortlist)
    model.predict(X[:5], 2)
    assert len(set(asked)) == len(asked) == listing


@pytest.mark.parametrize("settings", [{}, {"n_hard": 0}, PAPER], ids=["fast", "none wanted", "paper"])
def test_the_first_network_lists_hard_negatives_for_the_others(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[np.ndarray | None] = []
    usual = Training.ranker

    def ranker(training: Training, number: int, surrogate: object) -> object:
        lists.append(training.listed)
        return usual(training, number, surrogate)  # type: ignore[arg-type]

    monkeypatch.setattr(Training, "ranker", ranker)
    X, Y, Z = toy()
    decaf(**{**settings, "n_networks": 3, "epochs": 2}).fit(X, Y, label_features=Z)
    first, *others = lists
    assert first is None
    assert [listed is not None for listed in others] == [not settings] * 2
