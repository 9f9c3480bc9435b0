"""The command line: one short file per verb, and what the verbs share.

Results go to standard output, progress and errors to standard error. Every verb that prints results has ``--json``. A
mistake in the input ends with one message and exit code 2, an interrupt with exit code 130.
"""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import os
import sys
import unicodedata
from typing import NoReturn

from longtail.cli.signals import handle_signals

_IN_ASCII = {"█": "#", "“": '"', "”": '"', "’": "'", "…": "...", "–": "-", "−": "-", "→": "->", "β": "beta", "×": "x"}


def main() -> None:
    """Run the command line."""
    handle_signals()
    gc.set_threshold(100_000, 20, 100)  # compiling makes many objects and few cycles: the default costs a tenth of it
    atexit.register(gc.freeze)  # or Python looks for cycles among all objects as it ends: a third of a short command
    try:
        _prepare_streams()
        from longtail.cli.app import app

        app()
    except KeyboardInterrupt:
        _interrupted()
    except OSError as error:  # of the help texts; verbs explain their own
        from longtail.cli.console import explained

        sys.stderr.write(f"error: {explained(error)}\n")
        sys.exit(2)
    except SystemError as error:  # a signal that arrives while a kernel returns its result ends up as its cause
        if isinstance(error.__cause__, KeyboardInterrupt):
            _interrupted()
        if isinstance(error.__cause__, SystemExit):
            sys.exit(error.__cause__.code)
        raise


def _interrupted() -> NoReturn:
    sys.stderr.write("Interrupted.\n")
    sys.exit(130)


def _prepare_streams() -> None:
    """Make printing safe: no stream is missing, and no character is an error."""
    has_output = sys.stdout is not None
    for number in (0, 1, 2):  # a closed number would be given to the next file opened, and output would end up in it
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if not has_output:
        sys.stderr.write("error: Standard output is closed. Redirect it to a file, or to /dev/null.\n")
        sys.exit(2)
    codecs.register_error("longtail", _replace_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="longtail")


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Write characters that the terminal's encoding lacks in ASCII: bars as #, accents left out, others as ?."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_ascii, error.object[error.start : error.end])), error.end


def _ascii(character: str) -> str:
    if character in _IN_ASCII:
        return _IN_ASCII[character]
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"
