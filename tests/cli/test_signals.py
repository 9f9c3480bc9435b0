"""Signals end a command as exceptions do, but not inside the compiler."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from longtail.cli.signals import handle_signals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows ends a process that is sent a signal")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started ignoring it
    handle_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def compiling(number: signal.Signals) -> Callable[[], str]:
    """Return a function that gets a signal while it seems to be a part of llvmlite."""
    names: dict[str, Any] = {"__name__": "llvmlite.binding.some", "os": os, "time": time}
    exec(f"def run():\n    os.kill(os.getpid(), {int(number)})\n    time.sleep(0.01)\n    return 'loaded'", names)
    return names["run"]


@pytest.mark.parametrize(("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_ends_the_process_at_once_or_when_the_compiler_is_done(
    number: signal.Signals, end: type[BaseException]
) -> None:
    with pytest.raises(end):
        os.kill(os.getpid(), number)
        time.sleep(5)
    assert compiling(number)() == "loaded"
    with pytest.raises(end):
        time.sleep(5)


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handle_signals()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
