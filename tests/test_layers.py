"""Rooms import downwards only, as pyproject.toml lists them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from importlinter import cli


def test_rooms_import_downwards_only(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).resolve().parents[1]
    code = cli.lint_imports(config_filename=os.fspath(root / "pyproject.toml"), no_cache=True)
    assert code == cli.EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_files_stay_short() -> None:
    package = Path(__file__).resolve().parents[1] / "longtail"
    long = {path.name: n for path in package.rglob("*.py") if (n := len(path.read_text().splitlines())) > 400}
    assert not long
