"""Every parameter and every option of the command line meets wrong values: one message, exit code 2, nothing done."""

from __future__ import annotations

import json
import math
import os
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
import typer

from longtail import registry
from longtail.cli.app import app
from tests.cli.conftest import Run
from tests.test_settings import MODELS, VALUES, kinds_of, parameters, wrong_values

_ALL = bool(os.environ.get("LONGTAIL_ALL_VALUES"))  # all values for each parameter, which takes a minute
_WRAPPERS = {"ranknet", "taug", "labeltext", "calibrated"}


@pytest.mark.parametrize("word", VALUES)
def test_words_become_the_values_that_the_library_is_tested_with(word: str) -> None:
    name, value = registry.parse_setting(f"bonsai.cost={word}")
    assert name == "bonsai.cost"
    assert type(value) is type(VALUES[word])
    assert value == VALUES[word] or (math.isnan(value) and math.isnan(VALUES[word]))


@pytest.mark.parametrize("model", MODELS)
def test_every_parameter_of_every_model(model: str, run: Run, here: Path) -> None:
    """Two of the twelve values each, in turn, so that every value meets every kind of parameter."""
    cls: Any = registry.model_class(model)
    rules = parameters(cls) | {name: kinds_of(rule) for name, rule in getattr(cls, "_advanced", {}).items()}
    turn = 0
    for name, annotation in rules.items():
        words = [word for word in wrong_values(name, annotation) if word in VALUES]
        if name == "base":
            continue  # --set gives values, not models
        for word in words if _ALL else islice(cycle(words), 2 * turn, 2 * turn + 2):
            expression = f"{model}(popular)" if model in _WRAPPERS else model
            line = ["train", "nowhere.csv", "-m", expression, "-o", "out", "--set", f"{model}.{name}={word}"]
            result = run(*line, code=2)
            expected = (f"error: {name} is", "Give a ranker")  # the latter where members of a blend are numbers
            assert any(sentence in result.stderr for sentence in expected), f"{line}: {result.stderr}"
            assert result.stderr.count("\n") == 1
        turn += 1
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", ["min_df", "ngrams", "hashing", "idf", "n_jobs", "stop_words", "max_features"])
def test_parameters_of_the_vectorizer(name: str, run: Run, here: Path) -> None:
    for word in ("x", "", "NaN", "-1.5", "[1]", "{}", "2147483648"):
        for verb in (["train", "nowhere.csv", "-m", "popular", "-o", "out"], ["convert", "nowhere.csv", "out"]):
            assert f"error: --set text.{name} is" in run(*verb, "--set", f"text.{name}={word}", code=2).stderr
    assert list(here.iterdir()) == []


# Options of verbs: those that are no text, path or flag, with the words that they take --------------------------------

_NUMBERS = {word for word in VALUES if word not in ("x", "", "none", "[1]", "{}", "true")}
_COUNT = {"2147483648"}
_SHARE = {"0"}
_PROPENSITY = {"1.5", "2147483648"}
OPTIONS: dict[str, tuple[list[str], dict[str, set[str]]]] = {
    "train": (
        ["train", "nowhere.csv", "-m", "popular", "-o", "out"],
        {
            "--seed": {"0", *_COUNT},
            "--jobs": {"-1"},
            "--memory": {"1.5", *_COUNT},
            "--propensity-a": {"0", *_PROPENSITY},
            "--propensity-b": _PROPENSITY,
            "--format": set(),
        },
    ),
    "predict": (["predict", "m", "-t", "a"], {"-k": _COUNT, "--threshold": _SHARE}),
    "evaluate": (
        ["evaluate", "m", "nowhere.csv"],
        {"--propensity-a": {"0", *_PROPENSITY}, "--propensity-b": _PROPENSITY, "--threshold": _SHARE},
    ),
    "explain": (["explain", "m", "-t", "a"], {"-k": _COUNT}),
    "compare": (
        ["compare", "nowhere.csv", "-m", "popular"],
        {
            "--seed": {"0", *_COUNT},
            "--seeds": set(),
            "--jobs": {"-1"},
            "--propensity-a": {"0", *_PROPENSITY},
            "--propensity-b": _PROPENSITY,
            "--format": set(),
        },
    ),
    "optimize": (["optimize", "m", "nowhere.csv"], {"--goal": set()}),
    "report": (
        ["report", "m", "--data", "nowhere.csv"],
        {"--propensity-a": {"0", *_PROPENSITY}, "--propensity-b": _PROPENSITY, "--format": set()},
    ),
    "convert": (["convert", "nowhere.csv", "out"], {"--compression": set(), "--to": set(), "--hold-out": set()}),
    "serve": (
        ["serve", "m"],
        {
            "--port": {"0"},
            "--workers": set(),
            "--max-body": {"1.5"},
            "--max-batch": _COUNT,
            "--max-k": _COUNT,
            "--max-seconds": {"1.5"},
            "--log-level": set(),
        },
    ),
}


@pytest.mark.parametrize(
    ("verb", "option"), [(verb, option) for verb, (_, known) in OPTIONS.items() for option in known]
)
def test_options_of_verbs(verb: str, option: str, run: Run, here: Path) -> None:
    line, known = OPTIONS[verb]
    for word in VALUES:
        if word not in known[option]:
            stderr = run(*line, option, word, code=2).stderr
            assert option.lstrip("-") in stderr, f"{option} {word}: {stderr}"
    assert list(here.iterdir()) == []


def test_no_option_that_takes_a_number_is_forgotten() -> None:
    """Typer checks the type of a number; what its range is, the table above tests."""
    import inspect

    from longtail.cli import app as module

    command: Any = typer.main.get_command(app)
    assert set(OPTIONS) <= set(command.commands)
    for verb, function in module._VERBS.items():
        hints = {p.name: str(p.annotation) for p in inspect.signature(module.expanded(function)).parameters.values()}
        listed = OPTIONS.get(verb, ([], {}))[1]
        names = {parameter.name: parameter.opts for parameter in command.commands[verb].params}
        for name, hint in hints.items():
            if "Annotated[int" in hint or "Annotated[float" in hint:
                assert set(names[name]) & set(listed), f"{verb} {names[name]}"


def test_settings_of_text_have_the_names_of_the_command_line_in_errors(run: Run, table: Path, here: Path) -> None:
    advised = {"text.min_df=900": "raise --set text.max_df", "text.min_length=99": "or lower --set text.min_length"}
    for setting, advice in advised.items():
        error = run("train", table, "--model", "popular", "--set", setting, "--out", "m", code=2).stderr
        assert advice in " ".join(error.split())
        assert "on the command line" not in error


def test_options_of_files_are_refused_where_texts_are_given(run: Run, table: Path, here: Path) -> None:
    run("train", table, "--model", "popular", "--out", "m")
    for option, value in (("--text-column", "title"), ("--labels-file", table), ("--format", "table")):
        error = " ".join(run("predict", "m", "--text", "a pear", option, value, code=2).stderr.split())
        assert f"{option} has no effect: the texts are given with --text" in error
    refused = run("explain", "m", "--text", "a pear", "--text", "a plum", code=2).stderr
    assert "2 texts are given with --text. Give one" in " ".join(refused.split())


def test_options_of_labels_without_effect_are_named(run: Run, table: Path, here: Path, sparse: Path) -> None:
    run("train", table, "--model", "popular", "--out", "m")
    for options, named in (
        (["--labels-separator", "|"], "--labels-separator has no effect: predict does not read labels"),
        (["--labels-separator", "|", "--labels-file", "no.csv"], "--labels-separator and --labels-file have no effect"),
    ):
        done = run("predict", "m", "--input", table, *options, "--json")
        assert named in " ".join(done.stderr.split())
        assert len(json.loads(done.stdout)) == 60
    (here / "lines.txt").write_text("a pear\n")
    for words in (["--labels-column", "labels"], ["--text-column", "text"]):
        error = " ".join(run("predict", "m", "--input", "lines.txt", *words, code=2).stderr.split())
        assert f"{words[0]} has no effect: lines.txt is read as one text per line" in error
    error = run("predict", "m", "--input", "-", "--format", "table", code=2, input="a pear\n").stderr
    assert "--format has no effect: standard input is read as one text per line" in " ".join(error.split())
    run("train", sparse, "--model", "popular", "--out", "s")
    points = sparse / "test.txt"
    error = run("predict", "s", "--input", points, "--labels-column", "labels", code=2).stderr
    assert "--labels-column has no effect" in " ".join(error.split())


def test_the_column_of_labels_is_not_taken_for_text(run: Run, table: Path, here: Path) -> None:
    """predict ignored --labels-column, and took the first of two columns with unusual names for the text."""
    run("train", table, "--model", "popular", "--out", "m")
    (here / "d.csv").write_text("subject,words\nx,a pear\n")
    labels = ["--labels-column", "subject"]
    refused = run("predict", "m", "--input", "d.csv", *labels, code=2).stderr
    assert "no column has a usual name of the text column" in " ".join(refused.split())
    (row,) = json.loads(run("predict", "m", "--input", "d.csv", *labels, "--text-column", "words", "--json").stdout)
    assert row["text"] == "a pear"


def test_a_separator_of_labels_that_are_lists_is_remarked_on(run: Run, here: Path) -> None:
    (here / "d.jsonl").write_text('{"text": "a bird", "labels": ["x|y"]}\n' * 3)
    shown = run("train", "d.jsonl", "--labels-separator", "|", "--model", "popular", "--out", "m").stderr
    assert "labels are lists, which no separator cuts" in shown
