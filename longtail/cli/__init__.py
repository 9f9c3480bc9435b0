"""The command line: one short file a verb, and what they share.

What a person reads or a program parses goes to standard output; progress and errors go to standard error. Every verb
has ``--json``. A mistake of the user's ends in one message and exit code 2.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        from longtail.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)


def _terminated(number: int, frame: FrameType | None) -> None:
    """Leave through the ordinary way out, so that what is half-written is removed."""
    sys.exit(128 + number)
