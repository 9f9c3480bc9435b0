"""Distribute rows over the threads of one persistent pool.

Our kernels are serial and release the interpreter lock. A batch is cut into blocks of rows, which Python threads
process. Unlike Numba's own parallel loops, this can be used by several threads at the same time (as in a server), lets
a fast thread take more blocks than a slow one, and compiles in half the time.

The threads are started only once: starting them for every call took a quarter of the training time of a network with
small batches. The calling thread works, too, and never waits for a task that no thread has started. Tasks may therefore
use the pool themselves without a deadlock. A forked process starts its own pool.
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
_FEW_ROWS = 64  # one thread processes fewer rows before other threads have even started
FEW_SLOW_ROWS = 16  # the same for kernels that take about 50 µs per row
_executor: ThreadPoolExecutor | None = None
_lock = threading.Lock()
_most_cores: int | None = None  # permanent limit, set by `limit_cores`
_limits: list[int] = []  # limits of all running blocks of `limited_cores`, in any thread


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    machine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(machine, _quota(), *_limits, *(() if _most_cores is None else (_most_cores,)))


def limit_cores(n: int) -> None:
    """Use at most `n` cores in this process, from now on. Call it if several processes share a machine."""
    global _most_cores
    _most_cores = n


@contextmanager
def limited_cores(n: int) -> Iterator[None]:
    """Use at most `n` cores in this process while the block runs. If blocks overlap, the smallest limit applies."""
    with _lock:
        _limits.append(n)
    try:
        yield
    finally:
        with _lock:
            _limits.remove(n)


@cache
def _quota() -> int:
    """Return the number of cores that control groups allow, as with ``--cpus 2``, or a huge number without a limit."""
    for quota, period in _QUOTAS:
        try:
            words = " ".join(Path(name).read_text() for name in (quota, period) if name).split()
            allowed, each = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):  # no control group, or no limit ("max")
            continue
        if allowed > 0 and each > 0:
            return max(1, math.ceil(allowed / each))
    return 1 << 20


def cores(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`: all available cores for None or -1, all but one for -2."""
    most = available_cores()
    if n_jobs is None:
        return most
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise SettingsError(f"n_jobs is {n_jobs!r}; give None or -1 for all cores, or a whole number from 1")
    return max(1, most + 1 + n_jobs) if n_jobs < 0 else max(1, min(n_jobs, most))


def run(work: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None) -> list[Result]:
    """Return ``[work(task) for task in tasks]``, computed by `n_jobs` threads. The first error is raised."""
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
    """Yield ``work(task)`` in the order of the tasks, while further tasks are still being produced.

    The calling thread produces the tasks, and helps if no other thread is free. Only a few tasks are pending at a time,
    so that neither tasks nor results pile up in memory.
    """
    threads = cores(n_jobs)
    if threads <= 1:
        yield from map(work, tasks)
        return
    executor = _kept()
    pending: deque[tuple[Task, Future[Result]]] = deque()

    def first() -> Result:
        task, future = pending.popleft()
        return work(task) if future.cancel() else future.result()  # never wait for a task that no thread has started

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
    """Cut ``range(n)`` into a few blocks per thread, of at least `smallest`, so that all threads finish together."""
    size = max(smallest, -(-n // (4 * cores(n_jobs))))
    return [(start, min(n, start + size)) for start in range(0, n, size)]


def spread(work: Callable[..., None], n: int, n_jobs: int | None, few: int = _FEW_ROWS) -> None:
    """Run a kernel over blocks of rows. With fewer than `few` rows, run it on the calling thread."""
    if n < few or (n < _FEW_ROWS and cores(n_jobs) == 1):
        work((0, n))
    else:
        run(work, blocks(n, n_jobs, min(32, -(-n // 2))), n_jobs)


def threads_for(n: int, n_jobs: int | None, few: int = _FEW_ROWS) -> int | None:
    """Return `n_jobs`, or 1 if there are so few rows that more threads would not be faster."""
    return 1 if n < few else n_jobs


class _Job:
    """A list of tasks, from which several threads take one after the other."""

    def __init__(self, work: Callable[[Any], Any], tasks: list[Any]) -> None:
        self.work, self.tasks = work, tasks
        self.results: list[Any] = [None] * len(tasks)
        self.error: BaseException | None = None
        self.next, self.running = 0, 0
        self.changed = threading.Condition()

    def take_tasks(self) -> None:
        """Run tasks until none is left or one has failed."""
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
        """Wait for the tasks that other threads have started, and return all results."""
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
    """Forget the pool after a fork, as its threads exist only in the parent process."""
    global _executor, _lock
    _executor, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
