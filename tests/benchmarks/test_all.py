"""``python -m benchmarks`` runs everything that the page shows."""

from __future__ import annotations

import importlib
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import __main__ as everything
from benchmarks import render


def test_every_section_has_a_benchmark_that_is_run() -> None:
    assert list(everything.EVERYTHING) == list(render.SECTIONS)
    for name, module in render.SECTIONS.items():
        assert callable(importlib.import_module(module).render)
        assert callable(importlib.import_module(f"benchmarks.{name}.run").main)


def test_a_failure_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        ran.append(command[2:])
        return SimpleNamespace(returncode=1 if "benchmarks.decaf.run" in command else 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert everything.main(["decaf", "embeddings"]) == 1
    assert [command[0] for command in ran] == ["benchmarks.decaf.run", *["benchmarks.embeddings.run"] * 3]
    assert "failed: benchmarks.decaf.run" in capsys.readouterr().err
    assert everything.main(["tail"]) == 0


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        everything.main(["decaff"])
    assert "there is no benchmark 'decaff'" in capsys.readouterr().err
