"""Measure the time that checks add to a model: ``python -m benchmarks.checks [--models bonsai knn]``.

Loading compares every array with its declared rules; a prediction compares settings and points. Each is run with and
without its checks in turn, and the least CPU time of several runs counts, of each point where they are ranked one by
one: a microsecond is less than the noise of 200 points together. Without checks a model folder is trusted and a damaged
matrix reaches the kernels, so this is a measurement and no way to run longtail.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import longtail
from benchmarks import results
from benchmarks.paths import DATA_ROOT
from benchmarks.render import render
from longtail.kernels import pool
from longtail.models import base
from longtail.models import checks as own
from longtail.registry import load_tagger
from longtail.sparse import Arrays
from longtail.store.invariants import Checksum, Rules

MODELS = ("bonsai", "knn", "fastxml(n_trees=5)", "blend([decaf(n_networks=1, epochs=1), bonsai, knn, textmatch])")


def compare_checksums(rules: Rules, arrays: Arrays, sizes: Any, where: Any, checksums: dict[str, Checksum]) -> None:
    """Compare checksums, which show damage, and nothing else."""
    large = sum(array.nbytes for array in arrays.values()) > 1 << 21
    assert all(pool.run(lambda name: checksums[name].matches(arrays[name]), checksums, None if large else 1))


_CHECKS: dict[str, Callable[..., Any]] = {
    "longtail.models.stored_ranker.check_arrays": compare_checksums,
    "longtail.tagger.stored_tagger.check_arrays": compare_checksums,
    "longtail.models.base.check_point": lambda indices, values, n_features: (indices, values),
    "longtail.models.base.check_features": lambda X, *args, **kwargs: X,
    "longtail.models.base.Ranker._check_ready": lambda self: None,
}


@contextmanager
def trusting() -> Iterator[None]:
    """Leave out the checks."""
    patches = [mock.patch(name, replacement) for name, replacement in _CHECKS.items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def least_seconds(repeats: int, runs: Sequence[Callable[[], Any]]) -> tuple[float, float]:
    """Return the sum of the least CPU seconds of each run, with and without checks; all runs are made in each turn."""
    least = np.full((2, len(runs)), np.inf)

    def turn(at: int) -> None:
        for i, run in enumerate(runs):
            start = time.process_time()
            run()
            least[at, i] = min(least[at, i], time.process_time() - start)

    for _ in range(repeats + 1):  # the first may compile kernels
        turn(0)
        with trusting():
            turn(1)
    return float(least[0].sum()), float(least[1].sum())


def uses_of(folder: str, texts: list[str]) -> dict[str, tuple[int, list[Callable[[], Any]]]]:
    """Return how often each use of a saved tagger is measured, and its runs."""
    tagger = load_tagger(folder)
    ranker, vectorizer = tagger.ranker_, tagger.vectorizer_
    assert isinstance(ranker, base.Ranker)
    assert vectorizer is not None
    X = own.check_features(vectorizer.transform(texts))
    points = [(X.indices[a:b], X.data[a:b]) for a, b in zip(X.indptr[:200], X.indptr[1:201], strict=False)]
    return {
        "load": (400, [lambda: longtail.load(folder)]),
        "predict": (9, [lambda: ranker.predict(X, 5)]),
        "rank": (100, [partial(ranker.rank, *point) for point in points]),
    }


def main() -> None:
    """Train each model, measure its uses, and record them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="debian-packages", help="data set with texts")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="models with settings")
    parser.add_argument("--folders", type=Path, help="where trained models are kept between runs")
    given = parser.parse_args()
    data = longtail.read(given.data_root / given.data)
    texts = list((data.test or data).texts or [])[:2000]
    for model in given.models:
        with tempfile.TemporaryDirectory() as name:
            folder = (given.folders or Path(name)) / re.sub(r"\W+", "-", model).strip("-")
            if not folder.exists():
                longtail.Tagger(model).fit_dataset(data).save(folder)
            for use, (repeats, runs) in uses_of(str(folder), texts).items():
                checked, trusted = least_seconds(repeats, runs)
                row = {"use": use, "checked_ms": 1e3 * checked, "trusted_ms": 1e3 * trusted}
                print(f"{model} {use}: {checked / trusted - 1:+.1%} of {1e3 * trusted:.2f} ms", flush=True)
                results.add("checks", f"{given.data} {model} {use}", row, model)
    render()


if __name__ == "__main__":
    main()
