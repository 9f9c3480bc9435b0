"""Estimate how much memory is available, and raise an early error before the system kills a process hours later."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from longtail.errors import SettingsError
from longtail.kernels import pool

_log = logging.getLogger("longtail.engine")

_CGROUP_FILES = (  # limit and use of the control group that a container runs in: version 2 and version 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_MAX_BYTES = 2.0**64  # refuse larger numbers, such as one of 400 digits, as typing errors
_limit_bytes: int | None = None
_spill: tempfile.TemporaryDirectory[str] | None = None  # exists while a block of `on_disk` runs in any thread
_n_spilling = 0
_lock = threading.Lock()


def set_limit(n_bytes: int | str | None) -> None:
    """Limit the memory of this process. Training that is expected to need more is refused before it starts.

    Parameters
    ----------
    n_bytes : int or str, optional
        Total bytes that the process may use, or a text such as "8GB" or "500 MiB". None for all memory of the machine.
    """
    global _limit_bytes
    _limit_bytes = parse_size(n_bytes) if isinstance(n_bytes, str) else n_bytes


def parse_size(text: str) -> int:
    """Return the number of bytes that a text such as "8GB", "1.5 GiB" or "500M" means."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", text.upper())
    if match is None or match[2] not in _UNITS or not 0 < float(match[1]) < _MAX_BYTES:
        raise SettingsError(f"{text[:40]!r} is not an amount of memory; give a number and a unit, such as 8GB or 500MB")
    return int(float(match[1]) * _UNITS[match[2]])


def used_bytes() -> int:
    """Return the bytes of memory that this process uses now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def available() -> int | None:
    """Return the bytes that this process can allocate within its limit and without swapping, or None if unknown."""
    limit = None if _limit_bytes is None else max(0, _limit_bytes - used_bytes())
    known = [n_bytes for n_bytes in (_free_on_machine(), _free_in_cgroup(), limit) if n_bytes is not None]
    return min(known) if known else None


def _free_on_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _free_in_cgroup() -> int | None:
    for limit, use in _CGROUP_FILES:
        try:
            return max(0, int(Path(limit).read_text()) - int(Path(use).read_text()))
        except (OSError, ValueError):  # no control group, or no limit ("max")
            continue
    return None


def spill_folder() -> Path | None:
    """Return the folder for intermediate results that do not fit into memory, or None if they fit."""
    spill = _spill
    return None if spill is None else Path(spill.name)


@contextmanager
def fitted_into(needed: Callable[[], float], what: str, remedy: str) -> Iterator[None]:
    """Run work within the memory that is free. If necessary, use one thread, then also keep results on disk.

    Parameters
    ----------
    needed : callable
        Function that returns the bytes that the work is expected to need in addition to what is in use. It must take
        into account the current number of threads and the current :func:`spill_folder`.
    what, remedy : str
        As for :func:`require`, which raises an error if the work does not fit even then.
    """
    with ExitStack() as economy:
        for enter, how in _ECONOMIES:
            if _is_available(needed()):
                break
            economy.enter_context(enter())
            if _is_available(needed()):
                _log.info("%s is fitted with %s, so that it stays within the memory that is free.", what, how)
                break
        require(needed(), what, remedy)
        yield


@contextmanager
def on_disk() -> Iterator[Path]:
    """Keep intermediate results in a temporary folder while the block runs. Overlapping blocks share one folder."""
    global _spill, _n_spilling
    with _lock:
        if _spill is None:
            _spill = tempfile.TemporaryDirectory(prefix="longtail-")
        _n_spilling += 1
        folder = Path(_spill.name)
    try:
        yield folder
    finally:
        with _lock:
            _n_spilling -= 1
            if _n_spilling == 0:
                _spill.cleanup()
                _spill = None


_ECONOMIES: tuple[tuple[Callable[[], AbstractContextManager[Any]], str], ...] = (
    (partial(pool.limited_cores, 1), "one thread"),
    (on_disk, "one thread and intermediate results on disk"),
)


def _is_available(n_bytes: float) -> bool:
    free = available()
    return free is None or n_bytes <= free


def require(n_bytes: float, what: str, remedy: str) -> None:
    """Raise an error if work will not fit into memory.

    Parameters
    ----------
    n_bytes : float
        Bytes that the work is expected to need in addition to what is in use now.
    what : str
        Name of the work: the subject of the message.
    remedy : str
        What the user can do: which parameter to change.
    """
    free = available()
    if free is not None and n_bytes > free:
        within = "" if _limit_bytes is None else f" within the limit of {_amount(_limit_bytes)}"
        raise SettingsError(
            f"{what} needs about {_amount(n_bytes)} of memory, and {_amount(free)} are free{within}. {remedy}"
        )


def _amount(n_bytes: float) -> str:
    """Return an amount of memory in GiB, or in MiB if it is small."""
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:,.1f} MiB"
