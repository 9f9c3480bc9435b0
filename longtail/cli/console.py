"""Where the verbs print, and how they end: results, remarks, JSON, errors and exit codes."""

from __future__ import annotations

import errno
import functools
import json
import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from longtail.errors import LongtailError, LongtailWarning


class _Console(Console):
    """A console that leaves a closed pipe to :func:`guarded`, as all other output does; rich would exit with code 1.

    Control characters are shown and not sent: a label name or a text must not steer the terminal of its reader.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; where output is not a terminal, without the spaces that fill up lines."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        plain = _FILLED.sub("", captured.get())
        super().print(plain, end="", markup=False, emoji=False, highlight=False, soft_wrap=True)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the pieces of what is printed, with control characters as Python would write them."""
        for segment in super().render(renderable, options):
            if segment.control is None and _CONTROL.search(segment.text):
                yield Segment(printable(segment.text), segment.style)
            else:
                yield segment


def printable(text: str) -> str:
    """Return a text with control characters as Python would write them; tables measure the width of the result."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # the latter change the direction
_FILLED = re.compile(r" +$", re.MULTILINE)
out = _Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100)  # room for tables in a file
err = _Console(stderr=True)

_PARTLY = re.compile(r"requested and \d+ written")  # of an array of NumPy


def print_result(message: str, style: str = "") -> None:
    """Print a line of the result."""
    out.print(message, style=style, markup=False, highlight=False, soft_wrap=True)


def print_remark(message: str, style: str = "dim") -> None:
    """Print a remark beside the result, on standard error; where that cannot be written to, work goes on without it."""
    with suppress(OSError):
        err.print(message, style=style, markup=False, highlight=False, soft_wrap=True)


def written(path: Path, what: str = "") -> str:
    """Return the one sentence for a file or folder that was written."""
    return f"Wrote {path}: {what}" if what else f"Wrote {path}"


def as_word(path: Path) -> str:
    """Return a path as one word of a shell command, to be copied."""
    return shlex.quote(str(path))


def print_json(document: Any) -> None:
    """Print JSON on standard output; in ASCII where the output cannot take more."""
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=ascii_only, default=_json_value) + "\n")


def _json_value(value: Any) -> Any:
    """Return a NumPy number or a path as a JSON value."""
    return value.item() if hasattr(value, "item") else os.fspath(value)


def fail(message: str) -> NoReturn:
    """Print what is wrong, and end with exit code 2."""
    print_remark(f"error: {_with_options(message)}", style="bold red")
    raise typer.Exit(2)


def _with_options(message: str) -> str:
    """Replace names of Python parameters, as in "text= (--text-column on the command line)", by those of options."""
    return re.sub(r"\S+ \((--[^()]+) on the command line\)", r"\1", message)


class _Remarks(logging.Handler):
    """Print what the library logs as remarks, each of them once: processes of one verb may log the same."""

    def __init__(self) -> None:
        super().__init__()
        self.printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        warns = record.levelno >= logging.WARNING
        message = _with_options(record.getMessage())
        if message in self.printed:
            return
        self.printed.add(message)
        print_remark(f"warning: {message}" if warns else message, style="yellow" if warns else "dim")


@contextmanager
def logged_remarks(handler: logging.Handler | None = None) -> Iterator[None]:
    """Show INFO and WARNING records of the library, and its warnings, while the block runs.

    With `handler`, pass them to it.
    """
    logger, chosen = logging.getLogger("longtail"), handler or _Remarks()
    before = logger.level
    logger.addHandler(chosen)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", LongtailWarning)
            show = warnings.showwarning

            def remark(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
                if issubclass(category, LongtailWarning):
                    chosen.handle(logging.makeLogRecord({"levelno": logging.WARNING, "msg": str(message)}))
                else:
                    show(message, category, *where, **more)

            warnings.showwarning = remark
            yield
    finally:
        logger.removeHandler(chosen)
        logger.setLevel(before)


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """Wrap a verb such that mistakes in the input end with one message and exit code 2."""

    @functools.wraps(verb)
    def run_guarded(*args: Any, **kwargs: Any) -> None:
        try:
            with logged_remarks():
                verb(*args, **kwargs)
            sys.stdout.flush()
        except LongtailError as error:
            fail(str(error))
        except KeyboardInterrupt:
            print_remark("Interrupted.")
            raise typer.Exit(130) from None
        except BrokenPipeError:  # the reader has seen enough, as `head` does
            _discard_output()
        except OSError as error:
            with suppress(OSError):
                _discard_output()
            fail(explained(error))
        except UnicodeError as error:
            fail(f"Some text is not UTF-8 ({error}). Convert the input, for example with iconv -f latin1 -t utf-8.")
        except RecursionError:
            fail("The model or a setting is nested too deeply. Use fewer brackets.")
        except MemoryError:
            fail("There is not enough memory. Use a smaller model or fewer threads, or a machine with more memory.")

    return run_guarded


def explained(error: OSError) -> str:
    """Return what went wrong with a file in one sentence."""
    where = f"{error.filename}: " if error.filename is not None else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or (error.errno is None and _PARTLY.search(str(error))):
        return f"{where}The disk is full. Free some space, or write to another disk."
    return f"{where}{error.strerror or error}."


def _discard_output() -> None:
    """Discard what is still to be printed: Python would complain about it at the end."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
