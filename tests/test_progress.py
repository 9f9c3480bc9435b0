"""Progress: reported stage by stage to a listener, if there is one."""

from __future__ import annotations

import io
import logging
import re
import time

import pytest
from rich.console import Console

from longtail import progress
from longtail.cli import console
from longtail.cli.progress_bar import clock, doing
from longtail.models.bonsai import Bonsai
from tests.contract import toy


def test_training_tells_its_stages_and_how_far_each_is() -> None:
    heard: list[tuple[str, float]] = []
    X, Y, _ = toy()
    with progress.listen(lambda stage, share: heard.append((stage, share))):
        Bonsai(arity=4, max_leaf=3, n_trees=1, cost=1.0).fit(X, Y)
    assert [stage for stage, share in heard if share == 0.0] == ["grouping labels", "training nodes"]
    shares = [share for stage, share in heard if stage == "training nodes"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 3


def test_nobody_listens_after_the_block() -> None:
    heard: list[str] = []
    with progress.listen(lambda stage, share: heard.append(stage)):
        pass
    with progress.stage("silent") as done:
        done(0.5)
    assert heard == []


def screen_of(monkeypatch: pytest.MonkeyPatch, width: int) -> io.StringIO:
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=screen, force_terminal=True, width=width))
    return screen


def test_a_terminal_of_80_columns_shows_bars_with_elapsed_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch, 80)
    message = "training ranknet(taug(bonsai)) on 45,611 points, 37,907 labels"
    with doing(message), progress.stage("fold 1 of 3") as outer:
        outer(0.2)
        with progress.stage("training nodes") as done:
            for _ in range(5):
                done(0.1)
                time.sleep(0.06)
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line).rstrip() for line in re.split(r"[\r\n]+", screen.getvalue())]
    assert max(map(len, lines)) <= 80
    assert any(re.search(r"training ranknet\(.*… .*0:00$", line) for line in lines)
    assert any(re.search(r"^    training nodes .*0:00, 0:0\d left$", line) for line in lines)
    assert any(line.startswith("  fold 1 of 3") for line in lines)


def test_stages_that_start_and_end_leave_no_bar_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    screen_of(monkeypatch, 80)
    from longtail.cli.progress_bar import _Bars

    bars = _Bars("work")
    for stage, share in (("a", 0.0), ("b", 0.0), ("b", 0.5), ("b", 1.0), ("b", 0.0), ("a", 0.5)):
        bars.update(stage, share)
    assert [name for name, _ in bars.running] == ["a"]  # b never ended, but a went on
    bars.update("a", 1.0)
    assert bars.running == []
    assert len(bars.shown.tasks) == 1


def test_one_plain_line_per_stage_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=screen, width=40))
    with doing("training bonsai on 45,611 points, 37,907 labels"):
        for _ in range(3):
            for name in ("grouping labels", "training nodes"):
                with progress.stage(name) as done:
                    done(0.5)
    lines = ["training bonsai on 45,611 points, 37,907 labels …", "  grouping labels", "  training nodes"]
    assert screen.getvalue().splitlines() == lines


def test_another_process_reports_through_this_one() -> None:
    heard: list[tuple[str, float]] = []
    progress.relay("nobody listens", 0.5)
    with progress.listen(lambda stage, share: heard.append((stage, share))):
        progress.relay("training nodes", 0.5)
    assert heard == [("training nodes", 0.5)]


def test_durations() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 61, 3600, 7325)] == ["0:00", "1:00", "1:01", "1:00:00", "2:02:05"]


def test_lines_show_a_stage_once_and_again_inside_another(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console, "print_remark", lines.append)
    with doing("training"):
        for _ in range(2):
            with progress.stage("choosing the cost"), progress.stage("training nodes") as done:
                done(0.0)
                done(0.5)
        for name in ("grouping labels", "training nodes", "training nodes"):
            with progress.stage(name):
                pass
    shown = ["training …", "  choosing the cost", "    training nodes", "  grouping labels", "  training nodes"]
    assert lines == shown


def test_a_remark_that_several_processes_log_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console, "print_remark", lambda message, style: lines.append(message))
    with console.logged_remarks():
        for _ in range(3):
            logging.getLogger("longtail.kernels").info("Compiling kernels")
    assert lines == ["Compiling kernels"]
