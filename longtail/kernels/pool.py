"""Rows shared out among threads.

Kernels here are serial and release the interpreter lock; a batch is cut into blocks of rows that Python threads work
off. Unlike Numba's own parallel loops this may be entered from several threads at once (a server does), lets a fast
thread take more blocks than a slow one, and compiles in half the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores(n_jobs: int | None) -> int:
    """How many threads `n_jobs` means: -1 or None for every core this process may use."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return available if n_jobs is None or n_jobs < 1 else min(n_jobs, available)


def run(work: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None) -> list[Result]:
    """``[work(task) for task in tasks]``, on `n_jobs` threads; the first error ends it."""
    tasks = list(tasks)
    threads = min(cores(n_jobs), len(tasks))
    if threads <= 1:
        return [work(task) for task in tasks]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, task) for task in tasks]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def blocks(n: int, n_jobs: int | None, smallest: int = 32) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into some blocks a thread, none smaller than `smallest`, so that threads finish together."""
    size = max(smallest, -(-n // (4 * cores(n_jobs))))
    return [(start, min(n, start + size)) for start in range(0, n, size)]


def spread(work: Callable[..., None], n: int, n_jobs: int | None) -> None:
    """Run a kernel over blocks of rows; a few rows on this thread."""
    if n < 64:
        work((0, n))
    else:
        run(work, blocks(n, n_jobs), n_jobs)
