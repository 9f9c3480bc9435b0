"""Checkpoints: store the finished steps of a training in a folder, so that a killed run can be resumed.

The folder has a ``model.json`` with the identity of the run (settings and data), and one subfolder per finished step.
Steps are written through :mod:`longtail.store`, so that each is there completely or not at all. A finished step is
loaded; any other is computed and stored. As steps depend only on settings, data and seed, a resumed run ends with the
same model. If the identity of the run differs, the checkpoint is stale: this is reported, and it is removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.sparse import csr_array

from longtail import store
from longtail._version import __version__
from longtail.errors import DataError, ModelError, number_of
from longtail.sparse import Arrays

_log = logging.getLogger("longtail.engine")

_KIND = "steps"
_LOCK = "lock"
EPOCHS = "epochs"  # name of the step that stores the last epoch of each network of a training
_MAX_SHOWN = 6  # finished steps that a message names

StepResult = tuple[dict[str, Any], Arrays]  # small facts as JSON values, and arrays


def fingerprint(params: dict[str, Any], *matrices: csr_array | None) -> str:
    """Return a short string that two runs have in common only if their settings and data are the same."""
    digest = hashlib.blake2b(json.dumps(params, sort_keys=True, default=repr).encode(), digest_size=8)
    for matrix in matrices:
        digest.update(b"-" if matrix is None else repr(matrix.shape).encode())
        if matrix is not None:
            for part in (matrix.indptr, matrix.indices, matrix.data):
                digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


class Steps:
    """Finished steps of one run, or of a part of it.

    Parameters
    ----------
    folder : path-like, optional
        Where steps are stored. Without it every step is computed and none is stored.
    prefix : str
        Beginning of the names of all steps, for a part of a run.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, prefix: str = "") -> None:
        self.folder = None if folder is None else Path(folder)
        self.prefix = prefix
        self._lock: IO[str] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Store no steps in another process: it may not see the folder, and this process has the lock."""
        return Steps, ()

    def inside(self, part: str) -> Steps:
        """Return the steps of a part of the run, such as a member of a blend."""
        return Steps(self.folder, f"{self.prefix}{part}.")

    def path(self, name: str) -> Path | None:
        """Return the folder of a step, which need not exist, or None if steps are not stored."""
        return None if self.folder is None else self.folder / f"{self.prefix}{name}"

    def find(self, name: str) -> Path | None:
        """Return the folder of a finished step, or None if the step is not finished."""
        path = self.path(name)
        return path if path is not None and (path / "model.json").is_file() else None

    def stored(self, name: str, compute: Callable[[], StepResult]) -> StepResult:
        """Load the result of a step, or compute and store it.

        Parameters
        ----------
        name : str
            Name of the step, unique within the run.
        compute : callable
            Function that returns the result of the step: facts (JSON values) and arrays.
        """
        folder = self.find(name)
        if folder is not None:
            step = store.read(folder, mmap=False)
            return step.meta["facts"], step.arrays
        facts, arrays = compute()
        with self.writing(name) as fresh:
            if fresh is not None:
                store.write(fresh, store.CHECKPOINT, {"facts": facts}, arrays)
        return facts, arrays

    def value(self, name: str, compute: Callable[[], Any]) -> Any:
        """Load a JSON value, or compute and store it."""
        return self.stored(name, lambda: ({"value": compute()}, {}))[0]["value"]

    def arrays(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """Load arrays, or compute and store them."""
        return self.stored(name, lambda: ({}, compute()))[1]

    @contextmanager
    def writing(self, name: str) -> Iterator[Path | None]:
        """Yield a folder to write a finished step to, or None if steps are not stored.

        Afterwards the steps inside this one are removed, as they are no longer needed.
        """
        path = self.path(name)
        if path is None:
            yield None
            return
        with store.atomic_folder(path) as fresh:
            yield fresh
        for inner in path.parent.glob(f"{path.name}.*"):
            shutil.rmtree(inner, ignore_errors=True)

    # The run as a whole ------------------------------------------------------------------------------------------

    def begin(self, identity: Callable[[], str]) -> None:
        """Open the folder of a run. Resume from its steps if the identity is the same; otherwise start from scratch."""
        if self.folder is None or self.prefix or self._lock is not None:
            return
        expected = identity()
        check_steps_folder(self.folder)
        if self.folder.exists() and any(self.folder.iterdir()):
            self._take_lock()
            if _identity_of(self.folder) == expected:
                self._remove_damaged()
                _log.info("%s", self._resume_message())
                return
            _log.warning(
                "%s: a checkpoint of other data, settings or version. It is removed, and training starts from scratch.",
                self.folder,
            )
            self.remove()
        store.remove_leftovers(self.folder)
        with store.atomic_folder(self.folder) as fresh:
            store.write(fresh, _KIND, {"identity": expected}, {})
        self._take_lock()

    def _take_lock(self) -> None:
        """Lock the folder until :meth:`close`. The system releases the lock of a killed process."""
        assert self.folder is not None
        self._lock = (self.folder / _LOCK).open("w")
        try:
            import fcntl

            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # a system without these locks
            pass
        except OSError:
            self._lock.close()
            self._lock = None
            raise DataError(
                "another process is training with this checkpoint",
                path=self.folder,
                remedy="Wait for it to end, or choose another output folder",
            ) from None

    def _folders(self) -> list[Path]:
        """Return the folders of finished steps, and of the last epoch of each network."""
        if self.folder is None or not self.folder.is_dir():
            return []
        tops = sorted(path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        folders: list[Path] = []
        for top in tops:
            folders += sorted(part for part in top.iterdir() if part.is_dir()) if top.name.endswith(EPOCHS) else [top]
        return folders

    def _remove_damaged(self) -> None:
        """Remove steps that cannot be read, and temporary files of killed processes."""
        assert self.folder is not None
        store.remove_leftovers_in(self.folder)
        for folder in self._folders():
            try:
                for part in {folder / "model.json", *folder.rglob("model.json")}:
                    store.read(part.parent)
            except ModelError as error:
                _log.warning("This step of the checkpoint is computed again. %s", error)
                shutil.rmtree(folder, ignore_errors=True)

    def finished(self) -> list[str]:
        """Return the names of finished steps; for networks, with the number of finished epochs."""
        names = []
        for folder in self._folders():
            name = os.fspath(folder.relative_to(self.folder or folder))
            meta = json.loads((folder / "model.json").read_text(encoding="utf-8"))["meta"]
            names.append(f"{name}: {number_of(meta['epoch'], 'epoch')}" if "epoch" in meta else name)
        return names

    def _resume_message(self) -> str:
        names = self.finished()
        if not names:
            return f"Found {self.folder}, a checkpoint with no finished step; training starts at the beginning."
        more = f", and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
        steps = number_of(len(names), "finished step")
        return f"Resuming from {self.folder}: {steps} ({', '.join(names[-_MAX_SHOWN:])}{more})."

    def close(self) -> None:
        """Let other processes use the folder. Remove it if no step was finished."""
        if self._lock is not None and not self.finished():
            self.remove()
        self._release()

    def remove(self) -> None:
        """Remove the folder, after the model has been saved."""
        if self.folder is not None:
            remove_steps(self.folder)
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


NO_STEPS = Steps()
"""Computes every step and stores none."""


def remove_steps(folder: str | os.PathLike[str]) -> bool:
    """Remove the checkpoint of a run, and return whether there was one. Anything else is left alone."""
    path = Path(folder)
    store.remove_leftovers(path)
    if _foreign_entry(path) is not None or not path.is_dir():
        return False
    aside = store.beside(path, "old")  # rename it first, so that a kill cannot leave half a checkpoint
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
    return True


def check_steps_folder(folder: str | os.PathLike[str]) -> None:
    """Raise an error if a folder exists and is not the checkpoint of a run."""
    problem = _foreign_entry(Path(folder))
    if problem is not None:
        raise DataError(
            f"exists and is not a checkpoint of longtail ({problem}), so it is not touched",
            path=folder,
            remedy="Move it away",
        )


def _foreign_entry(folder: Path) -> str | None:
    """Return why a path is not the checkpoint of a run. Return None if it is one, or if there is nothing."""
    if not os.path.lexists(folder):
        return None
    if folder.is_symlink() or not folder.is_dir():
        return "it is not a folder"
    if not any(folder.iterdir()):
        return None
    if _identity_of(folder) is None:
        return "its model.json is missing or was not written by longtail"
    for path in folder.rglob("*"):
        known = path.is_dir() or path.name in ("model.json", _LOCK) or path.suffix in (".npy", ".lock")
        if path.is_symlink() or not known:
            return f"it holds {path.name!r}"
    return None


def _identity_of(folder: Path) -> str | None:
    try:
        document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        return str(document["meta"]["identity"]) if document["kind"] == _KIND and document["longtail"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def run_identity(params: dict[str, Any], *matrices: csr_array | None) -> str:
    """Return the identity of a run: settings, data and version of the library."""
    return fingerprint({"version": __version__, **params}, *matrices)
