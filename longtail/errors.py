"""The errors that a user can fix. Each message has three parts: what is wrong, where, and what to do.

On the command line, the message is printed without a traceback and the exit code is 2. In Python, all errors are
``ValueError``, so that code written for scikit-learn catches them.

Where work can go on but its result is probably wrong, longtail issues a :class:`LongtailWarning`. What is merely good
to know is logged.
"""

from __future__ import annotations

import os
import sys
import warnings
import zlib
from tokenize import TokenError

BROKEN_ARRAY = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    TokenError,
    zlib.error,
)
"""The exceptions that NumPy raises when it reads a file that does not hold one complete array."""


class LongtailError(ValueError):
    """The base of all errors that the user can fix: in data, in settings or in a model folder."""


class DataError(LongtailError):
    """A file or an array cannot be used.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence without a full stop.
    path : path-like, optional
        The file it was found in.
    line : int, optional
        Line of that file, counted from 1.
    row : int, optional
        Row of the matrix, counted from 0, where there is no file.
    remedy : str, optional
        What to do about it, with or without a full stop.
    """

    def __init__(
        self,
        what: str,
        *,
        path: str | os.PathLike[str] | None = None,
        line: int | None = None,
        row: int | None = None,
        remedy: str = "",
    ) -> None:
        self.what, self.path, self.line, self.row, self.remedy = what, path, line, row, remedy
        where = "" if path is None else os.fspath(path)
        if line is not None:
            where += f":{line}" if where else f"line {line}"
        if row is not None:
            where += f" row {row}" if where else f"row {row}"
        message = f"{where}: {what}" if where else what
        listed = "\n" in remedy  # a list of names ends without a full stop
        end = "" if listed or remedy.endswith((".", "!", "?", "…")) else "."
        super().__init__(f"{message}. {remedy}{end}" if remedy else message)


class SettingsError(LongtailError):
    """A parameter is out of range, a model name is unknown, or settings contradict each other."""


class ModelError(LongtailError):
    """A model folder cannot be read, or a model is used before it was fitted."""


class LongtailWarning(UserWarning):
    """Work goes on, but its result is probably wrong: for example, whole cells were read as labels."""


def number_of(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun, such as "1 label" and "2,000 labels", for messages.

    `plural` is the plural of a noun that takes more than an "s".
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def size(mb: float) -> str:
    """Return a size in MB, or in KB or bytes if it is small, for messages."""
    if mb < 0.001:
        return f"{1e6 * mb:.0f} B"
    return f"{mb:,.1f} MB" if mb >= 1 else f"{1000 * mb:,.0f} KB"


def warn(message: str) -> None:
    """Issue a :class:`LongtailWarning` that points at the line of the user's code that called longtail.

    Unlike a log message, it is seen by users who have not configured logging.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "longtail":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, LongtailWarning, stacklevel=level)


def not_fitted(name: str) -> ModelError:
    """Return the error for a model that is used before it was fitted. It is also a ``NotFittedError`` of sklearn."""
    from sklearn.exceptions import NotFittedError  # here and not above: it takes a second to import

    kind = type("NotFittedError", (ModelError, NotFittedError), {"__module__": __name__})
    return kind(f"This {name} has not been fitted. Call fit first, or load a saved model.")
