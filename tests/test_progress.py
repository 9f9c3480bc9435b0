"""Progress: told stage by stage to whoever listens, to nobody otherwise."""

from __future__ import annotations

import io

from rich.console import Console

from longtail import progress
from longtail.cli import common
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


def test_a_terminal_shows_a_bar(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    screen = io.StringIO()
    monkeypatch.setattr(common, "err", Console(file=screen, force_terminal=True, width=100))
    with common.doing("training bonsai"), progress.stage("training nodes") as done:
        done(0.5)
    assert "training bonsai: training nodes" in screen.getvalue()
