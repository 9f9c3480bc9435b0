"""Worker processes of this machine: state between calls, errors, and losses."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from longtail.engine.workers import WorkerLost, start_processes
from longtail.errors import DataError

pytestmark = pytest.mark.timeout(300)


class Summing:
    """Adds messages to an array of its own."""

    def __init__(self, total: np.ndarray, text: str) -> None:
        self.total, self.text = total, text

    def __call__(self, message: Any) -> Any:
        if message == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if message == "fail":
            raise DataError("is damaged", path=self.text, remedy="Mend it")
        print("this must not get among the results")
        self.total += message
        return self.total


@pytest.fixture
def two() -> Any:
    started = start_processes(Summing, (np.arange(3.0), "shared"), 2, 2)
    yield started
    for worker in started:
        worker.close()


def test_workers_keep_their_state_and_share_none(two: Any) -> None:
    for messages in ((1, 10), (1, 10)):
        for worker, message in zip(two, messages, strict=True):
            worker.send(message)
        found = [worker.receive() for worker in two]
    np.testing.assert_array_equal(found[0], [2, 3, 4])
    np.testing.assert_array_equal(found[1], [20, 21, 22])


def test_an_error_arrives_and_the_worker_goes_on(two: Any) -> None:
    two[0].send("fail")
    with pytest.raises(DataError, match=r"^shared: is damaged. Mend it\.$"):
        two[0].receive()
    two[0].send(5)
    np.testing.assert_array_equal(two[0].receive(), [5, 6, 7])


def test_a_lost_worker_is_reported_and_the_other_goes_on(two: Any) -> None:
    two[0].send("die")
    two[1].send(1)
    with pytest.raises(WorkerLost, match="-9"):
        two[0].receive()
    np.testing.assert_array_equal(two[1].receive(), [1, 2, 3])


def _fails(*shared: Any) -> Callable[[Any], Any]:
    raise ValueError("cannot be built")


def test_an_error_while_a_worker_is_built_arrives() -> None:
    with pytest.raises(ValueError, match="cannot be built"):
        start_processes(_fails, (), 2, 2)
