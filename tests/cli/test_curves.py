"""Training curves: stored by train, shown and drawn by inspect."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from longtail.cli import curves
from tests.cli.conftest import Run

GLAS = "glas(dim=8, epochs=3, validation_fraction=0.3)"


def test_curves_are_stored_shown_and_drawn(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", GLAS, "--out", "m")
    facts = json.loads(run("inspect", "m", "--json").stdout)
    history = facts["parts"]["ranker"]["history"]
    assert [entry["epoch"] for entry in history] == [0, 1, 2]
    assert {"train_P@1", "validation_P@1", "loss"} <= history[0].keys()
    told = run("inspect", "m").stdout
    for words in ("train P@1", "validation P@1", "gap"):
        assert words in told
    pytest.importorskip("matplotlib")
    assert "curves.png" in run("inspect", "m", "--plot").stdout
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads(run("inspect", "m", "--plot", "deep/curves.svg", "--json").stdout)
    assert facts["plot"] == "deep/curves.svg"
    assert "<svg" in Path("deep/curves.svg").read_text()
    assert "Name a .png" in run("inspect", "m", "--plot", "curves.words", code=2).stderr


def test_what_cannot_be_drawn_is_said(run: Run, table: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("train", table, "--model", "popular", "--out", "m")
    assert "no training curves" in run("inspect", "m", "--plot", code=2).stderr
    assert "--plot is not given" in run("inspect", "m", "curves.png", code=2).stderr
    run("train", table, "--model", GLAS, "--out", "m")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "longtail[report]" in run("inspect", "m", "--plot", code=2).stderr
    assert not Path("curves.png").exists()


def test_a_long_history_is_shown_in_part_with_its_best_epoch() -> None:
    history = [
        {"epoch": at, "loss": 1 / (at + 1), "train_P@1": 50.0 + at, "validation_P@1": 50.0, "monitor": -abs(at - 31)}
        for at in range(100)
    ]
    heading, *rows = curves.lines(history)
    assert heading == ["epoch", "loss", "train P@1", "validation P@1", "gap"]
    assert len(rows) <= curves.SHOWN + 2
    assert rows[0][0] == "1"
    assert rows[-1][0] == "100"
    assert [row for row in rows if row[0].endswith("*")] == [["32 *", "0.0312", "81.0", "50.0", "31.0"]]


def test_a_history_without_validation_has_no_gap() -> None:
    history = [{"epoch": at, "loss": 1.0, "train_P@1": 50.0} for at in range(3)]
    assert curves.lines(history) == [
        ["epoch", "loss", "train P@1"],
        *([str(at), "1.0000", "50.0"] for at in (1, 2, 3)),
    ]
