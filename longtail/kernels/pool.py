"""Rows shared out among the threads of one kept pool.

Kernels here are serial and release the interpreter lock; a batch is cut into blocks of rows that Python threads work
off. Unlike Numba's own parallel loops this may be entered from several threads at once (a server does), lets a fast
thread take more blocks than a slow one, and compiles in half the time.

The threads are started once and kept: starting them anew for every call took a quarter of the training time of a
network with small batches. The calling thread works too and never waits for a task that nobody has begun, so that
tasks may use the pool themselves without a deadlock. A forked process starts a pool of its own.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from longtail.errors import SettingsError

Task = TypeVar("Task")
Result = TypeVar("Result")

_QUOTAS = (
    ("/sys/fs/cgroup/cpu.max", ""),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
_FEW_ROWS = 64  # rows that one thread is done with before others have begun
FEW_SLOW_ROWS = 16  # the same for kernels that take some 50 µs per row
_executor: ThreadPoolExecutor | None = None
_lock = threading.Lock()
_most_cores: int | None = None  # for good
_limits: list[int] = []  # while blocks of `limited_cores` run, in any thread


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    machine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(machine, _quota(), *_limits, *(() if _most_cores is None else (_most_cores,)))


def limit_cores(n: int) -> None:
    """Use no more than `n` cores in this process, for one of several processes on a machine."""
    global _most_cores
    _most_cores = n


@contextmanager
def limited_cores(n: int) -> Iterator[None]:
    """Use no more than `n` cores in this process while the block runs; of blocks that overlap, the smallest counts."""
    with _lock:
        _limits.append(n)
    try:
        yield
    finally:
        with _lock:
            _limits.remove(n)


@cache
def _quota() -> int:
    """Return the cores that control groups allow, as in a container with ``--cpus 2``; very many without a limit."""
    for quota, period in _QUOTAS:
        try:
            words = " ".join(Path(name).read_text() for name in (quota, period) if name).split()
            allowed, each = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):  # no such group, or "max"
            continue
        if allowed > 0 and each > 0:
            return max(1, math.ceil(allowed / each))
    return 1 << 20


def cores(n_jobs: int | None) -> int:
    """Return the number of threads: None or -1 means every core this process may use, -2 all but one."""
    most = available_cores()
    if n_jobs is None:
        return most
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise SettingsError(f"n_jobs is {n_jobs!r}; give None or -1 for all cores, or a whole number from 1")
    return max(1, most + 1 + n_jobs) if n_jobs < 0 else max(1, min(n_jobs, most))


def run(work: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None) -> list[Result]:
    """Return ``[work(task) for task in tasks]``, worked off by `n_jobs` threads; the first error ends it."""
    tasks = list(tasks)
    threads = min(cores(n_jobs), len(tasks))
    if threads <= 1:
        return [work(task) for task in tasks]
    job = _Job(work, tasks)
    executor = _kept()
    for _ in range(threads - 1):
        executor.submit(job.take_tasks)
    job.take_tasks()
    return job.finished()


def run_in_order(work: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None) -> Iterator[Result]:
    """Yield ``work(task)`` in the order of the tasks while further tasks are still being produced.

    The calling thread produces the tasks and helps where no thread is free; a few tasks per thread are under way at a
    time, so that neither tasks nor results pile up.
    """
    threads = cores(n_jobs)
    if threads <= 1:
        yield from map(work, tasks)
        return
    executor = _kept()
    pending: deque[tuple[Task, Future[Result]]] = deque()

    def first() -> Result:
        task, future = pending.popleft()
        return work(task) if future.cancel() else future.result()  # never wait for a task that nobody has begun

    try:
        for task in tasks:
            pending.append((task, executor.submit(work, task)))
            if len(pending) > threads:
                yield first()
        while pending:
            yield first()
    finally:
        for _, future in pending:
            future.cancel()


def blocks(n: int, n_jobs: int | None, smallest: int = 32) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into a few blocks per thread, none smaller than `smallest`, so that threads finish together."""
    size = max(smallest, -(-n // (4 * cores(n_jobs))))
    return [(start, min(n, start + size)) for start in range(0, n, size)]


def spread(work: Callable[..., None], n: int, n_jobs: int | None, few: int = _FEW_ROWS) -> None:
    """Run a kernel over blocks of rows; fewer than `few` rows on the calling thread."""
    if n < few or (n < _FEW_ROWS and cores(n_jobs) == 1):
        work((0, n))
    else:
        run(work, blocks(n, n_jobs, min(32, -(-n // 2))), n_jobs)


def threads_for(n: int, n_jobs: int | None, few: int = _FEW_ROWS) -> int | None:
    """Return `n_jobs`, or 1 where there are so few rows that threads do not pay."""
    return 1 if n < few else n_jobs


class _Job:
    """Tasks that several threads take one after the other."""

    def __init__(self, work: Callable[[Any], Any], tasks: list[Any]) -> None:
        self.work, self.tasks = work, tasks
        self.results: list[Any] = [None] * len(tasks)
        self.error: BaseException | None = None
        self.next, self.running = 0, 0
        self.changed = threading.Condition()

    def take_tasks(self) -> None:
        """Work off tasks until none is left or one has failed."""
        while True:
            with self.changed:
                if self.next >= len(self.tasks) or self.error is not None:
                    return
                at = self.next
                self.next += 1
                self.running += 1
            try:
                self.results[at] = self.work(self.tasks[at])
            except BaseException as error:
                with self.changed:
                    self.error = self.error or error
            finally:
                with self.changed:
                    self.running -= 1
                    self.changed.notify_all()

    def finished(self) -> list[Any]:
        """Wait for the tasks that other threads have begun, and return all results."""
        with self.changed:
            while self.running:
                self.changed.wait()
        if self.error is not None:
            raise self.error
        return self.results


def _kept() -> ThreadPoolExecutor:
    global _executor
    with _lock:
        if _executor is None:
            _executor = ThreadPoolExecutor(max(1, available_cores()), thread_name_prefix="longtail")
        return _executor


def _forget() -> None:
    """Leave the pool of the parent process alone: its threads are not in this process."""
    global _executor, _lock
    _executor, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
