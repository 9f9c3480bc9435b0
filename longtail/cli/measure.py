"""Measure accuracy and cost of a model: all metrics, time, memory and size."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from longtail.metrics import calibration_error, evaluate, full_report, mark_rare_labels
from longtail.metrics.frontier import RERANK_DEPTH
from longtail.models.base import Ranker
from longtail.sparse import resized

KS = (1, 3, 5)
METRIC_NAMES = ("P", "nDCG", "PSP", "PSnDCG", "R", "C", "B")


class EvaluationSet(NamedTuple):
    """Points with known labels, and the weight of each label."""

    X: csr_array  # (N, D)
    Y: csr_array  # (N, L); labels that the ranker does not have come after those that it has
    weights: np.ndarray  # (L,) inverse propensities
    ignore: np.ndarray | None  # (P, 2) pairs of row and label to leave out
    counts: np.ndarray | None = None  # (L,) training points per label, if they are known


class Stopwatch:
    """Wall time in seconds without compilation, and the time of compiling kernels."""

    seconds = 0.0
    compiling = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Measure the time of a block without compilation, which happens once per machine and not once per model."""
    from numba.core import event

    watch = Stopwatch()
    start = time.perf_counter()
    with event.install_timer("numba:compile", lambda seconds: setattr(watch, "compiling", seconds or 0.0)):
        yield watch
    watch.seconds = time.perf_counter() - start - watch.compiling


def accuracy(ranker: Ranker, test: EvaluationSet) -> dict[str, Any]:
    """Compute all metrics of a ranker, and the prediction time per point in a batch."""
    return scores_and_accuracy(ranker, test)[1]


def scores_and_accuracy(ranker: Ranker, test: EvaluationSet) -> tuple[csr_array, dict[str, Any]]:
    """Compute :func:`accuracy`, and return also the scores of the best labels of each point, (N, L)."""
    ranker.predict(test.X[:1], k=max(KS))  # do work that happens only once before the time is measured
    with stopwatch() as watch:
        ranker.predict(test.X, k=max(KS))
    scores = resized(ranker.predict(test.X, k=RERANK_DEPTH), n_columns=test.Y.shape[1])
    report = full_report(test.Y, scores, inv_propensity=test.weights, ks=KS, ignore=test.ignore)
    rare = None if test.counts is None else mark_rare_labels(test.counts)
    report["ECE@1"] = calibration_error(test.Y, scores, ignore=test.ignore)
    report["ECE-rare@1"] = None
    if rare is not None and not np.isnan(error := calibration_error(test.Y, scores, labels=rare, ignore=test.ignore)):
        report["ECE-rare@1"] = error
    return scores, report | {"predict_ms_per_point": 1000 * watch.seconds / max(test.X.shape[0], 1)}


def trade_off(ranker: Ranker, test: EvaluationSet, report: dict[str, Any]) -> list[dict[str, float]]:
    """Compute the curve of P@k against PSP@k, along a ranker's parameter `tail` if it has one, or else along β.

    Each point of the curve has ``tail`` or ``beta``, from 0 to 1 in steps of a quarter, ``P@k`` and ``PSP@k``. The
    ranker's own `tail` is restored.
    """
    if "tail" not in ranker.get_params(deep=False):
        return [point for point in report["frontier"] if point["beta"] >= 0]
    before, curve = ranker.get_params(deep=False)["tail"], []
    for tail in np.linspace(0, 1, 5).tolist():
        scores = resized(ranker.set_params(tail=tail).predict(test.X, k=max(KS)), n_columns=test.Y.shape[1])
        metrics = evaluate(test.Y, scores, inv_propensity=test.weights, ks=KS, ignore=test.ignore)
        curve.append({"tail": tail} | {f"{name}@{k}": metrics[f"{name}@{k}"] for name in ("P", "PSP") for k in KS})
    ranker.set_params(tail=before)
    return curve


def result_row(model: str, report: dict[str, Any], **costs: float | None) -> dict[str, Any]:
    """Return one model's results as ``--json`` prints them, with the keys in the order of the documentation."""
    row: dict[str, Any] = {"model": model}
    row |= {f"{metric}@{k}": report[f"{metric}@{k}"] for metric in METRIC_NAMES for k in KS}
    row |= {key: report.get(key) for key in ("ECE@1", "ECE-rare@1")}
    row |= {"frontier": report["frontier"], "train_seconds": costs["train_seconds"]}
    row |= {"predict_ms_per_point": report["predict_ms_per_point"]}
    return row | {key: costs[key] for key in ("peak_memory_mb", "model_mb")}


def folder_mb(folder: str | os.PathLike[str]) -> float:
    """Return the size of all files of a folder, in megabytes."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def peak_memory_mb() -> float:
    """Return the peak memory of this process, in megabytes.

    On Linux it is read from /proc, because ``getrusage`` would include the memory of the parent process.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
