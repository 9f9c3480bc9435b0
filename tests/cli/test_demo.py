"""The demo, on data of its layout small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import longtail
from longtail.cli import demo, worker
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def small(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longtail, "DEMO", raw)
    monkeypatch.setattr(worker, "_process", worker.do_task)  # in this process; test_verbs has the real thing


def test_demo_shows_a_table_and_suggestions(run: Run) -> None:
    told = run("demo", "--text", "a plum tart").stdout
    for words in (
        *demo.DEMO_MODELS,
        "60 for training, 15 for testing",
        "“a plum tart”",
        "all about plum",
        "Rare labels",
    ):
        assert words in told
    assert "\n\n\n" not in told


def test_demo_as_json(run: Run) -> None:
    found = json.loads(run("demo", "--json").stdout)
    assert [row["model"] for row in found["results"]] == list(demo.DEMO_MODELS)
    assert found["results"][-1]["P@1"] > found["results"][0]["P@3"]
    rare = found["rare"]
    assert rare["found_only"] - rare["found_by_baseline_only"] == rare["found"] - rare["found_by_baseline"]
    assert [row["text"] for row in found["suggestions"]] == list(demo.TITLES)


def test_the_embedded_data_is_whole() -> None:
    from longtail._version import __file__ as inside

    data = longtail.read(Path(inside).parent / "data" / "demo", vectorizer=None)
    assert data.test is not None
    assert (data.n_points, data.test.n_points, data.n_labels) == (45_611, 11_025, 37_907)


def test_demo_is_a_name_of_data_unless_a_file_is_called_so(run: Run, raw: Path, here: Path) -> None:
    facts = json.loads(run("train", "demo", "--model", "popular", "--out", "m", "--json").stdout)
    assert (facts["data"], facts["n_points"]) == ("demo", 60)
    (here / "demo").mkdir()
    assert "demo" in run("train", "demo", "--model", "popular", "--out", "m", code=2).stderr


def test_rare_labels_are_counted_both_ways(raw: Path) -> None:
    from scipy.sparse import csr_array

    data = longtail.read(raw)
    assert data.test is not None
    labels = data.test.Y.indices[:1]
    rows = [0] * len(labels)
    hit = csr_array(([0.9] * len(labels), (rows, labels)), shape=data.test.Y.shape)
    nothing = csr_array(data.test.Y.shape)
    told = demo.rare_labels(data, [nothing, hit])
    assert told["found"] == told["found_only"]
    assert told["found_by_baseline"] == told["found_by_baseline_only"] == 0
    assert len(told["examples"]) == told["found_only"]
    assert demo.rare_labels(data, [hit, hit])["found_only"] == 0
