"""Measure parts of longtail beside the libraries that could replace them: ``python -m benchmarks.micro [NAME ...]``.

One thread against one thread, in one run, on small data; seconds to a minute each. The figures go to
``results/micro.json`` and into the table of ``docs/dependencies.md``; a run of some parts replaces their rows only.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import machine, results
from benchmarks.micro.timing import Figure, one_thread
from benchmarks.paths import HERE, RESULTS

PARTS = ("boosted_trees", "ivf", "skip_gram", "tfidf", "sparse_text", "solver", "training_loop", "matrix_products")
PAGE = HERE.parent / "docs" / "dependencies.md"
MARKED = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = "| part | library | task | longtail | library | faster by | quality, longtail / library |\n" + "|---" * 7 + "|\n"


def table(known: dict[str, Any]) -> str:
    """Return the rows of all measured parts, as Markdown."""
    parts = [known["parts"][name] for name in PARTS if name in known["parts"]]
    rows = [Figure(**figure).row() for part in parts for figure in part["figures"]]
    facts = machine.described(known, cores=False)[0].removeprefix("- machine: ")
    dates = sorted({part["date"] for part in parts})
    return HEAD + "\n".join(rows) + f"\n\nMeasured {', '.join(dates)} on {facts}.\n"


def write(page: Path, known: dict[str, Any]) -> None:
    """Replace the table of a page."""
    text = page.read_text(encoding="utf-8")
    page.write_text(MARKED.sub(lambda match: f"{match[1]}{table(known)}{match[2]}", text), encoding="utf-8")


def main(argv: Sequence[str] | None = None, folder: Path = RESULTS, page: Path = PAGE) -> None:
    """Measure, print, and write the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(PARTS)}")
    names = parser.parse_args(argv).names or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    facts = {"machine": machine.facts(), "versions": machine.versions()}
    for name in names:
        with one_thread():
            figures = importlib.import_module(f"benchmarks.micro.{name}").measure()
        for figure in figures:
            print(figure.line(), flush=True)
        known = (results.load("micro", folder) or {"parts": {}}) | facts
        known["parts"][name] = results.stamped({"figures": [asdict(figure) for figure in figures]})
        results.save("micro", known, folder)
        write(page, results.load("micro", folder) or known)


if __name__ == "__main__":
    main()
