"""Write RESULTS.md from the JSON files in ``results/``: ``python -m benchmarks.render``.

A section is a module with ``render(results) -> str``; it shows when its benchmark has left results. RESULTS.md is never
edited by hand.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from benchmarks import results
from benchmarks.paths import PAGE, RESULTS

SECTIONS = {  # results/NAME.json -> the module that renders it, in the order of the page
    "peers": "benchmarks.peers.section",
    "blend": "benchmarks.blend.section",
    "decaf": "benchmarks.decaf.section",
    "recipes": "benchmarks.recipes.section",
    "embeddings": "benchmarks.embeddings.section",
    "index": "benchmarks.index.section",
    "dxml": "benchmarks.dxml.section",
    "tail": "benchmarks.tail.section",
    "calibration": "benchmarks.calibration.section",
    "service": "benchmarks.service.section",
    "texts": "benchmarks.texts.section",
    "stream": "benchmarks.stream.section",
    "cold": "benchmarks.cold.section",
    "analyzers": "benchmarks.analyzers.section",
    "scale": "benchmarks.scale.section",
    "papers": "benchmarks.papers.section",
    "checks": "benchmarks.checks.section",
}
_HEAD = """# Results

Written by `python -m benchmarks.render` from the files in `results/`, which the benchmarks write; see
[README.md](README.md) for how to run them. Every row has the commit that it was measured with;
`python -m benchmarks.stale` names the rows that are older than the code they describe.
"""


def render(page: Path = PAGE, folder: Path = RESULTS) -> Path:
    """Assemble the page from the sections that have results."""
    parts = [_HEAD]
    for name, module in SECTIONS.items():
        known = results.load(name, folder)
        if known is not None:
            parts.append(importlib.import_module(module).render(known).rstrip() + "\n")
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


if __name__ == "__main__":
    print(f"wrote {render().name}")
