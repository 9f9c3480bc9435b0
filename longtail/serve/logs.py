"""The log: one line of JSON per event. It never holds a text, a label or a token."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import sys
import time
from typing import Any

import orjson

log = logging.getLogger("longtail.serve")
_waiting: list[bytes] = []


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event and the record's ``facts``.

    Of an exception only the type and the lines of code are written: its message may quote a request.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts: dict[str, Any] = dict(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[0] is not None:
            facts["error"] = record.exc_info[0].__name__
            at, where = record.exc_info[2], []
            while at is not None:
                where.append(f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}")
                at = at.tb_next
            facts["at"] = where[-8:]
        return _line(record.levelname.lower(), record.getMessage(), facts, record.created).decode()


def write_soon(level: str, event: str, facts: dict[str, Any]) -> None:
    """Write one line to standard error, together with those of all requests that the event loop answers in one turn.

    This goes without the ``logging`` module: requests come by the thousand.
    """
    if not _waiting:
        asyncio.get_running_loop().call_soon(_write_waiting)
    _waiting.append(_line(level, event, facts, time.time()))


def _write_waiting() -> None:
    lines = b"\n".join(_waiting) + b"\n"
    _waiting.clear()
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()


def log_to_stderr(level: str = "info") -> None:
    """Write the log of the service and of uvicorn to standard error, one line of JSON per event."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("longtail.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


def _line(level: str, event: str, facts: dict[str, Any], created: float) -> bytes:
    seconds = int(created)
    stamp = f"{_written(seconds)}.{int((created - seconds) * 1000):03d}Z"
    return orjson.dumps({"time": stamp, "level": level, "event": event, **facts}, default=str)


@functools.lru_cache(maxsize=1)
def _written(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
