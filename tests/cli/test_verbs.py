"""Each verb on small data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import load_npz

import longtail
from longtail.cli import worker
from tests.cli.conftest import Run

KEYS = ["model"]
KEYS += [f"{measure}@{k}" for measure in ("P", "nDCG", "PSP", "PSnDCG", "R", "C", "B") for k in (1, 3, 5)]
KEYS += ["ECE@1", "ECE-rare@1", "frontier", "train_seconds", "predict_ms_per_point", "peak_memory_mb", "model_mb"]


def check_contract(rows: list[dict[str, Any]], models: list[str]) -> None:
    """The JSON that other programs rely on."""
    assert [row["model"] for row in rows] == models
    for row in rows:
        assert list(row) == KEYS
        assert all(0 <= row[key] <= 100 for key in KEYS if "@" in key and row[key] is not None)
        assert [point["beta"] for point in row["frontier"]] == np.linspace(-1, 1, 9).tolist()
        assert set(row["frontier"][0]) == {"beta", *(f"{m}@{k}" for m in ("P", "PSP") for k in (1, 3, 5))}
        assert row["peak_memory_mb"] > 20
        assert row["model_mb"] > 0
        assert row["predict_ms_per_point"] >= 0


def test_train_predict_evaluate_on_a_table(run: Run, table: Path) -> None:
    trained = json.loads(run("train", table, "--model", "parabel", "--out", "m", "--set", "n_trees=1", "--json").stdout)
    assert (trained["n_points"], trained["n_labels"], trained["model"]) == (60, 9, "parabel")
    found = json.loads(run("predict", "m", "--text", "one green pear", "--text", "zzz", "-k", 2, "--json").stdout)
    assert [row["text"] for row in found] == ["one green pear", "zzz"]
    assert {label["label"] for label in found[0]["labels"]} == {"green", "pear"}
    assert list(found[0]["labels"][0]) == ["label", "score"]
    result = run("evaluate", "m", table, "--json")
    check_contract(json.loads(result.stdout), ["parabel"])
    assert "all of fruit: 60 points" in result.stderr
    assert json.loads(result.stdout)[0]["train_seconds"] == trained["train_seconds"]


def test_evaluate_matches_labels_by_name(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", "parabel", "--out", "m")
    (here / "other.csv").write_text("text,labels\na red apple,red|apple\na lime,lime|never seen\n")
    (row,) = json.loads(run("evaluate", "m", "other.csv", "--json").stdout)
    assert row["P@1"] == 100
    assert row["R@5"] == 75  # the label that the model cannot know is missed, not left out


def test_raw_text_with_a_test_part(run: Run, raw: Path) -> None:
    run("train", raw, "--model", "parabel", "--out", "m")
    model = longtail.load("m")
    assert isinstance(model, longtail.Tagger)
    assert model.label_ids_ == [f"L{i}" for i in range(7)]
    result = run("evaluate", "m", raw)
    assert "the test part of raw: 15 points" in result.stderr
    assert "precision" in result.stdout
    found = json.loads(run("predict", "m", "--input", raw, "-k", 1, "--json").stdout)
    assert len(found) == 15
    assert found[0]["id"] == "tst60"
    assert set(found[0]["labels"][0]) == {"label", "id", "score"}


def test_pairs_to_ignore_are_not_judged(run: Run, raw: Path) -> None:
    run("train", raw, "--model", "popular", "--out", "m")
    (row,) = json.loads(run("evaluate", "m", raw, "--json").stdout)
    assert row["P@1"] == pytest.approx(
        100 * (15 - 1) / 15
    )  # the first points lose the label that all have, one gains its own


def test_sparse_data(run: Run, sparse: Path) -> None:
    run("train", sparse, "--model", "parabel", "--out", "m", "--seed", 3, "--jobs", 1)
    (row,) = json.loads(run("evaluate", "m", sparse, "--json").stdout)
    assert row["P@1"] == 100
    assert "error: This model was trained on features" in run("predict", "m", "--text", "words", code=2).stderr
    found = json.loads(run("predict", "m", "--input", sparse / "test.txt", "--json", "-k", 1).stdout)
    assert [row["id"] for row in found] == [str(i) for i in range(8)]
    assert found[0]["labels"][0]["label"] in ("0", "4")
    assert "longtail predict m --input" in run("train", sparse, "--model", "popular", "--out", "m").stdout


def test_evaluate_a_ranker_that_was_saved_alone(run: Run, sparse: Path) -> None:
    data = longtail.read(sparse)
    longtail.make("popular").fit(data.X, data.Y).save("m")
    result = run("evaluate", "m", sparse, "--json")
    (row,) = json.loads(result.stdout)
    assert row["train_seconds"] is None
    assert "propensities" in result.stderr
    run("evaluate", "m", sparse)
    found = json.loads(run("predict", "m", "--input", sparse / "test.txt", "--json", "-k", 1).stdout)
    assert found[0]["labels"][0]["label"] == "4"


def test_compare(run: Run, raw: Path) -> None:
    result = run("compare", raw, "--models", "popular,parabel(n_trees=1, beam=5)", "--set", "parabel.cost=2", "--json")
    rows = json.loads(result.stdout)
    check_contract(rows, ["popular", "parabel(n_trees=1, beam=5)"])
    assert rows[1]["P@1"] == 100
    assert all(row["train_seconds"] >= 0 for row in rows)


def test_compare_without_a_test_part_holds_out_a_part(run: Run, table: Path) -> None:
    result = run("compare", table, "--models", "popular")
    assert "12 of its 60 points are held out" in result.stderr
    assert "popular" in result.stdout


def test_compare_goes_on_when_a_model_fails(run: Run, raw: Path) -> None:
    models = ("compare", raw, "--models", "dxml,popular", "--set", "dxml.hierarchy=nowhere.tsv")
    result = run(*models, "--json", code=2)
    rows = json.loads(result.stdout)
    assert rows[0]["model"] == "dxml"
    assert "nowhere.tsv" in rows[0]["error"]
    check_contract(rows[1:], ["popular"])
    assert "nowhere.tsv" in result.stderr
    assert "popular" in run(*models, code=2).stdout


def test_compare_refuses_a_wrong_setting_before_any_model_is_trained(run: Run, raw: Path) -> None:
    result = run("compare", raw, "--models", "popular,parabel", "--set", "parabel.n_trees=0", code=2)
    assert "n_trees is 0" in result.stderr
    assert not result.stdout


def test_compare_tells_of_a_process_that_died(run: Run, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_process", lambda folder: -9)
    (row,) = json.loads(run("compare", raw, "--models", "popular", "--json", code=2).stdout)
    assert "memory ran out" in row["error"]
    monkeypatch.setattr(worker, "_process", lambda folder: 1)
    assert "ended with code 1" in run("compare", raw, "--models", "popular", code=2).stderr


def test_compare_draws_the_tradeoff_and_the_bins(run: Run, raw: Path, here: Path) -> None:
    models = "popular,ranknet(parabel, method=inverse_propensity)"
    words = ["compare", raw, "--models", models, "--tradeoff", "curve.png", "--bins", "bins.svg"]
    rows = json.loads(run(*words, "--json").stdout)
    assert (here / "curve.png").read_bytes()[1:4] == b"PNG"
    assert "<svg" in (here / "bins.svg").read_text()
    assert [point["beta"] for point in rows[0]["tradeoff"]] == [0, 0.25, 0.5, 0.75, 1]
    assert [point["tail"] for point in rows[1]["tradeoff"]] == [0, 0.25, 0.5, 0.75, 1]
    assert rows[1]["P@5"] == pytest.approx(sum(part["P@5"] for part in rows[1]["bins"]))
    told = run(*words).stdout
    assert "P@1 above PSP@1" in told
    assert "P@5 above PSP@5" in told


@pytest.mark.parametrize(
    ("picture", "message"),
    [("curve.txt", "Cannot write a picture to curve.txt"), ("raw/trn.json/curve.png", "not a folder")],
)
def test_compare_refuses_a_picture_it_cannot_draw_before_training(
    run: Run, raw: Path, picture: str, message: str
) -> None:
    assert message in run("compare", raw, "--models", "popular", "--tradeoff", picture, code=2).stderr


def test_compare_says_what_pictures_need(run: Run, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "longtail[report]" in run("compare", raw, "--models", "popular", "--bins", "a.png", code=2).stderr


def test_inspect(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", "parabel", "--out", "m", "--set", "text.ngrams=[1,2]")
    facts = json.loads(run("inspect", "m", "--json").stdout)
    assert facts["kind"] == "tagger"
    assert facts["longtail"] == longtail.__version__
    assert facts["vectorizer"]["ngrams"] == [1, 2]
    assert facts["training"]["data"] == "fruit"
    assert facts["labels"]["frequent"][0]["points"] == 20
    assert facts["parts"]["ranker"]["kind"] == "parabel"
    assert facts["parts"]["ranker"]["params"]["n_trees"] == 3
    told = run("inspect", "m", "--verify").stdout
    for words in ("parabel", "9 labels", "vectorizer_terms", "red (20)", "all checksums and arrays are correct"):
        assert words in told


def test_convert_there_and_back(run: Run, raw: Path, here: Path) -> None:
    run("convert", raw, "as_npz")
    facts = json.loads(run("convert", "as_npz", "as_text", "--to", "sparse", "--compression", "gz", "--json").stdout)
    assert (facts["n_points"], facts["n_test_points"], facts["n_labels"]) == (60, 15, 7)
    assert (here / "as_text" / "train.txt.gz").is_file()
    run("convert", raw, "as_json", "--to", "json")
    was, again = longtail.read(raw), longtail.read(here / "as_text")
    assert abs(was.X - again.X).max() < 1e-7
    assert (was.Y != again.Y).nnz == 0
    assert longtail.read("as_json").texts == was.texts
    assert "exists" in run("convert", raw, "as_npz", code=2).stderr
    run("convert", raw, "as_npz", "--overwrite", "--set", "text.hashing=64")
    assert longtail.read("as_npz").n_features == 64
    assert "text.NAME" in run("convert", raw, "x", "--set", "bonsai.n_trees=1", code=2).stderr


def test_predict_reads_and_writes_files(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", "parabel", "--out", "m")
    (here / "in.txt").write_text("a red plum\na green fig\n")
    (here / "in.jsonl").write_text('{"title": "a red plum"}\n{"title": "a green fig"}\n')
    from_lines = json.loads(run("predict", "m", "--input", "in.txt", "--json").stdout)
    assert json.loads(run("predict", "m", "--input", "in.jsonl", "--json").stdout) == from_lines
    assert json.loads(run("predict", "m", "-i", "-", "--json", input="a red plum\na green fig\n").stdout) == from_lines
    run("predict", "m", "--input", "in.txt", "--out", "out/labels.jsonl")
    assert [json.loads(line) for line in Path("out/labels.jsonl").read_text().splitlines()] == from_lines
    assert json.loads(run("predict", "m", "-i", table, "-o", "x.tsv", "--json").stdout) == {
        "out": "x.tsv",
        "n_points": 60,
    }
    lines = Path("x.tsv").read_text().splitlines()
    assert lines[0] == "point\tlabel\tscore"
    assert lines[1].split("\t")[:2] in (["d0", "apple"], ["d0", "red"])
    run("predict", "m", "--input", "in.txt", "--out", "x.npz", "-k", 3)
    assert load_npz("x.npz").shape == (2, 9)
    told = run("predict", "m", "--input", "in.txt", "-k", 2).stdout
    assert "a red plum" in told
    assert "█" in told


def test_markup_in_texts_and_names_is_shown_as_it_is(run: Run, here: Path) -> None:
    (here / "d.csv").write_text('text,labels\n"[bold]a b[/bold] word","[red]x"\nother,[/]\n')
    run("train", "d.csv", "--model", "popular", "--out", "m", "--labels-separator", "|")
    told = run("predict", "m", "--text", "[bold]hi[/]").stdout
    assert "[bold]hi[/]" in told
    assert "[red]x" in told
    assert "[red]x" in run("inspect", "m").stdout


def test_training_again_replaces_a_model_and_nothing_else(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", "popular", "--out", "deep/m")
    run("train", table, "--model", "parabel", "--out", "deep/m")
    assert json.loads(run("inspect", "deep/m", "--json").stdout)["parts"]["ranker"]["kind"] == "parabel"
    assert [path.name for path in (here / "deep").iterdir()] == ["m"]
    (here / "work").mkdir()
    (here / "work" / "thesis.txt").write_text("precious")
    for out in ("work", "fruit.csv"):
        assert "not a model folder" in run("train", table, "--model", "popular", "--out", out, code=2).stderr
    assert (here / "work" / "thesis.txt").read_text() == "precious"


def test_columns_may_be_named(run: Run, here: Path) -> None:
    (here / "d.csv").write_text("head,body,kinds\nred,apple pie,a+b\nfast,car,c\n")
    words = ["--text-column", "head", "--text-column", "body", "--labels-column", "kinds", "--labels-separator", "+"]
    run("train", "d.csv", "--model", "popular", "--out", "m", *words)
    (row,) = json.loads(run("evaluate", "m", "d.csv", "--json", *words).stdout)
    assert row["P@1"] == 50
    assert len(json.loads(run("predict", "m", "-i", "d.csv", "--text-column", "body", "--json").stdout)) == 2


def test_version_and_help(run: Run) -> None:
    assert run("--version").stdout == f"longtail {longtail.__version__}\n"
    for words in (
        [],
        ["train"],
        ["predict"],
        ["evaluate"],
        ["compare"],
        ["inspect"],
        ["convert"],
        ["demo"],
        ["plot", "norms"],
    ):
        assert "--json" in run(*words, "--help").stdout or not words
