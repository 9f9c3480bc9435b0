"""What a model reports about how it was chosen."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from longtail.cli import app as app_module
from longtail.cli import console, tables
from tests.cli.conftest import Run


def test_a_blend_reports_its_members(run: Run, table: Path) -> None:
    shown = run("train", table, "--model", "blend([dismec, knn])", "--out", "m").stdout
    for words in ("dismec", "knn", "on held-out points", "B@5", "combined"):
        assert words in " ".join(shown.split())
    facts = json.loads(run("inspect", "m", "--json").stdout)["parts"]["ranker"]
    assert [row["model"] for row in facts["report"]] == ["dismec", "knn", "blend"]
    assert facts["why"]
    assert "on held-out points" in run("inspect", "m").stdout
    answer = json.loads(run("train", table, "--model", "blend([dismec])", "--out", "m", "--json").stdout)
    assert answer["why"]


def test_skipped_candidates_are_shown() -> None:
    with console.out.capture() as shown:
        console.out.print(tables.held_out_table([{"model": "dismec", "skipped": "would take about 900 s"}]))
    assert "900 s" in shown.get()


def test_the_comparison_fits_a_terminal_of_80_columns() -> None:
    keys = [f"{metric}@{k}" for metric in ("P", "PSP", "B", "C") for k in (1, 5)]
    row = {"model": "popular", "train_seconds": 124.1, "predict_ms_per_point": 0.22} | dict.fromkeys(keys, 79.74)
    row |= {"peak_memory_mb": 1092.0, "model_mb": 109.9}
    narrow = Console(width=80, file=io.StringIO())
    narrow.print(tables.comparison_table([row, row | {"model": "bonsai"}], "data"))
    lines = [line.rstrip() for line in narrow.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines[-2].endswith("109.9")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("verb", [*app_module._VERBS, *(f"plot {name}" for name in app_module._PLOTS)])
def test_help_shows_the_whole_name_of_every_option_at_80_columns(verb: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app_module.app, [*verb.split(), "--help"])
    assert shown.exit_code == 0
    assert not re.findall(r"--[\w-]+…", shown.stdout)
