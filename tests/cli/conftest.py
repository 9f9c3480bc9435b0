"""The command line in this process, and small data for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from longtail.cli.app import app

Run = Callable[..., Result]

FRUITS = ["apple", "pear", "plum", "fig", "lime", "quince"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run() -> Run:
    """Run the command line; its output, its messages and its exit code."""

    def longtail(*words: Any, code: int = 0, input: str | None = None) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in words], input=input)
        told = f"longtail {' '.join(map(str, words))}\n{result.stdout}\n{result.stderr}"
        assert result.exit_code == code, f"{told}\n{result.exception!r}"
        assert "Traceback" not in result.stderr, told
        return result

    return longtail


@pytest.fixture
def table(here: Path) -> Path:
    """A table of texts and labels: a fruit and a colour each."""
    lines = ["id,text,labels"]
    for i in range(60):
        fruit, colour = FRUITS[i % 6], ["red", "green", "blue"][i % 3]
        lines.append(f"d{i},a {colour} {fruit} number{i},{fruit}|{colour}")
    path = here / "fruit.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def raw(here: Path) -> Path:
    """The raw text layout, with a test part, label texts and pairs to ignore."""
    folder = here / "raw"
    folder.mkdir()
    for name, numbers in (("trn", range(60)), ("tst", range(60, 75))):
        points = [{"uid": f"{name}{i}", "title": f"a {FRUITS[i % 6]} tart", "target_ind": [i % 6, 6]} for i in numbers]
        (folder / f"{name}.json").write_text("".join(json.dumps(point) + "\n" for point in points))
    labels = [{"uid": f"L{i}", "title": f"all about {name}"} for i, name in enumerate([*FRUITS, "cake"])]
    (folder / "lbl.json").write_text("".join(json.dumps(label) + "\n" for label in labels))
    (folder / "filter_labels_test.txt").write_text("0 6\n1 6\n")
    return folder


@pytest.fixture
def sparse(here: Path) -> Path:
    """The repository's sparse text, with a test part; one point has no features and one no labels."""
    folder = here / "sparse"
    folder.mkdir()
    rows = [f"{i % 4},4 {i % 4}:1 {4 + i % 3}:0.5" for i in range(30)]
    (folder / "train.txt").write_text("\n".join(["32 8 5", *rows, "1", " 0:1"]) + "\n")
    (folder / "test.txt").write_text("\n".join(["8 8 5", *rows[:8]]) + "\n")
    return folder
