"""Text in, names out."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail import Tagger, registry
from longtail.data import Dataset, TextVectorizer
from longtail.errors import DataError, LongtailError, LongtailWarning, ModelError, SettingsError
from longtail.names import Names
from longtail.tagger.matrices import without
from tests.fake import MODELS, Centroid
from tests.fuzz.mutate import set_array

TEXTS = ["red apple", "green apple", "red car", "fast car", ""]
LABELS = [["fruit", "red"], ["fruit"], ["vehicle", "red"], ["vehicle"], []]


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in MODELS.items():
        monkeypatch.setitem(registry.MODELS, name, target)


def test_one_text_gives_a_list_and_several_give_lists() -> None:
    tagger = Tagger("centroid", sharpness=4).fit(TEXTS, LABELS)
    alone = tagger.suggest("an apple", k=2)
    assert alone[0][0] == "fruit"
    assert len(alone) == 2
    assert 0 < alone[1][1] <= alone[0][1] < 1
    assert tagger.suggest(["an apple", "the car"], k=1) == [alone[:1], tagger.suggest("the car", k=1)]
    assert tagger.suggest([]) == []
    scores = tagger.predict(["an apple"], k=2)
    assert isinstance(scores, csr_array)
    assert scores.shape == (1, 3) == (1, tagger.n_labels_)


def test_labels_are_numbered_as_they_are_met_or_as_given() -> None:
    assert list(Tagger("popular").fit(TEXTS, LABELS).label_names_) == ["fruit", "red", "vehicle"]
    given = Tagger("popular").fit(TEXTS, LABELS, label_names=["vehicle", "red", "fruit", "never"])
    assert list(given.label_names_) == ["vehicle", "red", "fruit", "never"]
    assert given.label_counts_.tolist() == [2, 2, 2, 0]
    assert given.n_points_ == 5
    numbers = Tagger("popular").fit(["red apple", "car"], [[7, 8], [np.int64(7)]])
    assert list(numbers.label_names_) == ["7", "8"]


def test_a_matrix_of_labels_with_names() -> None:
    Y = csr_array(np.array([[1, 0], [0, 2.5], [0, 1]]))
    tagger = Tagger("popular").fit(TEXTS[:3], Y, label_names=["a", "b"])
    assert [name for name, _ in tagger.suggest(TEXTS[0])] == ["b", "a"]
    for kind in (bool, np.int8, float):  # whose numbers were taken for the labels "0" and "1"
        dense = Tagger("popular").fit(TEXTS[:3], (Y.toarray() > 0).astype(kind), label_names=["a", "b"])
        assert dense.label_counts_.tolist() == [1, 2]
        assert dense.evaluate(TEXTS[:3], Y.toarray() > 0, ks=(2,))["R@2"] == 100
        with pytest.raises(DataError, match="Give the name of each column in label_names"):
            Tagger("popular").fit(TEXTS[:3], (Y.toarray() > 0).astype(kind))
    numbers = Tagger("popular").fit(TEXTS[:2], np.array([[1, 2], [2, 3]]))  # not zeros and ones: lists of labels
    assert list(numbers.label_names_) == ["1", "2", "3"]
    with pytest.raises(DataError, match="label_names"):
        Tagger("popular").fit(TEXTS[:3], Y)


def test_label_texts_reach_the_ranker() -> None:
    tagger = Tagger("centroid").fit(TEXTS, LABELS, label_texts={"fruit": "sweet things", "unseen": "a label of words"})
    assert tagger.ranker_.had_label_features_  # type: ignore[attr-defined]
    assert list(tagger.label_names_) == ["fruit", "red", "vehicle", "unseen"]
    assert tagger.vectorizer_ is not None
    assert {"sweet", "vehicle", "words"} <= set(tagger.vectorizer_.get_feature_names_out())  # a name is a text too
    ordered = Tagger("centroid").fit(
        TEXTS, LABELS, label_names=["fruit", "red", "vehicle"], label_texts=["a1", "b1", "c1"]
    )
    assert ordered.vectorizer_ is not None
    assert "c1" in ordered.vectorizer_.get_feature_names_out()


def test_a_label_text_takes_the_place_of_the_name() -> None:
    """As in files of labels; the guides say to write the name into the text."""
    for text, found in (("with wheels", []), ("vehicle: with wheels", ["vehicle"])):
        tagger = Tagger("textmatch").fit(TEXTS, LABELS, label_texts={"vehicle": text})
        assert [name for name, _ in tagger.suggest("vehicle")] == found
        assert tagger.suggest("wheels")[0][0] == "vehicle"


def test_labels_that_only_label_texts_has_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt name became a label of its own without a word."""
    with pytest.warns(LongtailWarning, match=r"1 label that no .*: 'vehicel' \(did you mean 'vehicle'\?\)\. They"):
        Tagger("popular").fit(TEXTS, LABELS, label_texts={"fruit": "sweet", "vehicel": "with wheels"})
    with pytest.warns(LongtailWarning, match=r"2 labels that no training text has: 'x', 'y'\. They are added"):
        Tagger("popular").fit(TEXTS, LABELS, label_texts={"x": "sweet", "y": "with wheels"})
    assert not caplog.text
    Tagger("popular").fit(TEXTS, LABELS, label_texts={"fruit": "sweet", "plant": "green", "fruit2": "more"})
    assert "2 labels that no training text has: 'plant', 'fruit2'. They are added" in caplog.text


def test_validation_reaches_the_ranker_without_unknown_labels() -> None:
    tagger = Tagger("centroid").fit(TEXTS, LABELS, validation=(["a red pear"], [["red", "pear"]]))
    assert tagger.ranker_.had_validation_  # type: ignore[attr-defined]
    assert tagger.n_labels_ == 3


def test_a_ranker_may_be_given_ready_made_and_so_may_a_vectorizer() -> None:
    vectorizer = TextVectorizer(ngrams=(1, 2))
    tagger = Tagger(Centroid(sharpness=2), vectorizer=vectorizer).fit(TEXTS, LABELS)
    assert tagger.vectorizer_ is not None
    assert "red apple" in tagger.vectorizer_.get_feature_names_out()
    assert not hasattr(vectorizer, "n_features_")  # the caller's own is left alone
    with pytest.raises(SettingsError, match="on the ranker itself"):
        Tagger(Centroid(), sharpness=2).fit(TEXTS, LABELS)


def test_save_and_load(tmp_path: Path) -> None:
    labels = [["früit 🍎", "red\nline"], ["früit 🍎"], ["'", "red\nline"], ["'", ""], []]
    tagger = Tagger("halving(centroid)").fit(TEXTS, labels)
    tagger.notes_["trained"] = "here"
    tagger.save(tmp_path / "m")
    again = longtail.load(tmp_path / "m")
    assert isinstance(again, Tagger)
    assert again.label_names_ == ["früit 🍎", "red\nline", "'"]  # a blank name is no label
    assert again.suggest(["a red apple", "zzz"]) == tagger.suggest(["a red apple", "zzz"])
    assert again.notes_ == tagger.notes_
    assert again.notes_["trained"] == "here"
    assert again.label_counts_.tolist() == [2, 2, 2]
    again.save(tmp_path / "m")  # over the folder that its own arrays are mapped from
    assert Tagger.load(tmp_path / "m").suggest("a red apple") == tagger.suggest("a red apple")
    assert not [path for path in tmp_path.iterdir() if path.name != "m"]
    document = json.loads((tmp_path / "m" / "model.json").read_text())
    assert document["kind"] == "tagger"


def test_load_of_a_ranker_alone(tmp_path: Path) -> None:
    ranker = registry.make("popular").fit(csr_array(np.eye(2)), csr_array(np.eye(2)))
    ranker.save(tmp_path / "m")
    with pytest.raises(ModelError, match=r"Popular alone.*longtail\.load"):
        Tagger.load(tmp_path / "m")


def test_a_dataset_of_features_has_no_text(tmp_path: Path) -> None:
    X, Y = csr_array(np.eye(3, dtype=np.float32)), csr_array(np.eye(3, dtype=np.float32))
    ignore = np.array([[0, 0]], np.int32)
    data = Dataset(X=X, Y=Y, label_ids=["x1", "x2", "x3"], label_names=["A", "B", "C"], ignore=ignore)
    tagger = Tagger("popular").fit_dataset(data)
    tagger.save(tmp_path / "m")
    for one in (tagger, Tagger.load(tmp_path / "m")):
        assert one.label_ids_ == ["x1", "x2", "x3"]
        assert [name for name, _ in one.suggest(X, k=3)[0]] == ["B", "C"]  # the pair to ignore was not learnt
        assert one.label_counts_.tolist() == [1, 1, 1]  # but it counts for propensities
        with pytest.raises(ModelError, match="cannot read text"):
            one.suggest("some words")
    with pytest.raises(DataError, match="no features"):
        Tagger("popular").fit_dataset(Dataset(X=None, Y=Y))


def test_a_dataset_of_text_keeps_its_vectorizer(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,labels\nred apple,fruit|red\nfast car,vehicle\n")
    tagger = Tagger("centroid").fit_dataset(longtail.read(tmp_path / "d.csv"))
    assert tagger.suggest("car", k=1)[0][0] == "vehicle"
    assert tagger.label_ids_ is None  # the same as the names


@pytest.mark.parametrize(
    ("texts", "labels", "extra", "said"),
    [
        ("red apple", [["a"]], {}, "list of strings"),
        (TEXTS, LABELS[:2], {}, "5 texts but labels for 2"),
        (["a b", "cc dd"], [["a"], "b"], {}, r"row 1: the labels of a text are 'b', not a list.*\['b'\]"),
        (
            ["a b", "cc dd"],
            np.array(["a", "b"]),
            {},
            r"are 'a', not a list.*\['a'\]. Where each text has one label: \[\[",
        ),
        (["a b"], "b", {}, "labels is not a list"),
        (["a b"], [[1.5]], {}, "row 0: the label 1.5 is not a name"),
        (["aa bb"], [[]], {}, "no text has a label"),
        (["aa", None], [["a"], []], {}, "string"),
        (["aa"], [["a"]], {"label_names": ["b"]}, "'a' is not in label_names"),
        (["aa"], [["a"]], {"label_names": ["a", "a"]}, "'a' is named twice"),
        (["aa"], [["a"]], {"label_texts": ["x"]}, "order of the labels is not known"),
        (["aa"], [["a"]], {"label_names": ["a"], "label_texts": ["x", "y"]}, "1 entry"),
        (["aa"], [["a"]], {"validation": ["aa"]}, "not a pair"),
        (["aa"], [["a"]], {"validation": (["aa", "bb"], [["a"]])}, "2 texts but labels for 1"),
    ],
)
def test_wrong_input_says_what_is_wrong(texts: Any, labels: Any, extra: dict[str, Any], said: str) -> None:
    with pytest.raises(LongtailError, match=said):
        Tagger("popular").fit(texts, labels, **extra)


def test_not_fitted() -> None:
    for use in (lambda: Tagger().suggest("x"), lambda: Tagger().save("x")):
        with pytest.raises(ModelError, match="not been fitted"):
            use()
    assert repr(Tagger("bonsai", n_trees=1)) == "Tagger('bonsai', n_trees=1)"


def test_parameters_the_scikit_learn_way() -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    tagger = Tagger("centroid", vectorizer=TextVectorizer(ngrams=2), sharpness=3)
    assert {"model": "centroid", "sharpness": 3}.items() <= tagger.get_params().items()
    assert tagger.get_params()["vectorizer__ngrams"] == 2
    copy = clone(tagger)
    assert copy.get_params(deep=False).keys() == {"model", "vectorizer", "encoder", "sharpness"}
    assert (repr(copy), copy.vectorizer.ngrams) == ("Tagger('centroid', sharpness=3)", 2)
    assert copy.set_params(sharpness=5, vectorizer__ngrams=1).settings == {"sharpness": 5}
    assert (tagger.settings, tagger.vectorizer.ngrams, copy.vectorizer.ngrams) == ({"sharpness": 3}, 2, 1)
    with pytest.raises(SettingsError, match="did you mean 'sharpness'"):
        copy.set_params(sharpnes=1)
    ready = clone(Tagger(Centroid(sharpness=2)))
    assert ready.set_params(model__sharpness=4).model.sharpness == 4  # type: ignore[union-attr]
    with pytest.raises(SettingsError, match="model__sharpness"):
        ready.set_params(sharpness=1)
    with pytest.raises(SettingsError, match="not an object with parameters"):
        Tagger("centroid").set_params(model__sharpness=1)
    for use in (lambda: Tagger().classes_, lambda: Tagger().suggest("x"), lambda: Tagger().evaluate(["x"], [["a"]])):
        with pytest.raises(NotFittedError):
            use()
    assert tagger.fit(TEXTS, LABELS).classes_.tolist() == ["fruit", "red", "vehicle"]


def test_a_search_over_settings() -> None:
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(Tagger("centroid"), {"sharpness": [1, 4], "vectorizer": [TextVectorizer()]}, cv=2)
    search.fit(TEXTS[:4] * 3, LABELS[:4] * 3)
    assert search.best_score_ == 1
    assert search.predict(["apple"]).shape == (1, 3)


def test_a_label_is_described_by_its_name_by_default(tmp_path: Path) -> None:
    tagger = Tagger("centroid").fit(TEXTS, LABELS)
    assert tagger.ranker_.had_label_features_  # type: ignore[attr-defined]
    assert tagger.vectorizer_ is not None
    assert {"fruit", "vehicle"} <= set(tagger.vectorizer_.get_feature_names_out())
    (tmp_path / "d.csv").write_text("text,labels\nred apple,fruit|red\nfast car,car\n")
    read = Tagger("centroid").fit_dataset(longtail.read(tmp_path / "d.csv"))
    assert read.ranker_.had_label_features_  # type: ignore[attr-defined]
    named = Tagger("decaf", dim=8, epochs=1).fit(TEXTS, LABELS)
    assert "apple" in dict(named.add_labels(["apple"]).suggest("an apple", k=9))


def test_a_threshold_leaves_out_what_is_below_it() -> None:
    tagger = Tagger("centroid", sharpness=4).fit(TEXTS, LABELS)
    every = tagger.suggest("an apple", k=3)
    assert tagger.suggest("an apple", k=3, threshold=every[1][1]) == every[:2]
    assert tagger.suggest(["an apple"], threshold=1) == [[]]
    assert [tagger.thresholds(0.2, k).limit for k in (None, 3)] == [50, 3]  # all labels that reach it, not five of them
    assert tagger.thresholds(None).limit == 5
    for wrong in (-0.1, 1.5, "0.5", float("nan")):
        with pytest.raises(SettingsError, match="threshold is"):
            tagger.suggest("an apple", threshold=wrong)  # type: ignore[arg-type]


def test_evaluate() -> None:
    tagger = Tagger("centroid", sharpness=4).fit(TEXTS, LABELS)
    figures = tagger.evaluate(["apple", "a car", "x"], [["fruit"], ["vehicle", "never seen"], []], ks=(1, 2))
    assert figures["P@1"] == 100
    assert figures["R@2"] == 75  # the label that was never seen counts as missed
    assert {"nDCG@2", "PSP@1", "PSnDCG@2", "C@1"} <= figures.keys()
    Y = csr_array(np.array([[1, 0, 0]]))
    assert tagger.evaluate(["apple"], Y, ks=(1,))["P@1"] == 100


def test_series_are_taken_and_missing_labels_are_none() -> None:
    polars = pytest.importorskip("polars")
    expected = Tagger("centroid").fit(TEXTS, LABELS).suggest(TEXTS)
    missing = [*LABELS[:4], None]
    tagger = Tagger("centroid").fit(polars.Series(TEXTS), polars.Series(missing))
    assert tagger.suggest(polars.Series(TEXTS)) == expected
    with_nan = [
        ["fruit", None, "red", "", " "],
        np.array(["fruit"]),
        ("vehicle", "red", float("nan")),
        {"vehicle"},
        float("nan"),
    ]
    assert Tagger("centroid").fit(np.array(TEXTS), with_nan).suggest(TEXTS) == expected
    assert tagger.evaluate(polars.Series(TEXTS), polars.Series(missing), ks=(1,))["P@1"] == 100


def test_a_series_of_text_is_cut_as_a_column_of_a_table_is(caplog: pytest.LogCaptureFixture) -> None:
    polars = pytest.importorskip("polars")
    expected = Tagger("centroid").fit(TEXTS, LABELS).suggest(TEXTS)
    cells = [", ".join(names) or None for names in LABELS]
    with caplog.at_level(logging.INFO, "longtail"):
        tagger = Tagger("centroid").fit(polars.Series(TEXTS), polars.Series(cells))
    assert tagger.suggest(TEXTS) == expected
    assert "labels are cut at ','" in caplog.text
    with pytest.raises(DataError, match="not a list"):  # a plain list of strings may be meant in two ways
        Tagger("centroid").fit(TEXTS, cells)


def test_names() -> None:
    names = Names.of(["a", "", "β"])
    assert (names[0], names[-1], names[1:], len(names)) == ("a", "β", ["", "β"], 3)
    assert names == ["a", "", "β"]
    assert names != ["a"]
    assert "β" in names
    with pytest.raises(IndexError):
        names[3]
    assert "4 in all" in repr(Names.of("abcd"))


def test_a_name_that_is_not_text_is_refused_where_it_is_read_and_by_a_full_check(tmp_path: Path) -> None:
    """Checksums are computed again, as by someone who changes a folder on purpose."""
    Tagger("centroid").fit(TEXTS, LABELS).save(tmp_path / "m")
    names = np.load(tmp_path / "m" / "names.npy")
    names[0] = 0xFF
    set_array(tmp_path / "m" / "names.npy", names)
    tagger = Tagger.load(tmp_path / "m")
    assert tagger.label_names_[1] == "red"
    for read in (lambda: tagger.label_names_[0], lambda: tagger.suggest("red apple", k=3)):
        with pytest.raises(ModelError, match=r"label 0 is b'\\xffruit', which is not text"):
            read()
    with pytest.raises(ModelError, match="names and names_offsets do not hold text"):
        longtail.load(tmp_path / "m", verify=True)


def test_without_drops_pairs() -> None:
    Y = csr_array(np.array([[1, 1, 0], [0, 0, 0], [1, 0, 1]]))
    out = without(Y, np.array([[0, 1], [2, 2], [1, 1]]))
    assert out.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert without(Y, None) is Y


def test_labels_are_added_by_their_text(tmp_path: Path) -> None:
    texts = {"fruit": "fruit apple", "red": "red colour", "vehicle": "vehicle car", "tree": "green tree"}
    tagger = Tagger("decaf", dim=8, epochs=2).fit(TEXTS, LABELS, label_texts=texts)
    assert tagger.add_labels(["quick", "apple green"], ["fast", "green apple"]) is tagger
    assert [*tagger.label_names_][-2:] == ["quick", "apple green"]
    assert "apple green" in dict(tagger.suggest("green apple", k=9))
    tagger.save(tmp_path / "m")
    assert longtail.load(tmp_path / "m").suggest("green apple", k=9) == tagger.suggest("green apple", k=9)
    with pytest.raises(DataError, match="'red' is there already"):
        tagger.add_labels(["red"])
    with pytest.raises(DataError, match=r"2 names but 1 text\."):
        tagger.add_labels(["a", "b"], ["c"])
    with pytest.raises(ModelError, match="cannot score a label by its text"):
        Tagger("popular").fit(TEXTS, LABELS).add_labels(["new"])


def test_the_automatic_threshold_is_chosen_kept_and_used(tmp_path: Path) -> None:
    tagger = Tagger("parabel", n_trees=1).fit(TEXTS, LABELS)
    with pytest.raises(ModelError, match="no automatic threshold"):
        tagger.suggest("an apple", threshold="auto")
    for goal in ("micro", "macro", "example"):
        chosen = tagger.optimize(TEXTS, LABELS, goal, by_frequency=goal == "macro")
        assert chosen.goal == goal
        assert 0 < chosen.f1 <= 100
    for texts, labels in (([], []), (["an apple"], [[]])):
        with pytest.raises(DataError, match="no point has a label"):
            tagger.optimize(texts, labels)
    assert tagger.thresholds() == chosen
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.thresholds() == chosen
    every = tagger.suggest(TEXTS, k=50)
    kept = [[one for one in row if one[1] >= chosen.values[0]] for row in every]
    assert loaded.suggest(TEXTS, threshold="auto") == kept
    assert [len(row) for row in loaded.suggest(TEXTS, k=1, threshold="auto")] == [min(len(row), 1) for row in kept]


def test_labels_that_the_model_does_not_have_are_named() -> None:
    tagger = Tagger("popular").fit(TEXTS, LABELS)
    with pytest.warns(LongtailWarning, match="1 of 3 labels is known to this model; the others count as missed"):
        tagger.evaluate(["an apple"], [["fruit", "x", "y"]])
    with pytest.raises(DataError, match="0 of 2 labels are known to this model"):
        tagger.evaluate(["an apple"], [["x", "y"]])


def test_decisions_of_texts_are_an_indicator_matrix() -> None:
    from sklearn.metrics import f1_score

    texts = ["red apple", "green apple", "red car", "fast car"] * 5
    labels = [["fruit", "red"], ["fruit"], ["vehicle", "red"], ["vehicle"]] * 5
    tagger = Tagger("dismec").fit(texts, labels)
    decided = tagger.predict_labels([*texts, "unknown"], threshold=0.5)
    assert decided.shape == (21, 3)
    assert decided[[20]].nnz == 0  # no word is known
    truth = np.array([[name in row for name in tagger.label_names_] for row in labels])
    assert f1_score(truth, decided[:20].toarray(), average="micro") == 1
    names = [[name for name, _ in row] for row in tagger.suggest(texts, threshold=0.5)]
    assert [sorted(row) for row in names] == [sorted(row) for row in labels]
    assert (tagger.predict_proba(texts, 2) != tagger.predict(texts, 2)).nnz == 0
    with pytest.raises(SettingsError, match="from 0 to 1"):
        tagger.predict_labels(texts, 2)
    tagger.optimize(texts, labels, limit=1)
    assert np.diff(tagger.predict_labels(texts, "auto").indptr).max() == 1


class Series(list[Any]):
    """A column as pandas and polars have it."""

    dtype = "object"

    def to_list(self) -> list[Any]:
        return list(self)


def test_columns_of_data_frames_are_read_as_read_does() -> None:
    texts = Series(["red apple", float("nan"), "fast car"])  # a missing text is an empty one
    numbers = Series([7.0, float("nan"), 8])  # what pandas makes of whole numbers where one is missing
    assert list(Tagger("popular").fit(texts, numbers).label_names_) == ["7", "8"]
    assert list(Tagger("popular").fit(texts, Series(["a|b", "NaN", "b|c"])).label_names_) == ["a", "b", "c"]
    assert list(Tagger("popular").fit(texts, Series([np.array([7]), np.array([]), 8])).label_names_) == ["7", "8"]
    for wrong in ([0.5, 1, 2], ["['a']", "['b']", "[]"]):
        with pytest.raises(DataError, match="not a list"):
            Tagger("popular").fit(texts, Series(wrong))
    found = longtail.evaluate(Series([["a"], ["b"]]), [["a"], ["a"]], ks=(1,))
    assert found["P@1"] == 50
    with pytest.raises(DataError, match=r"'a\|b' where a list belongs. Cut the column first, as in df"):
        longtail.evaluate(Series(["a|b"]), [["a"]])


def test_data_frames_are_refused_with_what_to_do() -> None:
    class Frame(list[str]):
        columns = ("text", "labels")

    for fit, advice in (
        (lambda: Tagger("popular").fit(Frame(), [["a"]]), "texts is a DataFrame. Give one of its columns"),
        (lambda: Tagger("popular").fit(["a"], Frame()), "labels is a DataFrame. Give one of its columns"),
        (lambda: Tagger("popular").fit_dataset(Frame()), "data is a Frame, not a Dataset. Read it first"),  # type: ignore[arg-type]
    ):
        with pytest.raises(DataError, match=advice):
            fit()


@pytest.mark.parametrize(
    ("note", "value"),
    [
        ("training", None),
        ("training", {"train_seconds": "x"}),
        ("training", {"model": 3}),
        ("training_data", None),
        ("labels_separator", -1),
        ("thresholds", {"values": []}),
        ("feedback", []),
    ],
)
def test_notes_that_commands_read_are_checked_on_load(tmp_path: Path, note: str, value: Any) -> None:
    Tagger("popular").fit(["red apple", "fast car"], [["x"], ["y"]]).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    stored = json.loads(path.read_text())
    stored["meta"]["notes"][note] = value
    path.write_text(json.dumps(stored))
    with pytest.raises(ModelError, match=f"{note} in model.json is"):
        longtail.load(tmp_path / "m")
