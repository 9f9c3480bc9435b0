"""One measurement of one system on one data set: two processes, their records, and the metrics of the predictions."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.systems import System
from longtail.metrics import full_report

ROOT = Path(__file__).parents[2]
THREADS = 2
_POOLS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON", "NUMBA")


def measure(
    system: System, python: Path, data: Path, work: Path, *, repeat: int = 0, timeout: float = 1800
) -> dict[str, Any]:
    """Train, save, load, predict and judge once. What fails or takes too long gives a record with ``error`` alone."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    params = dict(system.params) | ({"seed": repeat} if system.seeded else {})
    params |= {"with_text": True} if system.with_text else {}
    record: dict[str, Any] = {}
    try:
        for phase in ("fit", "predict"):
            error = _run(system, python, phase, params, data, work, timeout)
            if error is not None:
                return {"error": error}
            record |= json.loads((work / f"{phase}.json").read_text())
        record["model_mb"] = size_mb(work / "model")
        record["metrics"] = judge(data, work / "predict.npz")
    finally:
        shutil.rmtree(work / "model", ignore_errors=True)
    return record


def _run(
    system: System, python: Path, phase: str, params: dict[str, Any], data: Path, work: Path, timeout: float
) -> str | None:
    """Run one phase of a worker; returns what went wrong, if anything did."""
    command = [str(python), "-m", system.worker, phase, "--threads", str(THREADS), "--params", json.dumps(params)]
    command += ["--data", str(data), "--model", str(work / "model"), "--out", str(work / f"{phase}.json")]
    limits = {f"{pool}_NUM_THREADS": str(THREADS) for pool in _POOLS}
    log = work / f"{phase}.log"
    with log.open("w") as stream:
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=os.environ | limits, stdout=stream, stderr=stream, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{phase}: not done after {timeout:.0f} s"
    if done.returncode == 0:
        return None
    said = re.split(r"[\r\n]+", log.read_text(errors="replace").strip())  # progress bars end lines with \r
    return f"{phase}: {said[-1][-300:] or f'ended with code {done.returncode}'}"


def size_mb(folder: Path) -> float:
    """Size of a model on disk, in millions of bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def judge(data: Path, predictions: Path) -> dict[str, Any]:
    """Every metric of a system's top 50, by longtail's own metrics for all."""
    with np.load(predictions) as held:
        scores = sp.csr_array((held["data"], held["indices"], held["indptr"]), shape=tuple(held["shape"]))
    truth, train = (sp.csr_array(sp.load_npz(data / f"Y.{part}.npz")) for part in ("tst", "trn"))
    return full_report(truth, scores, train_Y=train)


@contextlib.contextmanager
def lock(path: Path | None) -> Iterator[None]:
    """Hold a lock file while measuring, for those who share a machine; nothing without one."""
    if path is None:
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
