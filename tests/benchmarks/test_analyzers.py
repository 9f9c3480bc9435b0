"""The benchmark of analyzers, small, and its section."""

from __future__ import annotations

from pathlib import Path

import pytest

import longtail
from benchmarks import render, results
from benchmarks.analyzers import run as analyzers


def test_it_measures_saves_and_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "toy.csv"
    rows = [
        f'"a {colour} {thing} {number % 5}",{colour}|{thing}'
        for number in range(10)
        for colour in ("red", "blue")
        for thing in ("car", "apple")
    ]
    table.write_text("\n".join(["text,labels", *rows]))
    monkeypatch.setattr(analyzers, "read", lambda path, vectorizer: longtail.read(table, vectorizer=vectorizer))
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    monkeypatch.setattr("sys.argv", ["analyzers", "--data", "toy", "--analyzers", "words,words and pairs"])
    analyzers.main()
    assert capsys.readouterr().out.count("toy words") == 2
    page = (tmp_path / "RESULTS.md").read_text()
    assert "### Analyzers on toy" in page
    assert "| words and pairs |" in page


def test_every_analyzer_can_be_made() -> None:
    for settings in analyzers.ANALYZERS.values():
        longtail.TextVectorizer(**settings).check_params()
