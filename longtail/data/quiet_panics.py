"""Keep the messages of a library's panics off standard error.

polars is written in Rust. On some damaged files its code panics: it writes a page of addresses to standard error before
Python has the exception. The reader then raises an error of its own, which says what to do, and the page hides it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

_PANIC = b"panicked at"


@contextlib.contextmanager
def quiet_panics() -> Iterator[None]:
    """Hold back what is written to standard error, and write it afterwards unless it is the message of a panic.

    The file descriptor is redirected, because such code does not write through ``sys.stderr``; other threads' messages
    wait as well. Where standard error is closed, nothing is redirected.
    """
    with contextlib.ExitStack() as opened:
        try:
            sys.stderr.flush()
            usual = os.dup(2)
        except (OSError, ValueError, AttributeError):  # closed, or None as under pythonw
            yield
            return
        opened.callback(os.close, usual)
        held_back = opened.enter_context(tempfile.TemporaryFile(buffering=0))
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(usual, 2)
            held_back.seek(0)
            message = held_back.read()
            if message and _PANIC not in message:
                with contextlib.suppress(OSError):
                    os.write(2, message)
