"""Measure ``longtail predict`` on a file of many lines: ``python -m benchmarks.stream.run [--lines 10000000]``.

One tree of bonsai, trained on debian-packages, labels the titles of its test part over and over. A second run is killed
half way and continued with ``--resume``; both must write the same file.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT, WORK

_MODEL = "bonsai(n_trees=1)"


def write_lines(path: Path, texts: Sequence[str], n: int) -> None:
    """Write `n` lines, the texts over and over."""
    lines = [" ".join(text.split()) + "\n" for text in texts]
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(itertools.islice(itertools.cycle(lines), n))


def predict(model: Path, source: Path, out: Path, *words: str, kill_after: float | None = None) -> dict[str, float]:
    """Run the command, perhaps for some seconds only; return its time, processor time and largest memory."""
    command = [sys.executable, "-m", "longtail", "predict", model, "--input", source, "--out", out, *words]
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if kill_after is not None:
        time.sleep(kill_after)
        process.kill()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if kill_after is None and process.returncode:
        raise RuntimeError(f"longtail predict ended with {process.returncode}")
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}


def measure(model: Path, texts: Sequence[str], n: int) -> dict[str, Any]:
    """Label `n` lines at once, and once more with an interruption."""
    with tempfile.TemporaryDirectory() as name:
        source, out = Path(name) / "lines.txt", Path(name) / "labels.jsonl"
        write_lines(source, texts, n)
        whole = predict(model, source, out)
        with out.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest()
        out.unlink()
        predict(model, source, out, kill_after=whole["seconds"] / 2)
        interrupted = not out.exists()
        rest = predict(model, source, out, "--resume")
        with out.open("rb") as stream:
            same = hashlib.file_digest(stream, "sha256").digest() == digest
    return {"lines": n} | whole | {"resumed_seconds": rest["seconds"], "resumed_same": same and interrupted}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--model", type=Path, default=WORK / "stream-bonsai", metavar="DIR")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    given = parser.parse_args(argv)
    data = longtail.read(given.data_root / "debian-packages", vectorizer=None)
    assert data.test is not None
    if not given.model.exists():
        command = [sys.executable, "-m", "longtail", "train", str(given.data_root / "debian-packages")]
        subprocess.run([*command, "--model", _MODEL, "--out", str(given.model)], check=True)
    load = os.getloadavg()[0]
    row = measure(given.model, data.test.texts or [], given.lines)
    print(row)
    results.add("stream", "lines", row | {"load_before": load}, "bonsai")
    render.render()


if __name__ == "__main__":
    main()
