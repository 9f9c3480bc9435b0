"""Damage model folders, data files and matrices, and use them: ``make fuzz``, or ``python -m tests.fuzz.run --help``.

Every mutation runs in a process of its own group, which is watched: a crash, a hang or any exception that is not ours
is a finding, printed with the seed that repeats it. A refusal and an answer are both right.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from longtail.errors import LongtailError
from tests.fuzz.matrices import use_matrix
from tests.fuzz.models import KINDS, build, use
from tests.fuzz.mutate import copied, mutate
from tests.fuzz.readers import FORMATS, build_files, mutate_files, use_files

SECONDS = 60.0  # that one mutation may take, compilation included
_MEMORY = 12 << 30


FILES = {f"read-{name}": name for name in FORMATS}
MATRICES = {f"matrix-{name}": name for name in KINDS}
ALL = [*KINDS, "tagger", *FILES, *MATRICES]


def prepare(kind: str, folder: Path) -> None:
    """Write what is damaged later, and use it once, so that all is compiled before the clock runs."""
    if kind in FILES:
        if not folder.exists():
            build_files(FILES[kind], folder)
        use_files(FILES[kind], folder)
    else:
        if not folder.exists():
            build(MATRICES.get(kind, kind), folder)
        use(folder)


def try_one(kind: str, seed: int, source: Path, scratch: Path) -> tuple[str, str]:
    """Damage a copy and use it; return the outcome and what was done."""
    rng = np.random.default_rng([seed, *map(ord, kind)])
    what = ""
    try:
        if kind in MATRICES:
            return "answered", use_matrix(source, rng)
        folder = copied(source, scratch / "model")
        if kind in FILES:
            what = mutate_files(folder, rng)
            use_files(FILES[kind], folder)
        else:
            what = mutate(folder, rng)
            use(folder)
    except LongtailError as error:
        if kind in MATRICES:  # refusals are expected where they are right: this is one that is not
            return "raw", traceback.format_exc()
        return "refused", f"{what} -> {error}"
    except Exception:
        return "raw", f"{what}\n{traceback.format_exc()}"
    return "answered", what


def _work(pipe: Connection, kind: str, seeds: list[int], source: Path, scratch: Path) -> None:
    import resource  # not on Windows, where nothing here is run

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prepare(kind, source)
    pipe.send((-1, "ready", ""))
    for seed in seeds:
        pipe.send((seed, *try_one(kind, seed, source, scratch)))


def _answers(pipe: Connection, pid: int | None) -> bool:
    """Wait for a message; not for a process that has computed for SECONDS or waited ten times as long in all.

    On a busy machine a process may get little of a processor, so that its time on the clock alone shows nothing.
    """
    begin = _cpu_seconds(pid)
    return any(pipe.poll(SECONDS) or _cpu_seconds(pid) - begin > 0.8 * SECONDS for _ in range(10)) and pipe.poll(0)


def _cpu_seconds(pid: int | None) -> float:
    """Return the processor time of a process so far; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fuzz(kind: str, seeds: list[int], folder: Path, until: float = float("inf")) -> tuple[Counter[str], list[str]]:
    """Try all seeds on one kind of thing; return the number of each outcome, and the findings."""
    source, scratch = folder / kind, folder / f"{kind}-scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    if kind not in FILES:
        prepare(kind, source)
    counts: Counter[str] = Counter()
    findings: list[str] = []
    left = list(seeds)
    # Readers start anew: the threads of polars, which reads Parquet, do not survive a fork.
    processes = multiprocessing.get_context("spawn" if kind in FILES else "fork")
    while left and time.monotonic() < until:
        ours, theirs = processes.Pipe()
        process = processes.Process(target=_work, args=(theirs, kind, left, source, scratch))
        process.start()
        theirs.close()
        problem = None
        while left and time.monotonic() < until:
            if not _answers(ours, process.pid):
                problem = "hang"
                break
            try:
                seed, outcome, what = ours.recv()
            except EOFError:
                problem = "crash"
                break
            if seed < 0:
                continue
            left.pop(0)
            counts[outcome] += 1
            if outcome == "raw":
                findings.append(f"{kind} {seed}: {what}")
        if process.is_alive() and process.pid:
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        if problem:
            seed = left.pop(0)
            counts[problem] += 1
            findings.append(f"{kind} {seed}: {problem} (exit code {process.exitcode})")
    return counts, findings


def main() -> int:
    """Fuzz all kinds of things and print what was found; 1 if there was a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="mutations per kind")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--folder", type=Path, help="where trained models are kept; a temporary folder by default")
    parser.add_argument("kinds", nargs="*", default=ALL, help=" ".join(ALL))
    given = parser.parse_args()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        for kind in given.kinds:
            start = time.monotonic()
            seeds = list(range(given.first, given.first + given.count))
            counts, findings = fuzz(kind, seeds, given.folder or Path(temporary))
            total += counts
            print(f"{kind:12s} {dict(counts)} in {time.monotonic() - start:.0f} s", flush=True)
            for finding in findings:
                print(f"  {finding}", flush=True)
    print(dict(total))
    return int(any(total[problem] for problem in ("raw", "crash", "hang")))


if __name__ == "__main__":
    sys.exit(main())
