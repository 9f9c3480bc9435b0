"""Large trainings from data to predictions, one process each: ``python -m benchmarks.scale.large bonsai-1M``.

Some have a limit of memory, beside the same training without one. Figures: time and CPU seconds of the fit, peak memory
of the whole process, size of the saved model, and, of the loaded model, the median time of one point and P@5. While it
runs, CPU seconds and memory are printed at each tenth of each stage.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import results
from benchmarks.paths import DATA_ROOT

_ONE_BY_ONE = 300  # points whose time is measured
_SCORED = 5000  # test points, at most


@dataclass(frozen=True)
class Run:
    """A training: data (a folder's name, or sizes of synthetic data), the model, and a limit of memory."""

    model: str
    data: str | tuple[int, int, int]  # points, features, labels
    memory: str | None = None


RUNS = {
    "dismec": Run("dismec", "eurlex57k"),
    "dismec-2GB": Run("dismec", "eurlex57k", "2GB"),
    "blend": Run("blend", "yso-titles"),
    "blend-4GB": Run("blend", "yso-titles", "4GB"),
    "bonsai-yso": Run("bonsai", "yso-titles"),
    "bonsai-100K": Run("bonsai(n_trees=1)", (100_000, 100_000, 100_000)),
    "bonsai-300K": Run("bonsai(n_trees=1)", (300_000, 100_000, 300_000)),
    "bonsai-1M": Run("bonsai(n_trees=1)", (1_000_000, 100_000, 1_000_000)),
    "decaf-100K": Run("decaf(n_networks=1, epochs=1)", (100_000, 100_000, 100_000)),
    "decaf-300K": Run("decaf(n_networks=1, epochs=1)", (300_000, 100_000, 300_000)),
    "decaf-1M": Run("decaf(n_networks=1, epochs=1)", (1_000_000, 100_000, 1_000_000)),
}


class Stages:
    """A listener to progress that prints when a stage begins and ends, with CPU seconds and memory so far."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, int]] = set()

    def __call__(self, stage: str, share: float) -> None:
        from longtail.engine.memory import used_bytes

        tenths = int(10 * share)
        if (stage, tenths) not in self._reported:
            self._reported.add((stage, tenths))
            now = f"{time.process_time():8.1f} CPU s, {used_bytes() / 1e9:.2f} GB"
            print(f"{now}: {stage}, {tenths / 10:.0%}", file=sys.stderr, flush=True)


def measure(run: Run) -> dict[str, Any]:
    """Train, save, load and predict in this process."""
    import longtail
    from longtail import progress
    from longtail.cli.measure import peak_memory_mb
    from longtail.data import synthetic
    from longtail.engine.memory import set_limit

    set_limit(run.memory)
    if isinstance(run.data, str):
        data = longtail.read(DATA_ROOT / run.data)
    else:
        data = synthetic.make(*run.data, test_fraction=_SCORED / run.data[0])
    assert data.test is not None
    begin, cpu = time.perf_counter(), time.process_time()
    with progress.listen(Stages()):
        ranker = longtail.make(run.model).fit(data.X, data.Y, label_features=data.Z)
    row: dict[str, Any] = {"fit_s": time.perf_counter() - begin, "fit_cpu_s": time.process_time() - cpu}
    row["peak_mb"] = peak_memory_mb()
    X, Y = data.test.X[:_SCORED], data.test.Y[:_SCORED]
    with tempfile.TemporaryDirectory() as folder:
        ranker.save(Path(folder) / "model")
        row["model_mb"] = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6
        loaded = longtail.load(Path(folder) / "model")
        row["P@5"] = longtail.evaluate(Y, loaded.predict(X, 5), ks=(5,))["P@5"]
        seconds, cpu_seconds = [], []
        for i in range(min(_ONE_BY_ONE, X.shape[0])):
            point = X[i : i + 1]
            start, cpu = time.perf_counter(), time.process_time()
            loaded.predict(point, 5)
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu)
    row |= {"p50_ms": 1e3 * median(seconds), "p50_cpu_ms": 1e3 * median(cpu_seconds)}
    return row | {"peak_all_mb": peak_memory_mb(), "n_points": data.n_points}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the runs named, and keep the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.large")
    parser.add_argument("runs", nargs="+", choices=list(RUNS))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(measure(RUNS[given.runs[0]])))
        return
    for name in given.runs:
        run, command = RUNS[name], [sys.executable, "-m", "benchmarks.scale.large", name, "--one"]
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        row |= {"data": run.data if isinstance(run.data, str) else " × ".join(f"{n:,}" for n in run.data)}
        results.add("scale", name, row | {"memory": run.memory}, run.model, group="large")
        shown = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
        print(name, shown, flush=True)


if __name__ == "__main__":
    main()
