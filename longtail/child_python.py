"""Start another Python that finds the modules that this one finds, and no others.

Python puts the current folder in front of all others for ``-m`` and ``-c``: a file there that happens to be called
``random.py``, or a checkout of longtail beside an installed one, would be imported by the child and not by its parent.
"""

from __future__ import annotations

import os
import sys


def child_command(*words: str) -> list[str]:
    """Return the command line of a child, which is started with :func:`child_environment`."""
    return [sys.executable, "-P", *words]


def child_environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: that of this process, the places of its modules, and `more`."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return os.environ | {"PYTHONPATH": paths} | (more or {})
