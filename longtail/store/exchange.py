"""Swap two folders in one step, where the system can: Linux with ``renameat2``."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@cache
def _renameat2() -> Any:
    """Return the function of the C library; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function


def exchange(first: Path, second: Path) -> bool:
    """Swap two paths atomically; return False where the system or the file system cannot."""
    function = _renameat2()
    if function is None:
        return False
    return function(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0
