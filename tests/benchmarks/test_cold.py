"""The benchmark of first use: the data that it writes and what its section says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import longtail
from benchmarks.cold.run import install, write_data
from benchmarks.cold.section import render


def test_data_are_the_first_points(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for part, n in {"lbl": 2, "trn": 3_005, "tst": 3}.items():
        with gzip.open(tmp_path / "all" / f"{part}.json.gz", "wt") as out:
            rows = ({"uid": str(i), "title": f"text {i}", "target_ind": [i % 2]} for i in range(n))
            out.writelines(json.dumps(row) + "\n" for row in rows)
    write_data(tmp_path / "all", tmp_path / "some")
    data = longtail.read(tmp_path / "some", vectorizer=None)
    assert data.test is not None
    assert (data.n_points, data.test.n_points, data.n_labels) == (3_000, 3, 2)


def test_a_copy_brings_no_kernels_along(tmp_path: Path) -> None:
    install(tmp_path, None)
    assert (tmp_path / "longtail" / "kernels" / "beam.py").exists()
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]


def used(cpu: float, seconds: float = 1.0) -> dict[str, float]:
    return {"cpu_seconds": cpu, "seconds": seconds, "peak_mb": 170.0}


@pytest.mark.parametrize(
    ("change", "missed"),
    [({}, 0), ({"first_predict": used(6.0)}, 1), ({"first_train": used(30.0), "warmed_predict": used(1.0, 2.5)}, 2)],
)
def test_section_marks_what_is_missed(change: dict[str, Any], missed: int) -> None:
    row: dict[str, Any] = {"first_train": used(14.0), "later_train": used(3.0), "warm": used(30.0), "kernels": 12}
    row |= {"first_predict": used(4.5), "later_predict": used(0.9), "warmed_predict": used(0.9)}
    row |= {"date": "2026-01-01", "commit": "abc", "load_before": 0.5} | change
    machine = {"processor": "p", "cores": "2", "memory": "m", "system": "s", "python": "3"}
    shown = render({"rows": {"bonsai": row}, "machine": machine, "versions": {"longtail": "0"}})
    assert "170 MB" in shown
    assert shown.count("✗") == missed
