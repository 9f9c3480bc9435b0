"""Write files and folders completely or not at all: write under a temporary name, then swap.

Linux can swap two folders in one step, so that a complete folder exists at any time. Elsewhere the old folder is moved
aside for an instant; if the process is killed just then, :func:`recovered` moves it back. The temporary name contains
the identity of the process. The next save of the same folder can thus remove what a killed process has left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from longtail.store.card import keep_edited_card
from longtail.store.owner import leftovers, locked, remove_leftovers, this_process
from longtail.store.replace import Foreign, check_output, check_replaceable, foreign_to_model

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # constants of renameat2: paths relative to the current folder; swap two names


def beside(target: Path, role: str) -> Path:
    """Return a temporary name in the folder of `target`, for its replacement ("new") or its old version ("old")."""
    return target.with_name(f".{target.name}.{role}-{this_process()}-{uuid.uuid4().hex[:8]}")


@contextmanager
def atomic_folder(target: str | os.PathLike[str], foreign: Foreign = foreign_to_model) -> Iterator[Path]:
    """Yield an empty folder to fill. On success it replaces `target`; on error it is removed.

    An existing `target` is replaced only if it is empty or `foreign` returns None. This is checked before anything is
    written, and again before the swap. If the swap fails, the old folder is put back.

    A README.md that a user has edited is kept.

    Parameters
    ----------
    target : path-like
        The folder to write. If it is a link to a folder, that folder is replaced and the link is kept.
    foreign : callable
        Function that returns the reason why a folder must not be replaced, or None. By default only a model folder may
        be replaced.
    """
    target = check_replaceable(target, foreign)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target):
        recovered(target, foreign, has_lock=True)
        remove_leftovers(target, has_lock=True)
        fresh = beside(target, "new")
        fresh.mkdir()
        try:
            yield fresh
            check_replaceable(target, foreign)
            keep_edited_card(target, fresh)
            current = os.path.abspath(target) if _is_current(target) else None
            _swap(fresh, target)
            if current is not None:
                os.chdir(current)  # the current folder of this process was replaced: enter the new one
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _is_current(folder: Path) -> bool:
    """Return whether a folder is the current folder of this process."""
    try:
        return os.path.samefile(folder, os.curdir)
    except OSError:
        return False


def _swap(fresh: Path, target: Path) -> None:
    """Rename `fresh` to `target`, and remove the old `target` if there is one."""
    old = beside(target, "old")
    if not target.exists():
        fresh.rename(target)
        return
    if _exchange(fresh, target):
        shutil.rmtree(fresh, ignore_errors=True)
        return
    try:
        target.rename(old)
        fresh.rename(target)
    except BaseException:  # an interrupt as well
        if old.exists() and not os.path.lexists(target):
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two paths in one step. Return False if the system or the file system cannot."""
    function = _renameat2()
    if function is None:
        return False
    return function(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


@cache
def _renameat2() -> Any:
    """Return the function ``renameat2`` of the C library, or None if there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function


def recovered(target: str | os.PathLike[str], foreign: Foreign = foreign_to_model, has_lock: bool = False) -> Path:
    """Return the path of a folder. If a save was killed in the middle of its swap, move the old folder back first.

    `has_lock` means that this process has locked the folder (see :meth:`longtail.store.owner.Owner.is_gone`).
    """
    target = Path(target)
    if not os.path.lexists(target):
        for old in leftovers(target, "old", has_lock):
            if foreign(old) is None:
                with contextlib.suppress(OSError):  # another process may have moved it back just now
                    old.rename(target)
                break
    return target


@contextmanager
def atomic_file(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to. On success it is renamed to `target`; on error it is removed.

    If `target` is a symbolic link, the file that it points to is replaced and the link is kept.
    """
    target = check_output(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    fresh = beside(target, "new")
    try:
        yield fresh
        os.replace(fresh, target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
