"""Variants of a model on one data set, each trained and measured in a process of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from longtail import registry
from longtail.cli.worker import ModelTask, run_task, save_matrices
from longtail.data import Dataset
from longtail.kernels import pool

N_SINGLE = 500  # points that are ranked one by one


class Variant(NamedTuple):
    """A model with its settings, and whether it is given label text."""

    model: str
    text: bool = True


def measured(
    data: Dataset, name: str, variants: Mapping[str, Variant], seeds: Sequence[int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Train and measure each variant with each seed; yield the key and the row of each."""
    assert data.test is not None
    with tempfile.TemporaryDirectory(prefix="longtail-") as scratch:
        matrices = {text: Path(scratch) / ("text" if text else "no-text") for text in (True, False)}
        for text, folder in matrices.items():
            save_matrices(data if text else replace(data, Z=None), folder)
        for seed in seeds:
            for variant, (model, text) in variants.items():
                own = Path(scratch) / f"{variant}-{seed}"
                row = run_task(
                    ModelTask(
                        str(matrices[text]), model, defaults={"random_state": seed}, vector_size=data.vector_size
                    ),
                    own,
                )
                row.pop("frontier", None)
                if "error" not in row:
                    row["single_ms"] = single_point_ms(registry.load(own / "model"), data.test.X)
                row |= {"cores": pool.cores(None), "data": name, "variant": variant, "seed": seed}
                yield f"{name} {variant} {seed}", row


def single_point_ms(model: Any, X: csr_array) -> float:
    """Return the milliseconds of one point on one thread: the median, in the best of three passes."""
    return min(_median_ms(model, X) for _ in range(3))


def _median_ms(model: Any, X: csr_array) -> float:
    taken = []
    with threadpool_limits(1):
        for row in range(0, X.shape[0], max(1, X.shape[0] // N_SINGLE)):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            start = time.perf_counter()
            model.rank(X.indices[entries], X.data[entries], 5)
            taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e3
