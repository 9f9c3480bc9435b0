"""Time the metrics at the scale of the largest public sets: 100,000 test points, 1,000,000 labels.

    python -m benchmarks.micro.metrics [--points N] [--labels L] [--repeats R]

Five true and fifty predicted labels per point, power-law label frequencies. Prints the first call (kernels loaded from
the cache, or compiled if there is none) and the best of several warm calls of each function.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.metrics import evaluate, frequency_bins, frontier, full_report, inverse_propensity


def problem(n_points: int, n_labels: int, n_true: int = 5, depth: int = 50) -> tuple[csr_array, csr_array]:
    """Truth and scores in which about half of the truth is among the predictions, at any rank."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:  # (n_points, n) labels, frequent ones first, distinct within a row
        labels = (n_labels ** rng.random((n_points, n)) - 1).astype(np.int32)
        labels.sort(axis=1)
        while (repeated := np.diff(labels, axis=1, prepend=-1) == 0).any():
            labels[repeated] = rng.integers(0, n_labels, np.count_nonzero(repeated))
            labels.sort(axis=1)
        return labels

    predicted = draw(depth)
    truth = predicted[:, rng.permutation(depth)[:n_true]].copy()
    missed = rng.random(truth.shape) < 0.5
    truth[missed] = rng.integers(0, n_labels, np.count_nonzero(missed))
    rows = np.arange(n_points + 1, dtype=np.int32)
    Y = csr_array((np.ones(truth.size, np.float32), truth.ravel(), rows * n_true), shape=(n_points, n_labels))
    Y.sum_duplicates()
    scores = np.sort(rng.random((n_points, depth), np.float32))[:, ::-1].ravel()  # each row best first, as models give
    shuffled = rng.permuted(predicted, axis=1).ravel()
    return Y, csr_array((scores, shuffled, rows * depth), shape=(n_points, n_labels))


def seconds(call: Callable[[], Any]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    truth, scores = problem(options.points, options.labels)
    train, _ = problem(5 * options.points, options.labels, depth=5)
    weights = inverse_propensity(train)
    rng = np.random.default_rng(1)
    ignore = np.column_stack((rng.integers(0, options.points, 100_000), rng.integers(0, options.labels, 100_000)))
    calls: dict[str, Callable[[], Any]] = {
        "inverse_propensity": lambda: inverse_propensity(train),
        "evaluate": lambda: evaluate(truth, scores, inv_propensity=weights),
        "evaluate, pairs ignored": lambda: evaluate(truth, scores, inv_propensity=weights, ignore=ignore),
        "frontier": lambda: frontier(truth, scores, weights),
        "full_report": lambda: full_report(truth, scores, inv_propensity=weights),
        "frequency_bins": lambda: frequency_bins(truth, scores, train),
    }
    print(f"{options.points:,} points x {options.labels:,} labels, {truth.nnz:,} true, {scores.nnz:,} predicted")
    for name, call in calls.items():
        first = seconds(call)
        warm = min(seconds(call) for _ in range(options.repeats))
        print(f"{name:<24} first {first:6.2f} s   warm {warm:6.3f} s")


if __name__ == "__main__":
    main()
