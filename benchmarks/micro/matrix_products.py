"""Matrix products between other work, as in a training step: on the kept threads, and on the threads of BLAS.

Run in a process of its own with all cores, since the other parts are measured on one thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from benchmarks.micro.timing import Figure
from longtail.kernels.blas import product, single_threaded

_STEPS, _REPEATS = 100, 5
_POINTS, _CANDIDATES, _DIM = 512, 3500, 256


def cpu_seconds(ours: bool) -> float:
    """Return the processor time of a step, of all threads: three products, each followed by work on one thread."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((n, _DIM), np.float32) for n in (_POINTS, _CANDIDATES))
    limit: AbstractContextManager[None] = single_threaded() if ours else nullcontext()
    least = float("inf")
    with limit:
        for _ in range(_REPEATS):
            start = time.process_time()
            for _ in range(_STEPS):
                scores = product(x, w.T, None) if ours else x @ w.T
                np.tanh(scores, out=scores)
                dw = product(scores.T, x, None) if ours else scores.T @ x
                np.tanh(dw, out=dw)
                dx = product(scores, w, None) if ours else scores @ w
                np.tanh(dx, out=dx)
            least = min(least, time.process_time() - start)
    return least / _STEPS


def measure() -> list[Figure]:
    """Compare the processor time of both."""
    command = [sys.executable, "-m", "benchmarks.micro.matrix_products"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ours, theirs = json.loads(answer)
    task = f"{_POINTS} points, {_CANDIDATES:,} labels, all cores, CPU time"
    return [Figure("matrix products in training", "OpenBLAS's threads", task, ours, theirs)]


if __name__ == "__main__":
    print(json.dumps([cpu_seconds(True), cpu_seconds(False)]))
