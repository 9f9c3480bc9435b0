"""Time and memory of a fit against N, D and L: ``python -m benchmarks.scale.run [--models bonsai knn]``.

Synthetic data; one of the three numbers is varied over four sizes at a time. Each fit has a process of its own, which
has compiled its kernels on a few points before. Time is CPU seconds of all threads, which hardly depend on what else
the machine does, and of fits below a second the least of three; memory is the peak beyond what the process held before
the fit. The peak of the whole process is also compared with the estimate that ``longtail train --estimate`` prints.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import results

_BASE = {"N": 10_000, "D": 20_000, "L": 4_000}
_FACTORS = {
    "popular": 10,
    "textmatch": 10,
    "knn": 10,
    "dxml": 0.25,
}  # on all sizes, for fits of milliseconds or minutes
_VECTORS = {"N": 80_000, "D": 200, "L": 4_000}  # D is their length
_OTHER_BASE = {"vectorknn": _VECTORS, "vectormatch": _VECTORS | {"L": 40_000}}
FACTORS = (0.5, 1, 2, 4)
_ONE_BLAS = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # its threads wait in a loop, which is CPU time too
_SHORT = 1.0  # CPU seconds of a fit below which the least of three counts: the first touches its memory, too
MODELS = {
    "popular": "popular",
    "textmatch": "textmatch",
    "knn": "knn",
    "bonsai": "bonsai(n_trees=1, cost=1.0)",
    "parabel": "parabel(n_trees=1, cost=1.0)",
    "dismec": "dismec(cost=1.0)",
    "fastxml": "fastxml(n_trees=10, cost=4.0)",
    "pfastrexml": "pfastrexml(n_trees=10, cost=4.0)",
    "decaf": "decaf(n_networks=1, epochs=1)",
    "glas": "glas(epochs=1)",
    "mnn": "mnn(epochs=1)",
    "dxml": "dxml(epochs=1)",
    "taug": "taug(bonsai(n_trees=1, cost=1.0))",
    "ranknet": "ranknet(bonsai(n_trees=1, cost=1.0), epochs=1)",
    "labeltext": "labeltext(bonsai(n_trees=1, cost=1.0))",
    "calibrated": "calibrated(bonsai(n_trees=1, cost=1.0))",
    "vectorknn": "vectorknn",
    "vectormatch": "vectormatch",
    "blend": "blend([bonsai(n_trees=1, cost=1.0), knn, textmatch, decaf(n_networks=1, epochs=1)])",
}


def base(model: str) -> dict[str, int]:
    """Return the size of which one number at a time is varied."""
    known = _OTHER_BASE.get(model, _BASE)
    return {axis: round(size * _FACTORS.get(model, 1)) for axis, size in known.items()}


def sizes(model: str, axes: Sequence[str] = "NDL") -> list[dict[str, int]]:
    """Return the sizes to measure: the base, and each of some numbers multiplied."""
    whole = base(model)
    varied = [whole | {axis: round(whole[axis] * factor)} for axis in axes for factor in FACTORS if factor != 1]
    return [whole, *varied]


def measure(model: str, n: int, d: int, n_labels: int) -> dict[str, float]:
    """Fit one model in this process."""
    import longtail
    from longtail.cli.measure import peak_memory_mb
    from longtail.data import synthetic
    from longtail.engine import memory

    few = synthetic.make(300, 500, 50)
    longtail.make(MODELS[model]).fit(few.X, few.Y, label_features=few.Z).predict(few.X)
    data = synthetic.make(n, d, n_labels, test_fraction=min(1.0, 2000 / n))
    assert data.test is not None
    _forget_memory()
    before = memory.used_bytes() / 1e6
    ranker = longtail.make(MODELS[model])
    needed = ranker.memory_needed(data.X, data.Y, data.Z) / 1e6
    cpu = time.process_time()
    ranker.fit(data.X, data.Y, label_features=data.Z)
    taken = time.process_time() - cpu
    peak = peak_memory_mb()
    for _ in range(2 if taken < _SHORT else 0):
        cpu = time.process_time()
        ranker.fit(data.X, data.Y, label_features=data.Z)
        taken = min(taken, time.process_time() - cpu)
    fitted = time.process_time()
    scores = ranker.predict(data.test.X, 5)
    predicted = time.process_time()
    return {
        "N": n,
        "D": d,
        "L": n_labels,
        "fit_cpu_s": taken,
        "fit_mb": max(peak - before, 0.1),
        "peak_mb": peak,
        "estimated_fit_mb": needed,
        "predict_cpu_ms": 1e3 * (predicted - fitted) / data.test.X.shape[0],
        "P@5": longtail.evaluate(data.test.Y, scores, ks=(5,))["P@5"],
    }


def _forget_memory() -> None:
    """Give freed memory back, and let the system's record of the peak begin now.

    Making the data may take more memory than the fit, and what it has freed would hide what the fit needs.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not Linux, or another C library
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the models named, or all, and keep the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--axes", nargs="*", choices="NDL", default="NDL", help="the numbers to vary; by default all")
    parser.add_argument("--one", nargs=4, metavar=("MODEL", "N", "D", "L"), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(measure(given.one[0], *map(int, given.one[1:]))))
        return
    for model in given.models:
        whole, smaller, *others = sizes(model, given.axes)
        for size in [smaller, whole, smaller, *others]:  # the first fit may compile kernels, and its row is replaced
            words = [model, *(str(size[axis]) for axis in "NDL")]
            command = [sys.executable, "-m", "benchmarks.scale.run", "--one", *words]
            ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | _ONE_BLAS)
            row = json.loads(ended.stdout)
            results.add("scale", " ".join(words), row | {"name": model}, MODELS[model])
            print(*words, {name: round(value, 3) for name, value in row.items()}, flush=True)


if __name__ == "__main__":
    main()
