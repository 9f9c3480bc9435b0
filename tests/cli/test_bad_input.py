"""Bad input through the command line: a message with file, line and remedy, exit code 2, nothing half-written."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.store import FORMAT_VERSION
from tests.cli.conftest import Run

GOOD_ROWS = "0,1 0:1 1:2\n1 2:0.5\n"


def sparse_text(head: str, rows: str) -> Callable[[Path], Path]:
    def make(here: Path) -> Path:
        (here / "data.txt").write_text(f"{head}\n{rows}")
        return here / "data.txt"

    return make


def json_lines(points: str, labels: str = '{"title": "one"}\n{"title": "two"}\n') -> Callable[[Path], Path]:
    def make(here: Path) -> Path:
        (here / "data").mkdir()
        (here / "data" / "trn.json").write_text(points)
        (here / "data" / "lbl.json").write_text(labels)
        return here / "data"

    return make


def table(content: str, name: str = "data.csv") -> Callable[[Path], Path]:
    def make(here: Path) -> Path:
        (here / name).write_text(content)
        return here / name

    return make


def truncated(here: Path) -> Path:
    whole = gzip.compress(("3000 3 2\n" + GOOD_ROWS * 1500).encode())
    (here / "data.txt.gz").write_bytes(whole[: len(whole) // 2])
    return here / "data.txt.gz"


def nothing(here: Path) -> Path:
    return here / "nowhere"


BAD = {
    "too few rows": (sparse_text("3 3 2", GOOD_ROWS), ["data.txt", "3"]),
    "too many rows": (sparse_text("1 3 2", GOOD_ROWS), ["data.txt"]),
    "not a header": (sparse_text("2 3", GOOD_ROWS), ["data.txt:1", "header", "counts"]),
    "label out of range": (sparse_text("2 3 1", GOOD_ROWS), ["data.txt:2", "label"]),
    "feature out of range": (sparse_text("2 2 2", GOOD_ROWS), ["data.txt:3", "feature"]),
    "negative feature": (sparse_text("2 3 2", "0 -1:1\n1 2:1\n"), ["data.txt:2"]),
    "not a number": (sparse_text("2 3 2", "0 0:1\n1 2:many\n"), ["data.txt:3"]),
    "NaN": (sparse_text("2 3 2", "0 0:nan\n1 2:1\n"), ["data.txt:2"]),
    "infinity": (sparse_text("2 3 2", "0 0:1\n1 2:inf\n"), ["data.txt:3"]),
    "truncated gz": (truncated, ["data.txt.gz", "again"]),
    "empty file": (table("", "data.txt"), ["data.txt", "empty"]),
    "no labels at all": (sparse_text("2 3 2", " 0:1\n 2:1\n"), ["data.txt", "label"]),
    "JSON that is no object": (json_lines('{"title": "a", "target_ind": [0]}\n[1]\n'), ["trn.json:2", "object"]),
    "broken JSON": (json_lines('{"title": "a"\n'), ["trn.json:1", "JSON"]),
    "label that lbl lacks": (json_lines('{"title": "a", "target_ind": [2]}\n'), ["trn.json:1", "lbl.json", "2"]),
    "no target_ind": (json_lines('{"title": "a"}\n'), ["trn.json:1", "target_ind"]),
    "label without a name": (json_lines('{"title": "a", "target_ind": [0]}\n', '{"x": 1}\n'), ["lbl.json:1", "title"]),
    "no labels column": (table("text,other,more\na,b,c\n"), ["data.csv", "--labels-column"]),
    "ragged table": (table("text,labels\na,b\na,b,c\n"), ["data.csv:3"]),
    "table without rows": (table("text,labels\n"), ["data.csv"]),
    "missing file": (nothing, ["nowhere"]),
}


@pytest.mark.parametrize("verb", ["train", "compare"])
@pytest.mark.parametrize("case", BAD)
def test_bad_data(case: str, verb: str, run: Run, here: Path) -> None:
    make, said = BAD[case]
    path = make(here)
    before = sorted(here.rglob("*"))
    words = ["--model", "popular", "--out", "m"] if verb == "train" else ["--models", "popular"]
    result = run(verb, path, *words, code=2)
    assert result.stdout == ""
    error = result.stderr[result.stderr.index("error: ") :]
    for words_said in said:
        assert words_said in error, error
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("rows", ["\n1 2:0.5\n", "0 0:1 0:2 0:3\n0,0,1 2:1\n", "0 0:1\n 2:1\n", "0\n1 1:1\n"])
def test_points_without_features_or_labels_and_duplicates_are_defined(rows: str, run: Run, here: Path) -> None:
    (here / "data.txt").write_text(f"2 3 2\n{rows}")
    run("train", "data.txt", "--model", "parabel", "--out", "m")
    found = json.loads(run("predict", "m", "--input", "data.txt", "--json").stdout)
    assert len(found) == 2
    (row,) = json.loads(run("evaluate", "m", "data.txt", "--json").stdout)
    assert 0 <= row["P@1"] <= 100


def test_text_without_words_is_labelled_all_the_same(run: Run, table: Path) -> None:
    run("train", table, "--model", "parabel", "--out", "m")
    found = json.loads(run("predict", "m", "--text", "", "--text", "?!", "--json").stdout)
    assert len(found) == 2


def test_compare_without_anything_to_test_on(run: Run, sparse: Path, here: Path) -> None:
    (sparse / "test.txt").write_text("1 8 5\n 0:1\n")
    assert "no test point of sparse has a label" in run("compare", sparse, "-m", "popular", code=2).stderr
    (here / "one.csv").write_text("text,labels\nred apple,fruit\n")
    assert "no point can be held out" in run("compare", "one.csv", "-m", "popular", code=2).stderr


@pytest.fixture
def model(run: Run, table: Path, here: Path) -> Path:
    run("train", table, "--model", "popular", "--out", "m")
    return here / "m"


@pytest.mark.parametrize("verb", [["predict", "m", "--text", "x"], ["evaluate", "m", "fruit.csv"], ["inspect", "m"]])
def test_model_folder_of_a_newer_version(verb: list[str], run: Run, model: Path) -> None:
    path = model / "model.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format": FORMAT_VERSION + 1, "longtail": "99.0"}))
    error = run(*verb, code=2).stderr
    assert "longtail 99.0" in error
    assert "Upgrade" in error


def test_model_folder_of_an_older_format(run: Run, model: Path) -> None:
    path = model / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": FORMAT_VERSION - 1}))
    assert "Train the model again" in run("predict", "m", "--text", "x", code=2).stderr


@pytest.mark.parametrize(
    "verb", [["predict", "m", "--text", "x"], ["evaluate", "m", "fruit.csv"], ["inspect", "m", "--verify"]]
)
def test_model_folder_with_a_changed_array(verb: list[str], run: Run, model: Path) -> None:
    path = model / "ranker" / "share.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    error = run(*verb, code=2).stderr
    assert "share.npy" in error
    assert "again" in error


def test_model_folder_with_something_missing(run: Run, model: Path) -> None:
    (model / "names.npy").unlink()
    assert "names.npy: missing" in run("predict", "m", "--text", "x", code=2).stderr
    shutil.rmtree(model / "ranker")
    assert "ranker" in run("inspect", model / "ranker", code=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "fruit.csv", "--model", "parabl", "--out", "x"], "did you mean 'parabel'"),
        (["train", "fruit.csv", "--model", "parabel(", "--out", "x"], "Cannot read the model"),
        (["train", "fruit.csv", "--model", "parabel", "--set", "parabel.trees=1", "--out", "x"], "n_trees"),
        (["train", "fruit.csv", "--model", "parabel", "--set", "bonsai.n_trees=1", "--out", "x"], "not in 'parabel'"),
        (["train", "fruit.csv", "--model", "parabel", "--set", "n_trees", "--out", "x"], "model.parameter=value"),
        (["train", "fruit.csv", "--model", "parabel", "--set", "n_trees=many", "--out", "x"], "n_trees is 'many'"),
        (["train", "fruit.csv", "--set", "text.words=1", "--out", "x"], "TF-IDF has no parameter 'words'"),
        (["train", "fruit.csv", "--format", "xml", "--out", "x"], "format 'xml' is unknown"),
        (["train", "fruit.csv", "--labels-column", "tags", "--out", "x"], "'tags'"),
        (["train", "fruit.csv", "--out", "fruit.csv/x"], "fruit.csv"),
        (["train", "fruit.csv"], "--out"),
        (["train", "fruit.csv", "--jobs", "0", "--out", "x"], "--jobs is 0; give -1 for all cores, -2 for all but one"),
        (["compare", "fruit.csv", "--models", "popular,parabl"], "did you mean 'parabel'"),
        (["compare", "fruit.csv", "--models", ""], "--models names no model"),
        (["compare", "fruit.csv", "--models", "popular", "--set", "parabel.n_trees=1"], "not among popular"),
        (["compare", "fruit.csv", "--models", "parabel", "--set", "n_trees=1"], "parabel.n_trees"),
        (["predict", "m", "--text", "x", "--input", "fruit.csv"], "either --text"),
        (["predict", "m"], "either --text"),
        (["predict", "m", "--text", "x", "-k", "0"], "-k"),
        (["predict", "m", "--text", "x", "-k", "abc"], "predict --help."),
        (["predict", "m", "--txt", "x"], "--txt"),
        (["predct", "m"], "Did you mean 'predict'"),
        (
            ["labels", "m", "remove", "pear"],
            "Invalid value for 'CHANGE': 'remove' is not one of 'list', 'add', 'rename'",
        ),
        (["labels", "m"], "Choose from: list, add, rename, merge, retire. See"),
        (["predict", "m", "--text", "x", "--out", "x.doc"], ".jsonl, .tsv, .csv, .npz or .txt"),
        (["predict", "m", "--input", "nowhere.txt"], "nowhere.txt"),
        (["predict", "m", "--input", "numbers.txt", "--format", "sparse"], "the model reads text"),
        (["predict", "nowhere", "--text", "x"], "there is no such folder"),
        (["evaluate", "m", "numbers.txt"], "2 labels, but the model was trained with 9"),
        (["convert", "fruit.csv", "x.json"], "x.json cannot be written. As one file"),
        (["convert", "fruit.csv", "x.xyz"], "x.xyz cannot be written. As one file"),
        (["convert", "fruit.csv", "x.parquet"], "is written as .csv, .tsv or .jsonl"),
        (["convert", "fruit.csv", "x", "--to", "xml"], "cannot be written"),
        (["inspect", "fruit.csv"], "not a model folder"),
        (["nosuchverb"], "nosuchverb"),
    ],
)
def test_wrong_words(words: list[str], said: str, run: Run, model: Path, here: Path) -> None:
    (here / "numbers.txt").write_text("2 3 2\n0 0:1\n1 2:1\n")
    before = sorted(here.rglob("*"))
    result = run(*words, code=2)
    assert result.stdout == ""
    assert said in result.stderr
    assert "error: " in result.stderr  # of the words, too, and in no box
    assert sorted(here.rglob("*")) == before


def test_a_folder_that_may_not_be_written(run: Run, table: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", "/locked/m")

    monkeypatch.setattr("longtail.store.write", refuse)
    result = run("train", table, "--model", "popular", "--out", "m", code=2)
    assert "error: /locked/m: Permission denied" in result.stderr
    assert sorted(path.name for path in here.iterdir()) == ["fruit.csv"]
