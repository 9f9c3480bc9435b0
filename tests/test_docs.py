"""Run every command and every Python example of the README and of docs/, on small data under the names they use.

A block after ``<!-- needs: NAME -->`` is run only where a model of that name is registered.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import longtail
from longtail import registry
from longtail.cli import worker
from longtail.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = ("make ", "git clone", "cd ", ".venv/bin/", "pip install", "python ")  # commands that are not longtail's own


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *kinds: str) -> list[str]:
    """Return the fenced blocks of the given kinds whose models are all registered."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^(?:<!-- needs: ([\w, ]+) -->\n)?```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [
        body
        for needed, kind, body in fenced
        if kind in kinds and all(name in registry.MODELS for name in re.findall(r"\w+", needed))
    ]


def commands(page: Path) -> list[str]:
    """Return the commands of shell blocks; in a block of kind console they follow a dollar sign."""
    lines = [line for body in blocks(page, "bash") for line in body.splitlines() if line.strip()]
    lines += [line[2:] for body in blocks(page, "console") for line in body.splitlines() if line.startswith("$ ")]
    return lines


def generator() -> ModuleType:
    """Import docs/parameters.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("parameters", ROOT / "docs" / "parameters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with data under the names that the pages use, small enough to train in no time."""
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
    shutil.copy(ROOT / "examples" / "recipes.csv", tmp_path)
    (tmp_path / "parts").mkdir()
    for part in range(2):
        (tmp_path / "parts" / f"{part}.csv").write_text("\n".join(["text,labels", *rows[part::2]]) + "\n")
    (tmp_path / "labels.csv").write_text("id,name,text\nmoss,mosses,small plants\n")
    for part, n in (("train", 80), ("test", 20), ("labels", 8)):  # ready vectors of papers
        np.save(tmp_path / f"{part}.npy", np.eye(8, 5)[np.arange(n) % 8] + 1)
    (tmp_path / "my.key").write_text("0123456789abcdef" * 2)
    (tmp_path / "titles.txt").write_text("a moss guide\nbread\n")
    monkeypatch.setattr(longtail, "DEMO", tmp_path / "tiny-demo")
    monkeypatch.setattr(worker, "_process", worker.do_task)  # in this process, which has imported everything already
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands(page: Path, here: Path) -> None:
    for command in commands(page):
        if command.startswith(OTHERS):
            continue
        longtail_, *words = shlex.split(command.partition(" > ")[0], comments=True)
        assert longtail_ == "longtail", f"{page.name} shows a command that no test can run: {command}"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{command}\n{result.stderr}\n{result.exception!r}"


def test_the_readme_shows_the_labels_that_are_suggested(here: Path) -> None:
    text = "carrot soup with cream"
    shown = next(body for body in blocks(ROOT / "README.md", "text") if body.startswith(text))
    train, predict = (next(c for c in commands(ROOT / "README.md") if verb in c) for verb in (" train ", text))
    assert CliRunner().invoke(app, shlex.split(train)[1:]).exit_code == 0
    printed = CliRunner().invoke(app, shlex.split(predict)[1:]).stdout
    assert [line.split()[-1] for line in printed.splitlines()] == [line.split()[-1] for line in shown.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_examples(page: Path, here: Path) -> None:
    for body in blocks(page, "python"):
        exec(compile(body, page.name, "exec"), {})


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_guides_show_the_scores_of_their_examples(page: str, here: Path) -> None:
    n_shown = 0
    for body in blocks(ROOT / page, "python"):
        for match in re.finditer(r"^(tagger\.suggest\(.*\))  # (\[\(.*\)\])$", body, re.MULTILINE):
            names: dict[str, Any] = {}
            exec(compile(body[: match.start()], page, "exec"), names)
            suggested, shown = eval(match[1], names), ast.literal_eval(match[2])
            assert [name for name, _ in suggested] == [name for name, _ in shown]
            assert [score for _, score in suggested] == pytest.approx([score for _, score in shown], abs=0.006)
            n_shown += 1
    assert n_shown


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_every_model_and_parameter_is_described() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shared = page.partition("\n## Parameters of all models\n")[2].partition("\n## ")[0]
    for name in registry.names():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, f"docs/models.md has no section about {name}"
        assert f"<!-- parameters: {name} -->" in section
        for parameter in registry.model_class(name)._defaults():
            assert f"`{parameter}`" in section + shared, f"{name}.{parameter} is not described"
        assert f"| `{name}`" in readme, f"the README's table of models lacks {name}"


def test_generated_pages_are_up_to_date() -> None:
    stale = generator().stale()
    assert not stale, f"run python docs/parameters.py: {[path.name for path in stale]}"


def test_parameter_tables_come_from_docstrings_and_constraints() -> None:
    from longtail.params import Integer, Params

    class Model(Params):
        """A model.

        Parameters
        ----------
        n_trees : int
            Number of ``trees``, as
            in :class:`longtail.models.bonsai.Bonsai`.
        low, high : float
            Bounds | limits.

        Attributes
        ----------
        other_ : int
            Not a parameter.
        """

        _constraints: ClassVar = {"n_trees": Integer(1)}

        def __init__(self, n_trees: int = 3, low: float = 0.0, high: float = 1.0, random_state: int = 0) -> None: ...

    assert generator().table(Model).splitlines()[2:] == [
        "| `n_trees` | `3` | a whole number from 1 | Number of `trees`, as in `Bonsai`. |",
        r"| `low`, `high` | `0.0`, `1.0` |  | Bounds \| limits. |",
    ]


def test_the_site_has_every_page() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in site, f"mkdocs.yml lacks {page.name}"


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"`?make ([a-z]+)`?$|`make ([a-z]+)`", page.read_text(encoding="utf-8"), re.MULTILINE):
            name = next(part for part in target if part)
            assert re.search(rf"^{name}:", makefile, re.MULTILINE), name
