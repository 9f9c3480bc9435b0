"""Measure the first commands without compiled kernels: ``python -m benchmarks.cold.run [--wheel FILE]``.

Every command runs in a process of its own, with a copy of the package that has no compiled kernels, an empty folder
for them and an empty home directory. Data are the first titles of debian-packages, so that little but compiling is
left. With ``--wheel``, the files of a wheel with compiled kernels (``make wheel``) take the place of the copy.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT

_MODELS = ("bonsai", "blend")
_N_POINTS = {"trn": 3_000, "tst": 100}
_TEXT = "a desktop mail reader"


def write_data(source: Path, folder: Path) -> None:
    """Write the first points of a data set in JSON lines, with all of its labels."""
    folder.mkdir(parents=True)
    shutil.copy(source / "lbl.json.gz", folder)
    for part, n in _N_POINTS.items():
        with gzip.open(source / f"{part}.json.gz", "rt") as lines, gzip.open(folder / f"{part}.json.gz", "wt") as out:
            out.writelines(itertools.islice(lines, n))


def install(folder: Path, wheel: Path | None) -> None:
    """Put the package into a folder, without compiled kernels or, with a wheel, with those that it brings along."""
    if wheel is None:
        source = Path(longtail.__file__).parent
        shutil.copytree(source, folder / "longtail", ignore=shutil.ignore_patterns("__pycache__", "compiled"))
    else:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    compileall.compile_dir(folder, quiet=1)  # as an installer does


def run(site: Path, kernels: Path, *words: str | Path) -> dict[str, float]:
    """Run a command with the package in `site`; return its time, processor time and largest memory."""
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment |= {"PYTHONPATH": str(site), "LONGTAIL_CACHE": str(kernels), "HOME": str(kernels / "home")}
    command = [sys.executable, "-P", "-m", "longtail", *map(str, words)]
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, cwd=site, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    remarks = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"longtail {words[0]} ended with {process.returncode}: {remarks}")
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}


def measure(model: str, data: Path, site: Path, work: Path) -> dict[str, Any]:
    """Train and predict without compiled kernels, each from an empty folder, and again with them; then warm up."""
    train = ("train", data, "--model", model, "--jobs", "1", "--out")
    predict = ("predict", work / "model", "--text", _TEXT)
    row: dict[str, Any] = {"first_train": run(site, work / "train", *train, work / "model")}
    row["later_train"] = run(site, work / "train", *train, work / "again")
    row["first_predict"] = run(site, work / "predict", *predict)
    row["later_predict"] = run(site, work / "predict", *predict)
    row["warm"] = run(site, work / "warm", "warm", "--model", model)
    row["warmed_predict"] = run(site, work / "warm", *predict)
    row["kernels"] = sum(1 for _ in (work / "predict").rglob("*.nbc"))
    return row


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join(_MODELS), metavar="NAMES")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="a wheel with compiled kernels")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    given = parser.parse_args(argv)
    for model in given.models.split(","):
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            write_data(given.data_root / "debian-packages", work / "data")
            install(work / "site", given.wheel)
            load = os.getloadavg()[0]
            row = measure(model, work / "data", work / "site", work) | {"load_before": load}
        if given.wheel is not None:
            row["wheel_mb"] = given.wheel.stat().st_size / 2**20
        print(model, row, flush=True)
        results.add("cold", f"{model} wheel" if given.wheel is not None else model, row, model)
    render.render()


if __name__ == "__main__":
    main()
