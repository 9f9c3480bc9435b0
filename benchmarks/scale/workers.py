"""One network on several processes against one: ``python -m benchmarks.scale.workers debian-packages [--seed 1]``.

DECAF with ``n_workers`` of 1 and 2, each fit in a process of its own, scored on the test points.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import results
from benchmarks.paths import DATA_ROOT

WORKERS = (1, 2)


def model(n_workers: int, seed: int) -> str:
    """Return the model as `longtail.make` takes it."""
    return f"decaf(n_networks=1, n_workers={n_workers}, random_state={seed})"


def measure(name: str, data: str) -> dict[str, Any]:
    """Fit one model in this process, and score the test points."""
    import longtail

    read = longtail.read(DATA_ROOT / data)
    assert read.test is not None
    begin = time.perf_counter()
    ranker = longtail.make(name).fit(read.X, read.Y, label_features=read.Z)
    seconds = time.perf_counter() - begin
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    scored = longtail.evaluate(read.test.Y, ranker.predict(read.test.X, 5), train_Y=read.Y, ks=(5,))
    row = {"fit_s": seconds, "cpu_s": sum(used.ru_utime + used.ru_stime for used in usage)}
    return row | {metric: scored[metric] for metric in ("P@5", "PSP@5")}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure each number of workers, and keep the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.workers")
    parser.add_argument("data", nargs="?", default="debian-packages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(measure(given.one, given.data)))
        return
    for n_workers in WORKERS:
        name = model(n_workers, given.seed)
        command = [sys.executable, "-m", "benchmarks.scale.workers", given.data, "--one", name]
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        row |= {"data": given.data, "n_workers": n_workers, "seed": given.seed}
        results.add("scale", f"{given.data} {n_workers} {given.seed}", row, name, group="workers")
        shown = {key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()}
        print(name, shown, flush=True)


if __name__ == "__main__":
    main()
