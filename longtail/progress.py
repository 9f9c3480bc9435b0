"""Report the progress of long work to a listener: the current stage, and the fraction of it that is done.

The library wraps long work in ``with progress.stage("training nodes") as done:`` and calls ``done(0.1)`` after each
tenth. ``progress.listen(callback)`` sets a listener: that of the command line draws bars. Without a listener nothing is
printed. Keep stage names short, because a bar and two times are printed beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, float], None]  # name of the stage, fraction of it done so far

_listener: Listener | None = None


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Send progress to `listener` while the block runs."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def relay(stage_name: str, share: float) -> None:
    """Pass progress that another process has reported to the listener of this one."""
    if _listener is not None:
        _listener(stage_name, share)


@contextmanager
def stage(name: str) -> Iterator[Callable[[float], None]]:
    """Report one stage of the work. Call the yielded function, from any thread, with each fraction that is done."""
    listener = _listener
    if listener is None:
        yield lambda share: None
        return
    lock, total = threading.Lock(), 0.0

    def done(share: float) -> None:
        nonlocal total
        with lock:
            total = min(1.0, total + share)
            listener(name, total)

    listener(name, 0.0)
    yield done
    listener(name, 1.0)
