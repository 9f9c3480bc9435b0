"""Find the folders for compiled kernels: those that may be used, the one to write to, and those to read from."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from numba.core import config

from longtail.kernels.cpu_level import compiles_for_level

_PACKAGE = Path(__file__).parent
_SHIPPED = _PACKAGE / "compiled"  # kernels of a wheel; as they are code, only those inside the package are trusted
_BOUNDS_CHECKED = "bounds-checked"  # a separate folder for kernels that were compiled with NUMBA_BOUNDSCHECK=1


@cache
def cache_folders() -> tuple[Path, ...]:
    """Return the folders that may be used for compiled kernels, the preferred one first."""
    given = [Path(value) for name in ("LONGTAIL_CACHE", "NUMBA_CACHE_DIR") if (value := os.environ.get(name))]
    shared = f"kernels_{hashlib.sha256(os.fspath(_PACKAGE).encode()).hexdigest()[:12]}"  # one per installation
    folders = [*(folder / shared for folder in given), _PACKAGE / "__pycache__"]
    with suppress(RuntimeError):  # no home directory
        folders.append(_user_cache() / "longtail" / shared)
    return tuple(folder / _BOUNDS_CHECKED for folder in folders) if config.BOUNDSCHECK else tuple(folders)


@cache
def writable_folder() -> Path | None:
    """Return the first writable folder, as the last resort a temporary one of this user, or None."""
    for folder in cache_folders():
        if _can_write(folder):
            return folder
    return _private_temporary_folder()


@cache
def readable_folders() -> tuple[Path, ...]:
    """Return the folders to search for a kernel: the one that is written to, then the others that exist.

    While kernels are compiled for other machines, only the first is used, so that it will contain all kernels.
    """
    chosen = writable_folder()
    if chosen is not None and compiles_for_level():
        return (chosen,)
    shipped = () if config.BOUNDSCHECK else (_SHIPPED,)
    others = [folder for folder in (*cache_folders(), *shipped) if folder != chosen and folder.is_dir()]
    return tuple(others) if chosen is None else (chosen, *others)


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_temporary_folder() -> Path | None:
    """Return a temporary folder that no other user can write to, because kernels are code, or None."""
    try:
        user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        folder = Path(tempfile.gettempdir()) / f"longtail-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return None
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        return None
    return folder if _can_write(folder) else None
