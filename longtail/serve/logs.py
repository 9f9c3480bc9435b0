"""Write the log: one line of JSON per event. It never contains a text, a label or a token."""

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
    """Format a record as one line of JSON: time, level, event and the record's ``facts``.

    Of an exception, only the type and the lines of code are written, because its message may quote a request.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts: dict[str, Any] = dict(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[0] is not None:
            facts["error"] = record.exc_info[0].__name__
            traceback, lines = record.exc_info[2], []
            while traceback is not None:
                lines.append(f"{os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}")
                traceback = traceback.tb_next
            facts["at"] = lines[-8:]
        return _line(record.levelname.lower(), record.getMessage(), facts, record.created).decode()


def write_soon(level: str, event: str, facts: dict[str, Any]) -> None:
    """Write one line to standard error, in one write with all other lines of this turn of the event loop.

    It does not use the ``logging`` module, which is too slow for thousands of requests per second.
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
    stamp = f"{_formatted(seconds)}.{int((created - seconds) * 1000):03d}Z"
    return orjson.dumps({"time": stamp, "level": level, "event": event, **facts}, default=str)


@functools.lru_cache(maxsize=1)
def _formatted(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
