"""The figures of the README are those that the benchmarks recorded."""

from __future__ import annotations

from statistics import mean

import pytest

from benchmarks import results
from benchmarks.paths import HERE, RESULTS

_ROWS = {
    "debian-packages": "| Debian packages, titles | 37,907 |",
    "tate": "| Tate artworks, titles | 14,658 |",
    "eurlex57k": "| EU laws, long texts | 4,108 |",
}
_METRICS = ("P@1", "P@5", "B@5")


@pytest.mark.parametrize(("data", "start"), _ROWS.items())
def test_the_comparison_shows_recorded_figures(data: str, start: str) -> None:
    known, blends = results.load("peers", RESULTS), results.load("blend", RESULTS)
    assert known is not None
    assert blends is not None
    bonsai = [run["metrics"] for run in known["results"][data]["bonsai"]["runs"]]
    blend = [row for key, row in blends["rows"].items() if key.startswith(f"{data} blend ")]
    columns = [results.best_peer(data, RESULTS)]
    columns += [{metric: mean(row[metric] for row in rows) for metric in _METRICS} for rows in (bonsai, blend)]
    cells = [" / ".join(f"{column[metric]:.1f}" for metric in _METRICS) for column in columns]
    assert f"{start} {' | '.join(cells)} |" in (HERE.parent / "README.md").read_text(encoding="utf-8")
