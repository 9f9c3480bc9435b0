"""Measure texts per second from text to labels: `Tagger.predict` beside scikit-learn's TF-IDF and PECOS.

    python -m benchmarks.texts.run [--data debian-packages,eurlex57k] [--models bonsai,blend] [--repeat 3]

Every system trains on the training texts, then predicts 5 labels for all test texts with all cores, several times; the
fastest time counts. A run replaces the figures of its own rows in ``results/texts.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import scipy.sparse as sp

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from benchmarks.peers.environments import python_of
from longtail.data.dataset import Dataset
from longtail.kernels.pool import available_cores

PIPELINE = Path(__file__).parent / "pecos_pipeline.py"
PECOS = "scikit-learn + PECOS"


def measure_ours(data: Dataset, model: str, repeats: int) -> dict[str, Any]:
    """Train a tagger and time its predictions."""
    tagger = longtail.Tagger(model).fit_dataset(data)
    assert data.test is not None
    assert data.test.texts is not None
    texts, seconds, cpu = data.test.texts, [], []
    tagger.predict(texts[:200], k=5)  # compiles, or loads what is compiled
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        tagger.predict(texts, k=5)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return {"seconds": min(seconds), "cpu_seconds": min(cpu), "n": len(texts)}


def measure_pecos(data: Dataset, repeats: int) -> dict[str, Any]:
    """Train and time the other pipeline, in the environment of PECOS."""
    assert data.test is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, texts in (("train", data.texts), ("test", data.test.texts)):
            (folder / f"{part}.json").write_text(json.dumps(texts), encoding="utf-8")
        sp.save_npz(folder / "Y.npz", sp.csr_matrix(data.Y))
        command = [str(python_of("pecos")), str(PIPELINE), name, str(available_cores()), str(repeats)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(answer.splitlines()[-1])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="debian-packages,eurlex57k")
    parser.add_argument("--models", default="bonsai,blend", help="of ours; PECOS is measured as well")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    for name in options.data.split(","):
        data = longtail.read(options.data_root / name)
        for system in [PECOS, *options.models.split(",")]:
            peer = system == PECOS
            row = measure_pecos(data, options.repeat) if peer else measure_ours(data, system, options.repeat)
            row |= {"data": name, "system": system}
            results.add("texts", f"{name} {system}", row, None if peer else system)
            print(f"{name}  {system}: {row['n'] / row['seconds']:,.0f} texts/s", flush=True)
    render.render()


if __name__ == "__main__":
    main()
