"""Labels of a fitted tagger are added, renamed, merged and retired without training; the default model included."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

import longtail
from longtail import Tagger
from longtail.cli.app import app
from longtail.errors import DataError, ModelError
from longtail.models.label_map import LabelMap
from longtail.sparse import from_top_k
from tests.serve.conftest import COLOURS, FRUITS, write_data

BLEND = "blend([bonsai, knn, textmatch, decaf])"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A blend of the default members, with identifiers of labels, trained on fruits and colours."""
    root = tmp_path_factory.mktemp("labels")
    data = longtail.read(write_data(root / "data"))
    settings = {"decaf.dim": 8, "decaf.epochs": 2}
    Tagger(longtail.make(BLEND, settings)).fit_dataset(data).save(root / "model")
    return root / "model"


@pytest.fixture
def tagger(saved: Path) -> Tagger:
    return Tagger.load(saved)


def _names(tagger: Tagger, text: str, k: int = 20) -> list[str]:
    return [name for name, _ in tagger.suggest(text, k=k)]


def _moved_densely(scores: np.ndarray, targets: dict[int, int], k: int) -> np.ndarray:
    """What LabelMap computes, in plain NumPy: the highest score of those that move to a column, the k best of a row."""
    out = np.zeros_like(scores)
    for label in range(scores.shape[1]):
        target = targets.get(label, label)
        if target >= 0:
            out[:, target] = np.maximum(out[:, target], scores[:, label])
    for row in out:
        row[np.argsort(-row, kind="stable")[k:]] = 0
    return out


@pytest.mark.parametrize("n_moved", [1, 5, 30, 39])
def test_scores_move_as_in_plain_numpy(n_moved: int) -> None:
    rng = np.random.default_rng(n_moved)
    n, n_labels = 25, 40
    scores = rng.permuted(np.linspace(0.01, 0.99, n * n_labels).reshape(n, n_labels), axis=1).astype(np.float32)
    hidden = rng.permutation(n_labels)[:n_moved].tolist()
    kept = sorted(set(range(n_labels)) - set(hidden))
    targets = {label: -1 if rng.random() < 0.5 else kept[rng.integers(len(kept))] for label in hidden}
    moved = LabelMap.of(targets)
    assert moved is not None
    assert moved.as_dict() == targets

    def predict(X: csr_array, k: int) -> csr_array:
        rows = X.toarray()[:, 0].astype(int)
        best = np.argsort(-scores[rows], axis=1)[:, :k]
        return from_top_k(best, np.take_along_axis(scores[rows], best, axis=1), None, n_labels)

    points = csr_array(np.arange(n, dtype=np.float32)[:, None])
    for k in (1, 3, 17):
        found = moved.predict(predict, points, k, n_labels)
        np.testing.assert_array_equal(found.toarray(), _moved_densely(scores, targets, k))
        alone = moved.predict(predict, points[[7]], k, n_labels)
        np.testing.assert_array_equal(alone.indices, found[[7]].indices)
        for row in range(n):
            assert (np.diff(found.data[found.indptr[row] : found.indptr[row + 1]]) <= 0).all()


def test_labels_are_added_to_the_default_model_with_their_identifiers(tagger: Tagger, tmp_path: Path) -> None:
    tagger.add_labels(["kiwis"], ["kiwi green furry"], ["http://example.org/kiwi"])
    assert "kiwis" in _names(tagger, "furry kiwi green")
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.suggest("furry kiwi green", k=9) == tagger.suggest("furry kiwi green", k=9)
    assert (loaded.label_names_[-1], loaded.label_ids_[-1]) == ("kiwis", "http://example.org/kiwi")
    assert loaded.label_counts_[-1] == 0
    loaded.add_labels(["nuts"])
    assert loaded.label_ids_[-1] == "nuts"
    assert len(loaded.label_ids_) == len(loaded.label_names_) == loaded.ranker_.n_labels_ == 11


def test_a_blend_with_a_network_that_knows_no_text_takes_labels_too(tmp_path: Path) -> None:
    texts = [f"a {colour} {fruit}" for fruit in FRUITS for colour in COLOURS] * 3
    labels = [[fruit, colour] for fruit in FRUITS for colour in COLOURS] * 3
    tagger = Tagger("blend([knn, textmatch, glas(dim=8, epochs=2)])").fit(texts, labels)
    tagger.add_labels(["fig jam", "red fig"])
    before = tagger.suggest("a red fig", k=11)
    assert {"fig jam", "red fig"} <= {name for name, _ in before}
    tagger.save(tmp_path / "m")
    assert Tagger.load(tmp_path / "m").suggest("a red fig", k=11) == before


def test_a_renamed_label_keeps_its_identifier_and_scores(tagger: Tagger, tmp_path: Path) -> None:
    before = tagger.suggest("a red fig", k=9)
    tagger.rename_labels({"http://example.org/fig": "figs", "all about red": "reddish"})
    new = {"all about fig": "figs", "all about red": "reddish"}
    assert tagger.suggest("a red fig", k=9) == [(new.get(name, name), score) for name, score in before]
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.label_ids_[loaded.label_names_.index("figs")] == "http://example.org/fig"
    tagger.rename_labels({"figs": "reddish2", "reddish": "figs"})
    with pytest.raises(DataError, match="'figs' is there already"):
        tagger.rename_labels({"reddish2": "figs"})
    with pytest.raises(DataError, match="there is no label 'fgs'"):
        tagger.rename_labels({"fgs": "x"})


def test_merged_labels_are_suggested_as_one(tagger: Tagger, tmp_path: Path) -> None:
    before = dict(tagger.suggest("a red fig and a pear", k=9))
    counts = tagger.label_counts_.sum()
    tagger.merge_labels(["all about fig", "all about plum"], "all about pear")
    found = tagger.suggest("a red fig and a pear", k=9)
    assert len(found) == 7
    assert dict(found)["all about pear"] == max(before[f"all about {name}"] for name in ("fig", "plum", "pear"))
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert tagger.label_counts_.sum() == counts
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.suggest("a red fig and a pear", k=9) == found
    assert loaded.moved_labels() == {"all about fig": "all about pear", "all about plum": "all about pear"}
    assert loaded.label_numbers()["http://example.org/fig"] == 1
    # data that has the old names counts for the new one
    assert loaded.evaluate(["a fig"], [["all about fig"]], ks=(1,))["P@1"] == 100
    loaded.merge_labels(["all about pear"], "all about apple")
    assert set(loaded.moved_labels().values()) == {"all about apple"}
    with pytest.raises(DataError, match="'all about fig' was merged into 'all about apple'"):
        loaded.rename_labels({"all about fig": "x"})


def test_retired_labels_are_not_suggested_until_they_are_added_again(tagger: Tagger, tmp_path: Path) -> None:
    before = tagger.suggest("a red fig", k=9)
    tagger.retire_labels(["all about fig", "http://example.org/red"])
    kept = [pair for pair in before if pair[0] not in ("all about fig", "all about red")]
    assert tagger.suggest("a red fig", k=9) == kept
    assert tagger.suggest("a red fig", k=3) == kept[:3]
    assert "all about fig" not in tagger.label_numbers()
    assert tagger.explain("a red fig", k=1)[0].label == kept[0][0]
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.suggest(["a red fig"] * 3, k=3) == [kept[:3]] * 3
    point = loaded.features(["a red fig"])
    labels, scores = loaded.ranker_.rank(point.indices, point.data, 3)
    assert [(loaded.label_names_[i], s) for i, s in zip(labels.tolist(), scores.tolist(), strict=True)] == kept[:3]
    loaded.add_labels(["all about fig", "all about red"])
    assert loaded.suggest("a red fig", k=9) == before
    assert loaded.ranker_.label_map_ is None
    with pytest.raises(DataError, match="no label would be left"):
        loaded.retire_labels(list(loaded.label_names_))


def test_training_again_forgets_what_was_merged(tagger: Tagger) -> None:
    ranker = longtail.make("knn").fit(np.eye(4), np.eye(4))
    ranker.label_map_ = LabelMap.of({0: 1})
    assert ranker.fit(np.eye(4), np.eye(4)).label_map_ is None


def test_other_models_can_do_all_but_add(tmp_path: Path) -> None:
    tagger = Tagger("parabel").fit(["red apple", "red car", "fast car"], [["fruit", "red"], ["car", "red"], ["car"]])
    tagger.merge_labels(["red"], "fruit").rename_labels({"car": "vehicle"}).save(tmp_path / "m")
    assert set(_names(Tagger.load(tmp_path / "m"), "red car")) == {"vehicle", "fruit"}
    with pytest.raises(ModelError, match="cannot score a label by its text"):
        tagger.add_labels(["new"])


@pytest.mark.parametrize("bad", ["a", ["a", 7], {"a": 1}])
def test_labels_that_are_no_list_of_names(tagger: Tagger, bad: object) -> None:
    for change in (
        tagger.add_labels,
        tagger.retire_labels,
        lambda labels: tagger.merge_labels(labels, "all about fig"),
    ):
        with pytest.raises(DataError, match="not a list of strings"):
            change(bad)  # type: ignore[arg-type]


def test_a_damaged_map_is_refused(tagger: Tagger, tmp_path: Path) -> None:
    tagger.retire_labels(["all about fig"]).save(tmp_path / "m")
    file = tmp_path / "m" / "ranker" / "moved_to.npy"
    for wrong in (np.array([9], np.int32), np.array([-2], np.int32), np.array([0.0])):
        np.save(file, wrong)
        with pytest.raises(ModelError):
            longtail.load(tmp_path / "m", verify=False)


def _run(*words: object) -> str:
    result = CliRunner().invoke(app, ["labels", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_longtail_labels(tagger: Tagger, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    tagger.save(folder)
    _run(folder, "add", "kiwis", "--text", "kiwi green furry", "--id", "http://example.org/kiwi")
    (tmp_path / "new.csv").write_text(
        "uri,label,text\nhttp://example.org/nut,nuts,a nut in a fig\nurn:x,oats,porridge\n"
    )
    assert "added 2; the model has 12 labels now" in " ".join(
        _run(folder, "add", "--labels-file", tmp_path / "new.csv").split()
    )
    _run(folder, "rename", "all about fig", "figs")
    _run(folder, "merge", "all about plum", "all about lime", "--into", "figs")
    facts = json.loads(_run(folder, "retire", "all about red", "http://example.org/green", "--json"))
    assert facts == {
        "model": str(folder),
        "n_labels": 8,
        "merged": {"all about plum": "figs", "all about lime": "figs"},
        "retired": ["all about red", "all about green"],
    }
    changed = Tagger.load(folder)
    assert list(changed.label_ids_)[-3:] == ["http://example.org/kiwi", "http://example.org/nut", "urn:x"]
    assert {"nuts", "figs"} <= set(_names(changed, "a nut in a fig"))
    assert not list(tmp_path.glob(".model*"))
    shown = CliRunner().invoke(app, ["labels", str(folder), "add", "porridge"])
    assert "The new label has no word of the vocabulary in the text (porridge)" in " ".join(shown.stderr.split())
    assert "can be suggested" not in shown.stdout  # one of them cannot


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rename", "a"], "Give the old name and the new one"),
        (["merge", "a"], "Name the label to merge into"),
        (["add"], "Name at least one label to add"),
        (["retire", "all about fig", "--into", "x"], "--into does not go with retire"),
        (["add", "a", "b", "--text", "x"], "--text and --id describe one label"),
        (["retire", "all about figs"], "Did you mean 'all about fig'"),
        (["add", "all about fig"], "is there already"),
        (["add", "x", "--id", "http://example.org/fig"], "is there already"),
        (["add", " "], "has no name"),
    ],
)
def test_mistakes_leave_the_model_as_it_was(saved: Path, words: list[str], message: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in saved.rglob("*")}
    result = CliRunner().invoke(app, ["labels", str(saved), *words])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert {path: path.stat().st_mtime_ns for path in saved.rglob("*")} == before


def test_other_types_than_names_are_refused() -> None:
    tagger: Any = Tagger("popular").fit(["red apple", "fast car"], [["x"], ["y"]])
    for change in (
        lambda: tagger.rename_labels(["x"]),
        lambda: tagger.merge_labels(["x"], ["y"]),
        lambda: tagger.retire_labels(3),
        lambda: tagger.add_labels(3),
        lambda: tagger.suggest(np.array("red")),
    ):
        with pytest.raises(DataError, match=r"not (a dict|text|a list)"):
            change()


def test_data_with_a_former_name_counts_for_the_renamed_label(tmp_path: Path) -> None:
    texts, labels = (
        ["red apple", "fast car", "green apple", "slow car"],
        [["fruit"], ["vehicle"], ["fruit"], ["vehicle"]],
    )
    tagger = Tagger("knn").fit(texts, labels).rename_labels({"fruit": "food"}).rename_labels({"food": "produce"})
    tagger.save(tmp_path / "m")
    for one in (tagger, longtail.load(tmp_path / "m")):
        assert one.evaluate(texts, labels, ks=(1,))["P@1"] == 100
        assert one.label_numbers()["fruit"] == one.label_numbers()["food"] == one.label_numbers()["produce"]
    assert tagger.rename_labels({"vehicle": "fruit"}).current_names(["fruit", "food"]) == ["fruit", "produce"]


def test_former_names_of_labels_that_are_not_there_are_refused(tmp_path: Path) -> None:
    Tagger("popular").fit(["red apple"], [["fruit"]]).rename_labels({"fruit": "food"}).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    for wrong in (7, -1, "0"):
        stored = json.loads(path.read_text())
        stored["meta"]["notes"]["former_names"] = {"fruit": wrong}
        path.write_text(json.dumps(stored))
        with pytest.raises(ModelError, match="former_names"):
            longtail.load(tmp_path / "m")


def test_changes_of_a_copy_leave_the_tagger_as_it_was(tagger: Tagger, tmp_path: Path) -> None:
    names, moved = list(tagger.label_names_), tagger.moved_labels()
    text = "plum and cherry"
    before = _names(tagger, text)
    changed = copy.copy(tagger).add_labels(["plum cherry"]).retire_labels([names[0]]).merge_labels([names[1]], names[2])
    assert "plum cherry" in changed.label_names_
    assert list(tagger.label_names_) == names
    assert tagger.moved_labels() == moved
    assert _names(tagger, text) == before
    tagger.save(tmp_path / "m")
    assert _names(Tagger.load(tmp_path / "m"), text) == before
