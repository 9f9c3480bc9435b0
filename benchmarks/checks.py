"""Measure the time that checks add to a model: ``python -m benchmarks.checks FOLDER DATA``.

Loading compares every array with its declared rules; a prediction compares settings and points. Each is run with and
without its checks in turn, and the least CPU time of several runs counts. Without checks a model folder is trusted and
a damaged matrix reaches the kernels, so this is a measurement and no way to run longtail.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import longtail
from longtail.kernels import pool
from longtail.models import base
from longtail.models import checks as own
from longtail.registry import load_tagger
from longtail.sparse import Arrays
from longtail.store.invariants import Checksum, Rules


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


def least_seconds(repeats: int, times: int, run: Callable[[], Any]) -> tuple[float, float]:
    """Return the least CPU seconds of a run with and without checks; each turn runs it several times."""
    least = [float("inf"), float("inf")]

    def turn(at: int) -> None:
        start = time.process_time()
        for _ in range(times):
            run()
        least[at] = min(least[at], (time.process_time() - start) / times)

    run()
    for _ in range(repeats):
        turn(0)
        with trusting():
            turn(1)
    return least[0], least[1]


def main() -> None:
    """Print one line per use."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="folder of a saved model")
    parser.add_argument("data", help="a dataset with the features of the model")
    given = parser.parse_args()
    ranker = load_tagger(given.folder).ranker_
    data = longtail.read(given.data)
    X = own.check_features((data.test or data).X)[:2000]
    assert isinstance(ranker, base.Ranker)
    points = [(X.indices[a:b], X.data[a:b]) for a, b in zip(X.indptr[:200], X.indptr[1:201], strict=True)]
    uses: dict[str, tuple[int, int, Callable[[], Any]]] = {
        "load": (15, 1, lambda: longtail.load(given.folder)),
        f"predict {X.shape[0]:,} points": (7, 1, lambda: ranker.predict(X, 5)),
        "rank 200 points one by one": (15, 1, lambda: [ranker.rank(*point) for point in points]),
    }
    for name, (repeats, times, run) in uses.items():
        checked, trusted = least_seconds(repeats, times, run)
        print(f"{name}: {checked * 1e3:.2f} ms, {trusted * 1e3:.2f} ms without checks: {checked / trusted - 1:+.1%}")


if __name__ == "__main__":
    main()
