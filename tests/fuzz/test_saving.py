"""The state machine of saves and kills; LONGTAIL_MACHINES=500 runs a longer campaign."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from longtail import store
from tests.fuzz.saving import Saving, killed_at, save, version_of

_MACHINES = int(os.environ.get("LONGTAIL_MACHINES", "12"))


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked and killed")


@pytest.mark.parametrize("exchange", [True, False])
def test_a_save_killed_at_any_step_leaves_the_old_model_or_the_new_one(tmp_path: Path, exchange: bool) -> None:
    path, found = tmp_path / "m", []
    save(path, 1)
    while killed_at(len(found), partial(save, path, 2, exchange)):
        found.append(version_of(path))
        save(path, 1)
        assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    assert version_of(path) == 2
    assert found == sorted(found)  # the old model up to one step, the new one from there on
    assert set(found) == {1, 2}


def test_a_first_save_killed_at_any_step_leaves_a_whole_model_or_none(tmp_path: Path) -> None:
    step = 0
    while killed_at(step, partial(save, tmp_path / "m", 1)):
        step += 1
        if (tmp_path / "m").exists():
            assert version_of(tmp_path / "m") == 1
            shutil.rmtree(tmp_path / "m")
    assert version_of(tmp_path / "m") == 1
    with store.atomic_folder(tmp_path / "m"):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_model_is_whole_after_any_series_of_saves_and_kills() -> None:
    given = settings(
        max_examples=_MACHINES,
        stateful_step_count=20,
        deadline=None,
        derandomize=_MACHINES <= 12,  # the same in every run of the tests
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Saving, settings=given)
