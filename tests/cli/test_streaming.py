"""Prediction in blocks: any file gives the same rows as in one piece, and an interrupted file is continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longtail.cli import warm
from longtail.data import streaming
from longtail.kernels import cache_folders
from tests.cli.conftest import FRUITS, Run

TEXTS = [f"a {FRUITS[i % 6]} and number{i}" for i in range(23)]


@pytest.fixture
def model(run: Run, table: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(streaming, "BLOCK", 5)
    run("train", table, "--model", "popular", "--out", "m")
    return Path("m")


@pytest.fixture
def files(here: Path) -> dict[str, Path]:
    """The same texts in every format that is read in blocks."""
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": TEXTS})
    frame.write_parquet(here / "in.parquet")
    frame.write_csv(here / "in.csv")
    frame.write_csv(here / "in.tsv", separator="\t")
    frame.write_ndjson(here / "in.jsonl")
    (here / "in.txt").write_text("\n".join(TEXTS) + "\n")
    return {path.suffix: path for path in here.glob("in.*")}


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_format_gives_the_same_rows(run: Run, model: Path, files: dict[str, Path], here: Path) -> None:
    assert len(files) == 5
    found = {}
    for ending, path in files.items():
        run("predict", model, "--input", path, "--out", f"out{ending}.jsonl", "-k", 2)
        found[ending] = rows(here / f"out{ending}.jsonl")
        assert [row["text"] for row in found[ending]] == TEXTS
    assert all(one == found[".txt"] for one in found.values())
    assert json.loads(run("predict", model, "--input", files[".csv"], "--json", "-k", 2).stdout) == found[".txt"]
    assert not list(here.glob("*.partial*"))


def test_from_standard_input_to_standard_output(run: Run, model: Path) -> None:
    lines = run("predict", model, "--input", "-", "--out", "-", input="\n".join(TEXTS)).stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == TEXTS


def test_an_empty_input_is_remarked_on(run: Run, model: Path, here: Path) -> None:
    (here / "empty.txt").write_text("")
    result = run("predict", "m", "--input", "empty.txt")
    assert (result.stdout, result.stderr) == ("", "empty.txt is empty, so there is nothing to label.\n")
    assert "Standard input is empty" in run("predict", "m", "--input", "-", "--out", "-", input="").stderr


def test_sparse_text_in_blocks(run: Run, sparse: Path, here: Path) -> None:
    run("train", sparse, "--model", "popular", "--out", "f")
    run("predict", "f", "--input", sparse / "train.txt", "--out", "x.jsonl", "-k", 1)
    assert [row["id"] for row in rows(here / "x.jsonl")] == [str(i) for i in range(32)]


@pytest.mark.parametrize("ending", [".jsonl", ".tsv", ".csv"])
def test_resume(run: Run, model: Path, here: Path, ending: str) -> None:
    path, out = here / "in.txt", here / f"out{ending}"
    path.write_bytes("\n".join(TEXTS).encode() + b"\n")
    run("predict", model, "--input", path, "--out", out)
    whole = out.read_bytes()
    out.unlink()
    broken = [*TEXTS[:12], "caf\udce9", *TEXTS[13:]]
    path.write_bytes("\n".join(broken).encode(errors="surrogateescape") + b"\n")
    said = run("predict", model, "--input", path, "--out", out, code=2).stderr
    assert "10 points are in" in said
    assert "--resume" in said
    assert not out.exists()
    path.write_bytes("\n".join(TEXTS).encode() + b"\n")
    with (here / f"out{ending}.partial").open("ab") as stream:
        stream.write(b"half a li")  # what a killed process leaves
    assert "begun with k 5" in run("predict", model, "-i", path, "-o", out, "--resume", "-k", 3, code=2).stderr
    run("predict", model, "--input", path, "--out", out, "--resume")
    assert out.read_bytes() == whole
    assert not list(here.glob("*.partial*"))


def interrupted(run: Run, here: Path) -> Path:
    """Return the rows of a run that ended after 10 points."""
    broken = [*TEXTS[:12], "caf\udce9", *TEXTS[13:]]
    (here / "in.txt").write_bytes("\n".join(broken).encode(errors="surrogateescape") + b"\n")
    run("predict", "m", "-i", "in.txt", "-o", "x.jsonl", code=2)
    (here / "in.txt").write_text("\n".join(TEXTS) + "\n")
    return here / "x.jsonl.partial"


def test_rows_of_an_interrupted_run_are_not_lost_unasked(run: Run, model: Path, here: Path) -> None:
    partial = interrupted(run, here)
    before = partial.read_bytes()
    said = run("predict", model, "-i", "in.txt", "-o", "x.jsonl", code=2).stderr
    assert "10 points of an interrupted run" in said
    assert partial.read_bytes() == before
    partial.unlink()
    run("predict", model, "-i", "in.txt", "-o", "x.jsonl")
    assert len(rows(here / "x.jsonl")) == 23


def test_resume_refuses_another_model_and_other_points(run: Run, model: Path, here: Path, table: Path) -> None:
    interrupted(run, here)
    command = ["predict", model, "-i", "in.txt", "-o", "x.jsonl", "--resume"]
    for others in (["a new text", *TEXTS], TEXTS[:8], [TEXTS[1], TEXTS[0], *TEXTS[2:]]):
        (here / "in.txt").write_text("\n".join(others) + "\n")
        assert "in.txt: holds other points" in run(*command, code=2).stderr
    (here / "in.txt").write_text("\n".join(TEXTS) + "\n")
    run("train", table, "--model", "knn", "--out", "m")
    assert "was begun with model version" in run(*command, code=2).stderr
    state = here / "x.jsonl.partial.json"
    state.write_text(state.read_text().replace('"points":10', '"points":-5'))
    assert "damaged" in run(*command, code=2).stderr


@pytest.mark.parametrize("name", ["x.jsonl.partial", "x.jsonl.partial.json"])
def test_a_file_of_the_user_beside_the_result_is_kept(run: Run, model: Path, here: Path, name: str) -> None:
    (here / "in.txt").write_text("\n".join(TEXTS) + "\n")
    (here / name).write_text("mine")
    for words in (["in.txt"], ["in.txt", "--resume"]):
        assert "not overwritten" in " ".join(
            run("predict", model, "-o", "x.jsonl", "-i", *words, code=2).stderr.split()
        )
    if name.endswith("partial"):
        (here / name).write_text("a text\n")
        said = run("predict", model, "-o", "x.jsonl", "-i", name, "--format", "sparse", code=2).stderr
        assert "is the file to be read" in said
    (here / name).rename(here / "notes")
    (here / name).symlink_to("notes")
    run("predict", model, "-i", "in.txt", "-o", "x.jsonl", code=2)
    assert (here / "notes").read_text() in ("mine", "a text\n")
    assert (here / name).is_symlink()


def test_a_link_to_a_result_stays(run: Run, model: Path, here: Path) -> None:
    (here / "in.txt").write_text("\n".join(TEXTS) + "\n")
    (here / "deep").mkdir()
    (here / "x.jsonl").symlink_to("deep/y.jsonl")
    run("predict", model, "-i", "in.txt", "-o", "x.jsonl")
    assert (here / "x.jsonl").is_symlink()
    assert [path.name for path in (here / "deep").iterdir()] == ["y.jsonl"]


def test_resume_without_a_beginning_or_a_file(run: Run, model: Path, files: dict[str, Path]) -> None:
    assert "no x.jsonl.partial" in run("predict", model, "-i", files[".csv"], "-o", "x.jsonl", "--resume").stderr
    for words in (["-i", "-", "-o", "x.jsonl"], ["-i", files[".csv"], "-o", "x.npz"], ["-i", files[".csv"]]):
        assert "--resume needs" in run("predict", model, *words, "--resume", code=2).stderr


def test_a_wrong_row_leaves_nothing(run: Run, model: Path, here: Path) -> None:
    (here / "bad.csv").write_text("text,labels\na,b,c\n")
    assert "bad.csv" in run("predict", model, "-i", "bad.csv", "-o", "x.jsonl", code=2).stderr
    assert not list(here.glob("x.*"))


def test_warm_says_beforehand_how_long_it_takes(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    assert warm.expected_duration(1, compiled=False) == "about 20 s"
    assert warm.expected_duration(19, compiled=False) == "about 70 s"
    assert warm.expected_duration(19, compiled=True) == "about 70 s, and less where they are compiled already"
    monkeypatch.setattr(cache_folders, "readable_folders", lambda: (here,))
    assert not warm.anything_compiled()
    (here / "topk.csr_top_k-37.py311.nbi").touch()
    assert warm.anything_compiled()


def test_warm(run: Run) -> None:
    found = json.loads(run("warm", "--model", "popular", "--json").stdout)
    assert (found["models"], found["left_out"]) == (["popular"], [])
    shown = run("warm", "-m", "popular")
    assert "popular" in shown.stdout
    assert "compiling kernels of 1 model, once per machine; " in " ".join(shown.stderr.split())
    assert "bonsay" in run("warm", "--model", "bonsay", code=2).stderr
