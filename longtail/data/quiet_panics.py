"""Suppress the messages that polars writes to standard error when it panics.

polars is written in Rust. On some damaged files its code panics: it writes a page of addresses to standard error, and
Python gets an exception. longtail turns the exception into an error that says what to do, and the page would hide it.
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
    """Delay output to standard error until the block ends, and drop it if it is the message of a panic.

    The file descriptor is redirected, because Rust does not write through ``sys.stderr``. Messages of other threads are
    delayed, too. If standard error is closed, nothing is redirected.
    """
    with contextlib.ExitStack() as opened:
        try:
            sys.stderr.flush()
            original = os.dup(2)
        except (OSError, ValueError, AttributeError):  # closed, or None as under pythonw
            yield
            return
        opened.callback(os.close, original)
        held_back = opened.enter_context(tempfile.TemporaryFile(buffering=0))
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(original, 2)
            held_back.seek(0)
            message = held_back.read()
            if message and _PANIC not in message:
                with contextlib.suppress(OSError):
                    os.write(2, message)
