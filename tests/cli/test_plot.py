"""``longtail plot``: pictures of a saved model, and what ``inspect`` shows of the same facts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.models.dxml import DXML
from tests.cli.conftest import Run
from tests.contract import toy

GLAS = "glas(dim=8, epochs=3, validation_fraction=0.3)"
DXML_MODEL = "dxml(epochs=2, dim=8, hidden=8, n_networks=1)"


def test_curves_are_stored_shown_and_drawn(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", GLAS, "--out", "m")
    facts = json.loads(run("inspect", "m", "--json").stdout)
    history = facts["parts"]["ranker"]["history"]
    assert [entry["epoch"] for entry in history] == [0, 1, 2]
    assert {"train_P@1", "validation_P@1", "loss"} <= history[0].keys()
    shown = run("inspect", "m").stdout
    for words in ("train P@1", "validation P@1", "gap"):
        assert words in shown
    pytest.importorskip("matplotlib")
    assert run("plot", "curves", "m").stdout == "Wrote curves.png\n"
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(run("plot", "curves", "m", "--out", "deep/curves.svg", "--json").stdout) == {
        "out": "deep/curves.svg"
    }
    assert "<svg" in Path("deep/curves.svg").read_text()


def test_norms_of_one_model_and_of_two(run: Run, raw: Path) -> None:
    run("train", raw, "--model", "parabel", "--out", "before")
    run("train", raw, "--model", "taug(parabel, n_aug=1)", "--out", "after")
    assert run("plot", "norms", "before").stdout == "Wrote norms.png\n"
    run("plot", "norms", "before", "--out", "two.svg", "--beside", "after")
    assert Path("norms.png").read_bytes().startswith(b"\x89PNG")
    assert "--out norms.png" in run("plot", "norms", "before", code=2).stderr  # replaced only when it is named
    run("plot", "norms", "before", "--out", "norms.png")
    assert Path("two.svg").stat().st_size > 1000
    run("train", raw, "--model", "popular", "--out", "floor")
    assert "no classifier" in run("plot", "norms", "floor", "--out", "norms.png", code=2).stderr
    assert "saved alone" in run("plot", "norms", Path("before") / "ranker", "-o", "x.png", code=2).stderr


def test_norms_of_models_of_different_data_are_refused(run: Run, raw: Path, table: Path) -> None:
    run("train", raw, "--model", "parabel", "--out", "one")
    run("train", table, "--model", "parabel", "--out", "two")
    assert "same data" in run("plot", "norms", "one", "--beside", "two", code=2).stderr


def test_near_labels_are_listed_and_drawn(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", DXML_MODEL, "--out", "m")
    facts = json.loads(run("inspect", "m", "--label", "apple", "--json").stdout)
    assert facts["label"] == "apple"
    assert [found["label"] for found in facts["graph"]] == ["red"]
    assert facts["graph"][0]["weight"] == 10
    assert len(facts["vectors"]) == 8
    shown = run("inspect", "m", "--label", "red").stdout
    assert "apple" in shown
    assert "cosine" in shown
    for name in ("near/red.png", "red.svg", "red.pdf"):
        assert run("plot", "labels", "m", "red", "--out", name).stdout == f"Wrote {name}\n"
        assert (here / name).stat().st_size > 1000
    assert (here / "near" / "red.png").read_bytes()[:4] == b"\x89PNG"


def test_labels_may_be_named_by_identifier(run: Run, raw: Path) -> None:
    run("train", raw, "--model", DXML_MODEL, "--out", "m")
    assert json.loads(run("inspect", "m", "--label", "L6", "--json").stdout)["label"] == "all about cake"


def test_a_ranker_without_names_goes_by_numbers(run: Run, here: Path) -> None:
    X, _, _ = toy()
    single = np.eye(24, dtype=np.float32)[np.arange(300) % 24]  # no label has a neighbour
    DXML(epochs=1, dim=4, n_networks=1, advanced={"hidden": 4}).fit(X, single).save("m")
    facts = json.loads(run("inspect", "m", "--label", "3", "--json").stdout)
    assert facts["label"] == "3"
    assert facts["graph"] == []
    assert "no edges" in run("inspect", "m", "--label", "3").stdout
    run("plot", "labels", "m", "3")
    assert (here / "labels.png").is_file()
    assert "from 0 to 23" in run("inspect", "m", "--label", "24", code=2).stderr


def test_what_cannot_be_drawn(run: Run, table: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("train", table, "--model", "popular", "--out", "m")
    assert "no training curves" in run("plot", "curves", "m", code=2).stderr
    assert "keeps no label graph" in run("plot", "labels", "m", "red", code=2).stderr
    assert "keeps no label graph" in run("inspect", "m", "--label", "red", code=2).stderr
    run("train", table, "--model", DXML_MODEL, "--out", "m")
    assert "Did you mean 'apple'" in run("plot", "labels", "m", "aple", code=2).stderr
    for words in (["curves", "m"], ["norms", "m"], ["labels", "m", "red"]):
        wrong = run("plot", *words, "--out", "x.gif", code=2).stderr
        assert "Cannot write a picture to x.gif: use a name that ends in .png, .svg or .pdf." in wrong
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for words in (["curves", "m"], ["norms", "m"], ["labels", "m", "red"]):
        assert "pip install 'longtail[report]'" in run("plot", *words, code=2).stderr
    assert not list(here.glob("*.png"))
