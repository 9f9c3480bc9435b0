"""Start a child Python process that imports the same modules as this one.

With ``-m`` and ``-c``, Python searches the current folder first. A file there that happens to be called ``random.py``,
or a checkout of longtail beside an installed one, would then be imported by the child but not by its parent.
"""

from __future__ import annotations

import os
import sys


def child_command(*words: str) -> list[str]:
    """Return the command line of a child process. Start it with the environment of :func:`child_environment`."""
    return [sys.executable, "-P", *words]


def child_environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child process: this one's variables, its module search path, and `more`."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return os.environ | {"PYTHONPATH": paths} | (more or {})
