"""Folders that the benchmarks read from and write to."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
"""One JSON file per benchmark."""
PAGE = HERE / "RESULTS.md"
"""The page that `benchmarks.render` writes from them."""
WORK = HERE / "work"
"""Prepared matrices and scratch files; can be deleted."""
DATA_ROOT = HERE.parents[1] / "shared" / "data"
"""Default folder of the data sets, each in a folder that `longtail.read` can read."""
