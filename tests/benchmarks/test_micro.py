"""The small measurements: what they print, and the table that they write."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.micro import __main__ as micro
from benchmarks.micro import boosted_trees, timing
from benchmarks.paths import RESULTS

pytest.importorskip("sklearn")


def test_a_figure_tells_ratio_and_quality() -> None:
    figure = timing.Figure("sorting", "numpy", "10 numbers", 2e-6, 5e-3, {"recall": (0.99, 1.0)})
    assert figure.ratio == 2500
    assert figure.row() == "| sorting | numpy | 10 numbers | 2 µs | 5 ms | 2.5e+03× | recall 0.99 / 1 |"
    assert figure.line() == "sorting / numpy, 10 numbers: 2 µs and 5 ms; recall 0.99 and 1"


def test_runs_alternate_and_the_best_counts() -> None:
    order: list[str] = []
    seconds = timing.best_in_turn(2, {"a": lambda: order.append("a"), "b": lambda: order.append("b")})
    assert order == ["a", "b"] * 3
    assert set(seconds) == {"a", "b"}


def test_one_part_replaces_its_rows_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\nafter\n")
    monkeypatch.setattr(boosted_trees, "N_PAIRS", 500)
    micro.main(["boosted_trees"], tmp_path, page)
    assert "predict 50 candidates" in capsys.readouterr().out
    text = page.read_text()
    assert text.startswith("before\n<!-- measured -->\n| part | library |")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    monkeypatch.setattr("benchmarks.micro.tfidf.measure", lambda: [timing.Figure("TF-IDF", "none", "x", 1.0, 2.0)])
    micro.main(["tfidf"], tmp_path, page)
    assert "| TF-IDF | none | x | 1 s | 2 s | 2× |  |" in page.read_text()
    assert "predict 50 candidates" in page.read_text()


def test_the_page_shows_what_was_measured() -> None:
    known = micro.results.load("micro", RESULTS)
    assert known is not None
    assert set(known["parts"]) == set(micro.PARTS)
    assert micro.table(known) in micro.PAGE.read_text(encoding="utf-8")


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        micro.main(["sorting"])
    assert "there is no part 'sorting'" in capsys.readouterr().err
