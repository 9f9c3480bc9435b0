"""Progress of long work, told to whoever listens: the command line draws a bar, a notebook may do as it likes.

Work says ``with progress.stage("training nodes") as done: … done(0.1)``; a listener is set with
``progress.listen(callback)``. With no listener nothing is done and nothing is printed.
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


@contextmanager
def stage(name: str) -> Iterator[Callable[[float], None]]:
    """One stage of the work; gives a function to call with each share done, from any thread."""
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
