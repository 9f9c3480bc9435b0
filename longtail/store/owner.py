"""Who works on a folder: the process, recognised by its number, start time and place, and the lock that it holds.

A process number alone is not enough: numbers are used again, and containers that share a disk count for themselves.
Leftovers of a process that was killed carry its identity in their names, so that a later save can tell them from the
work of a process that is alive. Of a process in another container or on another machine that cannot be seen. It counts
as alive until the lock of the folder, which the system releases when a process ends, shows that it is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, NamedTuple

from longtail.errors import DataError

_PATIENCE = 60  # seconds
_IDENTITY = r"(?P<pid>\d+)-(?P<start>\d+)-(?P<machine>[0-9a-f]{4})(?P<boot>[0-9a-f]{4})(?P<space>[0-9a-f]{4})"
_OWNER = re.compile(_IDENTITY)
_OWNED = re.compile(rf"\.(?P<name>.+)\.(?P<role>new|old)-{_IDENTITY}-[0-9a-f]{{8}}", re.DOTALL)


class Owner(NamedTuple):
    """A process: its number, its start time, and short checksums of the place where it runs."""

    pid: int
    start: int
    machine: str
    boot: str  # of the system since it was started
    space: str  # within which numbers of processes count: one per container

    @classmethod
    def of(cls, match: re.Match[str]) -> Owner:
        """Return the owner that stands in a name."""
        return cls(int(match["pid"]), int(match["start"]), match["machine"], match["boot"], match["space"])

    def __str__(self) -> str:
        return f"{self.pid}-{self.start}-{self.machine}{self.boot}{self.space}"

    def is_visible(self) -> bool:
        """Return whether a process with this number can be looked up here."""
        return (self.boot, self.space) == this_process()[3:]

    def is_gone(self, alone: bool = False) -> bool:
        """Return whether the process has ended.

        With `alone`, a lock keeps other processes of this machine away from what it worked on: one that cannot be
        seen from here has ended.
        """
        own = this_process()
        if self.boot != own.boot:
            return self.machine == own.machine  # which was started again since
        return not is_alive(self.pid, self.start) if self.space == own.space else alone


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
def _owner_of(pid: int) -> Owner:
    name = socket.gethostname()
    boot = _text_of("/proc/sys/kernel/random/boot_id") or name
    space = ""
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    parts = (name + _text_of("/etc/machine-id"), boot, space)
    return Owner(
        pid, start_time(pid) or 0, *(hashlib.blake2b(part.encode(), digest_size=2).hexdigest() for part in parts)
    )


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError):
        return ""


def this_process() -> Owner:
    """Return the owner that this process is."""
    return _owner_of(os.getpid())


def is_alive(pid: int, start: int) -> bool:
    """Return whether the process with this number and start time still runs."""
    now = start_time(pid)
    return now is not None and (start == 0 or now == 0 or now == start)


def leftovers(target: Path, role: str | None = None, alone: bool = False) -> list[Path]:
    """List what processes that are gone have left beside `target`; `alone` as in :meth:`Owner.is_gone`."""
    try:
        entries = [entry for entry in os.listdir(target.parent) if entry.startswith(f".{target.name}.")]
    except OSError:
        return []
    matches = [(entry, _OWNED.fullmatch(entry)) for entry in entries]
    return [
        target.parent / entry
        for entry, match in matches
        if match and match["name"] == target.name and role in (None, match["role"]) and Owner.of(match).is_gone(alone)
    ]


def is_unfinished(path: Path) -> bool:
    """Return whether this is what a save writes before it is done: a folder not yet in its place, or a lock."""
    if path.is_symlink():
        return False
    if path.is_dir():
        return _OWNED.fullmatch(path.name) is not None
    return path.name.startswith(".") and path.suffix == ".lock" and not _is_foreign(path)


def remove_leftovers(target: str | os.PathLike[str], alone: bool = False) -> None:
    """Remove what processes that are gone have left beside `target`; what cannot be removed stays."""
    _remove_all(leftovers(Path(target), alone=alone))


def remove_leftovers_in(folder: str | os.PathLike[str]) -> None:
    """Remove what processes that are gone have left half-written below `folder`, which this process holds.

    What was moved aside in the instant of a swap goes back to its place, if nothing has come there.
    """
    found = [(path, _OWNED.fullmatch(path.name)) for path in Path(folder).rglob(".*")]
    gone = [(path, match) for path, match in found if match and Owner.of(match).is_gone(alone=True)]
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
    mine = this_process()
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            if _is_foreign(lock):
                raise DataError(
                    "is not a lock of longtail, so it is not touched, and nothing can be saved beside it",
                    path=lock,
                    remedy="Move it away, or choose another folder",
                ) from None
            owner = _owner(lock)
            if owner == mine:
                break  # another thread of this process, or a save inside a save: both end whole
            if owner is None or _has_left(owner, lock):
                _remove_stale(lock, owner)
            elif time.monotonic() < give_up:
                time.sleep(0.05)
            else:
                elsewhere = "" if owner.is_visible() else " of another container or machine"
                raise DataError(
                    f"process {owner.pid}{elsewhere} is writing this folder now",
                    path=target,
                    remedy="Wait until it is done, stop it, or choose another folder"
                    + (f". If it has ended, remove {lock}" if elsewhere else ""),
                ) from None
            continue
        try:
            file = os.fdopen(descriptor, "w")
            file.write(str(mine))
            file.flush()
        except OSError:  # a full disk: a lock without a name would stay
            with contextlib.suppress(OSError):
                file.close()
            lock.unlink(missing_ok=True)
            raise
        try:
            _lock_of_system(file)
            yield
        finally:
            file.close()  # which gives the lock of the system back
            if _owner(lock) == mine:
                with contextlib.suppress(OSError):
                    lock.unlink()
        return
    yield


def _is_foreign(lock: Path) -> bool:
    """Return whether a file is another's: a lock names its owner, or is empty if its owner was killed before that."""
    try:
        text = lock.read_text() if stat.S_ISREG(lock.lstat().st_mode) else "?"
    except FileNotFoundError:  # given back just now
        return False
    except (OSError, ValueError):
        return True
    return bool(text) and not _OWNER.fullmatch(text)


def _owner(lock: Path) -> Owner | None:
    """Return the process that holds a lock; None where the file does not name one."""
    try:
        match = _OWNER.fullmatch(lock.read_text())
    except (OSError, ValueError):
        return None
    return Owner.of(match) if match else None


def _has_left(owner: Owner, lock: Path) -> bool:
    """Return whether the owner of a lock has ended; if it cannot be seen from here, the system's lock shows it."""
    if owner.is_gone() or not owner.is_gone(alone=True):
        return owner.is_gone()
    try:
        with lock.open("r+") as file:
            return _lock_of_system(file)
    except OSError:
        return False


def _lock_of_system(file: IO[str]) -> bool:
    """Take the lock that the system keeps on an open file; return False where another process has it."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove_stale(lock: Path, owner: Owner | None) -> None:
    """Remove a lock whose owner is gone.

    One without a name, or of a process that cannot be seen, gets time to be named and locked: it may be a moment old.
    """
    if owner is None or not owner.is_visible():
        time.sleep(0.05)
        if _owner(lock) != owner or (owner is not None and not _has_left(owner, lock)):
            return
    with contextlib.suppress(OSError):
        lock.unlink()
