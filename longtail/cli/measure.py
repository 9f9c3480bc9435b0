"""Accuracy and cost of a model: every metric of the field, time, memory and size."""

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
    Y: csr_array  # (N, L); labels that the ranker never saw may follow its own
    weights: np.ndarray  # (L,) inverse propensities
    ignore: np.ndarray | None  # (P, 2) pairs of row and label that do not count
    counts: np.ndarray | None = None  # (L,) training points per label, where they are known


class Stopwatch:
    """Seconds of wall time without compilation, and the seconds of compiling kernels for the first time."""

    seconds = 0.0
    compiling = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time the block without compilation, which happens once per machine and is no property of a model."""
    from numba.core import event

    watch = Stopwatch()
    start = time.perf_counter()
    with event.install_timer("numba:compile", lambda seconds: setattr(watch, "compiling", seconds or 0.0)):
        yield watch
    watch.seconds = time.perf_counter() - start - watch.compiling


def accuracy(ranker: Ranker, test: EvaluationSet) -> dict[str, Any]:
    """Compute every metric of a ranker, and the time per point in a batch."""
    return scores_and_accuracy(ranker, test)[1]


def scores_and_accuracy(ranker: Ranker, test: EvaluationSet) -> tuple[csr_array, dict[str, Any]]:
    """Return the scores of the best labels of each point as well, (N, L)."""
    ranker.predict(test.X[:1], k=max(KS))  # work that is done once does not count as time per point
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
    """Compute the curve between P@k and PSP@k, along a ranker's parameter `tail` if it has one, else along β.

    Each point has ``tail`` or ``beta``, from 0 to 1 in steps of a quarter, ``P@k`` and ``PSP@k``. The ranker is left
    as it was.
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
    """Return one model's object as ``--json`` prints it, its keys in the order of the documentation."""
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
    """Return the largest amount of memory that this process has held, in megabytes.

    On Linux from the kernel's record of this very program; ``getrusage`` would include what its parent held.
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
