"""``longtail report`` and ``longtail explain``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def models(run: Run, raw: Path) -> list[str]:
    for name in ("popular", "bonsai"):
        run("train", raw, "--model", name, "--out", name)
    return ["bonsai", "popular"]


def test_report_of_two_models(run: Run, raw: Path, models: list[str]) -> None:
    result = run("report", *models, "--data", raw, "--out", "r.html")
    assert "Wrote r.html: a report on 2 models" in result.stdout
    page = Path("r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "all about quince" in page
    assert "popular − bonsai" in page
    run("report", "bonsai", "--data", raw, "--out", "r.md")
    assert Path("r.md").read_text(encoding="utf-8").startswith("# bonsai on raw")
    told = run("report", "bonsai", "--data", raw, "--format", "md", "--out", "r.txt", "--json")
    facts = json.loads(told.stdout)
    measured = json.loads(run("evaluate", "bonsai", raw, "--json").stdout)[0]
    for metric in ("P@1", "PSP@5", "B@3", "C@5", "model_mb"):
        assert facts["models"][0][metric] == pytest.approx(measured[metric])


def test_data_may_be_the_last_argument(run: Run, raw: Path, models: list[str]) -> None:
    run("report", *models, "--data", raw, "--out", "option.html")
    run("report", *models, raw, "--out", "argument.html")
    assert _without_times("argument.html") == _without_times("option.html")
    for words in (["bonsai"], models):
        assert "report DIR... DATA" in " ".join(run("report", *words, code=2).stderr.split())


def _without_times(path: str) -> str:
    return re.sub(r"[0-9.]+|</?strong>", "", Path(path).read_text(encoding="utf-8"))  # the least time is bold


def test_report_of_features(run: Run, sparse: Path) -> None:
    run("train", sparse, "--model", "bonsai", "--out", "m")
    run("report", "m", "--data", sparse, "--out", "r.html")
    assert "point 3" in Path("r.html").read_text(encoding="utf-8")


def test_the_format_gives_the_name_of_the_file(run: Run, raw: Path, models: list[str]) -> None:
    """--format md wrote Markdown into report.html."""
    assert "Wrote report.md" in run("report", "bonsai", raw, "--format", "md").stdout
    assert not Path("report.html").exists()
    assert "Wrote report.html" in run("report", "bonsai", raw).stdout


def test_a_page_is_replaced_only_when_it_is_named(run: Run, raw: Path, models: list[str]) -> None:
    Path("report.html").write_text("years of work")
    assert "--out report.html" in run("report", "bonsai", raw, code=2).stderr
    assert "give html or md" in run("report", "bonsai", raw, "--format", "pdf", code=2).stderr
    assert Path("report.html").read_text() == "years of work"
    assert "Wrote report.html" in run("report", "bonsai", raw, "--out", "report.html").stdout


def test_labels_are_matched_and_cut_as_evaluate_does(run: Run, here: Path) -> None:
    rows = [f"a {c} {f} x{i},{f} / {c}" for i in range(10) for f in ("apple", "pear") for c in ("red", "green")]
    Path("slashes.csv").write_text("\n".join(["text,labels", *rows]) + "\n")
    run("train", "slashes.csv", "--model", "knn", "--labels-separator", " / ", "--out", "m")
    told = json.loads(run("report", "m", "slashes.csv", "--json").stdout)["models"][0]
    measured = json.loads(run("evaluate", "m", "slashes.csv", "--json").stdout)[0]
    for metric in ("P@1", "PSP@5", "ECE@1", "ECE-rare@1"):
        assert told[metric] == pytest.approx(measured[metric])
    Path("short.tsv").write_text("".join(f"a {w} text\t<http://x.example/{w}>\n" for w in ("moss", "bread") * 5))
    Path("voc.tsv").write_text("<http://x.example/moss>\tmosses\n<http://x.example/bread>\tbreads\n")
    run("train", "short.tsv", "--labels-file", "voc.tsv", "--model", "knn", "--out", "uris")
    Path("names.csv").write_text("text,labels\na moss,mosses\na bread,breads\n")
    (row,) = json.loads(run("report", "uris", "names.csv", "-o", "b.html", "--json").stdout)["models"]
    assert row["P@1"] == 100


def test_reports_that_cannot_be(run: Run, raw: Path, sparse: Path, table: Path, models: list[str]) -> None:
    run("train", table, "--model", "popular", "--out", "fruit")
    other = run("report", "bonsai", "fruit", "--data", raw, code=2)
    assert "other labels than bonsai" in other.stderr
    assert "give html or md" in run("report", "bonsai", "--data", raw, "--format", "pdf", code=2).stderr
    assert "Cannot tell the format" in run("report", "bonsai", "--data", raw, "--out", "r.txt", code=2).stderr
    for page_format, name in (("md", "x.html"), ("html", "x.md"), ("html", "x.MARKDOWN")):
        words = ["report", "bonsai", raw, "--format", page_format, "--out", name]
        assert f"--format {page_format} contradicts the name {name}" in " ".join(run(*words, code=2).stderr.split())
        assert not Path(name).exists()
    assert run("report", "fruit", "--data", sparse, code=2).stderr
    assert "nothing: there is no such folder" in run("report", "nothing", "--data", raw, code=2).stderr


def test_models_of_other_points_are_named(run: Run, raw: Path, models: list[str]) -> None:
    lines = (raw / "trn.json").read_text().splitlines(keepends=True)
    (raw / "trn.json").write_text("".join(lines[:48]))
    run("train", raw, "--model", "popular", "--out", "fewer")
    told = run("report", "bonsai", "fewer", "--data", raw).stderr
    assert "fewer was trained on other points than bonsai" in " ".join(told.split())


def test_explain(run: Run, raw: Path, models: list[str]) -> None:
    shown = run("explain", "bonsai", "--text", "a quince tart", "-k", "2").stdout
    assert "all about quince" in shown
    assert "raised by" in shown
    found = json.loads(run("explain", "bonsai", "--text", "a plum", "--label", "all about plum", "--json").stdout)
    assert found["labels"][0]["words"][0]["word"] == "plum"
    assert run("explain", "bonsai", "a quince tart", "-k", "2").stdout == shown
    assert "Give one, as in: longtail explain DIR" in run("explain", "bonsai", code=2).stderr
    assert "Write a text in quotes" in run("explain", "bonsai", "a", "quince", "tart", code=2).stderr
    assert "no label 'plumm'" in run("explain", "bonsai", "--text", "a", "--label", "plumm", code=2).stderr
    unknown = run("explain", "bonsai", "--text", "zzz").stdout
    assert "No word of the text is known" in unknown
    assert "The model suggests no label" in unknown
    assert "all about" not in unknown
    assert "all about plum" in run("explain", "bonsai", "--text", "zzz", "--label", "all about plum").stdout
    run("train", raw, "--model", "blend([bonsai, knn, textmatch])", "--out", "b")
    blend = run("explain", "b", "--text", "a quince tart", "-k", "1").stdout
    assert re.search(r"nearest points +[0-9.]+ +row \d+: all about", blend)
    assert "members" in blend
    assert "textmatch" in blend


def test_the_model_card(run: Run, raw: Path, models: list[str]) -> None:
    card = Path("bonsai/README.md").read_text(encoding="utf-8")
    for part in (
        "raw, checksum `",
        "60 |",
        "longtail ",
        "numpy ",
        "cost_ = ",
        "Intended use",
        "UTC",
        "| `bonsai` |",
        "TextVectorizer(",
    ):
        assert part in card
    assert not Path("bonsai/ranker/README.md").exists()
    run("train", raw, "--model", "bonsai", "--out", "bonsai")  # a folder with a card can be replaced
    again = Path("bonsai/README.md").read_text(encoding="utf-8")
    assert [line for line in card.splitlines() if "checksum" in line] == [
        line for line in again.splitlines() if "checksum" in line
    ]
