"""The papers' tables: rows are measured, claims judged, and the page written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import results
from benchmarks.papers import page, run
from benchmarks.papers.claims import BASE, CLAIMS, Claim, differences, matched, verdict
from benchmarks.papers.experiments import EXPERIMENTS, Experiment
from longtail import make
from longtail.data import synthetic


def row(name: str, seed: int, value: float, data: str = "bibtex") -> dict[str, Any]:
    return {"paper": "glas", "row": name, "seed": seed, "data": data, "P@1": value, "train P@1": 90.0}


def test_every_row_can_be_made_and_every_claim_names_rows() -> None:
    for one in EXPERIMENTS:
        make(one.model).check_params()
    names = {(one.paper, one.name) for one in EXPERIMENTS}
    assert len(names) == len(EXPERIMENTS)
    for claim in CLAIMS:
        assert {(claim.paper, name) for name in (claim.row, *claim.others)} <= names
    for paper, tables in page._PUBLISHED.items():
        for rows in tables.values():
            assert {(paper, name) for name in rows} & names


def test_a_claim_needs_more_than_chance() -> None:
    claim = Claim("glas", "Table 1", "better", "a", ("b",))
    clear = [row("a", seed, 60 + seed) for seed in range(3)] + [row("b", seed, 55 + seed) for seed in range(3)]
    assert verdict(differences(clear, claim)) == "holds"
    assert verdict(differences(clear, Claim("glas", "Table 1", "worse", "b", ("a",)))) == "refuted"
    assert verdict(differences(clear, Claim("glas", "Table 2", "gap", "a", ("b",), "gap", lower=True))) == "holds"
    noisy = [row("a", seed, 60 + (-1) ** seed) for seed in range(3)] + [row("b", seed, 60.0) for seed in range(3)]
    assert verdict(differences(noisy, claim)) == "no difference"
    assert verdict(differences(clear[:3], claim)) == "not measured"
    one = [row("a", 0, 60.0), row("b", 0, 59.7)]
    assert verdict(differences(one, claim)) == "no difference"  # a single seed shows nothing below half a point
    other = [*clear, *(row(name, seed, 50.0, "tate") for name in "ab" for seed in range(3))]
    assert verdict(differences(other, claim)) == "holds in part"
    assert verdict(differences(other, Claim("glas", "Table 1", "worse", "b", ("a",)))) == "refuted in part"


def test_claims_at_equal_precision_follow_the_curves() -> None:
    def curved(name: str, gain: float) -> dict[str, Any]:
        points = [{"P@1": 60.0 - i} | {f"PSP@{k}": 30.0 + k + i * gain for k in (1, 3, 5)} for i in range(4)]
        return {"paper": "ranknet", "row": name, "seed": 0, "data": "tate", "P@1": 60.0, "curve": points}

    rows = [curved(BASE, 2.0), curved("RankNet", 4.0)]
    assert matched(rows[0], rows) == [34.0, 36.0, 38.0]  # P@1 58.5: half way between the second and the third point
    assert matched(rows[0], []) is None
    claim = Claim("ranknet", "ours", "better", "RankNet", (BASE,), "matched PSP@5")
    assert differences(rows, claim) == [("tate", BASE, 3.0, 0.5)]


def test_rows_are_measured_and_written_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = synthetic.make(n_points=300, n_labels=30, n_features=200, test_fraction=0.3)
    known = {}
    monkeypatch.setattr(run, "N_TEST", 50)
    for name, model in (("Bonsai", "popular"), ("TAug", "popular")):
        one = Experiment("ranknet", name, model, ("eurlex57k",), base="Bonsai")
        part = run.drawn(data, "eurlex57k", 150)
        assert (part.n_points, part.test.n_points) == (150, 50)  # type: ignore[union-attr]
        np.testing.assert_array_equal(part.X.data, run.drawn(data, "eurlex57k", 150).X.data)
        measured = run.measure(one, part, 0) | {"data": "eurlex57k"}
        known[name] = results.stamped(measured, model)
        assert 0 < measured["P@1"] <= 100
    assert run.drawn(data, "bibtex", 150) is data
    results.save("papers", {"rows": known}, tmp_path)
    text = page.write(tmp_path / "papers.md", tmp_path).read_text()
    assert "## RankNet and TAug" in text
    assert "| TAug (1) |" in text
    assert "PSP@1/3/5 36.91/44.89/49.46" in text
    assert "## GLaS" not in text


def test_the_page_is_that_of_the_recorded_rows(tmp_path: Path) -> None:
    assert page.write(tmp_path / "papers.md").read_text() == page.PAGE.read_text(encoding="utf-8")
