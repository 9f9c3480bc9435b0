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

from longtail import errors
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


def test_lines_of_a_file_do_not_end_in_spaces(run: Run, table: Path) -> None:
    run("train", table, "--model", "knn", "--out", "m")
    for words in (("evaluate", "m", table), ("explain", "m", "--text", "a red pear"), ("inspect", "m")):
        lines = run(*words).stdout.splitlines()
        assert lines == [line.rstrip() for line in lines]


def shown_at_80_columns(table: Table) -> list[str]:
    narrow = Console(width=80, file=io.StringIO())
    narrow.print(table)
    return [line.rstrip() for line in narrow.file.getvalue().splitlines()]  # type: ignore[attr-defined]


LONG = "ranknet(blend([bonsai, knn]))"
KEYS = [f"{metric}@{k}" for metric in ("P", "PSP", "B", "C") for k in (1, 5)]
COSTS = {"train_seconds": 12_124.1, "predict_ms_per_point": 0.22, "peak_memory_mb": 11_092.0, "model_mb": 1109.9}


def test_the_comparison_fits_a_terminal_of_80_columns() -> None:
    row = {"model": "ranknet(parabel)"} | COSTS | dict.fromkeys(KEYS, 79.74)
    perfect = dict.fromkeys(KEYS, 100.0)
    lines = shown_at_80_columns(tables.comparison_table([row, row | perfect, row | {"model": LONG}], "data"))
    first = next(line for line in lines if "ranknet(parabel)" in line)  # a name that is not folded
    assert first.split() == ["ranknet(parabel)", "@1", *["79.7"] * 4, "12124", "0.22", "11092", "1110"]
    assert lines[lines.index(first) + 1].split() == ["@5", *["79.7"] * 4]
    assert max(map(len, lines)) <= 80


def test_perfect_results_over_seeds_fit_a_terminal_of_80_columns() -> None:
    numbers = COSTS | dict.fromkeys(KEYS, 100.0)
    row = {"model": "parabel", "seeds": 3, "deviation": dict.fromkeys(numbers, 0.04)} | numbers
    lines = shown_at_80_columns(tables.comparison_table([row, row | {"model": LONG}], "data"))
    at = next(at for at, line in enumerate(lines) if "parabel" in line)
    assert lines[at].split() == ["parabel", "@1", *["100"] * 4, "12124", "0.22", "11092", "1110"]
    assert lines[at + 1].split() == ["3", "seeds", *["±0.0"] * 5, "±0.04", "±0", "±0.0"]
    assert lines[at + 2].split() == ["@5", *["100"] * 4]
    assert max(map(len, lines)) <= 80


def test_curves_and_bins_fit_a_terminal_of_80_columns() -> None:
    """The last column of the trade-off was cut off."""
    curve = [{"tail": share, "P@1": 100.0, "PSP@1": 79.7} for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    part = {"frequency_max": 123_456, "frequency_min": 12_345, "P@5": 12.3, "PSP@5": 12.2}
    results = [{"model": LONG, "tradeoff": curve, "bins": [part] * 5}]
    lines = shown_at_80_columns(tables.trade_off_table(results))
    assert any(line.endswith("100.0") and line.count("100.0") == 5 for line in lines)
    assert any(line.count("79.7") == 5 for line in lines)
    shown = shown_at_80_columns(tables.bins_table(results))
    assert any(line.count("12,345–") == 5 for line in shown)
    assert any(line.count("12.2") == 5 for line in shown)
    assert max(map(len, [*lines, *shown])) <= 80


def test_metrics_have_one_line_each_at_80_columns() -> None:
    keys = [f"{metric}@{k}" for metric in tables.METRIC_NAMES for k in tables.KS]
    result = dict.fromkeys(keys, 100.0) | {"ECE@1": 14.93, "ECE-rare@1": 15.39}
    result |= {"train_seconds": 124.1, "predict_ms_per_point": 0.22, "model_mb": 0.0042}
    lines = shown_at_80_columns(tables.metrics_table(result, "bonsai on the test part of papers"))
    assert [line.split()[0] for line in lines[4:-2]] == [*tables.METRIC_NAMES, "ECE"]
    assert lines[-1].endswith("model 4 KB")


@pytest.mark.parametrize(("mb", "shown"), [(1234.5, "1,234.5 MB"), (0.25, "250 KB"), (0.000048, "48 B")])
def test_small_sizes_are_not_rounded_to_nothing(mb: float, shown: str) -> None:
    assert errors.size(mb) == shown


@pytest.mark.parametrize("verb", [*app_module._VERBS, *(f"plot {name}" for name in app_module._PLOTS)])
def test_help_shows_the_whole_name_of_every_option_at_80_columns(verb: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app_module.app, [*verb.split(), "--help"])
    assert shown.exit_code == 0
    assert not re.findall(r"--[\w-]+…", shown.stdout)


def test_plain_lines_are_those_that_rich_prints() -> None:
    suggestions = [("moss", 1.0), ("日本語", 0.5), ("with spaces ", 0.04), ("[bold]:smile:", 0.03)]
    narrow = Console(width=60, file=io.StringIO())
    narrow.print(tables.suggestions_table(suggestions))
    lines = tables.plain_lines(
        ["  ".join((*tables.suggestion_cells(score), label)) for label, score in suggestions], 60
    )
    assert lines is not None
    assert lines.splitlines() == [line.rstrip() for line in narrow.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    for line in (61 * "x", 31 * "日", "a\ttab", "two\nlines", "\x1b[31m", "\u202e"):
        assert tables.plain_lines([line], 60) is None
    assert tables.plain_lines([60 * "x", 30 * "日"], 60)


def test_a_listing_in_a_file_breaks_long_lines_and_shows_control_characters(run: Run, table: Path) -> None:
    run("train", table, "--model", "popular", "--out", "m")
    shown = run("predict", "m", "-t", 30 * "a red ", "-t", "pear \x1b[31m", "-k", "1").stdout.splitlines()
    assert max(map(len, shown)) <= 100
    assert r"pear \x1b[31m" in shown
    assert [line.split()[0] for line in shown if line.startswith("  ")] == ["0.328", "0.328"]
