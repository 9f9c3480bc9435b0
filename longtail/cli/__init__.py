"""The command line: one short file per verb, and the code that verbs share.

Results go to standard output, progress and errors to standard error. Every verb that prints results has ``--json``. An
error in the input ends the command with one message and exit code 2, an interrupt with exit code 130.
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
    # Compiling makes many objects and few cycles: with default thresholds, a tenth of its time is garbage collection.
    gc.set_threshold(100_000, 20, 100)
    # At its end, Python would search all objects for cycles, which takes a third of the time of a short command.
    atexit.register(gc.freeze)
    try:
        _prepare_streams()
        from longtail.cli.app import app

        app()
    except KeyboardInterrupt:
        _interrupted()
    except OSError as error:  # while help is printed; verbs handle their own errors
        from longtail.cli.console import explained

        sys.stderr.write(f"error: {explained(error)}\n")
        sys.exit(2)
    except SystemError as error:  # its cause is the signal, if one has arrived while a kernel returned its result
        if isinstance(error.__cause__, KeyboardInterrupt):
            _interrupted()
        if isinstance(error.__cause__, SystemExit):
            sys.exit(error.__cause__.code)
        raise


def _interrupted() -> NoReturn:
    sys.stderr.write("Interrupted.\n")
    sys.exit(130)


def _prepare_streams() -> None:
    """Make printing safe: replace closed streams, and characters that the encoding lacks."""
    has_output = sys.stdout is not None
    for number in (0, 1, 2):  # the next file to be opened would get the number of a closed stream, and its output
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
    """Replace characters that the encoding lacks: bars by #, accented letters by plain ones, others by ?."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_ascii, error.object[error.start : error.end])), error.end


def _ascii(character: str) -> str:
    if character in _IN_ASCII:
        return _IN_ASCII[character]
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"
