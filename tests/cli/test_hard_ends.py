"""Closed streams, ASCII terminals, full disks, deep nesting: one clear sentence and an exit code, never a traceback."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import longtail
from longtail import registry
from longtail.cli import options
from longtail.metrics.propensity import PROPENSITY_A, PROPENSITY_B
from longtail.models.popular import Popular
from tests.cli.conftest import FRUITS, Run

LONGTAIL = [sys.executable, "-m", "longtail"]
ASCII = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}


@pytest.fixture
def model(run: Run, table: Path, here: Path) -> Path:
    run("train", table, "--model", "popular", "--out", "m")
    return here / "m"


def shell(command: str, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command line of the shell, in which $LONGTAIL is the command."""
    return subprocess.run(
        ["bash", "-c", f"longtail() {{ '{sys.executable}' -m longtail \"$@\"; }}; {command}"],
        capture_output=True,
        env=os.environ | changes,
    )


# What is given -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "fruit.csv", "-m", "popular", "--out", "x", "--seed", "-1"], "--seed"),
        (["train", "fruit.csv", "-m", "bonsai", "--out", "x", "--set", "bonsai.cost=x"], "cost is 'x'"),
        (["train", "fruit.csv", "-m", "(" * 5000, "--out", "x"], "Cannot read the model"),
        (["train", "fruit.csv", "-m", "taug(" * 5000 + "bonsai" + ")" * 5000, "--out", "x"], "at most 10000 are read"),
        (["train", "fruit.csv", "-m", "bonsai(cost=" + "-" * 50_000 + "1)", "--out", "x"], "at most 10000 are read"),
        (["train", "fruit.csv", "-m", "bonsai", "--set", "bonsai.cost=" + "[" * 5000, "--out", "x"], "cost is '[[["),
        (["compare", "fruit.csv", "-m", "[" * 5000], "Cannot read the model"),
        (["compare", "fruit.csv", "-m", "popular", "--propensity-a", "-1"], "--propensity-a is -1"),
        (["evaluate", "m", "fruit.csv", "--propensity-b", "0"], "--propensity-b 0"),
        (["train", "fruit.csv", "-m", "popular", "--out", "/"], "root of the file system"),
        (["train", "fruit.csv", "-m", "popular", "--out", "."], "not a model folder"),
        (["predict", "m", "--text", "caf\udce9"], "--text is not UTF-8"),
        (["predict", "m", "--input", ""], "--input is empty"),
        (["learn", "m", "fruit.csv", "--feedback", "fruit.csv"], "cannot be written (file is not a database)"),
        (["learn", "m", "fruit.csv", "--feedback", "m"], "cannot be written (unable to open database file)"),
        (["learn", "m", "fruit.csv", "--feedback", "other.sqlite"], "cannot be written (it is another database)"),
        (["serve", "m", "--feedback", "fruit.csv", "--port", "0"], "--feedback is fruit.csv, which is not a folder"),
        (["serve", "m", "other", "--port", "0"], "other: there is no such folder"),
        (["labels", "m", "merge", "red", "--into", "red"], "no label to merge into 'red'"),
        (["sign", "m", "--key", "m/model.json"], "the key is inside the folder to sign"),
        (["predict", "m", "--input", "latin.txt"], "latin.txt:2: the line is not UTF-8"),
        (["train", "latin.csv", "-m", "popular", "--out", "x"], "latin.csv"),
    ],
)
def test_wrong_input(words: list[str], said: str, run: Run, model: Path, here: Path) -> None:
    (here / "latin.txt").write_bytes(b"tea\ncaf\xe9\n")
    (here / "latin.csv").write_bytes(b"text,labels\ncaf\xe9 au lait,drink\ntea,drink\n")
    other = sqlite3.connect(here / "other.sqlite")
    other.execute("CREATE TABLE mine (value TEXT)")
    other.close()
    before = {path: path.read_bytes() for path in sorted(here.rglob("*")) if path.is_file()}
    result = run(*words, code=2)
    assert result.stdout == ""
    assert said in result.stderr
    assert len(result.stderr) < 2000
    assert {path: path.read_bytes() for path in sorted(here.rglob("*")) if path.is_file()} == before


def test_a_text_without_labels_is_not_said_to_be_unknown(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", "knn", "--out", "m")
    run("labels", "m", "retire", "pear", "plum", "fig", "green", "blue", *FRUITS[4:])
    (here / "in.txt").write_text("number1\nnothing known\nnumber0\n")
    told = run("predict", "m", "--input", "in.txt").stderr
    assert "1 of 3 texts has no word" in told


def test_every_line_of_a_file_is_one_row(run: Run, model: Path, here: Path) -> None:
    lines = ["\ufeffa red plum", "", "  ", "a green fig\r", ""]
    (here / "in.txt").write_text("\n".join(lines) + "\n", newline="")
    found = json.loads(run("predict", "m", "--input", "in.txt", "--json").stdout)
    assert [row["text"] for row in found] == ["a red plum", "", "  ", "a green fig", ""]
    piped = json.loads(run("predict", "m", "--input", "-", "--json", input="one\n\nthree").stdout)
    assert [row["text"] for row in piped] == ["one", "", "three"]
    run("predict", "m", "--input", "in.txt", "--out", "x.tsv", "-k", 1)
    assert [line.split("\t")[0] for line in Path("x.tsv").read_text().splitlines()[1:]] == ["0", "3"]
    run("predict", "m", "--input", "in.txt", "--out", "x.jsonl", "-k", 1)
    assert len(Path("x.jsonl").read_text().splitlines()) == 5
    (here / "empty.txt").write_text("")
    assert json.loads(run("predict", "m", "--input", "empty.txt", "--json").stdout) == []
    run("predict", "m", "--input", "empty.txt", "--out", "x.npz")


def test_propensities_of_the_options_are_used(run: Run, raw: Path) -> None:
    assert (options.PropensityOptions().a_and_b()) == (PROPENSITY_A, PROPENSITY_B)
    run("train", raw, "--model", "popular", "--out", "m")
    words = ("--propensity-a", 0.6, "--propensity-b", 2.6, "--json")
    rows = [json.loads(run("evaluate", "m", raw, *more).stdout)[0] for more in (("--json",), words)]
    assert rows[0]["P@3"] == rows[1]["P@3"]
    assert rows[0]["PSP@3"] != rows[1]["PSP@3"]
    assert json.loads(run("compare", raw, "-m", "popular", *words).stdout)[0]["PSP@3"] == rows[1]["PSP@3"]


def test_propensities_of_the_options_reach_every_model_that_has_them(run: Run, raw: Path) -> None:
    words = ("--propensity-a", 0.6, "--propensity-b", 2.6)
    run("train", raw, "--model", "ranknet(labeltext(popular), method=inverse_propensity)", "--out", "m", *words)
    outer = longtail.load("m").ranker_
    for model in (outer, outer.base):
        assert (model.propensity_a, model.propensity_b) == (0.6, 2.6)
    given = "ranknet(popular, method=inverse_propensity, propensity_a=0.5)"
    run("train", raw, "--model", given, "--out", "n", *words)
    assert longtail.load("n").ranker_.propensity_a == 0.5  # what the model's name gives wins
    with_them = {"ranknet", "taug", "labeltext", "blend", "pfastrexml"}
    assert {name for name in registry.names() if "propensity_a" in registry.model_class(name)._defaults()} == with_them


# Where results go ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "target", "said"),
    [
        (["predict", "m", "--input", "in.txt", "--out", "in.txt"], "in.txt", "would be lost"),
        (["predict", "m", "--input", "in.txt", "--out", "link.txt"], "in.txt", "would be lost"),
        (["predict", "m", "--input", "fruit.tsv", "--out", "../here/fruit.tsv"], "fruit.tsv", "would be lost"),
        (
            ["predict", "m", "--input", "raw", "--out", "raw/filter_labels_test.txt"],
            "raw/filter_labels_test.txt",
            "part",
        ),
        (["predict", "m", "--input", "in.txt", "--out", "m/x.jsonl"], "m/x.jsonl", "inside a model folder"),
        (["predict", "m", "--text", "a", "--out", "folder.jsonl"], "folder.jsonl", "is a folder"),
        (["report", "m", "--data", "fruit.csv", "--out", "fruit.csv", "--format", "md"], "fruit.csv", "would be lost"),
        (["report", "m", "--data", "fruit.csv", "--out", "m/README.md"], "m/README.md", "inside a model folder"),
        (["report", "m", "--data", "fruit.csv", "--out", "null.md"], "null.md", "a device"),
        (["convert", "fruit.csv", "null.csv", "--overwrite"], "null.csv", "a device"),
        (["predict", "m", "--input", "in.txt", "--out", "null.jsonl"], "null.jsonl", "a device"),
        (["evaluate", "m", "fruit.csv", "--per-label", "fruit.csv"], "fruit.csv", "would be lost"),
        (["plot", "norms", "m", "--out", "m/x.png"], "m/x.png", "inside a model folder"),
        (["compare", "fruit.csv", "-m", "popular", "--bins", "m/x.png"], "m/x.png", "inside a model folder"),
        (["evaluate", "m", "fruit.csv", "--labels-file", "l.csv", "--per-label", "l.csv"], "l.csv", "would be lost"),
    ],
)
def test_results_never_replace_what_is_read(
    words: list[str], target: str, said: str, run: Run, model: Path, raw: Path, here: Path, tmp_path: Path
) -> None:
    (here / "in.txt").write_text("a red plum\n")
    (here / "link.txt").symlink_to("in.txt")
    for name in ("null.md", "null.csv", "null.jsonl"):
        (here / name).symlink_to(os.devnull)
    (here / "fruit.tsv").write_text("text\tlabels\na red plum\tplum\n")
    (here / "l.csv").write_text("id,name\nplum,Plum\n")
    (here / "folder.jsonl").mkdir()
    (raw / "keys.txt").write_text("of the user")
    words = [word.replace("../here", f"../{here.name}") for word in words]
    path = here / target
    before = path.read_bytes() if path.is_file() else None
    assert said in " ".join(run(*words, code=2).stderr.split())
    assert (path.read_bytes() if path.is_file() else None) == before
    assert (here / "null.md").is_symlink()
    run("train", "fruit.csv", "--model", "popular", "--out", "m")  # the model folder holds nothing else


def test_results_beside_the_data_are_replaced_by_the_next_run(run: Run, model: Path, here: Path) -> None:
    (here / "in.txt").write_text("a red plum\n")
    for _ in range(2):
        run("predict", "m", "--input", "in.txt", "--out", "out.txt")
        run("predict", "m", "--input", "in.txt", "--out", "new/out.jsonl")
        run("evaluate", "m", "fruit.csv", "--per-label", "labels.csv")
    assert len((here / "new" / "out.jsonl").read_text().splitlines()) == 1  # replaced, and not appended to
    assert (here / "labels.csv").read_text().count("training_points") == 1


def test_a_command_to_be_copied_quotes_odd_names(run: Run, table: Path) -> None:
    assert "longtail predict 'a b' --text" in run("train", table, "--model", "popular", "--out", "a b").stdout


# Where it runs -------------------------------------------------------------------------------------------------------


def test_ascii_terminals(model: Path, here: Path) -> None:
    (here / "d.csv").write_text("text,labels\n" + "naïve café,größe|日本\n" * 4, encoding="utf-8")
    trained = shell("longtail train d.csv -m popular -o n", **ASCII)
    assert trained.returncode == 0, trained.stderr
    shown = shell("longtail predict n --text 'a … café' && longtail inspect n && longtail evaluate n d.csv", **ASCII)
    assert shown.returncode == 0, shown.stderr
    assert b"groe" in shown.stdout or b"gr" in shown.stdout
    assert b"#" in shown.stdout
    assert all(byte < 128 for byte in shown.stdout + shown.stderr)
    found = shell("longtail predict n --text naïve --json", **ASCII)
    assert {label["label"] for label in json.loads(found.stdout)[0]["labels"]} == {"größe", "日本"}


def test_closed_streams(model: Path) -> None:
    closed = shell("longtail predict m --text x >&-")
    assert (closed.returncode, closed.stderr.count(b"\n")) == (2, 1)
    assert b"Standard output is closed" in closed.stderr
    closed = shell("longtail predict m --input - <&-")
    assert closed.returncode == 2
    assert b"error: Standard input is closed" in closed.stderr
    both = shell("longtail predict m --text x --json 2>&-")
    assert both.returncode == 0
    assert json.loads(both.stdout)


def test_a_reader_that_leaves_early_is_no_error(model: Path, here: Path) -> None:
    (here / "in.txt").write_text("a red plum\n" * 3000)
    for words in ("--input in.txt", "--input in.txt --json", "--input in.txt --out -"):
        left = shell(f"longtail predict m {words} | head -n 1; exit ${{PIPESTATUS[0]}}")
        assert (left.returncode, left.stderr) == (0, b""), words


def test_a_full_disk(run: Run, table: Path, model: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/full").exists():
        for words in ("predict m --text plum --json", "predict m --text plum", "--help"):
            full = shell(f"longtail {words} > /dev/full")
            assert full.returncode == 2
            assert full.stderr == b"error: The disk is full. Free some space, or write to another disk.\n"
    before = sorted(here.rglob("*"))
    for error in (OSError(errno.ENOSPC, "No space left", "x/a.npy"), OSError("100 requested and 0 written")):

        def refuse(*args: Any, error: OSError = error, **kwargs: Any) -> None:
            raise error

        monkeypatch.setattr("numpy.save", refuse)
        assert "The disk is full" in run("train", table, "--model", "popular", "--out", "x", code=2).stderr
    assert sorted(here.rglob("*")) == before


def test_an_interrupt_ends_with_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "sitecustomize.py").write_text(
        "import time\nfrom longtail.models.popular import Popular\nPopular._fit = lambda *args: time.sleep(60)\n"
    )
    (here / "d.csv").write_text("text,labels\nred apple,fruit\nfast car,vehicle\n")
    monkeypatch.setenv("PYTHONPATH", f"{here}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    command = [*LONGTAIL, "train", "d.csv", "--model", "popular", "--out", "m"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "training" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "Interrupted.\n")


# What is printed beside results --------------------------------------------------------------------------------------


def test_what_the_library_logs_is_shown(run: Run, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: Popular, X: Any, Y: Any, Z: Any, validation: Any) -> None:
        logging.getLogger("longtail.models").info("popular counts %d labels", Y.shape[1])
        logging.getLogger("longtail.models").warning("nothing else is looked at")
        logging.getLogger("longtail.models").debug("not shown")
        own(self, X, Y, Z, validation)

    own = Popular._fit
    monkeypatch.setattr(Popular, "_fit", fit)
    lines = run("train", raw, "--model", "popular", "--out", "m").stderr.splitlines()
    assert "popular counts 7 labels" in lines
    assert "warning: nothing else is looked at" in lines
    assert "not shown" not in lines
    assert not [handler for handler in logging.getLogger("longtail").handlers if type(handler).__name__ == "_Remarks"]


def test_workers_pass_on_stages_and_remarks(raw: Path, here: Path) -> None:
    (here / "sitecustomize.py").write_text(
        "import logging\n"
        "from longtail import progress\n"
        "from longtail.models.popular import Popular\n"
        "own = Popular._fit\n"
        "def fit(*args):\n"
        "    print('a library prints')\n"
        "    with progress.stage('counting'):\n"
        "        logging.getLogger('longtail.models').info('a remark')\n"
        "    own(*args)\n"
        "Popular._fit = fit\n"
    )
    path = f"{here}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    ended = shell("longtail compare raw -m popular --json", PYTHONPATH=path)
    assert json.loads(ended.stdout)[0]["model"] == "popular"
    lines = ended.stderr.decode().splitlines()
    assert {"a library prints", "  counting", "a remark"} <= set(lines)


def test_train_names_the_fits_of_several_models(run: Run, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Popular, "n_fits", lambda self: {"popular": 3, "bonsai": 24})
    assert "popular trains 3 popular, 24 bonsai" in run("train", raw, "-m", "popular", "--out", "m").stderr


def test_train_names_the_fits_of_a_wrapper_once(run: Run, raw: Path) -> None:
    shown = run("train", raw, "-m", "calibrated(popular)", "--out", "m").stderr
    assert shown.count("calibrated(popular): 5 fits of popular") == 1
    assert "calibrated(popular) trains" not in shown


def test_load_tagger_wraps_a_ranker_that_was_saved_alone(run: Run, model: Path) -> None:
    whole = registry.load_tagger(model)
    alone = registry.load_tagger(model / "ranker")
    assert list(alone.label_names_) == [str(label) for label in range(whole.n_labels_)]
    assert (alone.label_counts_, alone.vectorizer_, alone.label_ids_) == (None, None, None)
    assert (alone.ranker_.predict([[0.0] * 69], 2) != whole.ranker_.predict([[0.0] * 69], 2)).nnz == 0


def test_names_and_texts_do_not_steer_the_terminal(run: Run, here: Path) -> None:
    rows = ["red apple,\x1b[31mfruit\x1b[0m", "red car,a\u202eexe", "fast car,x\x9bm"] * 4
    (here / "d.csv").write_text("\n".join(["text,labels", *rows]))
    run("train", "d.csv", "-m", "popular", "--out", "m")
    shown = run("predict", "m", "--text", "red \x1b]0;title\x07 apple", "-k", "3").stdout
    assert not set(shown) & set("\x1b\x9b\u202e\x07")
    assert all(written in shown for written in (r"\x1b[31mfruit\x1b[0m", r"a\u202eexe", r"x\x9bm", r"\x1b]0;title"))
    exact = json.loads(run("predict", "m", "--text", "red", "-k", "3", "--json").stdout)
    assert json.dumps("\x1b[31mfruit\x1b[0m") in json.dumps(exact)


def test_work_goes_on_where_remarks_cannot_be_written(model: Path, table: Path, here: Path) -> None:
    done = shell(f"cd '{here}' && longtail convert '{table}' x.jsonl 2</dev/null")
    assert done.returncode == 0
    assert (here / "x.jsonl").exists()


def test_the_only_label_of_a_model_has_no_bias(run: Run, here: Path) -> None:
    """It was +40000.000."""
    (here / "d.csv").write_text("text,labels\nred plum,fruit\nred fig,fruit\n")
    run("train", "d.csv", "--model", "bonsai", "--out", "m")
    shown = run("explain", "m", "--text", "red plum").stdout
    assert "bias" not in shown
    assert "no single word changes the score" in shown


def test_one_of_anything_is_singular(run: Run, here: Path) -> None:
    (here / "d.csv").write_text("text,labels\nred plum,plum\nred fig,fig|red\nred fig,fig|red\n")
    run("train", "d.csv", "--model", "knn", "--out", "m")
    assert "(1 training point)" in run("explain", "m", "--text", "red plum", "--label", "plum").stdout
    assert "1 label with one training point, 0 with none" in run("inspect", "m").stdout
    (here / "one.csv").write_text("text,labels\nplum,plum\n")
    run("train", "one.csv", "--model", "knn", "--out", "one")
    assert "1 point, 1 label" in run("inspect", "one").stdout
    (here / "more.csv").write_text("text,labels\ngreen plum,plum\n")
    assert "Stored 1 correction in" in run("learn", "m", "more.csv").stdout
    assert "No new correction to train m on" in run("learn", "m", "more.csv").stdout
    (here / "in.txt").write_text("red\nzzz\n")
    assert "1 of 2 texts has no word" in run("predict", "m", "--input", "in.txt").stderr
    assert "(empty text)" in run("predict", "m", "--text", "").stdout
    assert ".jsonl, .tsv, .csv, .npz or .txt" in run("predict", "m", "--text", "red", "--out", "o.xls", code=2).stderr
