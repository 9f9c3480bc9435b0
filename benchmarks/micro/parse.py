"""Measure how fast sparse text is read, and in how much memory.

    python -m benchmarks.micro.parse [--megabytes 200] [--repeat 3]

Writes a file of TF-IDF-like rows to a temporary folder, reads it plain and compressed, and prints megabytes of text
per second, and the peak of memory while reading against the size of the result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from longtail.data import Dataset, read, write


def make(n_points: int, n_features: int, n_labels: int, per_point: int, rng: np.random.Generator) -> Dataset:
    """Rows of unit length over features drawn from a power law, about five labels each."""

    def rows(mean: int, width: int) -> csr_array:
        sizes = rng.poisson(mean, n_points)
        columns = (width * rng.random(sizes.sum()) ** 3).astype(np.int32)
        A = csr_array(
            (rng.random(sizes.sum(), np.float32), columns, np.r_[0, np.cumsum(sizes)]), shape=(n_points, width)
        )
        A.sum_duplicates()
        return A

    X, Y = rows(per_point, n_features), rows(5, n_labels)
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    Y.data[:] = 1
    return Dataset(X=X.astype(np.float32), Y=Y)


def _memory(field: str) -> int:
    """Return memory of this process in bytes: VmRSS now, VmHWM at its highest since `_forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(field))


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _size(A: csr_array) -> int:
    return A.data.nbytes + A.indices.nbytes + A.indptr.nbytes


def measure(path: Path, repeat: int) -> tuple[float, int, int]:
    """Best seconds of some readings, the peak of memory in the first of them, and the size of the result."""
    small = path.with_name("small.txt")
    small.write_text("1 1 1\n0 0:1\n")
    read(small)  # kernels are loaded before the clock starts
    before = _memory("VmRSS")
    _forget_peak()
    best, peak, size = np.inf, 0, 0
    for _ in range(repeat):
        start = time.perf_counter()
        held = read(path)
        best = min(best, time.perf_counter() - start)
        peak = peak or _memory("VmHWM") - before
        size = _size(held.X) + _size(held.Y)
        del held
    return best, peak, size


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="size of the plain file (default 200)")
    parser.add_argument("--repeat", type=int, default=3, help="readings of each file; the best counts (default 3)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "data.txt"
        n_points = options.megabytes * 600
        data = make(n_points, 300_000, 100_000, 100, np.random.default_rng(0))
        start = time.perf_counter()
        write(data, plain)
        megabytes = plain.stat().st_size / 1e6
        writing = megabytes / (time.perf_counter() - start)
        del data
        with open(plain, "rb") as source, gzip.open(plain.with_suffix(".txt.gz"), "wb", compresslevel=4) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        for path in (plain, plain.with_suffix(".txt.gz")):
            # A process of its own: freed memory that a process has kept would hide what the next reading takes.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                best, peak, size = pool.submit(measure, path, options.repeat).result()
            results.append(
                {
                    "file": path.name,
                    "megabytes": round(megabytes, 1),
                    "mb_per_second": round(megabytes / best, 1),
                    "result_mb": round(size / 1e6, 1),
                    "peak_mb": round(peak / 1e6, 1),
                    "peak_over_result": round(peak / size, 2),
                }
            )
    if options.json:
        print(json.dumps({"reading": results, "writing_mb_per_second": round(writing, 1)}))
        return
    for r in results:
        print(
            f"{r['file']:12} {r['megabytes']:7} MB of text  {r['mb_per_second']:7} MB/s   "
            f"result {r['result_mb']} MB, peak {r['peak_mb']} MB = {r['peak_over_result']} × result"
        )
    print(f"written      {megabytes:7.1f} MB of text  {writing:7.1f} MB/s")


if __name__ == "__main__":
    main()
