"""Store people's corrections in a feedback log: one SQLite file per model.

A correction is acknowledged only after SQLite has written it to disk (write-ahead log, ``synchronous=FULL``). Neither a
killed process nor a power failure can then lose it. A client may give a correction an id. Sending the same id again
stores nothing, so that a client can safely repeat a request that got no answer.

Writing to disk takes milliseconds. :class:`FeedbackWriter` therefore writes all waiting corrections in one transaction.
"""

from __future__ import annotations

import json
import os
import queue
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from longtail.errors import DataError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS feedback (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    time REAL NOT NULL,
    model TEXT NOT NULL,
    source TEXT NOT NULL,
    correction TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_COLUMNS = ["seq", "id", "time", "model", "source", "correction"]
_BUSY_SECONDS = 20.0  # time to wait while another process is writing


class Feedback(NamedTuple):
    """One stored correction."""

    seq: int
    id: str
    time: float
    source: str
    correction: dict[str, Any]

    @property
    def labels(self) -> list[str]:
        """The labels that the correction marks as correct."""
        return list(dict.fromkeys([*(self.correction.get("labels") or []), *(self.correction.get("right") or [])]))


@dataclass
class Receipt:
    """The result of storing some corrections."""

    ids: list[str]
    accepted: int

    @property
    def duplicates(self) -> int:
        """Number of corrections that were not stored, because their id was stored before."""
        return len(self.ids) - self.accepted


def _checked(correction: Any) -> dict[str, Any]:
    """Return a stored correction, or raise an error if it is not a record with lists of labels."""
    if not isinstance(correction, dict) or not isinstance(correction.get("text", ""), str):
        raise ValueError("a correction is not a record with a text")
    for key in ("labels", "right", "wrong"):
        names = correction.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{key} of a correction are not a list of names")
    return correction


class FeedbackLog:
    """A feedback log on disk, which several threads and processes may use at the same time.

    Parameters
    ----------
    path : path-like
        The SQLite file. It is created when the first correction is stored.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None

    def append(self, model: str, source: str, requests: Sequence[Sequence[dict[str, Any]]]) -> list[Receipt]:
        """Store the corrections of several requests in one transaction, and wait until they are on disk.

        Parameters
        ----------
        model : str
            Name of the model that the corrections are about.
        source : str
            Where they come from: ``"api"``, ``"annif"``, ``"page"``, ``"file"``.
        requests : list of lists of dict
            Corrections of each request: ``text``, ``labels`` or ``right`` and ``wrong``, and an optional ``id``.

        Raises
        ------
        OSError
            If the log cannot be written. Nothing has been stored then.
        """
        with self._changing() as connection:
            return [self._insert(connection, model, source, request) for request in requests]

    def remove(self, ids: Sequence[str]) -> dict[str, int]:
        """Remove corrections in one transaction, and return the numbers that they had. Unknown ids are ignored.

        Raises
        ------
        OSError
            Where the log cannot be written. Nothing has been removed then.
        """
        if not self.path.exists():
            return {}
        removed = {}
        with self._changing() as connection:
            for identifier in ids:
                row = connection.execute("SELECT seq FROM feedback WHERE id = ?", (identifier,)).fetchone()
                if row is not None:
                    connection.execute("DELETE FROM feedback WHERE seq = ?", row)
                    removed[identifier] = row[0]
        return removed

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for one transaction, which has been written to disk at the end of the block."""
        with self._lock:
            try:
                connection = self._opened()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                self._close()
                raise OSError(f"{self.path}: the feedback log cannot be written ({error})") from error

    def after(self, seq: int = 0) -> Iterator[Feedback]:
        """Yield, in order, the corrections that were stored after the one with the number `seq`."""
        if not self.path.exists():
            return
        try:
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
            try:
                records = connection.execute(
                    "SELECT seq, id, time, source, correction FROM feedback WHERE seq > ? ORDER BY seq", (seq,)
                )
                for number, identifier, stamp, source, correction in records:
                    yield Feedback(number, identifier, stamp, source, _checked(json.loads(correction)))
            finally:
                connection.close()
        except (sqlite3.Error, ValueError, TypeError) as error:  # ValueError and TypeError: damaged text or JSON
            raise self._unreadable(error) from error

    def last(self) -> int:
        """Return the number of the newest correction, or 0 if the log is empty."""
        return self._value("SELECT max(seq) FROM feedback", 0)

    def identity(self) -> str:
        """Return the identifier of this log. Models that have learnt from the log store it."""
        return self._value("SELECT value FROM about WHERE key = 'identity'", "")

    def __len__(self) -> int:
        return self._value("SELECT count(*) FROM feedback", 0)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _value(self, query: str, default: Any) -> Any:
        if not self.path.exists():
            return default
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
        try:
            row = connection.execute(query).fetchone()
        except sqlite3.OperationalError:  # nothing has been written to the log yet
            return default
        except (sqlite3.Error, ValueError) as error:
            raise self._unreadable(error) from error
        finally:
            connection.close()
        return default if row is None or row[0] is None else row[0]

    def _unreadable(self, error: Exception) -> DataError:
        remedy = "Restore it from a copy, or move it away to begin a new one"
        return DataError(f"is not a readable feedback log ({error})", path=self.path, remedy=remedy)

    def _opened(self) -> sqlite3.Connection:
        """Return a connection to the log. Reconnect if the file at the path is not the one that was opened before."""
        if self._connection is not None and self._inode != _inode_of(self.path):
            self._close()
        if self._connection is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OSError(f"{self.path}: the feedback log cannot be written ({error.strerror})") from error
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                if _is_foreign(connection):  # before anything is written to it
                    raise sqlite3.DatabaseError("it is another database")
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.executescript(_SCHEMA)
                connection.execute("INSERT OR IGNORE INTO about VALUES ('identity', ?)", (uuid.uuid4().hex,))
            except BaseException:
                connection.close()
                raise
            self._connection, self._inode = connection, _inode_of(self.path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._inode = None

    @staticmethod
    def _insert(
        connection: sqlite3.Connection, model: str, source: str, corrections: Sequence[dict[str, Any]]
    ) -> Receipt:
        ids, accepted = [], 0
        for correction in corrections:
            content = {key: value for key, value in correction.items() if value is not None and key != "id"}
            identifier = correction.get("id") or uuid.uuid4().hex
            done = connection.execute(
                "INSERT INTO feedback (id, time, model, source, correction) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO NOTHING",
                (identifier, time.time(), model, source, json.dumps(content, ensure_ascii=False)),
            )
            ids.append(identifier)
            accepted += done.rowcount
        return Receipt(ids, accepted)


def _is_foreign(connection: sqlite3.Connection) -> bool:
    """Return whether a database is neither empty nor a feedback log."""
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")}
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(feedback)")]
    return not known <= {"feedback", "about"} or columns not in ([], _COLUMNS)


def _inode_of(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


class FeedbackWriter:
    """Write corrections in a separate thread, with all waiting ones in one transaction.

    Parameters
    ----------
    log : FeedbackLog
        The log to write to.
    model : str
        Name of the model that the corrections are about.
    """

    def __init__(self, log: FeedbackLog, model: str) -> None:
        self.log, self.model = log, model
        self._queue: queue.SimpleQueue[tuple[str, list[dict[str, Any]], Future[Receipt]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def store(self, source: str, corrections: list[dict[str, Any]]) -> Future[Receipt]:
        """Return a future that is done when the corrections are on disk."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="longtail-feedback", daemon=True)
                self._thread.start()
        done: Future[Receipt] = Future()
        self._queue.put((source, corrections, done))
        return done

    def close(self) -> None:
        """Write all waiting corrections, and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout=60)
        self.log.close()

    def _run(self) -> None:
        while True:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            jobs = [job for job in waiting if job is not None]
            for source in dict.fromkeys(job[0] for job in jobs):
                self._write(source, [job for job in jobs if job[0] == source])
            if len(jobs) < len(waiting):
                return

    def _write(self, source: str, jobs: list[tuple[str, list[dict[str, Any]], Future[Receipt]]]) -> None:
        try:
            for (_, _, done), stored in zip(
                jobs, self.log.append(self.model, source, [job[1] for job in jobs]), strict=True
            ):
                done.set_result(stored)
        except BaseException as error:
            for _, _, done in jobs:
                if not done.done():
                    done.set_exception(error)
