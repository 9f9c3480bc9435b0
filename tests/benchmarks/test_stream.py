"""The benchmark of long files: what it writes and what its section says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.stream.run import write_lines
from benchmarks.stream.section import render


def test_lines_repeat_the_texts(tmp_path: Path) -> None:
    write_lines(tmp_path / "x.txt", ["red\napple", "pear"], 3)
    assert (tmp_path / "x.txt").read_text(encoding="utf-8") == "red apple\npear\nred apple\n"


@pytest.mark.parametrize(
    ("change", "missed"), [({}, 0), ({"peak_mb": 401, "seconds": 100.0}, 2), ({"resumed_same": False}, 1)]
)
def test_section_marks_what_is_missed(change: dict[str, float], missed: int) -> None:
    row = {"lines": 1_000_000, "seconds": 50.0, "cpu_seconds": 30.0, "peak_mb": 210.0, "resumed_same": True}
    row |= {"date": "2026-01-01", "commit": "abc", "load_before": 0.5} | change
    machine = {"processor": "p", "cores": "2", "memory": "m", "system": "s", "python": "3"}
    shown = render({"rows": {"lines": row}, "machine": machine, "versions": {"longtail": "0"}})
    assert "30 µs" in shown
    assert shown.count("✗") == missed
