"""Matrix products shared among the threads of the kept pool, each part by BLAS on one thread.

BLAS has threads of its own, which wait for the next product by spinning. Alone on a machine they do as well; where
other work shares the cores, they take time from it and from the kernels between two products. The parts of a product do
not depend on the number of threads, so that neither does a model.
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
_SMALL = 1 << 21  # multiplications that one thread is done with before another has begun

_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextmanager
def single_threaded() -> Iterator[None]:
    """Keep BLAS to one thread in this process while the block runs. Blocks may be nested, and overlap in threads."""
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
                _obey_any_thread(controller)  # the limit may have been set by another
                _limit.restore_original_limits()
                _obey_any_thread(controller)  # the next may be set by another


def _obey_any_thread(controller: Any) -> None:
    """Let any thread set the limit next: of a library with threads for the whole process, only one can at a time."""
    for library in controller.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):  # threadpoolctl 3.8 and later
            library.clear_controlling_thread(force=True)


@cache
def _controller() -> Any:
    """Return the thread pools of the BLAS that is loaded, NumPy's among them; finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


def product(A: np.ndarray, B: np.ndarray, n_jobs: int | None, out: np.ndarray | None = None) -> np.ndarray:
    """Return A @ B, float32, by `n_jobs` threads; for use in :func:`single_threaded`."""
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
