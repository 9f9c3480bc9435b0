"""The benchmark of checks, small, and its section."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import render, results
from benchmarks.checks import campaigns
from benchmarks.checks import run as checks


def test_it_measures_saves_and_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toy").mkdir()
    rows = "".join(f"word{i % 9} word{i % 7},l{i % 4}\n" for i in range(60))
    (tmp_path / "toy" / "train.csv").write_text("text,labels\n" + rows)
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "RESULTS.md", tmp_path))
    monkeypatch.setattr("sys.argv", ["checks", "--data", "toy", "--data-root", str(tmp_path), "--models", "knn"])
    checks.main()
    assert capsys.readouterr().out.count("knn ") == 3
    campaigns.damage(["popular"], 10)
    campaigns.watch_memory(20, 10)
    campaigns.record("crashing", {"crash": 1, "refused": 2}, 1.0)
    render.render()
    page = (tmp_path / "RESULTS.md").read_text()
    assert page.count("| knn | ") == 3
    assert "| popular | 10 | " in page
    assert "| crashing | 3 | crash 1, refused 2 | 1 **✗** |" in page
    assert "| 10 loads, knn | | MB more" in page


def test_rows_that_are_added_at_the_same_time_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: campaigns.record(str(i), {"refused": i}, 1.0), range(40)))
    assert len((results.load("checks") or {})["parts"]) == 40


def test_without_checks_a_damaged_folder_is_believed(tmp_path: Path) -> None:
    """Otherwise the difference would measure nothing."""
    import numpy as np

    import longtail
    from longtail.errors import ModelError
    from tests.fuzz.models import build
    from tests.fuzz.mutate import set_array

    build("popular", tmp_path / "m")
    path = tmp_path / "m" / "labels.npy"
    set_array(path, np.load(path) + 1000)
    with checks.trusting():
        longtail.load(tmp_path / "m")
    with pytest.raises(ModelError):
        longtail.load(tmp_path / "m")


def test_options_of_verbs_are_given_values_in_an_empty_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[dict[str, int]] = []
    monkeypatch.setattr(campaigns, "record", lambda what, outcomes, seconds: kept.append(outcomes))
    monkeypatch.setattr(campaigns, "VALUES", {"x": "x", "-1": -1})
    command = campaigns.get_command(campaigns.app)
    some = [(verb, inner) for verb, inner in campaigns._verbs(command) if verb in (["sign"], ["plot", "norms"])]
    monkeypatch.setattr(campaigns, "_verbs", lambda command: some)
    campaigns.try_options()
    assert len(some) == 2
    assert kept == [{"refused": sum(1 for verb in some for _ in campaigns._lines(*verb))}]
    monkeypatch.setattr(campaigns, "_lines", lambda verb, command: [["--help"]])  # not an error, as it must be
    campaigns.try_options()
    assert kept[1] == {"raw": 2}
    assert capsys.readouterr().out.count("['--help'] raw") == 2
