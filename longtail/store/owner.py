"""Find out which process works on a folder, and whether it is still alive.

A process is identified by its number, its start time, and the machine and container where it runs. The number alone is
not enough: numbers are used again, and containers that share a disk have numbers of their own. Temporary files contain
the identity of their process in their names, so that a later save can distinguish the leftovers of a killed process
from the work of a process that is alive.

Whether a process in another container or on another machine is alive cannot be looked up. It counts as alive until the
lock of the folder shows that it is gone: the system releases the lock when a process ends.
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

_LOCK_WAIT_SECONDS = 60
_IDENTITY = r"(?P<pid>\d+)-(?P<start>\d+)-(?P<machine>[0-9a-f]{4})(?P<boot>[0-9a-f]{4})(?P<space>[0-9a-f]{4})"
_OWNER = re.compile(_IDENTITY)
_OWNED = re.compile(rf"\.(?P<name>.+)\.(?P<role>new|old)-{_IDENTITY}-[0-9a-f]{{8}}", re.DOTALL)


class Owner(NamedTuple):
    """A process: its number, its start time, and short checksums of where it runs."""

    pid: int
    start: int
    machine: str
    boot: str  # changes with each start of the system
    space: str  # the namespace of process numbers: one per container

    @classmethod
    def of(cls, match: re.Match[str]) -> Owner:
        """Return the owner from a match of the pattern of its identity."""
        return cls(int(match["pid"]), int(match["start"]), match["machine"], match["boot"], match["space"])

    def __str__(self) -> str:
        return f"{self.pid}-{self.start}-{self.machine}{self.boot}{self.space}"

    def is_visible(self) -> bool:
        """Return whether a process with this number can be looked up here."""
        return (self.boot, self.space) == this_process()[3:]

    def is_gone(self, has_lock: bool = False) -> bool:
        """Return whether the process has ended.

        `has_lock` means that this process has the lock of what the other worked on. A process that cannot be looked up
        from here then must have ended, or it would still have the lock.
        """
        here = this_process()
        if self.boot != here.boot:
            return self.machine == here.machine  # this machine has been restarted since
        return not is_alive(self.pid, self.start) if self.space == here.space else has_lock


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since the system started.

    Return 0 if the system does not provide it, and None if there is no such process.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])  # a zombie no longer works
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


@lru_cache(maxsize=4)  # by process number, because a fork has another one
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
    """Return the identity of this process."""
    return _owner_of(os.getpid())


def is_alive(pid: int, start: int) -> bool:
    """Return whether the process with this number and start time is still running."""
    now = start_time(pid)
    return now is not None and (start == 0 or now == 0 or now == start)


def leftovers(target: Path, role: str | None = None, has_lock: bool = False) -> list[Path]:
    """List the temporary files of `target` whose processes have ended. `has_lock` is as in :meth:`Owner.is_gone`."""
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
        and Owner.of(match).is_gone(has_lock)
    ]


def is_unfinished(path: Path) -> bool:
    """Return whether a path is one that exists only during a save: a temporary folder or a lock."""
    if path.is_symlink():
        return False
    if path.is_dir():
        return _OWNED.fullmatch(path.name) is not None
    return path.name.startswith(".") and path.suffix == ".lock" and not _is_foreign(path)


def remove_leftovers(target: str | os.PathLike[str], has_lock: bool = False) -> None:
    """Remove the temporary files of `target` whose processes have ended. Those that cannot be removed stay."""
    _remove_all(leftovers(Path(target), has_lock=has_lock))


def remove_leftovers_in(folder: str | os.PathLike[str]) -> None:
    """Remove what ended processes have left half-written below `folder`. This process must have locked the folder.

    A folder that was moved aside during a swap is moved back, unless another one has taken its name.
    """
    matches = [(path, _OWNED.fullmatch(path.name)) for path in Path(folder).rglob(".*")]
    gone = [(path, match) for path, match in matches if match and Owner.of(match).is_gone(has_lock=True)]
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
def locked(target: Path) -> Iterator[None]:
    """Lock a folder while it is written, so that no other process writes it at the same time.

    The lock is a file next to the folder, which contains the identity of its owner. If that process has ended, this one
    takes over the lock. A save that finds a lock waits for a while, because other saves are short and hours of training
    would be lost otherwise.
    """
    lock, mine = target.with_name(f".{target.name}.lock"), this_process()
    descriptor = _create_lock(lock, target)
    if descriptor is None:  # this process has it: in another thread, or in a save around this one
        yield
        return
    try:
        file = os.fdopen(descriptor, "w")
        file.write(str(mine))
        file.flush()
    except OSError:  # the disk is full: do not leave a lock without an owner
        with contextlib.suppress(OSError):
            file.close()
        lock.unlink(missing_ok=True)
        raise
    try:
        _lock_of_system(file)
        yield
    finally:
        file.close()  # releases the lock of the system, too
        if _owner(lock) == mine:
            with contextlib.suppress(OSError):
                lock.unlink()


def _create_lock(lock: Path, target: Path) -> int | None:
    """Create the lock file of `target`, and return its descriptor, or None if this process has the lock already.

    Wait as long as another process has it, and raise an error when that takes too long.
    """
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        with contextlib.suppress(FileExistsError):
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        if _is_foreign(lock):
            raise DataError(
                "is not a lock of longtail, so it is not touched, and nothing can be saved beside it",
                path=lock,
                remedy="Move it away, or choose another folder",
            )
        owner = _owner(lock)
        if owner == this_process():
            return None
        if owner is None or _has_ended(owner, lock):
            _remove_stale(lock, owner)
        elif time.monotonic() < deadline:
            time.sleep(0.05)
        else:
            elsewhere = "" if owner.is_visible() else " of another container or machine"
            raise DataError(
                f"process {owner.pid}{elsewhere} is writing this folder now",
                path=target,
                remedy="Wait until it is done, stop it, or choose another folder"
                + (f". If it has ended, remove {lock}" if elsewhere else ""),
            )


def _is_foreign(lock: Path) -> bool:
    """Return whether a file with the name of a lock is not a lock of longtail.

    A lock contains its owner's identity. It is empty if its owner was killed before it could write that.
    """
    try:
        text = lock.read_text() if stat.S_ISREG(lock.lstat().st_mode) else "?"
    except FileNotFoundError:  # released just now
        return False
    except (OSError, ValueError):
        return True
    return bool(text) and not _OWNER.fullmatch(text)


def _owner(lock: Path) -> Owner | None:
    """Return the process that has a lock, or None if the file does not contain its identity."""
    try:
        match = _OWNER.fullmatch(lock.read_text())
    except (OSError, ValueError):
        return None
    return Owner.of(match) if match else None


def _has_ended(owner: Owner, lock: Path) -> bool:
    """Return whether the owner of a lock has ended. If it cannot be looked up from here, try the system's lock."""
    if owner.is_gone() or not owner.is_gone(has_lock=True):
        return owner.is_gone()
    try:
        with lock.open("r+") as file:
            return _lock_of_system(file)
    except OSError:
        return False


def _lock_of_system(file: IO[str]) -> bool:
    """Take the system's lock on an open file. Return False if another process has it."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove_stale(lock: Path, owner: Owner | None) -> None:
    """Remove a lock whose owner has ended.

    If the lock is empty, or its owner cannot be looked up, wait a moment and check again: the lock may be so new that
    its owner has not written its identity yet, or not taken the system's lock.
    """
    if owner is None or not owner.is_visible():
        time.sleep(0.05)
        if _owner(lock) != owner or (owner is not None and not _has_ended(owner, lock)):
            return
    with contextlib.suppress(OSError):
        lock.unlink()
