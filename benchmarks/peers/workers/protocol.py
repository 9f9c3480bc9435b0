"""What every worker does, and how it is measured: the same clock and the same memory counter for all systems.

A worker is run twice for one measurement, each time as a fresh process: ``fit`` trains and saves, ``predict`` loads
what was saved and predicts. A prediction is therefore always that of a reloaded model, and the memory of training does
not hide the memory of serving. This file needs numpy and scipy only, as it runs inside each peer's own environment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TOP = 50  # labels per point kept for the metrics: the frontier re-ranks a model's own top 50
TIMED = 5  # labels per point when prediction is timed: what most users want
BATCH_REPEATS = 5
BATCH_BUDGET = 20.0  # seconds for the repeats of one batch timing; the first run always counts
SINGLE_ROWS = 400
SINGLE_PASSES = 3


class Worker(ABC):
    """A system under measurement; `fit`, `predict` and `predict_one` are timed, everything else is not."""

    def __init__(self, params: dict[str, Any], threads: int, folder: Path) -> None:
        self.params = params
        self.threads = threads  # of training
        self.folder = folder  # of the model

    @abstractmethod
    def version(self) -> str:
        """Name and version of the system."""

    @abstractmethod
    def load_train(self, data: Path) -> None:
        """Bring the training part into memory, in the form that the system takes."""

    def warm_up(self, phase: str) -> None:  # noqa: B027 -- most systems have nothing to warm up
        """Pay first-use costs of ``fit`` or ``predict`` that are not the algorithm's, such as compilation."""

    @abstractmethod
    def fit(self) -> None:
        """Train on the loaded training part."""

    @abstractmethod
    def save(self) -> None:
        """Write the model to its folder."""

    @abstractmethod
    def load(self) -> None:
        """Read the model from its folder, ready to predict."""

    @abstractmethod
    def load_test(self, data: Path) -> None:
        """Bring the test part into memory, in the form that the system takes."""

    @abstractmethod
    def predict(self, k: int, threads: int) -> Any:
        """Scores of the k best labels of every test row, in the system's own form."""

    @abstractmethod
    def point(self, row: int) -> Any:
        """One test row in the form that `predict_one` takes; made before the clock starts."""

    @abstractmethod
    def predict_one(self, point: Any, k: int) -> Any:
        """Scores of the k best labels of one point, on one thread."""

    @abstractmethod
    def scores(self, answer: Any) -> sp.csr_array:
        """Return the result of `predict` as a sparse array (N, L)."""


def load_matrix(path: Path) -> sp.csr_matrix:
    """Read an npz matrix in the form that peers know: csr_matrix, float32 values, int32 indices."""
    matrix = sp.csr_matrix(sp.load_npz(path))
    matrix.indices = matrix.indices.astype(np.int32, copy=False)
    matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    matrix.data = matrix.data.astype(np.float32, copy=False)
    matrix.sort_indices()
    return matrix


def pairs_to_csr(rows: list[list[tuple[int, float]]], n_labels: int) -> sp.csr_array:
    """Turn lists of (label, score) into a sparse array."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    labels = np.array([label for row in rows for label, _ in row], dtype=np.int32)
    values = np.array([score for row in rows for _, score in row], dtype=np.float32)
    return sp.csr_array((values, labels, indptr), shape=(len(rows), n_labels))


def memory_mb(field: str) -> float:
    """One of this process's memory counters (``VmRSS`` now, ``VmHWM`` highest so far) in MB."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    raise KeyError(field)


def reset_peak() -> None:
    """Start the memory peak afresh, so that reading the data does not count as training."""
    with contextlib.suppress(OSError):  # where it is forbidden, the peak includes the loading of the data
        Path("/proc/self/clear_refs").write_text("5")


def cpu_seconds() -> float:
    """Return the processor time that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure_fit(worker: Worker, data: Path) -> dict[str, Any]:
    """Train and save once."""
    started = time.perf_counter()
    worker.warm_up("fit")
    warm_up = time.perf_counter() - started
    worker.load_train(data)
    reset_peak()
    base = memory_mb("VmRSS")
    wall, cpu = time.perf_counter(), cpu_seconds()
    worker.fit()
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    worker.save()
    peak = memory_mb("VmHWM")
    return {
        "version": worker.version(),
        "warm_up_seconds": warm_up,
        "train_seconds": wall,
        "train_cpu_seconds": cpu,
        "train_peak_mb": peak,
        "train_peak_above_start_mb": max(peak - base, 0.0),
    }


def time_batch(worker: Worker, k: int, threads: int) -> tuple[float, float]:
    """Return the best milliseconds per point over several batches, and how many cores that batch kept busy."""
    best, busy, spent = np.inf, 0.0, 0.0
    n_points = 0
    for _ in range(BATCH_REPEATS):
        wall, cpu = time.perf_counter(), cpu_seconds()
        answer = worker.predict(k, threads)
        wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
        if wall < best:
            best, busy = wall, cpu / wall
        spent += wall
        n_points = n_points or worker.scores(answer).shape[0]
        if spent > BATCH_BUDGET:
            break
    return 1000 * best / n_points, busy


def time_single(worker: Worker, n_points: int, k: int) -> dict[str, float]:
    """Median and 99th percentile of the milliseconds of one point; the best of several passes over the same rows."""
    points = [worker.point(int(row)) for row in np.random.default_rng(0).permutation(n_points)[:SINGLE_ROWS]]
    for point in points[:50]:
        worker.predict_one(point, k)
    passes = []
    for _ in range(SINGLE_PASSES):
        taken = np.empty(len(points))
        for i, point in enumerate(points):
            started = time.perf_counter()
            worker.predict_one(point, k)
            taken[i] = time.perf_counter() - started
        passes.append((float(np.median(taken)) * 1000, float(np.percentile(taken, 99)) * 1000))
    p50, p99 = min(passes)
    return {"single_ms_p50": p50, "single_ms_p99": p99}


def measure_predict(worker: Worker, data: Path, out: Path) -> dict[str, Any]:
    """Load the saved model, keep its top labels for the metrics, and time batches and single points."""
    worker.load_test(data)
    worker.warm_up("predict")
    reset_peak()
    base = memory_mb("VmRSS")
    started = time.perf_counter()
    worker.load()
    loaded = time.perf_counter() - started
    scores = worker.scores(worker.predict(TOP, 2))
    np.savez(
        out.with_suffix(".npz"), indices=scores.indices, data=scores.data, indptr=scores.indptr, shape=scores.shape
    )
    record: dict[str, Any] = {"load_seconds": loaded}
    for threads in (1, 2):
        record[f"batch_ms_{threads}"], record[f"batch_cores_{threads}"] = time_batch(worker, TIMED, threads)
        record[f"batch_top{TOP}_ms_{threads}"], _ = time_batch(worker, TOP, threads)
    peak = memory_mb("VmHWM")
    record |= {"predict_peak_mb": peak, "predict_peak_above_start_mb": max(peak - base, 0.0)}
    return record | time_single(worker, scores.shape[0], TIMED)


def main(kind: type[Worker]) -> None:
    """Command line of a worker: ``fit`` or ``predict``, the folders, the parameters, where to write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("phase", choices=["fit", "predict"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=json.loads, default={})
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    worker = kind(args.params, args.threads, args.model)
    if args.phase == "fit":
        record = measure_fit(worker, args.data)
    else:
        record = measure_predict(worker, args.data, args.out)
    args.out.write_text(json.dumps(record))
    sys.stdout.flush()
