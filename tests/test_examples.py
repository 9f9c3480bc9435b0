"""Every script in examples/ runs and prints what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PRINTED = {  # script -> a part of its output
    "tag_from_csv.py": "recipes.csv: 25 texts, 12 labels",
    "compare_models.py": "ranknet(bonsai)",
    "add_labels.py": "chessengine  <- new",
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert PRINTED[name] in capsys.readouterr().out


def test_every_example_is_run_and_listed() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == set(PRINTED)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name})" in listed for name in scripts)
