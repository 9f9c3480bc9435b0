"""Tasks on the cores of this machine, and the choice of an engine."""

from __future__ import annotations

import pickle
import sys

import pytest

from longtail import engine
from longtail.engine.checkpoints import Steps
from longtail.engine.tasks import LocalCores, open_engine
from longtail.errors import SettingsError
from longtail.kernels import pool


def test_results_are_in_the_order_of_tasks_and_reported_as_they_finish() -> None:
    seen: dict[int, int] = {}
    found = LocalCores().map(
        lambda task, a, b: task * a + b,
        range(20),
        (10, 3),
        n_jobs=2,
        finished=lambda i, result: seen.update({i: result}),
    )
    assert found == [10 * i + 3 for i in range(20)]
    assert seen == dict(enumerate(found))


def test_an_error_of_a_task_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        LocalCores().map(lambda task: 1 // task, [2, 1, 0, 1], n_jobs=2)


def test_the_engine_in_use_ends_with_the_block() -> None:
    own = LocalCores()
    before = engine.current()
    with pytest.raises(RuntimeError), engine.use(own):
        assert engine.current() is own
        raise RuntimeError
    assert engine.current() is before
    assert not before.remote


@pytest.mark.parametrize("name", ["", "dask", "ray:", "Ray"])
def test_an_engine_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="no engine"), engine.use(name):
        pass


def test_ray_that_is_not_installed_is_named(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"pip install 'longtail\[ray\]'"):
        open_engine("ray")


def test_steps_are_not_kept_by_another_process(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert pickle.loads(pickle.dumps(Steps(tmp_path, "part."))).folder is None


def test_a_process_can_be_limited_to_some_cores(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(pool, "_most_cores", None)
    most = pool.available_cores()
    pool.limit_cores(1)
    assert pool.available_cores() == 1
    pool.limit_cores(10_000)
    assert pool.available_cores() == most
