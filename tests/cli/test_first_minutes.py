"""The first ten minutes at the command line, with the kinds of file that failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.sparse import load_npz, save_npz

from longtail.cli import worker
from longtail.cli.compare import over_seeds
from longtail.data import read
from longtail.registry import load


@pytest.fixture
def slashes(here: Path) -> Path:
    """A table whose labels are separated by " / ", which no counting finds."""
    path = here / "slashes.csv"
    rows = [f"a {c} {f} x{i},{f} / {c}" for i in range(10) for f in ("apple", "pear") for c in ("red", "green")]
    path.write_text("\n".join(["text,labels", *rows]) + "\n")
    return path


def test_the_separator_is_kept_in_the_model(run, slashes):
    run("train", slashes, "--model", "parabel(n_trees=1)", "--labels-separator", " / ", "--out", "m")
    assert load("m").notes_["labels_separator"] == " / "
    (row,) = json.loads(run("evaluate", "m", slashes, "--json").stdout)
    assert row["P@1"] > 50
    assert "Stored 40 corrections" in run("learn", "m", slashes).stdout


def test_corrections_whose_labels_are_not_cut_are_not_stored(run, slashes, here):
    """A model that learns them does not forget them."""
    run("train", slashes, "--model", "parabel(n_trees=1)", "--labels-separator", " / ", "--out", "m")
    (here / "more.csv").write_text("text,labels\na red apple,apple;red\na green pear,pear;green\n")
    refused = run("learn", "m", "more.csv", code=2).stderr
    assert "2 of 2 labels are not in the model, such as 'apple;red', but most of their parts between ';' are" in refused
    assert "Give --labels-separator ';', or --new-labels" in refused
    assert not list(here.glob("m.feedback*"))
    assert "Stored 2 corrections" in run("learn", "m", "more.csv", "--labels-separator", ";").stdout
    assert "in the log: 2 (apple;red, pear;green)" in run("learn", "m", "more.csv", "--new-labels").stderr
    (here / "new.csv").write_text("text,labels\na kiwi,kiwi;brown\na red kiwi,kiwi / red\n")  # most have no known part
    assert "Stored 2 corrections" in run("learn", "m", "new.csv").stdout
    assert "--new-labels has no effect" in run("learn", "m", "--new-labels", code=2).stderr


def test_labels_that_a_model_does_not_know(run, table, here):
    run("train", table, "--model", "popular", "--out", "m")
    (here / "other.csv").write_text("text,labels\na red pear,http://x.example/1\na plum,http://x.example/2\n")
    result = run("evaluate", "m", "other.csv", code=2)
    assert "0 of 2 labels are known to this model" in result.stderr
    (here / "some.csv").write_text("text,labels\na red pear,pear|kiwi\na plum,plum\n")
    assert run("evaluate", "m", "some.csv").stdout  # two of three labels are known


def test_a_warning_of_the_library_is_one_remark(run, here):
    (here / "words.csv").write_text("text,labels\n" + "bird,moss fern\n" * 20 + "cat,rose\n")
    said = run("train", "words.csv", "--model", "popular", "--out", "m").stderr
    assert said.count("1.00 labels per row") == 1
    assert "warning: words.csv, column 'labels'" in said
    assert "LongtailWarning" not in said


def test_a_labels_file(run, here):
    (here / "short.tsv").write_text("".join(f"a {w} text\t<http://x.example/{w}>\n" for w in ("moss", "bread") * 5))
    (here / "voc.tsv").write_text("<http://x.example/moss>\tmosses\n<http://x.example/bread>\tbreads\n")
    run("train", "short.tsv", "--labels-file", "voc.tsv", "--model", "parabel(n_trees=1)", "--out", "m")
    (row,) = json.loads(run("predict", "m", "--text", "a moss", "-k", 1, "--json").stdout)
    assert row["labels"][0]["label"] == "mosses"
    assert row["labels"][0]["id"] == "http://x.example/moss"
    assert "P" in run("evaluate", "m", "short.tsv").stdout  # by URI
    (here / "names.csv").write_text("text,labels\na moss,mosses\na bread,breads\n")
    assert "P" in run("evaluate", "m", "names.csv").stdout  # by name


@pytest.mark.parametrize("ending", ["npz", "txt", "jsonl", "tsv"])
def test_evaluate_predictions_of_a_file(run, raw, ending):
    run("train", raw, "--model", "parabel(n_trees=1)", "--out", "m")
    (model,) = json.loads(run("evaluate", "m", raw, "--json").stdout)
    run("predict", "m", "--input", raw, "--out", f"p.{ending}", "-k", 100)
    (row,) = json.loads(run("evaluate", "--predictions", f"p.{ending}", raw, "--json").stdout)
    for metric in ("P@1", "P@3", "PSP@1", "PSP@5", "R@5"):
        assert row[metric] == pytest.approx(model[metric], abs=0.01)
    assert "precision" in run("evaluate", "--predictions", f"p.{ending}", raw).stdout


def test_predictions_of_others(run, here):
    (here / "d.csv").write_text("id,text,labels\nx,a,moss|bread\ny,b,bread\n")
    contents = {
        "a.jsonl": '{"labels": ["moss", "mail"]}\n{"labels": {"bread": 0.9}}\n',
        "b.jsonl": '{"labels": [["moss", 0.9], ["mail", 0.1]]}\n{"labels": [{"label": "bread", "score": 1}]}\n',
        "c.tsv": "y\tbread\t0.5\nx\tmoss\t0.7\nx\tmail\t0.2\n",
    }
    for name, content in contents.items():
        Path(name).write_text(content)
        (row,) = json.loads(run("evaluate", "--predictions", name, "d.csv", "--json").stdout)
        assert row["P@1"] == 100
        assert row["R@1"] == 75


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", "0:0.7\n", "predictions for 1 point, but the data has 2"),
        ("p.txt", "3 2\n0:1\n", "the first line says '3 2'"),
        ("p.txt", "7:0.7\n0:1\n", "p.txt:1: label 7 is outside the 2 labels"),
        ("p.txt", "0=0.7\n0:1\n", "p.txt:1: '0=0.7' is not label:score"),
        ("p.jsonl", '{"x": 1}\n', "p.jsonl:1: the point has no list of labels"),
        ("p.tsv", "z\tmoss\t1\n", "p.tsv:1: the data has no point 'z'"),
        ("p.jsonl", '{"labels": ["m", "x"]}\n{"labels": ["y"]}\n', "0 of 3 predicted labels are known in d, which has"),
        ("p.tsv", "x\tmoss\n", "p.tsv:1: the line is not point, label and score"),
        (
            "p.csv",
            "point,label,score\nx,moss\n",
            "p.csv:2: the line is not point, label and score. Separate three cells by c",
        ),
        ("p.csv", 'x,"moss,1\n', "p.csv:1: this is not valid CSV (unexpected end of data)"),
        ("p.doc", "", "use a file that ends in .npz, .txt, .jsonl, .tsv"),
    ],
)
def test_predictions_that_cannot_be_read(run, here, name, content, message):
    (here / "d.csv").write_text("id,text,labels\nx,a,moss|bread\ny,b,bread\n")
    run("convert", "d.csv", "d", "--to", "json")
    Path(name).write_text(content)
    data = "d" if name.endswith(".txt") else "d.csv"
    assert message.lower() in run("evaluate", "--predictions", name, data, code=2).stderr.lower()


def test_predictions_for_data_that_numbers_its_labels_otherwise(run, table, here):
    """Numbers of labels were compared as they are: P@1 15 instead of 100, without a word."""
    run("train", table, "--model", "knn(n_neighbors=1)", "--out", "m")
    head, *rows = Path(table).read_text().splitlines()
    (here / "reversed.csv").write_text("\n".join([head, *reversed(rows)]) + "\n")
    (model,) = json.loads(run("evaluate", "m", "reversed.csv", "--json").stdout)
    for ending in ("npz", "jsonl", "tsv", "csv"):
        run("predict", "m", "--input", "reversed.csv", "--out", f"p.{ending}")
        (row,) = json.loads(run("evaluate", "--predictions", f"p.{ending}", "reversed.csv", "--json").stdout)
        assert row["P@1"] == pytest.approx(model["P@1"])
    run("predict", "m", "--input", "reversed.csv", "--out", "p.txt")
    refused = run("evaluate", "--predictions", "p.txt", "reversed.csv", code=2).stderr
    assert "p.txt: labels are given by number, but reversed numbers its labels in the order" in refused
    scores = load_npz("p.npz")  # as anyone would write it
    save_npz("numbers.npz", scores)
    assert (
        "Give predictions with names" in run("evaluate", "--predictions", "numbers.npz", "reversed.csv", code=2).stderr
    )


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_labels_with_tabs_and_line_breaks_are_matched_in_a_file(run, here, ending):
    """They counted as wrong."""
    rows = [
        {"text": f"a {word} x{i}", "labels": [f"{word}\tand\n{word}"]} for i in range(5) for word in ("pear", "fig")
    ]
    (here / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run("train", "d.jsonl", "--model", "knn", "--out", "m")
    run("predict", "m", "--input", "d.jsonl", "--out", f"p.{ending}")
    result = run("evaluate", "--predictions", f"p.{ending}", "d.jsonl", "--json")
    assert json.loads(result.stdout)[0]["P@1"] == 100
    assert "not in" not in result.stderr


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_a_table_of_other_data_is_not_replaced_by_a_result(run, table, here, ending):
    run("train", table, "--model", "popular", "--out", "m")
    other = here / f"labels.{ending}"
    other.write_text("label\ttext\nmoss\tsmall plants\n")
    refused = run("predict", "m", "--input", table, "--out", other.name, code=2).stderr
    assert f"{ending}: exists and is not a result of longtail predict" in refused
    assert other.read_text().startswith("label")
    for _ in range(2):
        run("predict", "m", "--input", table, "--out", f"p.{ending}")
    (here / f"empty.{ending}").touch()
    run("predict", "m", "--input", table, "--out", f"empty.{ending}")
    assert (here / f"empty.{ending}").read_text() == (here / f"p.{ending}").read_text()


@pytest.mark.parametrize("ending", ["npz", "jsonl"])
def test_decisions_of_predictions_in_a_file(run, raw, here, ending):
    """--threshold and --per-label did nothing."""
    run("train", raw, "--model", "knn(n_neighbors=3)", "--out", "m")
    run("predict", "m", "--input", raw, "--out", f"p.{ending}", "-k", 50)
    options = ("--threshold", 0.3, "--json", "--per-label")
    (model,) = json.loads(run("evaluate", "m", raw, *options, "m.csv").stdout)
    (row,) = json.loads(run("evaluate", "--predictions", f"p.{ending}", raw, *options, "p.csv").stdout)
    assert row["threshold"] == model["threshold"]
    assert row["micro-F1"] == pytest.approx(model["micro-F1"])
    assert (here / "p.csv").read_text() == (here / "m.csv").read_text()
    shown = run("evaluate", "--predictions", f"p.{ending}", raw, "--threshold", 0.3).stdout
    assert "\n\nLabels that reach the threshold 0.3" in shown
    assert "\n\n\n" not in shown
    refused = run("evaluate", "--predictions", f"p.{ending}", raw, "--threshold", "auto", code=2).stderr
    assert "Give a number with --predictions" in " ".join(refused.split())


def test_results_per_label_name_labels_that_the_data_does_not_have(run, here):
    (here / "d.csv").write_text("text,labels\na,moss\nb,bread\n")
    (here / "p.jsonl").write_text('{"labels": ["moss", "mail"]}\n{"labels": ["bread"]}\n')
    run("evaluate", "--predictions", "p.jsonl", "d.csv", "--per-label", "p.csv")
    assert [line.split(",")[0] for line in (here / "p.csv").read_text().split()] == ["label", "moss", "bread", "mail"]


def test_matrices_name_labels_that_the_data_does_not_have(run, table, here):
    run("train", table, "--model", "popular", "--out", "m")
    (here / "few.csv").write_text("text,labels\na red apple,apple|kiwi\na pear,pear\n")
    run("predict", "m", "--input", "few.csv", "--out", "p.npz")
    result = run("evaluate", "--predictions", "p.npz", "few.csv", "--json")
    assert "predicted labels are not in few" in result.stderr


def test_evaluate_needs_a_model_or_predictions(run, table):
    assert "--predictions FILE" in run("evaluate", table, code=2).stderr
    assert "not both" in run("evaluate", "m", table, "--predictions", "p.txt", code=2).stderr


def test_predictions_in_the_repositorys_text(run, table):
    run("train", table, "--model", "popular", "--out", "m")
    run("predict", "m", "--text", "a red apple", "--text", "a pear", "--out", "x.txt", "-k", 2)
    head, *rows = Path("x.txt").read_text().splitlines()
    assert head == "2 9"
    assert [len(row.split()) for row in rows] == [2, 2]
    assert all(":" in pair for row in rows for pair in row.split())


def test_convert_a_table_to_a_file(run, table):
    run("convert", table, "out.csv")
    assert Path("out.csv").read_text().splitlines()[:2] == ["id,text,labels", "d0,a red apple number0,apple|red"]
    message = run("convert", table, "out.csv", code=2).stderr
    assert "--overwrite" in message
    assert "overwrite=True" not in message
    run("convert", table, "out.csv", "--overwrite")
    run("convert", table, "lf", "--to", "lf")
    assert {path.name for path in Path("lf").iterdir()} >= {"trn_X_Xf.txt", "trn_X_Y.txt", "Yf.txt"}
    assert "no effect" in run("convert", table, "o.csv", "--set", "text.ngrams=2", code=2).stderr


def test_labels_are_listed(run, raw, table):
    run("train", table, "--model", "popular", "--out", "m")
    lines = run("labels", "m", "list").stdout.splitlines()
    assert (lines[0], len(lines)) == ("20  red", 9)
    assert run("labels", "m", "list", "PL").stdout.split() == ["10", "apple", "10", "plum"]
    assert json.loads(run("labels", "m", "list", "pl", "--json").stdout)[1] == {"label": "plum", "count": 10}
    assert "No label contains 'kiwi' or 'x'." in run("labels", "m", "list", "kiwi", "x").stderr
    assert "--text does not go with list" in run("labels", "m", "list", "--text", "x", code=2).stderr
    run("labels", "m", "merge", "plum", "--into", "apple")
    assert run("labels", "m", "list", "pl").stdout.split() == ["20", "apple"]
    run("train", raw, "--model", "popular", "--out", "r")
    assert run("labels", "r", "list", "l1").stdout == "10  all about pear  L1\n"


def test_convert_holds_out_a_test_part(run, table, here):
    assert "48 points and 12 test points" in run("convert", table, "parts", "--to", "table", "--hold-out", "0.2").stdout
    run("train", "parts", "--model", "knn", "--out", "m")
    measured = run("evaluate", "m", "parts")
    assert "the test part of parts: 12 points" in measured.stderr
    assert "was trained on" not in measured.stderr
    run("convert", table, "again", "--to", "table", "--hold-out", "0.2")
    assert (here / "again" / "test.csv").read_bytes() == (here / "parts" / "test.csv").read_bytes()
    run("convert", table, "features", "--hold-out", "0.2")
    assert read("features").X.shape[1] == read("parts").X.shape[1]  # words of training points
    for words, why in (
        ((table, "x.csv", "--hold-out", 0.2), "writes two parts, and x.csv is one file"),
        ((table, "x", "--hold-out", 1), "--hold-out is 1; give a number above 0 and below 1"),
        (("parts", "x", "--hold-out", 0.2), "--hold-out has no effect: parts has a test part"),
    ):
        assert why in run("convert", *words, code=2).stderr


def test_compare_over_seeds(run, table, monkeypatch):
    monkeypatch.setattr(worker, "_process", worker.do_task)
    words = ("compare", table, "--models", "popular,parabel(n_trees=1)", "--seeds", 2)
    results = json.loads(run(*words, "--json").stdout)
    assert [row["seeds"] for row in results] == [2, 2]
    assert results[0]["deviation"]["P@1"] == 0
    assert "±" in run(*words).stdout


def test_a_metric_that_one_seed_lacks_has_no_mean():
    """compare --seeds ended with a TypeError after all training."""
    rows = [{"model": "knn", "P@1": 50.0, "ECE-rare@1": 3.0}, {"model": "knn", "P@1": 60.0, "ECE-rare@1": None}]
    for given in (rows, rows[::-1]):
        found = over_seeds(given)
        assert (found["P@1"], found["ECE-rare@1"], found["seeds"]) == (55.0, None, 2)
        assert list(found["deviation"]) == ["P@1"]


def test_word_pairs_are_chosen_by_validation_and_said(run, table, sparse):
    result = run("train", table, "--model", "popular", "--set", "text.ngrams=auto", "--out", "m")
    assert "Terms are words" in result.stderr
    assert "on held-out points" in result.stderr
    assert json.loads(run("inspect", "m", "--json").stdout)["vectorizer"]["ngrams"] in (1, [1, 2])
    refused = run("train", sparse, "--model", "popular", "--set", "text.ngrams=auto", "--out", "n", code=2)
    assert "no effect" in refused.stderr


def test_settings_of_text_on_features_are_refused(run, sparse):
    result = run("train", sparse, "--model", "popular", "--set", "text.ngrams=2", "--out", "m", code=2)
    assert "--set text.… has no effect: the data holds features, not text" in result.stderr
    result = run("train", sparse, "--model", "popular", "--labels-separator", ";", "--out", "m", code=2)
    assert "--labels-separator has no effect" in result.stderr
    assert not Path("m").exists()


def test_a_text_without_a_known_word(run, table):
    run("train", table, "--model", "popular", "--out", "m")
    result = run("predict", "m", "--text", "zzz qqq")
    assert "no word of this text is in the model's vocabulary" in result.stdout
    assert "vocabulary" not in result.stderr  # said once
    result = run("predict", "m", "--text", "zzz qqq", "--json")
    (row,) = json.loads(result.stdout)
    assert row["labels"] == []
    assert "The text has no word of the model's vocabulary" in result.stderr


def test_a_remark_follows_the_array_that_it_is_about(run, table):
    """On a terminal it stood before the last bracket."""
    run("train", table, "--model", "knn", "--out", "m")
    shown = run("predict", "m", "--input", "-", "--json", input="a pear\n\n").output
    assert shown.endswith("]\n1 of 2 texts has no word of the model's vocabulary, and no label.\n")


def test_verbs_that_read_data_take_the_same_options(run, table, here):
    """No option can be left out: the columns have unusual names, and no separator would be chosen."""
    content = table.read_text().replace("id,text,labels", "number,note,about").replace("|", "#")
    odd = here / "odd.data"
    odd.write_text(content)
    same = ("--format", "table", "--text-column", "note", "--labels-column", "about", "--labels-separator", "#")
    run("train", odd, *same, "--model", "parabel(n_trees=1)", "--out", "m")
    assert len(json.loads(run("predict", "m", "--input", odd, *same, "--json").stdout)) == 60
    (row,) = json.loads(run("evaluate", "m", odd, *same, "--json").stdout)
    assert row["P@1"] > 90
    assert "Stored 60 corrections" in run("learn", "m", odd, *same).stdout
    assert "60 points, 9 labels" in run("convert", odd, "out.csv", *same).stdout


def test_errors_name_options_of_the_command_line(run, here):
    (here / "x.csv").write_text("words,things,more\na,b,c\n")
    message = run("train", "x.csv", "--out", "m", code=2).stderr
    assert "Name it with --text-column;" in message
    assert "text=" not in message


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("train x.csv --out m --labels-column a --labels-column b", "--labels-column"),
        ("predict m -i x.csv --input y.csv", "--input"),
        ("plot norms m --out a.svg --out b.svg", "--out"),
    ],
)
def test_an_option_with_one_value_is_given_once(run, words, option):
    """Of two labels columns, the first was left out in silence."""
    assert f"error: {option} is given 2 times, but takes one value." in run(*words.split(), code=2).stderr


def test_options_that_may_be_repeated(run, table):
    run("train", table, "--model", "popular", "--out", "m")
    assert len(json.loads(run("predict", "m", "-t", "a pear", "-t", "a fig", "--json", "--json").stdout)) == 2


def test_optimize_names_the_next_command(run, table):
    run("train", table, "--model", "parabel(n_trees=1)", "--out", "m")
    assert "Try: longtail predict m --threshold 0." in run("optimize", "m", table).stdout
    assert "Try: longtail predict m --threshold auto" in run("optimize", "m", table, "--save").stdout


def test_measuring_on_the_training_points_is_noticed(run, table, here):
    run("train", table, "--model", "parabel(n_trees=1)", "--out", "m")
    warning = "warning: the model was trained on all of fruit"
    assert warning in run("evaluate", "m", table).stderr
    assert warning in run("optimize", "m", table).stderr
    assert warning in run("report", "m", "--data", table, "--out", "r.html").stderr
    lines = table.read_text().splitlines()
    (here / "other.csv").write_text("\n".join(lines[:-3]) + "\n")
    assert "warning" not in run("evaluate", "m", "other.csv").stderr


@pytest.mark.parametrize("name", ["tags.xlsx", "Tags.ODS"])
def test_a_spreadsheet_is_named_as_such(run, here, name):
    (here / name).write_bytes(b"PK\3\4")
    message = run("train", name, "--model", "popular", "--out", "m", code=2).stderr
    assert f"{name}: spreadsheets are not read. Save it as CSV" in message


def test_texts_may_follow_the_folder(run, table):
    run("train", table, "--model", "popular", "--out", "m")
    by_option = run("predict", "m", "--text", "red pear", "--json").stdout
    assert json.loads(run("predict", "m", "red pear", "--json").stdout) == json.loads(by_option)
    assert f"give --input {table.name}" in run("predict", "m", table.name, code=2).stderr
    swapped = run("predict", table.name, "m", code=2).stderr
    assert f"m is a model. Name it first: longtail predict m --input {table.name}." in swapped
    assert run("predict", "m", 500 * "red pear ").stdout  # longer than any file name


def test_labels_of_the_test_part_alone_are_not_a_silent_table_of_zeros(run, here):
    """The model knows their names, because the test part was beside the training part, but has no point of them."""
    (here / "d").mkdir()
    (here / "d" / "train.csv").write_text("text,labels\nred soup,soup|red\nred pie,pie|red\n")
    (here / "d" / "test.csv").write_text("text,labels\nred cake,cake|sweet|red\n")
    run("train", "d", "--model", "knn", "--out", "m")
    told = " ".join(run("evaluate", "m", "d").stderr.split())
    assert "1 of 3 labels of these points have training points" in told
    (here / "d" / "test.csv").write_text("text,labels\nred soup,soup|red\n")
    assert "have training points" not in " ".join(run("evaluate", "m", "d").stderr.split())
