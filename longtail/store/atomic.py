"""Write files and folders completely or not at all: write beside the target, then swap.

Where two folders can be swapped in one step (Linux), there is always one under the name. Elsewhere the old folder is
moved aside for an instant; if the process is killed just then, :func:`recovered` puts it back. Names of folders being
written carry their owner, and the next save beside them removes what a killed process has left.
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
from longtail.store.owner import held, leftovers, remove_leftovers, this_process
from longtail.store.replace import Foreign, check_output, check_replaceable, foreign_to_model

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of renameat2: paths as they are given, and both names swapped


def beside(target: Path, role: str) -> Path:
    """Return a new name beside a file or folder, for what will replace it ("new") or is being replaced ("old")."""
    return target.with_name(f".{target.name}.{role}-{this_process()}-{uuid.uuid4().hex[:8]}")


@contextmanager
def atomic_folder(target: str | os.PathLike[str], foreign: Foreign = foreign_to_model) -> Iterator[Path]:
    """Provide an empty folder to fill; on success it replaces `target`, on error it is removed.

    An existing `target` is replaced only if it is empty or `foreign` returns None, which is checked before anything is
    written and once more before the swap. It is moved aside for the instant of the swap and put back if the swap fails.

    A README.md that a user has edited stays.

    Parameters
    ----------
    target : path-like
        The folder to write; a link to a folder stays, and the folder is replaced.
    foreign : callable
        Returns why a folder must not be replaced, or None; by default anything but a model is foreign.
    """
    target = check_replaceable(target, foreign)
    target.parent.mkdir(parents=True, exist_ok=True)
    with held(target):
        recovered(target, foreign, alone=True)
        remove_leftovers(target, alone=True)
        fresh = beside(target, "new")
        fresh.mkdir()
        try:
            yield fresh
            check_replaceable(target, foreign)
            keep_edited_card(target, fresh)
            place = os.path.abspath(target) if _is_current(target) else None
            _swap(fresh, target)
            if place is not None:
                os.chdir(place)  # the folder in which this process stands was replaced
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _is_current(folder: Path) -> bool:
    """Return whether this is the current folder."""
    try:
        return os.path.samefile(folder, os.curdir)
    except OSError:
        return False


def _swap(fresh: Path, target: Path) -> None:
    """Put `fresh` in the place of `target`, which may exist, and remove what was there."""
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
    """Swap two paths in one step; return False where the system or the file system cannot."""
    function = _renameat2()
    if function is None:
        return False
    return function(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


@cache
def _renameat2() -> Any:
    """Return the function of the C library; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function


def recovered(target: str | os.PathLike[str], foreign: Foreign = foreign_to_model, alone: bool = False) -> Path:
    """Return the path of a folder, after putting back what a save killed in the middle of its swap moved aside.

    `alone` says that this process holds the folder (see :meth:`longtail.store.owner.Owner.is_gone`).
    """
    target = Path(target)
    if not os.path.lexists(target):
        for old in leftovers(target, "old", alone):
            if foreign(old) is None:
                with contextlib.suppress(OSError):  # another process may have put it back just now
                    old.rename(target)
                break
    return target


@contextmanager
def atomic_file(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a path to write to; on success it is renamed to `target`, on error it is removed.

    A symbolic link stays, and the file that it points to is replaced.
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
