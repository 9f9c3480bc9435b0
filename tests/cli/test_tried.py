"""What a model tells of how it was chosen, and the picture of its classifiers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.errors import ModelError
from longtail.models.norms import label_norms
from tests.cli.conftest import Run
from tests.contract import L, toy


def test_auto_tells_what_it_tried(run: Run, table: Path) -> None:
    told = run("train", table, "--model", "auto(candidates=['bonsai', 'fastxml'])", "--out", "m").stdout
    for words in ("bonsai", "fastxml", "on held-out points", "F@5", "Chosen: ", "best member alone"):
        assert words in " ".join(told.split())
    facts = json.loads(run("inspect", "m", "--json").stdout)["parts"]["ranker"]
    assert [row["model"] for row in facts["report"]][:2] == ["bonsai", "fastxml"]
    assert facts["why"]
    assert "on held-out points" in run("inspect", "m").stdout
    answer = json.loads(
        run("train", table, "--model", "auto", "--set", "auto.candidates=['dismec']", "--out", "m", "--json").stdout
    )
    assert answer["why"]
    assert answer["report"][-1]["chosen"]


def test_skipped_candidates_are_shown(run: Run) -> None:
    from longtail.cli import common, tried

    with common.out.capture() as shown:
        common.out.print(tried.table([{"model": "dismec", "skipped": "would take about 900 s"}]))
    assert "900 s" in shown.get()


def test_picture_of_norms(run: Run, raw: Path) -> None:
    run("train", raw, "--model", "parabel", "--out", "before")
    run("train", raw, "--model", "taug(parabel, n_aug=1)", "--out", "after")
    run("inspect", "before", "--norms", "one.png")
    run("inspect", "before", "--norms", "two.svg", "--beside", "after")
    assert Path("one.png").read_bytes().startswith(b"\x89PNG")
    assert "after" in Path("two.svg").read_text() or Path("two.svg").stat().st_size > 1000
    assert ".png, .svg or .pdf" in run("inspect", "before", "--norms", "one.txt", code=2).stderr
    run("train", raw, "--model", "popular", "--out", "floor")
    assert "no classifier a label" in run("inspect", "floor", "--norms", "x.png", code=2).stderr
    assert "ranker alone" in run("inspect", Path("before") / "ranker", "--norms", "x.png", code=2).stderr


def test_pictures_of_other_data_are_refused(run: Run, raw: Path, table: Path) -> None:
    run("train", raw, "--model", "parabel", "--out", "one")
    run("train", table, "--model", "parabel", "--out", "two")
    assert "same data" in run("inspect", "one", "--norms", "x.png", "--beside", "two", code=2).stderr


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_norms_are_those_of_the_labels_weights(dtype: str) -> None:
    X, Y, _ = toy()
    model = longtail.make(f"parabel(max_leaf=4, n_trees=1, dtype={dtype})").fit(X, Y)
    forest = model.forest_
    dense = np.zeros((X.shape[1], len(forest.bias)))
    for f in range(X.shape[1]):
        span = slice(forest.ptr[0, 2 * f], forest.ptr[0, 2 * f + 2])
        dense[f, forest.nodes[span]] = forest.values[span] * forest.scale[forest.nodes[span]]
    expected = np.full(L, np.nan)
    expected[forest.labels] = np.linalg.norm(dense, axis=0)[-len(forest.labels) :]
    np.testing.assert_allclose(label_norms(model), expected, rtol=1e-5)


def test_norms_of_what_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, Z = toy()
    for name in ("taug(dismec)", "labeltext(dismec)", "ensemble([popular, dismec])", "glas(dim=8, epochs=1)"):
        assert not np.isnan(label_norms(longtail.make(name).fit(X, Y, label_features=Z))).any()
    with pytest.raises(ModelError, match="no classifier a label"):
        label_norms(longtail.make("popular").fit(X, Y))
