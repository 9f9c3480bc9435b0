"""Signals that end a command in the ordinary way, so that half-written files are removed.

Python runs a handler between two instructions, also in functions that a C library calls. LLVM calls some while it loads
a kernel: an exception is printed there and forgotten, and elsewhere in llvmlite it may leave a lock held. A signal that
arrives there is sent again a moment later.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

_COMPILER = "llvmlite"
_MOMENT = 0.05  # seconds


def handle_signals() -> None:
    """Let SIGTERM and SIGINT end the process as an exception; one that is ignored, as under nohup, stays so."""
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    if _is_in_compiler(frame):
        timer = threading.Timer(_MOMENT, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        sys.exit(128 + number)


def _is_in_compiler(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == _COMPILER:
            return True
        frame = frame.f_back
    return False
