"""All or nothing on disk: write beside the target, then rename over it."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _beside(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}-{uuid.uuid4().hex[:8]}")


@contextmanager
def atomic_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty folder to fill; on success it takes the place of `target`, on error it vanishes.

    An existing `target` is moved aside for the instant of the swap and put back if the swap fails.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = _beside(target, "new")
    fresh.mkdir()
    try:
        yield fresh
        old = _beside(target, "old")
        had_old = target.exists()
        if had_old:
            target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            if had_old:
                old.rename(target)
            raise
        if had_old:
            shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink()
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


@contextmanager
def atomic_file(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to; on success it is renamed to `target`, on error it is removed."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = _beside(target, "new")
    try:
        yield fresh
        os.replace(fresh, target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
