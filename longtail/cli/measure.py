"""How good and how costly a model is: every measure of the field, time, memory and size."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.metrics import evaluate, full_report, inverse_propensity
from longtail.models.base import Ranker

KS = (1, 3, 5)
MEASURES = ("P", "nDCG", "PSP", "PSnDCG", "R", "C", "F")
DEPTH = 50  # what the frontier re-ranks


class Stopwatch:
    """Seconds spent, and of those the seconds in which kernels were compiled for the first time on a machine."""

    seconds = 0.0
    compiling = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time what is done inside, compilation apart: it happens once and is cached, and says nothing of a model."""
    from numba.core import event

    watch = Stopwatch()
    start = time.perf_counter()
    with event.install_timer("numba:compile", lambda seconds: setattr(watch, "compiling", seconds or 0.0)):
        yield watch
    watch.seconds = time.perf_counter() - start - watch.compiling


def accuracy(
    ranker: Ranker, X: csr_array, Y: csr_array, weights: np.ndarray, ignore: np.ndarray | None
) -> dict[str, Any]:
    """Every measure of a ranker on test points, and the time that a point takes in a batch.

    Labels beyond the ranker's own, which it cannot know, may follow in `Y` and `weights`.
    """
    ranker.predict(X[:1], k=max(KS))  # what is done once is not the price of a point
    with stopwatch() as watch:
        ranker.predict(X, k=max(KS))
    scores = ranker.predict(X, k=DEPTH)
    scores = csr_array((scores.data, scores.indices, scores.indptr), shape=Y.shape)
    report = full_report(Y, scores, inv_propensity=weights, ks=KS, ignore=ignore)
    return report | {"predict_ms_per_point": 1000 * watch.seconds / max(X.shape[0], 1)}


def tradeoff(
    ranker: Ranker, X: csr_array, Y: csr_array, weights: np.ndarray, ignore: np.ndarray | None, report: dict[str, Any]
) -> list[dict[str, float]]:
    """The curve between P@k and PSP@k: along a ranker's own knob `tail` where it has one, else along the frontier's β.

    Each point has ``tail`` or ``beta``, from 0 to 1 in steps of a quarter, ``P@k`` and ``PSP@k``. The ranker is left as
    it was.
    """
    if "tail" not in ranker.get_params(deep=False):
        return [point for point in report["frontier"] if point["beta"] >= 0]
    before, curve = ranker.get_params(deep=False)["tail"], []
    for tail in np.linspace(0, 1, 5).tolist():
        scores = ranker.set_params(tail=tail).predict(X, k=max(KS))
        scores = csr_array((scores.data, scores.indices, scores.indptr), shape=Y.shape)
        found = evaluate(Y, scores, inv_propensity=weights, ks=KS, ignore=ignore)
        curve.append({"tail": tail} | {f"{name}@{k}": found[f"{name}@{k}"] for name in ("P", "PSP") for k in KS})
    ranker.set_params(tail=before)
    return curve


def result(model: str, report: dict[str, Any], **costs: float | None) -> dict[str, Any]:
    """One model's object as ``--json`` prints it, its keys in the order of the documentation."""
    row: dict[str, Any] = {"model": model}
    row |= {f"{measure}@{k}": report[f"{measure}@{k}"] for measure in MEASURES for k in KS}
    return row | {"frontier": report["frontier"], "train_seconds": costs["train_seconds"]} | {
        "predict_ms_per_point": report["predict_ms_per_point"],
        "peak_memory_mb": costs["peak_memory_mb"],
        "model_mb": costs["model_mb"],
    }  # fmt: skip


def propensity_weights(counts: np.ndarray, n_points: int, n_labels: int) -> np.ndarray:
    """Inverse propensities from the training points of each label; labels beyond `counts` have none."""
    counts = np.concatenate([counts, np.zeros(n_labels - len(counts), counts.dtype)])
    starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    rows = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
    # Any matrix with these column sums will do: label l in the first N_l points.
    columns = np.repeat(np.arange(n_labels), counts)
    return inverse_propensity(csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(n_points, n_labels)))


def folder_mb(folder: str | os.PathLike[str]) -> float:
    """Size of all files of a folder, in megabytes."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def peak_memory_mb() -> float:
    """The most memory this process has held, in megabytes.

    On Linux from the kernel's record of this very program; ``getrusage`` would count what its parent held.
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
