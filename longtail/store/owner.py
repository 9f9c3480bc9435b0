"""Who works on a folder: the process, recognised by its number and start time, and the lock that it holds.

A process number alone is not enough, since numbers are used again. Leftovers of a process that was killed carry its
number and start time in their names, so that a later save can tell them from the work of a process that is alive.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from longtail.errors import DataError

_PATIENCE = 60  # seconds
_OWNED = re.compile(r"\.(?P<name>.+)\.(?P<role>new|old)-(?P<pid>\d+)-(?P<start>\d+)-[0-9a-f]{8}", re.DOTALL)


def start_time(pid: int) -> int | None:
    """Return when a process began, in ticks since the system did; 0 where the system does not tell, None for none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])  # a zombie does no more work
    except (OSError, ValueError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return 0


@lru_cache(maxsize=4)  # by process number: a fork has another one
def _start_signature(pid: int) -> str:
    return f"{pid}-{start_time(pid) or 0}"


def signature() -> str:
    """Return number and start time of this process, as they stand in names of files."""
    return _start_signature(os.getpid())


def is_alive(pid: int, start: int) -> bool:
    """Return whether the process with this number and start time still runs."""
    now = start_time(pid)
    return now is not None and (start == 0 or now == 0 or now == start)


def leftovers(target: Path, role: str | None = None) -> list[Path]:
    """List what processes that are gone have left beside `target`."""
    try:
        entries = [entry for entry in os.listdir(target.parent) if entry.startswith(f".{target.name}.")]
    except OSError:
        return []
    matches = [(entry, _OWNED.fullmatch(entry)) for entry in entries]
    return [
        target.parent / entry
        for entry, match in matches
        if match
        and match["name"] == target.name
        and role in (None, match["role"])
        and not is_alive(int(match["pid"]), int(match["start"]))
    ]


def is_unfinished(path: Path) -> bool:
    """Return whether this is what a save writes before it is done: a folder not yet in its place, or a lock."""
    if path.is_symlink():
        return False
    if path.is_dir():
        return _OWNED.fullmatch(path.name) is not None
    is_lock = path.name.startswith(".") and path.suffix == ".lock" and path.is_file()
    return is_lock and (_owner(path) is not None or path.stat().st_size == 0)


def remove_leftovers(target: str | os.PathLike[str]) -> None:
    """Remove what processes that are gone have left beside `target`; what cannot be removed stays."""
    _remove_all(leftovers(Path(target)))


def remove_leftovers_in(folder: str | os.PathLike[str]) -> None:
    """Remove what processes that are gone have left half-written anywhere below `folder`.

    What was moved aside in the instant of a swap goes back to its place, if nothing has come there.
    """
    found = [(path, _OWNED.fullmatch(path.name)) for path in Path(folder).rglob(".*")]
    gone = [(path, m) for path, m in found if m and not is_alive(int(m["pid"]), int(m["start"]))]
    for path, match in gone:
        target = path.with_name(match["name"])
        if match["role"] == "old" and not target.exists():
            path.rename(target)
    _remove_all([path for path, _ in gone])


def _remove_all(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


@contextmanager
def held(target: Path) -> Iterator[None]:
    """Hold a folder while it is written: another process that wants to write it meanwhile is refused.

    The lock is a file beside the folder that names its owner. A lock of a process that is gone is taken over. As a save
    is short, one that meets another waits for a while, so that hours of training are not lost.
    """
    lock = target.with_name(f".{target.name}.lock")
    mine = signature()
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            owner = _owner(lock)
            if owner is not None and is_alive(*owner):
                if f"{owner[0]}-{owner[1]}" == mine:
                    break  # another thread of this process, or a save inside a save: both end whole
                if time.monotonic() < give_up:
                    time.sleep(0.05)
                    continue
                raise DataError(
                    f"process {owner[0]} is writing this folder now",
                    path=target,
                    remedy="Wait until it is done, stop it, or choose another folder",
                ) from None
            _remove_stale(lock, owner)
            continue
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(mine)
        except OSError:  # a full disk: a lock without a name would stay
            lock.unlink(missing_ok=True)
            raise
        try:
            yield
        finally:
            if _owner(lock) == tuple(map(int, mine.split("-"))):
                with contextlib.suppress(OSError):
                    lock.unlink()
        return
    yield


def _owner(lock: Path) -> tuple[int, int] | None:
    """Return number and start time of the process that holds a lock; None where the file does not name one."""
    try:
        pid, start = lock.read_text().split("-")
        return int(pid), int(start)
    except (OSError, ValueError):
        return None


def _remove_stale(lock: Path, owner: tuple[int, int] | None) -> None:
    """Remove a lock whose owner is gone; one without a name gets time to be named, as it may be a moment old."""
    if owner is None:
        time.sleep(0.05)
        if _owner(lock) is not None:
            return
    with contextlib.suppress(OSError):
        lock.unlink()
