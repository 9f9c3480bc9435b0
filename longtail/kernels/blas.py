"""Compute matrix products in parts: the threads of our pool each call BLAS, which itself uses one thread.

The threads of BLAS wait for the next product in a busy loop. That is as fast while nothing else runs, but otherwise it
takes time from other work on the machine, and from our kernels between two products. The parts of a product do not
depend on the number of threads, and therefore neither does a model.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from longtail.kernels import pool

_PARTS = 4
_SMALL = 1 << 21  # multiplications; one thread computes fewer before another thread has even started

_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit BLAS to one thread in this process while the block runs. Blocks may be nested, and overlap in threads."""
    global _users, _limit
    controller = _controller()
    with _lock:
        if not _users:
            _limit = controller.limit(limits=1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _obey_any_thread(controller)  # another thread may have set the limit
                _limit.restore_original_limits()
                _obey_any_thread(controller)  # another thread may set the next limit


def _obey_any_thread(controller: Any) -> None:
    """Allow any thread to set the next limit. In libraries with global thread pools, only one thread may otherwise."""
    for library in controller.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):  # threadpoolctl 3.8 and later
            library.clear_controlling_thread(force=True)


@cache
def _controller() -> Any:
    """Return the thread pools of all BLAS libraries that are loaded. Cached, as finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


def product(A: np.ndarray, B: np.ndarray, n_jobs: int | None, out: np.ndarray | None = None) -> np.ndarray:
    """Return A @ B, float32, computed by `n_jobs` threads. Call it inside :func:`single_threaded`."""
    shape = A.shape[0], B.shape[1]
    out = np.empty(shape, np.float32) if out is None else out
    if shape[0] * shape[1] * A.shape[1] < _SMALL:
        np.matmul(A, B, out=out)
        return out
    by_rows = shape[0] >= shape[1]

    def work(part: tuple[int, int]) -> None:
        span = slice(*part)
        if by_rows:
            np.matmul(A[span], B, out=out[span])
        else:
            np.matmul(A, B[:, span], out=out[:, span])

    size = -(-max(shape) // _PARTS)
    pool.run(work, [(start, min(max(shape), start + size)) for start in range(0, max(shape), size)], n_jobs)
    return out
