"""Prediction for many files: one result each, and none twice."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import longtail
from longtail.cli import predict
from tests.cli.conftest import Run

TEXTS = ["moss of the north", "bread at home", "moss and bread"]


@pytest.fixture
def parts(here: Path) -> Path:
    tagger = longtail.Tagger("parabel(n_trees=1, cost=1.0)").fit(TEXTS, [["moss"], ["bread"], ["moss", "bread"]])
    tagger.save(here / "model")
    for part in range(4):
        (here / f"part-{part}.txt").write_text("".join(f"{text} {part}\n" for text in TEXTS))
    return here


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_file_has_its_results(run: Run, parts: Path) -> None:
    facts = json.loads(run("predict", "model", "--input", "part-*.txt", "--out", "out", "-k", 1, "--json").stdout)
    assert (facts["n_files"], facts["n_predicted"], facts["n_points"]) == (4, 4, 12)
    assert sorted(results(parts / "out")) == [*(f"part-{i}.txt.jsonl" for i in range(4)), "predict.json"]
    run("predict", "model", "--input", "part-2.txt", "--out", "alone.jsonl", "-k", 1)
    assert (parts / "out" / "part-2.txt.jsonl").read_bytes() == (parts / "alone.jsonl").read_bytes()


def test_an_interrupted_run_goes_on(run: Run, parts: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    command = ("predict", "model", "--input", "part-*.txt", "--out", "out", "--json")
    run(*command)
    whole = results(parts / "out")
    for name in ("part-1.txt.jsonl", "part-3.txt.jsonl"):
        (parts / "out" / name).unlink()
    read: list[str] = []
    blocks = predict.read_blocks
    monkeypatch.setattr(predict, "read_blocks", lambda name, *rest: read.append(name) or blocks(name, *rest))
    result = run(*command)
    assert "2 of 4 files are done" in result.stderr
    assert json.loads(result.stdout)["n_predicted"] == 2
    assert read == ["part-1.txt", "part-3.txt"]  # nothing twice
    assert results(parts / "out") == whole


def test_what_changed_since_is_not_taken_for_done(run: Run, parts: Path) -> None:
    command = ("predict", "model", "--input", "part-*.txt", "--out", "out")
    run(*command, "--json")
    (parts / "part-1.txt").write_text("bread\n")
    os.utime(parts / "part-1.txt", (time.time() + 9,) * 2)
    assert json.loads(run(*command, "--json").stdout)["n_predicted"] == 1
    assert "--text-column" in run(*command, "--text-column", "title", code=2).stderr
    longtail.load(parts / "model").save(parts / "model")
    assert "model version" in run(*command, code=2).stderr


def test_a_damaged_file_ends_it_and_loses_nothing(run: Run, parts: Path) -> None:
    (parts / "part-2.txt").write_bytes(b"moss\n\xff\xfe bread\n")
    result = run("predict", "model", "--input", "part-*.txt", "--out", "out", code=2)
    assert "part-2.txt" in result.stderr
    assert "not UTF-8" in result.stderr
    assert {"part-0.txt.jsonl", "part-1.txt.jsonl"} <= set(results(parts / "out"))
    (parts / "part-2.txt").write_text("moss\n")
    run("predict", "model", "--input", "part-*.txt", "--out", "out")
    assert len(results(parts / "out")) == 5


def test_what_does_not_go_together_is_refused(run: Run, parts: Path) -> None:
    def refused(*words: object) -> str:
        return " ".join(run("predict", "model", *words, code=2).stderr.split())

    assert "no file has such a name" in refused("--input", "none-*.txt", "--out", "out")
    assert "give --out DIR" in refused("--input", "part-*.txt")
    assert "give --out DIR" in refused("--input", "part-*.txt", "--out", "x.jsonl")
    assert "--engine is for many files" in refused("--input", "part-1.txt", "--out", "x.jsonl", "--engine", "ray")
    assert "no engine 'dask'" in refused("--input", "part-*.txt", "--out", "out", "--engine", "dask")
    (parts / "other").mkdir()
    (parts / "other" / "notes.txt").touch()
    assert "holds no results" in refused("--input", "part-*.txt", "--out", "other")
    run("predict", "model", "--input", "part-*.txt", "--out", "out", "-k", 1)
    assert "was begun with k 1, not 2" in refused("--input", "part-*.txt", "--out", "out", "-k", 2)
    (parts / "other" / "part-1.txt").write_text("moss\n")
    assert "the same name" in refused("--input", "**/part-1.txt", "--out", "out2")
