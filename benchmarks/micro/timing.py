"""How the small measurements are taken: in turn, one thread each, the best of several runs."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits


@dataclass(frozen=True)
class Figure:
    """One comparison of a part of longtail with a library."""

    part: str
    library: str
    task: str
    ours: float  # seconds
    theirs: float  # seconds
    quality: dict[str, tuple[float, float]] = field(default_factory=dict)  # name -> ours, theirs

    @property
    def ratio(self) -> float:
        """How many times faster longtail is; below 1 it is slower."""
        return self.theirs / self.ours

    def line(self) -> str:
        """Format the figure for a terminal."""
        same = "".join(f"; {name} {a:.4g} and {b:.4g}" for name, (a, b) in self.quality.items())
        return f"{self.part} / {self.library}, {self.task}: {shown(self.ours)} and {shown(self.theirs)}{same}"

    def row(self) -> str:
        """Format the figure as a row of the table in docs/dependencies.md."""
        same = ", ".join(f"{name} {a:.4g} / {b:.4g}" for name, (a, b) in self.quality.items())
        cells = [self.part, self.library, self.task, shown(self.ours), shown(self.theirs), f"{self.ratio:.2g}×", same]
        return f"| {' | '.join(cells)} |"


def shown(seconds: float) -> str:
    """Format a time with three digits and the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def best_in_turn(repeats: int, runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least seconds of each run. Runs alternate, so that a busy moment of the machine hits all alike."""
    for run in runs.values():
        run()  # compiles, or touches memory for the first time
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep this process to one core, where the system allows it, and every pool of threads to one thread."""
    pinned = hasattr(os, "sched_setaffinity")
    before = os.sched_getaffinity(0) if pinned else set()
    if pinned:
        os.sched_setaffinity(0, {min(before)})
    try:
        with threadpool_limits(1):
            yield
    finally:
        if pinned:
            os.sched_setaffinity(0, before)
