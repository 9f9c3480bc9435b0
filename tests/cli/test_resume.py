"""``longtail train`` after signal 9: the same command goes on and ends with the same model; --fresh starts again."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from longtail.store import owner
from tests.cli.conftest import Run

TRAIN = [sys.executable, "-m", "longtail", "train"]


def kill_at(step: str, words: list[str], here: Path) -> None:
    """Start a training and kill it when a step of its checkpoint is there, completely."""
    process = subprocess.Popen([*TRAIN, *words], cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 250
    while not any(path.parent.name[0] != "." for path in here.glob(f".m.checkpoint/{step}/model.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.communicate()


def content(folder: Path) -> dict[str, bytes]:
    inner = folder / "ranker"
    return {str(path.relative_to(inner)): path.read_bytes() for path in inner.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("model", "step", "named"),
    [
        ("bonsai(n_trees=60, max_leaf=2)", "tree-2", "tree-"),  # of many finished trees only some are named
        ("decaf(dim=8, epochs=300)", "epochs/*", "epochs"),
        ("blend([bonsai(n_trees=60, max_leaf=2), knn, textmatch])", "1-bonsai-part", "1-bonsai-part"),
    ],
)
def test_a_killed_training_goes_on(model: str, step: str, named: str, run: Run, raw: Path, here: Path) -> None:
    words = ["raw", "-m", model, "--out", "m"]
    before = sorted(here.iterdir())
    kill_at(step, words, here)
    assert [path.name for path in sorted(here.iterdir()) if path not in before] == [".m.checkpoint"]
    resumed = run("train", *words)
    assert "Resuming from .m.checkpoint" in resumed.stderr
    assert named in resumed.stderr
    run("train", "raw", "-m", model, "--out", "whole")
    assert content(here / "m") == content(here / "whole")
    assert [path.name for path in sorted(here.iterdir()) if path not in before] == ["m", "whole"]


def test_an_interrupt_names_what_is_kept(run: Run, raw: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("longtail.models.knn.KNN._fit", interrupt)
    words = ["train", "raw", "--out", "m", "-m"]
    kept = run(*words, "blend([bonsai, knn])", code=130).stderr
    assert kept.endswith(".m.checkpoint keeps the finished steps: the same command goes on from there.\nInterrupted.\n")
    run(*words, "popular")
    assert run(*words, "knn", code=130).stderr.endswith("Interrupted.\n")
    assert not (here / ".m.checkpoint").exists()


def test_fresh_and_other_settings_start_again(run: Run, raw: Path, here: Path) -> None:
    words = ["raw", "-m", "bonsai(n_trees=60, max_leaf=2)", "--out", "m"]
    kill_at("tree-1", words, here)
    fresh = run("train", *words, "--fresh")
    assert "Removed .m.checkpoint" in fresh.stderr
    assert "Going on" not in fresh.stderr
    kill_at("tree-1", words, here)
    other = run("train", *words, "--seed", "1")
    assert ".m.checkpoint: a checkpoint of other data, settings or version" in other.stderr
    assert not (here / ".m.checkpoint").exists()


def test_what_a_killed_save_left_is_removed(run: Run, table: Path, here: Path) -> None:
    gone = owner.this_process()._replace(pid=4194303)
    (here / f".m.new-{gone}-0123abcd").mkdir()
    (here / f".m.old-{gone}-0123abcd").mkdir()
    run("train", table, "-m", "popular", "--out", "m")
    assert sorted(path.name for path in here.iterdir()) == ["fruit.csv", "m"]


def test_something_else_at_the_place_of_the_checkpoint_is_refused(run: Run, table: Path, here: Path) -> None:
    (here / ".m.checkpoint").write_text("mine")
    assert "is not a checkpoint of longtail" in run("train", table, "-m", "popular", "--out", "m", code=2).stderr
    assert (here / ".m.checkpoint").read_text() == "mine"


def test_a_model_can_be_trained_into_the_current_folder(
    run: Run, table: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "m").mkdir()
    monkeypatch.chdir(here / "m")
    run("train", table, "-m", "popular", "--out", ".")
    run("labels", ".", "rename", "apple", "apples")
    assert "apples" in run("predict", ".", "--text", "a red apple", "-k", 9).stdout
    assert sorted(path.name for path in here.iterdir()) == ["fruit.csv", "m"]
