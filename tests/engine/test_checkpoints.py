"""Checkpoints: steps are computed once, other data or settings start again, damage is noticed, nothing is left."""

from __future__ import annotations

import logging
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail
from longtail.engine.checkpoints import NO_STEPS, Steps, remove_steps
from longtail.errors import DataError
from longtail.linear import train as node_training
from longtail.models.base import Ranker
from longtail.store import owner
from tests.contract import toy


class Stop(Exception):
    """Stands for a kill: nothing of longtail handles it."""


def opened(folder: Path, identity: str = "a") -> Steps:
    steps = Steps(folder)
    steps.begin(lambda: identity)
    return steps


def test_a_step_is_computed_once(tmp_path: Path) -> None:
    calls = []

    def compute() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        calls.append(1)
        return {"x": 0.1}, {"a": np.arange(3)}

    for _ in range(2):
        steps = opened(tmp_path / "c")
        facts, arrays = steps.inside("part").stored("one", compute)
        assert facts == {"x": 0.1}
        assert arrays["a"].tolist() == [0, 1, 2]
        steps.close()
    assert len(calls) == 1
    assert Steps(tmp_path / "c").finished() == ["part.one"]
    assert NO_STEPS.stored("one", compute)[0] == {"x": 0.1}


def test_a_finished_step_replaces_those_inside_it(tmp_path: Path) -> None:
    steps = opened(tmp_path / "c")
    steps.inside("tree-1").value("nodes-1", lambda: 1)
    steps.value("tree-10", lambda: 1)
    steps.arrays("tree-1", lambda: {"a": np.zeros(1)})
    assert steps.finished() == ["tree-1", "tree-10"]
    steps.remove()
    assert list(tmp_path.iterdir()) == []


def test_other_data_or_settings_start_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    steps = opened(tmp_path / "c")
    steps.value("one", lambda: 1)
    steps.close()
    with caplog.at_level(logging.INFO, "longtail"):
        steps = opened(tmp_path / "c", "b")
    assert f"{tmp_path / 'c'}: a checkpoint of other data" in caplog.text
    assert steps.value("one", lambda: 2) == 2
    steps.close()


def test_a_damaged_step_is_done_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    steps = opened(tmp_path / "c")
    steps.arrays("one", lambda: {"a": np.zeros(3)})
    steps.arrays("two", lambda: {"a": np.zeros(3)})
    steps.close()
    with (tmp_path / "c" / "one" / "a.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    (tmp_path / "c" / "two" / "model.json").unlink()
    (tmp_path / "c" / ".three.new-0123abcd").mkdir()
    steps = opened(tmp_path / "c")
    assert steps.finished() == []
    assert "computed again" in caplog.text
    assert steps.arrays("one", lambda: {"a": np.ones(3)})["a"].sum() == 3
    steps.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_kill_in_the_instant_of_a_swap_loses_nothing(tmp_path: Path) -> None:
    steps = opened(tmp_path / "c")
    steps.value("one", lambda: 1)
    steps.close()
    gone = owner.this_process()._replace(pid=4194303)
    (tmp_path / "c" / "one").rename(tmp_path / "c" / f".one.old-{gone}-0123abcd")
    (tmp_path / "c" / f".one.new-{gone}-0123abcd").mkdir()
    steps = opened(tmp_path / "c")
    assert steps.value("one", lambda: 2) == 1
    steps.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_finished_steps_is_not_left(tmp_path: Path) -> None:
    opened(tmp_path / "c").close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["notes.txt", "model.json", "c.npy"])
def test_what_is_not_a_checkpoint_is_not_touched(tmp_path: Path, name: str) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / name).write_text("{}")
    with pytest.raises(DataError, match="is not a checkpoint"):
        opened(tmp_path / "c")
    assert not remove_steps(tmp_path / "c")
    assert (tmp_path / "c" / name).read_text() == "{}"


def _open_elsewhere(folder: Path, answers: Any) -> None:
    try:
        opened(folder)
        answers.put("opened")
    except DataError as error:
        answers.put(str(error))


def test_two_processes_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    steps = opened(tmp_path / "c")
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    other = context.Process(target=_open_elsewhere, args=(tmp_path / "c", answers))
    other.start()
    assert "another process is training" in answers.get(timeout=60)
    other.join()
    steps.close()


# Rankers -------------------------------------------------------------------------------------------------------------

NETWORK = {"epochs": 3, "dim": 8}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bonsai": ("bonsai(n_trees=2)", {}),
    "dismec": ("dismec", {}),
    "fastxml": ("fastxml(n_trees=3)", {}),
    "pfastrexml": ("pfastrexml(n_trees=3, cost=2.0)", {}),
    "decaf": ("decaf", {f"decaf.{name}": value for name, value in NETWORK.items()}),
    "glas": ("glas", {f"glas.{name}": value for name, value in NETWORK.items()}),
    "mnn": ("mnn", {f"mnn.{name}": value for name, value in NETWORK.items()}),
    "dxml": ("dxml", {"dxml.epochs": 3}),
    "labeltext": ("labeltext(bonsai(n_trees=1))", {}),
    "taug": ("taug(bonsai(n_trees=1))", {}),
    "ranknet": ("ranknet(bonsai(n_trees=1))", {"ranknet.epochs": 2}),
    "blend": (
        "blend([bonsai(n_trees=1), knn, textmatch, decaf])",
        {f"decaf.{name}": value for name, value in NETWORK.items()},
    ),
    "budget": ("blend([bonsai(n_trees=1), knn, glas])", {f"glas.{name}": value for name, value in NETWORK.items()}),
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_stopped_after_any_step_ends_with_the_same_model(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop after every write of a step or an epoch in turn, a new process each time, until the fit gets through."""
    from longtail import store

    X, Y, Z = toy()
    monkeypatch.setattr(node_training, "_BATCH_WORK", 2e3)
    write, left = store.atomic_folder, [0]

    def fit() -> Ranker:
        model: Any = longtail.make(*CASES[case], defaults={"random_state": 3})
        with model.resumable(tmp_path / "c"):
            model.fit(X, Y, label_features=Z)
            left[0] = 1_000_000
            model.save(tmp_path / "m")
        return model

    def stopping(folder: Any) -> Any:
        if left[0] == 0:
            raise Stop
        left[0] -= 1
        return write(folder)

    longtail.make(*CASES[case], defaults={"random_state": 3}).fit(X, Y, label_features=Z).save(tmp_path / "whole")
    monkeypatch.setattr(store, "atomic_folder", stopping)
    stops = 0
    while True:
        left[0] = 2  # the folder of the run or a step, and one more
        try:
            fit()
            break
        except Stop:
            stops += 1
            assert stops < 100
    assert stops > 0
    assert files(tmp_path / "m") == files(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "whole"]
