"""``longtail inspect --label``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.models.dxml import DXML
from tests.cli.conftest import Run
from tests.contract import toy

MODEL = "dxml(epochs=2, dim=8, hidden=8, n_networks=1)"


def test_near_labels_are_listed_and_drawn(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", MODEL, "--out", "m")
    facts = json.loads(run("inspect", "m", "--label", "apple", "--json").stdout)
    assert facts["label"] == "apple"
    assert [found["label"] for found in facts["graph"]] == ["red"]
    assert facts["graph"][0]["weight"] == 10
    assert len(facts["vectors"]) == 8
    told = run("inspect", "m", "near/red.png", "--label", "red", "--plot")
    assert "apple" in told.stdout
    assert "cosine" in told.stdout
    assert (here / "near" / "red.png").read_bytes()[:4] == b"\x89PNG"
    for name in ("red.svg", "red.pdf"):
        run("inspect", "m", name, "--label", "red", "--plot")
        assert (here / name).stat().st_size > 1000


def test_labels_may_be_named_by_identifier(run: Run, raw: Path) -> None:
    run("train", raw, "--model", MODEL, "--out", "m")
    assert json.loads(run("inspect", "m", "--label", "L6", "--json").stdout)["label"] == "all about cake"


def test_what_cannot_be_shown_says_why(run: Run, table: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("train", table, "--model", MODEL, "--out", "m")
    assert "Did you mean 'apple'" in run("inspect", "m", "--label", "aple", code=2).stderr
    assert ".png, .svg or .pdf" in run("inspect", "m", "x.gif", "--label", "red", "--plot", code=2).stderr
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "longtail[report]" in run("inspect", "m", "--label", "red", "--plot", code=2).stderr
    run("train", table, "--model", "parabel", "--out", "p")
    assert "keeps no label graph" in run("inspect", "p", "--label", "red", code=2).stderr


def test_a_ranker_without_names_goes_by_numbers(run: Run, here: Path) -> None:
    X, _, _ = toy()
    single = np.eye(24, dtype=np.float32)[np.arange(300) % 24]  # no label has a neighbour
    DXML(epochs=1, dim=4, hidden=4, n_networks=1).fit(X, single).save("m")
    facts = json.loads(run("inspect", "m", "--label", "3", "--json").stdout)
    assert facts["label"] == "3"
    assert facts["graph"] == []
    assert "no edges" in run("inspect", "m", "--label", "3", "--plot").stdout
    assert (here / "neighbours.png").is_file()
    assert "from 0 to 23" in run("inspect", "m", "--label", "24", code=2).stderr
