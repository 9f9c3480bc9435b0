"""What a model reports about how it was chosen."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
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
    perfect = dict.fromkeys(keys, 100.0)
    narrow.print(tables.comparison_table([row, row | perfect, row | {"model": "bonsai"}], "data"))
    lines = [line.rstrip() for line in narrow.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines[-2].endswith("109.9")
    assert max(map(len, lines)) <= 80


def shown_at_80_columns(table: Table) -> list[str]:
    narrow = Console(width=80, file=io.StringIO())
    narrow.print(table)
    return [line.rstrip() for line in narrow.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_perfect_results_over_seeds_fit_a_terminal_of_80_columns() -> None:
    keys = [f"{metric}@{k}" for metric in ("P", "PSP", "B", "C") for k in (1, 5)]
    costs = {"train_seconds": 124.1, "predict_ms_per_point": 0.22, "peak_memory_mb": 1092.0, "model_mb": 109.9}
    numbers = costs | dict.fromkeys(keys, 100.0)
    row = {"model": "parabel", "seeds": 3, "deviation": dict.fromkeys(numbers, 0.04)} | numbers
    lines = shown_at_80_columns(tables.comparison_table([row, row | {"model": "bonsai"}], "data"))
    model, deviation = lines[-3:-1]
    assert model.startswith(" bonsai")
    assert model.endswith("109.9")
    assert deviation.startswith(" 3 seeds")
    assert deviation.endswith("±0.0")
    assert max(map(len, lines)) <= 80


def test_metrics_have_one_line_each_at_80_columns() -> None:
    keys = [f"{metric}@{k}" for metric in tables.METRIC_NAMES for k in tables.KS]
    result = dict.fromkeys(keys, 100.0) | {"ECE@1": 14.93, "ECE-rare@1": 15.39}
    result |= {"train_seconds": 124.1, "predict_ms_per_point": 0.22, "model_mb": 0.0042}
    lines = shown_at_80_columns(tables.metrics_table(result, "bonsai on the test part of papers"))
    assert [line.split()[0] for line in lines[4:-2]] == [*tables.METRIC_NAMES, "ECE"]
    assert lines[-1].endswith("model 4 KB")


@pytest.mark.parametrize(("mb", "shown"), [(1234.5, "1,234.5 MB"), (0.25, "250 KB"), (0.000048, "48 B")])
def test_small_sizes_are_not_rounded_to_nothing(mb: float, shown: str) -> None:
    assert console.size(mb) == shown


@pytest.mark.parametrize("verb", [*app_module._VERBS, *(f"plot {name}" for name in app_module._PLOTS)])
def test_help_shows_the_whole_name_of_every_option_at_80_columns(verb: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app_module.app, [*verb.split(), "--help"])
    assert shown.exit_code == 0
    assert not re.findall(r"--[\w-]+…", shown.stdout)
