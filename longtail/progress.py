"""Progress of long work: stages and the share of each that is done, passed to a listener.

The library wraps long work in ``with progress.stage("training nodes") as done:`` and calls ``done(0.1)`` after each
tenth. A listener is set with ``progress.listen(callback)``: the command line draws bars. Without a listener nothing
happens and nothing is printed. Stage names are short, because a bar and two times stand beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, float], None]  # stage, share of it done so far, 0 to 1

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
    """Pass on what another process has reported."""
    if _listener is not None:
        _listener(stage_name, share)


@contextmanager
def stage(name: str) -> Iterator[Callable[[float], None]]:
    """Report one stage of the work; the yielded function adds a share that is done, from any thread."""
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
