"""Every command and every Python example of the README and of docs/ is run, on small data under the names they use."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import longtail
from longtail import registry
from longtail.cli import worker
from longtail.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = ("make ", "git clone", "cd ", ".venv/bin/")  # commands that are not longtail's own


def blocks(page: Path, *kinds: str) -> list[str]:
    """Fenced blocks of some kinds."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [body for kind, body in found if kind in kinds]


def commands(page: Path) -> list[str]:
    """Commands of shell blocks; in a block of kind console they follow a dollar sign and the rest is output."""
    found = [line for body in blocks(page, "bash") for line in body.splitlines() if line.strip()]
    found += [line[2:] for body in blocks(page, "console") for line in body.splitlines() if line.startswith("$ ")]
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data under the names that the pages use, small enough to train in no time."""
    monkeypatch.chdir(tmp_path)
    words = ["moss", "bread", "mail", "music", "weather", "desktop", "python", "red"]

    def point(i: int) -> dict[str, Any]:
        labels = [i % 8, (3 * i) % 8]
        return {"uid": f"p{i}", "title": f"a {words[labels[0]]} and {words[labels[1]]} guide", "target_ind": labels}

    for name in ("papers", "tiny-demo"):
        folder = tmp_path / name
        folder.mkdir()
        for part, numbers in (("trn", range(80)), ("tst", range(80, 100))):
            (folder / f"{part}.json").write_text("".join(json.dumps(point(i)) + "\n" for i in numbers))
        labels = [{"uid": word, "title": f"{word}: all about it"} for word in words]
        (folder / "lbl.json").write_text("".join(json.dumps(label) + "\n" for label in labels))
    rows = [f"{point(i)['title']},{'|'.join(words[j] for j in point(i)['target_ind'])}" for i in range(80)]
    (tmp_path / "papers.csv").write_text("\n".join(["text,labels", *rows]) + "\n")
    (tmp_path / "titles.txt").write_text("a moss guide\nbread\n")
    monkeypatch.setattr(longtail, "DEMO", tmp_path / "tiny-demo")
    monkeypatch.setattr(worker, "_process", worker.work)  # in this process, which has imported everything already
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands(page: Path, here: Path) -> None:
    for command in commands(page):
        if command.startswith(OTHERS):
            continue
        longtail_, *words = shlex.split(command.partition(" > ")[0], comments=True)
        assert longtail_ == "longtail", f"{page.name} shows a command that no test can run: {command}"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{command}\n{result.stderr}\n{result.exception!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples(page: Path, here: Path) -> None:
    for body in blocks(page, "python"):
        exec(compile(body, page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_every_model_and_parameter_is_described() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for name in registry.names():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, f"docs/models.md has no section about {name}"
        shared = page.partition("\n## Settings that all share\n")[2].partition("\n## ")[0]
        for parameter in registry.model_class(name)._defaults():
            assert f"`{parameter}`" in section + shared, f"{name}.{parameter} is not described"
    assert all(f"| `{name}`" in (ROOT / "README.md").read_text(encoding="utf-8") for name in registry.names())


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"`?make ([a-z]+)`?$|`make ([a-z]+)`", page.read_text(encoding="utf-8"), re.MULTILINE):
            name = next(part for part in target if part)
            assert re.search(rf"^{name}:", makefile, re.MULTILINE), name
