"""Print results, remarks, JSON and errors, and end verbs with the right exit code."""

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
    """A console that raises an error for a closed pipe, which :func:`guarded` handles; rich would exit with code 1.

    Control characters are escaped, because a label name or a text must not control the user's terminal.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Print. If output is not a terminal, leave out the spaces at the ends of lines."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        plain = _TRAILING_SPACES.sub("", captured.get())
        super().print(plain, end="", markup=False, emoji=False, highlight=False, soft_wrap=True)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to print, with escaped control characters."""
        for segment in super().render(renderable, options):
            if segment.control is None and _CONTROL.search(segment.text):
                yield Segment(printable(segment.text), segment.style)
            else:
                yield segment


def printable(text: str) -> str:
    """Return a text with escaped control characters. Tables need it to measure the right width."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # \u20…: direction of writing
_TRAILING_SPACES = re.compile(r" +$", re.MULTILINE)
out = _Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100)  # in a file, wide tables fit
err = _Console(stderr=True)

_PARTLY_WRITTEN = re.compile(r"requested and \d+ written")  # NumPy's message when it could not write a whole array


def print_result(message: str, style: str = "") -> None:
    """Print a line of the result."""
    out.print(message, style=style, markup=False, highlight=False, soft_wrap=True)


def print_remark(message: str, style: str = "dim") -> None:
    """Print a remark on standard error. If that cannot be written to, go on without it."""
    with suppress(OSError):
        err.print(message, style=style, markup=False, highlight=False, soft_wrap=True)


def written(path: Path, what: str = "") -> str:
    """Return the sentence that reports a file or folder that was written."""
    return f"Wrote {path}: {what}" if what else f"Wrote {path}"


def as_word(path: Path) -> str:
    """Return a path quoted for a shell command that users can copy."""
    return shlex.quote(str(path))


def print_json(document: Any) -> None:
    """Print JSON on standard output, in ASCII if the output's encoding is not Unicode."""
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=ascii_only, default=_json_value) + "\n")


def _json_value(value: Any) -> Any:
    """Return a NumPy number or a path as a JSON value."""
    return value.item() if hasattr(value, "item") else os.fspath(value)


def fail(message: str) -> NoReturn:
    """Print an error, and end the command with exit code 2."""
    print_remark(f"error: {_with_options(message)}", style="bold red")
    raise typer.Exit(2)


def _with_options(message: str) -> str:
    """Replace Python parameters by their options: "text= (--text-column on the command line)" by "--text-column"."""
    return re.sub(r"\S+ \((--[^()]+) on the command line\)", r"\1", message)


class _Remarks(logging.Handler):
    """Print log messages of the library as remarks, each only once, as several processes may log the same."""

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
    """Print the library's log messages from INFO on, and its warnings, while the block runs.

    With `handler`, pass them to it instead.
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
    """Wrap a verb, so that errors in the input end it with one message and exit code 2."""

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
        except BrokenPipeError:  # the reader of a pipe, such as `head`, has ended
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
    """Return one sentence that explains the error of a file."""
    where = f"{error.filename}: " if error.filename is not None else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or (error.errno is None and _PARTLY_WRITTEN.search(str(error))):
        return f"{where}The disk is full. Free some space, or write to another disk."
    return f"{where}{error.strerror or error}."


def _discard_output() -> None:
    """Discard buffered output, as Python would fail to write it at its end and print an error."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
