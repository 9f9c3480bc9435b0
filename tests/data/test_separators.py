"""The separator of labels in one cell: chosen by counting, kept, and reported."""

from __future__ import annotations

import csv
import logging
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from longtail.data import read
from longtail.data.separators import LISTS, choose_separator, cut_cell
from longtail.errors import LongtailWarning


def write_csv(path: Path, cells: list[str]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", "labels"], *([f"text {i}", cell] for i, cell in enumerate(cells))])
    return path


def test_one_tag_with_a_semicolon_among_comma_separated_cells(tmp_path, caplog):
    """6,000 rows such as "man, clown", and one tag with a semicolon in it: cells must be cut at commas."""
    rng = np.random.default_rng(0)
    tags = [f"tag {i}" for i in range(500)]
    cells = [", ".join(rng.choice(tags, rng.integers(1, 5), replace=False)) for _ in range(6000)]
    cells[17] = "man, clown"
    cells[4321] = "man, rope; knot, clown"
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        data = read(write_csv(tmp_path / "art.csv", cells), vectorizer=None)
    assert data.labels_separator == ","
    assert data.n_labels == 503
    assert {"man", "clown", "rope; knot"} <= set(data.label_names)
    assert data.Y.nnz == sum(cell.count(",") + 1 for cell in cells)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    message = record.getMessage()
    assert f"art.csv, column 'labels': labels are cut at ','; {data.Y.nnz / 6000:.2f} labels per row" in message
    assert message.count("[") == 3  # three examples


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["hat, cap;shoe", "shoe"], ";"),
        (["hat, cap;shoe", "belt, buckle", "scarf, shawl; tie"], ";"),
        (["a,b"] * 99 + ["c|d,e"], ","),
        (["a,b"] * 99 + ["c|d"] * 50, ","),
        (["a,b"] * 50 + ["c|d"] * 99, "|"),
        (["a|b, c|d"], "|"),
        (["a|b, c", "d, e", "f|g"], "|"),
        (["Smith, John; Doe, Jane", "Roe, Ann; Smith, John"], ";"),
        (["Smith, John; Doe, Jane", "Roe, Ann", "Poe, Bea", "Doe, Jane"], ";"),
        (["moss, fern", "fern, rose", "moss, rose; wild", "oak"] * 9, ","),
        (["moss, arts &amp; crafts", "fern, rose", "oak"], ","),
        (["moss, arts &#38; crafts", "Q&A; talks, rose"], ","),
        (["moss; arts &amp; crafts", "fern, oak; rose"], ";"),
        (["AT&T; Bell", "Bell; moss, fern"], ";"),
        (["arts &amp; crafts", "moss"], None),
        (["a", "b c", ""], None),
        (["", "  "], None),
        ([], None),
        ([["a"], None], None),
        (['["a", "b"]', " ['c']"], LISTS),
        (["<http://a.example/x,1> <http://a.example/2>", "<urn:isbn:3>"], " "),
        (["http://a.example/x;1 https://a.example/2", "http://a.example/3"], " "),
        (["http://a.example/1"], " "),
        (["101 203", " 102", ""], " "),
        (["101 203", "102 b"], None),
        (["101, 203", "102"], ","),
        (["2020-01 3"], None),
        (["http://a.example/1, http://a.example/2"], ","),
        (["http://a.example/1|http://a.example/2"], "|"),
        (["http://a.example/1 http://a.example/2", "plain, words"], ","),
    ],
)
def test_choice(cells, separator):
    assert choose_separator(cells) == separator


@pytest.mark.parametrize("tag", ["arts &amp; crafts", "arts; crafts"])
def test_a_tag_with_a_semicolon_in_an_eighth_of_the_rows_is_a_name(tag, tmp_path, caplog):
    """365 of 3,000 comma-separated rows had it: cut at semicolons there were 1.12 labels per row, without a warning."""
    rng = np.random.default_rng(0)
    tags = [f"tag {i}" for i in range(300)]
    cells = [", ".join(rng.choice(tags, rng.integers(1, 6), replace=False)) for _ in range(3000)]
    cells[:365] = [f"{cell}, {tag}" for cell in cells[:365]]
    data = read(write_csv(tmp_path / "art.csv", cells), vectorizer=None)
    assert data.labels_separator == ","
    assert tag in data.label_names
    assert data.n_labels == 301
    assert not caplog.records


def test_another_separator_that_would_give_many_more_labels_is_a_warning(tmp_path, caplog):
    cells = ["a, b, c, d, e; f", "g, h, i, j; k, l", "m, n, o"] * 10
    with pytest.warns(LongtailWarning) as caught:
        data = read(write_csv(tmp_path / "d.csv", cells), vectorizer=None)
    assert data.labels_separator == ";"
    message = str(caught[0].message)
    assert "cut at ';'; 1.67 labels per row" in message
    assert "Cut at ',', there would be 4.33 labels per row. If labels are separated by ',', give" in message
    assert "--labels-separator" in message
    read(write_csv(tmp_path / "d.csv", cells), vectorizer=None, labels_separator=";")
    assert not caplog.records


def test_the_semicolon_of_an_entity_does_not_cut():
    assert cut_cell('arts &amp; crafts;"a &lt; b; c";AT&T;', ";") == ["arts &amp; crafts", "a &lt; b; c", "AT&T"]


def test_cells_are_cut_and_trimmed():
    assert cut_cell(" a ;; b;", ";") == ["a", "b"]
    assert cut_cell("a, b", None) == ["a, b"]
    assert cut_cell("", ",") == []
    assert cut_cell("<http://a.example/1>  <urn:x:2> <3", " ") == ["http://a.example/1", "urn:x:2", "<3"]


def test_uris_separated_by_spaces(tmp_path):
    path = write_csv(tmp_path / "d.csv", ["<http://a.example/1> <http://a.example/2>", "<http://a.example/2>"])
    data = read(path, vectorizer=None)
    assert data.labels_separator == " "
    assert data.label_names == ["http://a.example/1", "http://a.example/2"]
    assert data.Y.nnz == 3


def test_about_one_label_per_row_is_a_warning(tmp_path, caplog):
    path = write_csv(tmp_path / "d.csv", ["one two"] * 30 + ["three"])
    with pytest.warns(LongtailWarning) as caught:
        data = read(path, vectorizer=None)
    assert data.labels_separator is None
    assert "1.00 labels per row" in str(caught[0].message)
    assert "labels_separator" in str(caught[0].message)
    assert caught[0].filename == __file__  # the line of the caller is shown
    assert not caplog.records  # not twice


@pytest.mark.parametrize(
    "cells", [["moss", "oak"], ["http://a.example/1", "http://a.example/2"], ['["a b"]', "['c d']"]]
)
def test_single_words_uris_and_lists_leave_no_doubt(tmp_path, caplog, cells):
    data = read(write_csv(tmp_path / "d.csv", cells * 10), vectorizer=None)  # any warning is an error
    assert data.n_labels == 2
    assert not caplog.records


def test_rows_without_labels_are_counted(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        read(write_csv(tmp_path / "d.csv", ["a|b", "", " ", "c|d"]), vectorizer=None)
    assert "labels are cut at '|'; 2.00 labels per row (2 rows without), for example" in caplog.text


def test_a_separator_that_is_given_settles_it(tmp_path, caplog):
    path = write_csv(tmp_path / "d.csv", ["a,b"] * 30)
    data = read(path, vectorizer=None, labels_separator="#")
    assert (data.label_names, data.labels_separator) == (["a,b"], "#")
    assert not caplog.records  # no warning


def test_no_warning_for_few_rows_or_for_lists(tmp_path, caplog):
    read(write_csv(tmp_path / "d.csv", ["a"] * 3), vectorizer=None)
    (tmp_path / "d.jsonl").write_text('{"text": "a", "labels": ["b"]}\n' * 30)
    assert read(tmp_path / "d.jsonl", vectorizer=None).labels_separator is None
    assert not caplog.records


def test_the_test_part_is_cut_like_the_training_part(tmp_path):
    write_csv(tmp_path / "train.csv", ["a,b"] * 20)
    write_csv(tmp_path / "test.csv", ["a;b,c"])
    data = read(tmp_path, vectorizer=None)
    assert data.label_names == ["a", "b", "a;b", "c"]
    assert data.test.labels_separator == data.labels_separator == ","


def test_lists_written_as_text_have_no_separator(tmp_path):
    data = read(write_csv(tmp_path / "d.csv", ["['a', 'b']", '["b"]']), vectorizer=None)
    assert (data.label_names, data.labels_separator) == (["a", "b"], None)


@pytest.mark.parametrize("separator", "、；，｜")
def test_separators_of_east_asian_scripts(separator):
    cells = [f"料理{separator}旅行", "音楽", f"旅行{separator}音楽"]
    assert choose_separator(cells) == separator
    assert cut_cell(cells[0], separator) == ["料理", "旅行"]


def test_long_examples_are_left_out(tmp_path, caplog):
    uris = [f"http://vocabulary.example.org/subjects/number/{i}" for i in range(20)]
    cells = [" ".join(uris[i : i + 2]) for i in range(0, 18, 2)]
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        read(write_csv(tmp_path / "uris.csv", cells), vectorizer=None)
    assert uris[0] in caplog.text
    assert uris[2] not in caplog.text


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ('"boat, barge", river', ["boat, barge", "river"]),
        ('river,"boat, barge"', ["river", "boat, barge"]),
        ('"say ""no"", twice" , river,', ['say "no", twice', "river"]),
        ('5" pipe, 6" pipe', ['5" pipe', '6" pipe']),
        ('"open, river', ['"open', "river"]),
        ('"so" called, river', ['"so" called', "river"]),
        ('"", river', ['""', "river"]),
        ('"boat", "boat, barge"', ['"boat"', "boat, barge"]),
    ],
)
def test_a_quoted_label_may_contain_the_separator(cell: str, names: list[str]) -> None:
    assert cut_cell(cell, ",") == names
    assert cut_cell(cell.replace(",", "::"), "::") == [name.replace(",", "::") for name in names]


def test_a_given_separator_that_no_cell_has(tmp_path, caplog):
    """A model brings the separator of its training data along: "," cuts nothing where labels are separated by "|"."""
    path = write_csv(tmp_path / "d.csv", ["soup|herb", "cake|sweet"])
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        read(path, labels_separator=",", vectorizer=None)
        read(path, labels_separator="|", vectorizer=None)
        read(write_csv(tmp_path / "one.csv", ["soup", "cake"]), labels_separator="|", vectorizer=None)
    messages = [record.getMessage() for record in caplog.records]
    assert "cuts no cell, and cells look like labels separated by '|'. If they are, give '|' as labels_s" in messages[0]
    assert ["cuts no cell" in message for message in messages] == [True, False, False]


@pytest.mark.parametrize("n", [1, 10])
def test_a_sign_that_may_separate_labels_is_named(tmp_path, caplog, n):
    """There was no remedy in a table of few rows, nor where another separator was given."""
    path = write_csv(tmp_path / "d.csv", ["soup/herb", "cake/sweet", "bread"] * n)
    remedy = "If '/', which most cells contain, separates labels, give it as labels_separator"
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        read(path, labels_separator=";", vectorizer=None)
        assert f"The separator cuts no cell. {remedy}" in caplog.text
        caplog.clear()
        with nullcontext() if n == 1 else pytest.warns(LongtailWarning, match=re.escape(remedy)):
            read(path, vectorizer=None)
        assert (remedy in caplog.text) == (n == 1)
        caplog.clear()
        read(path, labels_separator="/", vectorizer=None)
        assert "which most cells contain" not in caplog.text
