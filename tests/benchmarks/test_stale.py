"""Rows carry their commit, and those older than the code they describe are named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import machine, results, stale, tables
from benchmarks.paths import RESULTS
from longtail import registry


class Repository:
    """A repository with two models, of which one imports the other's helper inside a function."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q")
        self.write("longtail/models/bonsai.py", "from longtail.linear.tree import Tree\n")
        self.write("longtail/linear/tree.py", "class Tree: ...\n")
        knn = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from longtail.linear.tree import Tree\n"
        self.write("longtail/models/knn.py", knn + "def fit():\n    import longtail.kernels\n")
        self.write("longtail/kernels/__init__.py", "")
        self.first = self.commit("start")

    def git(self, *words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *identity, *words], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self, subject: str) -> str:
        self.git("add", ".")
        self.git("commit", "-q", "-m", subject)
        return self.git("rev-parse", "--short", "HEAD").strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_row_is_stale_when_a_file_that_its_model_imports_has_changed(repository: Repository) -> None:
    rows = {"trees": {"model": "bonsai(n_trees=1)", "commit": repository.first}}
    rows |= {"votes": {"model": "knn", "commit": f"{repository.first}+"}}
    repository.write("longtail/linear/tree.py", "class Tree: depth = 3\n")
    repository.write("README.md", "words")
    second = repository.commit("deeper trees")
    rows["later"] = {"model": "bonsai", "commit": second}
    found = list(stale.stale_rows("toy", {"rows": rows}, repository.root))
    assert [(row.key, row.changes, row.files) for row in found] == [("trees", 1, ("longtail/linear/tree.py",))]
    assert str(found[0]) == f"toy: trees (1 commits since {repository.first}, to longtail/linear/tree.py)"


def test_imports_inside_functions_count_and_those_for_types_do_not(repository: Repository) -> None:
    assert stale.dependencies(("longtail.models.knn",), repository.root) == (
        "longtail/kernels/__init__.py",
        "longtail/models/knn.py",
    )


def test_a_row_of_several_models_depends_on_all_of_them(repository: Repository) -> None:
    repository.write("longtail/kernels/__init__.py", "FAST = True\n")
    repository.commit("faster")
    known = {"accuracy": {"a": {"model": "blend([bonsai, knn])", "commit": repository.first}}}
    assert [row.key for row in stale.stale_rows("toy", known, repository.root)] == ["accuracy a"]


def test_an_unknown_commit_is_stale_and_another_library_is_not(repository: Repository) -> None:
    known = {"results": {"tate": {"omikuji": {"commit": "0000000"}, "bonsai": {"model": "bonsai"}}}}
    (row,) = stale.stale_rows("peers", known, repository.root)
    assert str(row) == "peers: tate bonsai (commit unknown is not in this repository)"


def test_the_command_counts(repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results"
    results.save("toy", {"rows": {"votes": {"model": "knn", "commit": repository.first}}}, folder)
    assert stale.main([], folder, repository.root) == 0
    assert capsys.readouterr().out == "0 of 1 rows are older than the code they describe.\n"
    repository.write("longtail/models/knn.py", "")
    repository.commit("nothing")
    assert stale.main(["toy"], folder, repository.root) == 1
    with pytest.raises(SystemExit):
        stale.main(["tail"], folder, repository.root)
    assert "there are no results of 'tail'" in capsys.readouterr().err


def test_a_new_row_has_commit_date_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.load, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.save, "__defaults__", (tmp_path,))
    results.add("toy", "a", {"P@1": 50.0}, "bonsai(n_trees=1)")
    results.add("toy", "b", {"P@1": 51.0}, group="accuracy")
    known = results.load("toy", tmp_path)
    assert known is not None
    assert known["machine"] == machine.facts()
    row = known["rows"]["a"]
    assert row["model"] == "bonsai(n_trees=1)"
    assert row["commit"] == results.commit()
    assert len(row["date"]) == 10
    assert [key for key, _ in results.rows(known)] == ["a", "accuracy b"]


def test_every_recorded_row_has_a_commit_and_a_model_that_exists() -> None:
    for path in RESULTS.glob("*.json"):
        for key, row in results.rows(results.load(path.stem, RESULTS) or {}):
            assert "commit" in row, f"{path.name}: {key}"
            if "model" in row:
                registry.make(row["model"]).check_params()
            assert ("recorded_with" in row) == ("recorded_as" in row)


@pytest.mark.parametrize(
    ("model", "origin"),
    [
        ("decaf(preset='paper')", "paper"),
        ("glas(input_dropout=0.2)", "paper"),
        ("ranknet(glas, text=False)", "paper"),
        ("ranknet(glas)", "paper +"),
        ("bonsai(n_trees=1)", "paper"),
        ("taug(bonsai, advanced={'rest': True})", "paper"),
        ("taug(bonsai, advanced={'text': True})", "paper +"),
        ("ranknet(blend)", "ours"),
        ("labeltext(bonsai, method=formula)", "ours"),
        ("blend([bonsai, knn])", "ours"),
        ("ranknet(taug(bonsai, advanced={'text': True, 'whole': True}))", "paper +"),
    ],
)
def test_tables_tell_a_papers_model_alone_from_ours(model: str, origin: str) -> None:
    assert tables.origin(model) == origin
