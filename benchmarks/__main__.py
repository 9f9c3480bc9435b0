"""Run every benchmark with its defaults, or those that are named: ``python -m benchmarks [NAME ...]``.

Each runs in a process of its own; if one fails, the others still run and the exit code is 1. A benchmark's own options
are those of its module, for example ``python -m benchmarks.decaf.run --help``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.paths import HERE

EVERYTHING: dict[str, list[list[str]]] = {  # benchmark -> the options of each of its runs, in the order of RESULTS.md
    "peers": [[]],
    "blend": [[]],
    "decaf": [[]],
    "recipes": [[]],
    "embeddings": [["accuracy"], ["ablation"], ["throughput"]],
    "index": [[]],
    "dxml": [[]],
    "tail": [[]],
    "calibration": [[]],
    "service": [[]],
    "texts": [[]],
    "stream": [[]],
    "cold": [[]],
    "analyzers": [[]],
    "scale": [[]],
    "papers": [[]],
    "checks": [[]],
}


def commands(names: Sequence[str]) -> list[list[str]]:
    """Return the command lines that run the named benchmarks."""
    return [
        [sys.executable, "-m", f"benchmarks.{name}.run", *options] for name in names for options in EVERYTHING[name]
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks one after the other and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(EVERYTHING)}")
    names = parser.parse_args(argv).names or list(EVERYTHING)
    unknown = [name for name in names if name not in EVERYTHING]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(EVERYTHING)}")
    failed = []
    for command in commands(names):
        shown = " ".join(command[2:])
        print(f"== {shown}", flush=True)
        if subprocess.run(command, cwd=HERE.parent, check=False).returncode:
            failed.append(shown)
    for shown in failed:
        print(f"failed: {shown}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
