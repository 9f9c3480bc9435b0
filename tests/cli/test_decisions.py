"""Thresholds on the command line: predict, evaluate, results per label, optimize."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import longtail
from longtail.metrics import thresholds
from tests.cli.conftest import Run


@pytest.fixture
def model(run: Run, table: Path) -> str:
    run("train", table, "--model", "calibrated(parabel(n_trees=1))", "--out", "m")
    return "m"


def test_predict_leaves_out_labels_below_the_threshold(run: Run, model: str) -> None:
    def labels(*words: object) -> list[dict[str, object]]:
        (row,) = json.loads(run("predict", model, "--text", "a green pear", "--json", *words).stdout)
        return row["labels"]

    every = labels("-k", 9)
    assert len(labels()) == 5
    middle = every[1]["score"]
    assert labels("-k", 9, "--threshold", middle) == every[:2]
    assert labels("--threshold", middle) == every[:2]
    assert labels("--threshold", 0.0001) == every  # not five of them
    assert len(labels("--threshold", 0.0001, "-k", 3)) == 3
    assert labels("--threshold", 1) == []
    assert "no label" in run("predict", model, "--text", "a green pear", "--threshold", 1).stdout
    chosen = longtail.load(model).thresholds("auto").values[0]
    assert labels("--threshold", "auto") == [label for label in every if label["score"] >= chosen]


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
@pytest.mark.parametrize("threshold", ["1.5", "-0.1", "high", "nan"])
def test_a_threshold_outside_0_to_1_is_refused(run: Run, table: Path, model: str, verb: str, threshold: str) -> None:
    rest = ["--text", "a pear"] if verb == "predict" else [table]
    error = run(verb, model, *rest, f"--threshold={threshold}", code=2).stderr
    assert "give a number from 0 to 1, or auto" in " ".join(error.split())


def test_evaluate_shows_calibration_and_decisions(run: Run, table: Path, model: str) -> None:
    (plain,) = json.loads(run("evaluate", model, table, "--json").stdout)
    assert "micro-F1" not in plain
    assert plain["ECE@1"] >= 0
    (row,) = json.loads(run("evaluate", model, table, "--threshold", "auto", "--json").stdout)
    averages = [f"{average}-{name}" for average in ("micro", "macro", "example") for name in ("P", "R", "F1")]
    assert list(row) == [*plain, "threshold", *averages]
    assert all(0 <= row[key] <= 100 for key in averages)
    assert row["threshold"] == {"values": [row["threshold"]["values"][0]], "frequencies": [0], "limit": 50}
    shown = run("evaluate", model, table, "--threshold", "0.4").stdout
    assert "\n\nLabels that reach the threshold 0.4" in shown
    assert "ECE" in shown
    assert "macro" in shown


def test_results_per_label_are_written(run: Run, table: Path, here: Path, model: str) -> None:
    (here / "some.csv").write_text("text,labels\na red apple,red|apple\na lime,lime|never seen\n")
    said = run("evaluate", model, "some.csv", "--per-label", "labels.csv").stderr
    assert "by the top 5 labels" in " ".join(said.split())
    rows = {row["label"]: row for row in csv.DictReader((here / "labels.csv").read_text().splitlines())}
    assert list(rows["red"]) == ["label", "training_points", "test_points", "suggested", "correct", "P", "R", "F1"]
    assert (rows["red"]["training_points"], rows["red"]["test_points"], rows["red"]["correct"]) == ("20", "1", "1")
    assert (rows["never seen"]["training_points"], rows["never seen"]["R"]) == ("0", "0.00")
    assert "ends in .csv" in run("evaluate", model, "some.csv", "--per-label", "labels.txt", code=2).stderr


def test_results_per_label_have_identifiers(run: Run, raw: Path, here: Path) -> None:
    run("train", raw, "--model", "popular", "--out", "m")
    run("evaluate", "m", raw, "--per-label", "labels.csv", "--threshold", "0.01")
    rows = list(csv.DictReader((here / "labels.csv").read_text().splitlines()))
    assert {row["id"] for row in rows} == {f"L{i}" for i in range(7)}


def test_labels_of_the_test_data_only(run: Run, here: Path, model: str) -> None:
    (here / "other.csv").write_text("text,labels\na red apple,x|y\na lime,z\n")
    for verb in ("evaluate", "optimize"):
        error = " ".join(run(verb, model, "other.csv", code=2).stderr.split())
        assert "0 of 3 labels are known to this model" in error
        assert "--labels-separator" in error
    (here / "few.csv").write_text("text,labels\na red apple,x|y\na lime,z|lime\n")
    error = " ".join(run("evaluate", model, "few.csv").stderr.split())
    assert "1 of 4 labels is known to this model" in error
    assert "--labels-separator" in error


def test_optimize_compares_and_saves(run: Run, table: Path) -> None:
    run("train", table, "--model", "parabel(n_trees=1)", "--out", "m")
    error = " ".join(run("predict", "m", "--text", "a pear", "--threshold", "auto", code=2).stderr.split())
    assert "longtail optimize DIR DATA --save" in error
    found = json.loads(run("optimize", "m", table, "--json").stdout)
    assert [row["limit"] for row in found["table"]] == [1, 2, 3, 5, 10, 20, 50]
    assert found["best"]["f1"] >= max(max(row["f1"]) for row in found["table"])
    assert not found["saved"]
    for more in (["--goal", "macro", "--by-frequency"], ["--goal", "example"], []):
        shown = run("optimize", "m", table, "--save", *more)
        assert "Best: at most" in shown.stdout
    assert longtail.load("m").notes_["thresholds"] == found["best"]
    assert longtail.load("m").notes_["training"]["n_points"] == 60
    (row,) = json.loads(run("evaluate", "m", table, "--threshold", "auto", "--json").stdout)
    assert row["micro-F1"] == pytest.approx(found["best"]["f1"])
    run("predict", "m", "--text", "a pear", "--threshold", "auto")


def test_optimize_prefers_the_smallest_of_equal_limits(run: Run, tmp_path: Path) -> None:
    lines = [f"{fruit} and more,{fruit}" for fruit in ("pear", "quince", "plum", "fig") for _ in range(15)]
    (tmp_path / "one.csv").write_text("\n".join(["text,labels", *lines]) + "\n")
    run("train", tmp_path / "one.csv", "--model", "parabel(n_trees=1)", "--out", "m")
    shown = " ".join(run("optimize", "m", tmp_path / "one.csv").stdout.split())
    assert "Best: at most 1 label, threshold" in shown
    assert "micro-F1 100.00" in shown


def test_optimize_keeps_what_was_changed_meanwhile(run: Run, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It saved the model that it had loaded minutes before."""
    run("train", table, "--model", "parabel(n_trees=1)", "--out", "m")
    choose = thresholds.choose_thresholds
    commands: list[Any] = [("labels", "m", "rename", "pear", "nashi")]

    def changed_meanwhile(*args: Any, **settings: Any) -> Any:
        if commands:
            run(*commands.pop())
        return choose(*args, **settings)

    monkeypatch.setattr(thresholds, "choose_thresholds", changed_meanwhile)
    run("optimize", "m", table, "--save")
    kept = longtail.load("m")
    assert "nashi" in kept.label_names_
    assert kept.notes_["thresholds"]["f1"] > 0
    commands.append(("train", table, "--model", "popular", "--out", "m"))
    error = " ".join(run("optimize", "m", table, "--save", code=2).stderr.split())
    assert "was trained again in the meantime" in error
    assert "thresholds" not in longtail.load("m").notes_


def test_optimize_refuses_to_save_into_a_ranker_alone(run: Run, sparse: Path) -> None:
    data = longtail.read(sparse)
    longtail.make("popular").fit(data.X, data.Y).save("m")
    assert "Best: at most" in run("optimize", "m", sparse).stdout
    assert "holds a ranker alone" in run("optimize", "m", sparse, "--save", code=2).stderr
