"""Estimate what a training will take: memory from a formula, time and model size from samples.

The ranker is fitted to two samples of the points. Time and size are extrapolated to all points as a power of the number
of points. With samples that take only seconds, this is accurate within a factor of about two.
"""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from longtail.engine import memory
from longtail.models.base import Ranker
from longtail.sparse import labelled_rows

_LARGE_SAMPLE_DIVISOR = 16  # the larger sample is this part of all points, within the limits below
_SMALLEST_SAMPLE, _LARGEST_SAMPLE = 500, 20_000
_SMALL_SAMPLE_DIVISOR = 3  # the smaller sample is this part of the larger one
_POINTS_TO_COMPILE = 64  # points of a first fit, which only compiles kernels
_TIME_POWERS, _SIZE_POWERS = (0.7, 1.2), (0.0, 1.1)  # plausible powers; measured ones are limited to these


@dataclass(frozen=True)
class Estimate:
    """Expected memory, time and model size of a training.

    Attributes
    ----------
    memory_bytes : float
        Peak memory of the whole process, including the data.
    seconds : float
        Time of the fit.
    model_bytes : float
        Size of the saved model.
    n_sample : int
        Number of points of the larger sample.
    """

    memory_bytes: float
    seconds: float
    model_bytes: float
    n_sample: int


def estimate(ranker: Ranker, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Estimate:
    """Estimate memory, time and model size of a fit, without fitting to all points.

    Parameters
    ----------
    ranker : Ranker
        The ranker to estimate. It is not changed.
    X, Y, Z : csr_array
        Points (N, D), their labels (N, L), and label text (L, D) or None.
    """
    rows = np.random.default_rng(0).permutation(labelled_rows(Y))
    n = len(rows)
    needed = memory.used_bytes() + ranker.memory_needed(X, Y, Z)
    larger = min(n, _LARGEST_SAMPLE, max(_SMALLEST_SAMPLE, n // _LARGE_SAMPLE_DIVISOR))
    smaller = max(1, min(larger, max(_POINTS_TO_COMPILE, larger // _SMALL_SAMPLE_DIVISOR)))
    _fit_sample(ranker, X, Y, Z, rows[:_POINTS_TO_COMPILE])  # compile kernels before the time is measured
    first = _fit_sample(ranker, X, Y, Z, rows[:smaller])
    second = _fit_sample(ranker, X, Y, Z, rows[:larger])
    seconds, size = (
        _extrapolated(small, large, (smaller, larger, n), powers)
        for small, large, powers in zip(first, second, (_TIME_POWERS, _SIZE_POWERS), strict=True)
    )
    return Estimate(needed, seconds, size, larger)


def _fit_sample(
    ranker: Ranker, X: csr_array, Y: csr_array, Z: csr_array | None, rows: np.ndarray
) -> tuple[float, float]:
    """Fit to some points, and return the time in seconds and the size of the saved model in bytes."""
    chosen = np.sort(rows)
    begin = time.perf_counter()
    fitted = ranker.unfitted().fit(X[chosen], Y[chosen], label_features=Z)
    seconds = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(Path(folder) / "model")
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return seconds, float(size)


def _extrapolated(small: float, large: float, sizes: tuple[int, int, int], powers: tuple[float, float]) -> float:
    """Extrapolate a quantity from two sizes to a third one by a power law, whose power is limited to a range."""
    smaller, larger, n = sizes
    if larger <= smaller or min(small, large) <= 0:
        return large * n / max(1, larger)
    power = math.log(large / small) / math.log(larger / smaller)
    return large * (n / larger) ** min(max(power, powers[0]), powers[1])
