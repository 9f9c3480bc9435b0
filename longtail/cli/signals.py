"""Turn signals into exceptions that end a command in order, so that half-written files are removed.

Python runs a signal handler between two instructions, even in a function that a C library has called. LLVM calls such
functions while it loads a kernel. An exception there would only be printed and then ignored, and elsewhere in llvmlite
it could leave a lock locked. A signal that arrives at such a moment is therefore sent again a little later.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

_COMPILER = "llvmlite"
_RETRY_SECONDS = 0.05


def handle_signals() -> None:
    """Make SIGTERM and SIGINT end the process by an exception. Signals that are ignored, as under nohup, stay so."""
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    if _is_in_compiler(frame):
        timer = threading.Timer(_RETRY_SECONDS, os.kill, (os.getpid(), number))
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
