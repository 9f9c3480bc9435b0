"""Where figures come from: the machine and the versions, without names of hosts, users or folders."""

from __future__ import annotations

import os
import platform
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from longtail.kernels.pool import cores as usable_cores

_OURS = ("longtail", "numpy", "scipy", "numba")


def facts() -> dict[str, str]:
    """Return what decides a timing on this machine."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": str(usable_cores(None)),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": _system(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Versions of longtail and of what its kernels run on."""
    found = {}
    for name in _OURS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def described(results: dict[str, Any], cores: bool = True) -> list[str]:
    """Return the machine and versions of results, as lines of Markdown.

    cores : whether to include the number of cores; not where it differs between rows.
    """
    machine = results["machine"]
    where = [machine["processor"], f"{machine['cores']} cores"] if cores else [machine["processor"]]
    where += [machine["memory"], machine["system"], f"Python {machine['python']}"]
    rows = [row for group in results.values() if isinstance(group, dict) for row in group.values()]
    others = Counter(row["processor"] for row in rows if isinstance(row, dict) and "processor" in row)
    return [
        f"- machine: {', '.join(where)}",
        *(f"- of {other}: {n} of the rows; times compare only within one machine" for other, n in others.items()),
        f"- longtail: {', '.join(f'{name} {number}' for name, number in results['versions'].items())}",
    ]


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
