"""Memory: how much there is, and a refusal in time, instead of a process that the system kills hours later."""

from __future__ import annotations

import os
from pathlib import Path

from longtail.errors import SettingsError

_GROUP_FILES = (  # limit and use of the control group that a container runs in, new layout and old
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available() -> int | None:
    """Bytes that this process can still take without swapping; None where the system does not say."""
    known = [found for found in (_machine(), _group()) if found is not None]
    return min(known) if known else None


def _machine() -> int | None:
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


def _group() -> int | None:
    for limit, use in _GROUP_FILES:
        try:
            return max(0, int(Path(limit).read_text()) - int(Path(use).read_text()))
        except (OSError, ValueError):  # no such group, or no limit ("max")
            continue
    return None


def require(n_bytes: float, what: str, remedy: str) -> None:
    """Refuse work that will not fit.

    Parameters
    ----------
    n_bytes : float
        What the work is expected to take on top of what is in use now.
    what : str
        The work, as the subject of the message.
    remedy : str
        Which knob to turn.
    """
    free = available()
    if free is not None and n_bytes > free:
        raise SettingsError(
            f"{what} needs about {n_bytes / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free. {remedy}"
        )
