"""Decide which folders and files may be replaced or removed: empty folders, and those that longtail itself wrote.

A path may come from a user or from a settings file of unknown origin. The content is checked before anything is written
there, and again before anything is removed. A folder belongs to longtail only if it has a ``model.json`` of longtail
and every other entry is an array or a part that is listed there.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longtail.errors import DataError, SettingsError
from longtail.params import DEEPEST_FOLDER, value_shown
from longtail.store.card import CARD
from longtail.store.owner import is_unfinished

CHECKPOINT = "checkpoint"
SIGNATURE = "signature.json"
_MAX_NAME_BYTES = 200  # locks and temporary folders have longer names, and file systems allow 255
Foreign = Callable[[Path], str | None]


def foreign_to_model(folder: Path) -> str | None:
    """Return why a folder is not a model folder of longtail without any other content, or None if it is one."""
    return _foreign(folder)


def check_replaceable(path: str | os.PathLike[str], foreign: Foreign = foreign_to_model) -> Path:
    """Return the folder that a model may be written to, or raise an error before any work is done.

    A symbolic link is followed: its target is checked and replaced, and the link itself is kept. `foreign` returns why
    a folder must not be replaced, or None.
    """
    target = _followed(path)
    if "\0" in os.fspath(target) or len(os.fsencode(target.name)) > _MAX_NAME_BYTES:
        what = f"has a name that is longer than {_MAX_NAME_BYTES} bytes, or that holds a NUL"
        raise DataError(what, path=path, remedy="Choose another name")
    if os.path.lexists(target) and not _is_empty(target):
        problem = foreign(target)
        if problem:
            raise DataError(
                f"{problem}, so it is not overwritten", path=path, remedy="Choose another path, or move it away first"
            )
    return target


def check_output(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file to write, with links followed. Refuse anything that is not a regular file."""
    target = Path(os.path.realpath(path))
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        regular = not target.is_symlink()  # nothing there yet, or a link to itself
    if not regular:
        raise DataError(
            "is a folder, a device, a fifo, a socket or a link to itself, not a file to write",
            path=path,
            remedy="Choose the name of a file",
        )
    return target if os.path.islink(path) else Path(path)


def check_checkpoint(path: str | os.PathLike[str]) -> Path:
    """Return a folder that checkpoints may be written to and removed from, or raise an error before any work."""
    target = _followed(path)
    if os.path.lexists(target) and not _is_empty(target) and not is_checkpoint(target):
        raise DataError(
            "exists and is not a checkpoint of longtail, so it is not touched",
            path=path,
            remedy="Choose a path that does not exist yet",
        )
    return target


def remove_checkpoint(path: str | os.PathLike[str]) -> None:
    """Remove a folder of checkpoints. Do nothing if it is anything else."""
    target = _followed(path)
    if is_checkpoint(target):
        shutil.rmtree(target, ignore_errors=True)


def is_checkpoint(folder: Path) -> bool:
    """Return whether a folder is a checkpoint, or holds checkpoints and nothing else."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    if (folder / "model.json").exists():
        return _foreign(folder, CHECKPOINT) is None
    entries = list(folder.iterdir())
    return bool(entries) and all(is_unfinished(entry) or _foreign(entry, CHECKPOINT) is None for entry in entries)


def as_path(path: Any) -> Path:
    """Return a path as a :class:`~pathlib.Path`, or raise an error if it is neither a string nor a path object."""
    if not isinstance(path, str | os.PathLike) or path == "":
        raise SettingsError(f"{value_shown(path)} is not a path. Give the path of a folder.")
    return Path(path)


def _followed(path: str | os.PathLike[str]) -> Path:
    nameless = as_path(path).name in ("", "..")  # the current folder, or one above
    return Path(os.path.realpath(path)) if nameless or os.path.islink(path) else Path(path)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _foreign(folder: Path, kind: str | None = None, depth: int = 0) -> str | None:
    """Return why a folder was not written by longtail, or None if it was."""
    if folder.is_symlink() or not folder.is_dir():
        return "exists and is not a model folder"
    try:
        document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        is_ours = {"longtail", "format", "kind", "meta", "arrays"} <= set(document)
        arrays = {f"{name}.npy" for name in document["arrays"]}
        parts = set(document["meta"].get("parts", []))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_ours = False
    if not is_ours or depth > DEEPEST_FOLDER or (kind is not None and document["kind"] != kind):
        return "exists and is not a model folder"
    for entry in folder.iterdir():
        if entry.name in parts:
            problem = _foreign(entry, None, depth + 1)
            if problem:
                return problem
        elif entry.name not in {"model.json", SIGNATURE} | arrays | ({CARD} if not depth else set()) or entry.is_dir():
            return f"holds {entry.name!r}, which is no part of the model"
    return None
