"""Rooms import downwards only, as pyproject.toml lists them, and CONTRIBUTING.md names every room."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).resolve().parents[1]


def test_rooms_import_downwards_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logging.config.dictConfig", lambda settings: None)  # it would switch off every other logger
    code = cli.lint_imports(config_filename=os.fspath(ROOT / "pyproject.toml"), no_cache=True)
    assert code == cli.EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_the_map_in_contributing_names_every_room() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mapped = re.search(r"^```text\nlongtail/\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert mapped is not None
    inside, _, beside = mapped.group(1).partition("\nbenchmarks/")
    rooms = {path.parent.name for path in (ROOT / "longtail").glob("*/__init__.py")}
    assert set(re.findall(r"^  (\w+)/", inside, re.MULTILINE)) == rooms
    files = {path.name for path in (ROOT / "longtail").glob("*.py") if not path.name.startswith("_")}
    assert set(re.findall(r"^  (\w+\.py)", inside, re.MULTILINE)) == files
    for folder in re.findall(r"^(\w+)/", f"benchmarks/{beside}", re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_every_room_has_a_layer() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract, *_ = settings["tool"]["importlinter"]["contracts"]
    layered = set(re.findall(r"longtail\.(\w+)", " ".join(contract["layers"])))
    modules = {path.stem for path in (ROOT / "longtail").glob("*.py") if not path.name.startswith("_")}
    rooms = {path.parent.name for path in (ROOT / "longtail").glob("*/__init__.py")}
    assert modules | rooms <= layered
