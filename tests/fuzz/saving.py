"""Save, replace, load, kill: a model folder as a state machine, driven by hypothesis.

The machine keeps what must be on disk: under each name nothing, a model, or something that is not ours. A save may be
killed at any of its steps: it happens in a process of its own that ends itself, by signal 9, the n-th time that it
touches a file. After that the old model or the new one must be there, whole, and the next save must clear up.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from longtail import store
from longtail.errors import DataError, ModelError
from longtail.store import atomic

NAMES = st.sampled_from(["a", "b"])
VERSIONS = st.integers(1, 99)
_STEPS = 50  # touches of the file system of one save, at most


def save(path: Path, version: int, exchange: bool = True) -> None:
    """Save a model with one part; without `exchange` as where two folders cannot be swapped in one step."""
    if not exchange:
        atomic._exchange = lambda first, second: False
    with store.atomic_folder(path) as fresh:
        arrays = {f"w{i}": np.full(50, version) for i in range(2)}
        store.write(fresh, "test", {"version": version, "parts": ["part"]}, arrays)
        (fresh / "part").mkdir()
        store.write(fresh / "part", "test", {"version": version}, {"w": np.full(9, version)})


def version_of(path: Path) -> int:
    """Return the version of a model folder, all of which must be of the same."""
    whole, part = store.read(path, verify=True), store.read(path / "part", verify=True)
    versions = {whole.meta["version"], part.meta["version"]}
    versions |= {int(n) for array in (*whole.arrays.values(), *part.arrays.values()) for n in array}
    assert len(versions) == 1, versions
    return versions.pop()


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run `work` in a forked process that kills itself before a touch of the file system; return whether it did."""
    process = os.fork()
    if process:
        return os.WIFSIGNALED(os.waitpid(process, 0)[1])
    left = step

    def touched(event: str, args: Any) -> None:
        nonlocal left
        if event in ("open", "os.mkdir", "os.listdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(touched)
        work()
    finally:
        os._exit(0)


class Saving(RuleBasedStateMachine):
    """Two model folders in one folder, and what must be in them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.models: dict[str, set[int]] = {}  # versions that may be under a name; several after a kill
        self.foreign: set[str] = set()

    def teardown(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder)

    @rule(name=NAMES, version=VERSIONS)
    def save(self, name: str, version: int) -> None:
        """Save a model; what is not ours stays."""
        if name in self.foreign:
            with pytest.raises(DataError, match="not overwritten"):
                save(self.folder / name, version)
            return
        save(self.folder / name, version)
        self.models[name] = {version}
        left = [entry.name for entry in self.folder.iterdir() if entry.name.startswith(f".{name}.")]
        assert not left, left

    @rule(name=NAMES, version=VERSIONS)
    def fail(self, name: str, version: int) -> None:
        """Begin a save that ends with an error: nothing changes."""
        with pytest.raises((DataError, RuntimeError)), store.atomic_folder(self.folder / name) as fresh:
            store.write(fresh, "test", {"version": version}, {})
            raise RuntimeError

    @rule(name=NAMES, version=VERSIONS, step=st.integers(0, _STEPS), exchange=st.booleans())
    def kill(self, name: str, version: int, step: int, exchange: bool) -> None:
        """Kill a save at one of its steps, where two folders can be swapped at once and where they cannot."""
        if name in self.foreign:
            return
        before = self.models.get(name, set())
        killed_at(step, lambda: save(self.folder / name, version, exchange))
        self.models[name] = before | {version} | (set() if before else {0})  # 0: there may be none yet

    @rule(name=NAMES)
    def load(self, name: str) -> None:
        """Load a model: one that was saved under the name, whole."""
        allowed = self.models.get(name, {0})
        try:
            found = version_of(self.folder / name)
        except ModelError:
            found = 0
        assert found in allowed, (found, allowed)
        if name in self.models:
            self.models[name] = {found}

    @precondition(lambda self: len(self.models) < 2 and not self.foreign)
    @rule(name=NAMES)
    def put_something_else(self, name: str) -> None:
        """Put a folder that is not ours under a name that is free."""
        if not os.path.lexists(self.folder / name) and name not in self.models:
            (self.folder / name).mkdir()
            (self.folder / name / "thesis.txt").write_text("years")
            self.foreign.add(name)

    @invariant()
    def nothing_of_others_is_touched(self) -> None:
        """What is not ours is as it was."""
        for name in self.foreign:
            assert [entry.name for entry in (self.folder / name).iterdir()] == ["thesis.txt"]
