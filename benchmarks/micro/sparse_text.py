"""Reading sparse text, beside scikit-learn's load_svmlight_file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.micro.parse import make
from benchmarks.micro.timing import Figure, best_in_turn
from longtail.data import read, write


def measure() -> list[Figure]:
    """Compare reading one multi-label svmlight file, from the page cache into CSR matrices."""
    from sklearn.datasets import load_svmlight_file

    with tempfile.TemporaryDirectory() as folder:
        sparse, path = Path(folder) / "data.txt", Path(folder) / "data.svm"
        write(make(6_000, 300_000, 100_000, 100, np.random.default_rng(0)), sparse)
        path.write_bytes(sparse.read_bytes().partition(b"\n")[2])  # svmlight is the same without the header
        megabytes = path.stat().st_size / 1e6

        def theirs() -> int:
            return load_svmlight_file(str(path), multilabel=True, dtype=np.float32)[0].nnz

        def ours() -> int:
            return read(path, format="svmlight").X.nnz

        counts = {"non-zeros": (float(ours()), float(theirs()))}
        seconds = best_in_turn(3, {"ours": ours, "theirs": theirs})
    task = f"{megabytes:.0f} MB of svmlight"
    return [Figure("sparse text reader", "scikit-learn", task, seconds["ours"], seconds["theirs"], counts)]
