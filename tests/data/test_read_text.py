"""Raw JSON lines and tables: texts, names, separators, graded labels."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import polars
import pytest

import longtail
from longtail.data import read
from longtail.errors import DataError
from tests.data.cases import assert_same, matrix, put

LABELS = '{"uid": "a", "title": "Alpha"}\n{"uid": "b", "title": "Beta"}\n{"uid": "c", "title": "Gamma"}\n'


def lines(*items: object) -> str:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)


def test_raw_text(tmp_path):
    points = lines(
        {"uid": "p", "title": "T", "content": "C\nD", "target_ind": [2, 0, 2]},
        {"uid": 7, "title": "é", "content": "", "target_ind": []},
        {"uid": "r", "title": "", "content": "only", "target_ind": [1]},
        {"uid": "s", "content": None, "title": "x", "target_ind": [1]},
    )
    put(tmp_path, trn__json=points.replace("\n", "\n\n", 1), tst__json=points, lbl__json=LABELS)
    data = read(tmp_path, vectorizer=None)
    assert data.texts == ["T\nC\nD", "é", "only", "x"]
    assert data.ids == ["p", "7", "r", "s"]
    assert data.label_ids == ["a", "b", "c"]
    assert data.label_names == data.label_texts == ["Alpha", "Beta", "Gamma"]
    assert_same(matrix([{0: 1, 2: 1}, {}, {1: 1}, {1: 1}], 3), data.Y)
    assert_same(data.Y, data.test.Y)
    assert data.test.label_names is data.label_names
    alone = read(tmp_path / "tst.json", vectorizer=None)
    assert alone.texts == data.texts
    assert alone.test is None


def test_graded_labels(tmp_path):
    points = lines(
        {"title": "x", "target_ind": [0]},
        {"title": "y", "target_ind": [2, 1, 2, 0], "target_rel": [0.5, 2, 0.75, 0]},
        {"title": "z", "target_ind": [1]},
    )
    data = read(put(tmp_path, trn__jsonl=points, lbl__json=LABELS), vectorizer=None)
    assert_same(matrix([{0: 1}, {1: 2, 2: 0.75}, {1: 1}], 3), data.Y)
    assert data.ids is None


def test_labels_with_uid_or_title_alone(tmp_path):
    put(tmp_path, trn__json=lines({"title": "x", "target_ind": [1]}))
    assert read(put(tmp_path, lbl__json=lines({"title": "A"}, {"title": "B"})), vectorizer=None).label_ids is None
    data = read(put(tmp_path, lbl__json=lines({"uid": "A"}, {"uid": "B", "title": "Bee"})), vectorizer=None)
    assert data.label_names == ["A", "Bee"]
    assert data.label_texts == ["", "Bee"]
    data = read(put(tmp_path, lbl__json=lines({"uid": "A"}, {"uid": "B"})), vectorizer=None)
    assert data.label_names is data.label_texts is None


def test_points_without_labels_where_none_are_required(tmp_path):
    put(tmp_path, trn__json=lines({"title": "x"}), lbl__json=LABELS, t__csv="text\nhello\n")
    assert read(tmp_path / "trn.json", format="json", vectorizer=None, require_labels=False).Y.shape == (1, 3)
    data = read(tmp_path / "t.csv", vectorizer=None, require_labels=False)
    assert data.texts == ["hello"]
    assert data.Y.shape == (1, 0)


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["b;a", "a", ""], None),
        (["b|a", " a ", ""], None),
        (["b,a", "a,", ""], None),
        (["b;;a", "a", ";"], None),
        (["b a", "a", " "], " "),
        (["b, a", "a", ""], ", "),
        (['["b", "a"]', '["a"]', "[]"], None),
        (["['b', 'a']", "['a']", ""], None),
    ],
)
def test_labels_in_one_cell(tmp_path, cells, separator):
    with open(tmp_path / "d.csv", "w", newline="") as file:
        csv.writer(file).writerows([["text", "labels"], *(["t", cell] for cell in cells)])
    data = read(tmp_path / "d.csv", vectorizer=None, labels_separator=separator)
    assert data.label_ids == data.label_names == ["b", "a"]  # in the order in which they are met
    assert_same(matrix([{0: 1, 1: 1}, {1: 1}, {}], 2), data.Y)


def test_separator_goes_for_the_strongest_that_occurs(tmp_path):
    put(tmp_path, d__csv='text,labels\nx,"hat, cap;shoe"\ny,shoe\n')
    assert read(tmp_path / "d.csv", vectorizer=None).label_names == ["hat, cap", "shoe"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "parquet.gz"])
def test_tables_of_every_kind(tmp_path, ending):
    rows = [("one", "first\ntext, quoted", ["x", "y"]), ("two", "", ["y"]), ("three", 'say "hi"', [])]
    for part in ("train", "test"):
        path = tmp_path / f"{part}.{ending}"
        kind = ending.split(".")[0]
        plain = path.with_name(f"{part}.{kind}")
        frame = polars.DataFrame(rows, schema=["id", "text", "tags"], orient="row")
        if kind == "parquet":
            frame.write_parquet(plain)
        elif kind == "jsonl":
            frame.write_ndjson(plain)
        else:
            joined = frame.with_columns(polars.col("tags").list.join(";"))
            joined.write_csv(plain, separator="\t" if kind == "tsv" else ",")
        if path != plain:
            path.write_bytes(gzip.compress(plain.read_bytes()))
            plain.unlink()
    data = read(tmp_path, vectorizer=None)
    assert data.ids == data.test.ids == ["one", "two", "three"]
    assert data.texts == [text for _, text, _ in rows]
    assert data.label_names == ["x", "y"]
    assert_same(matrix([{0: 1, 1: 1}, {1: 1}, {}], 2), data.Y)
    assert_same(data.Y, data.test.Y)
    assert_same(data.Y, read(tmp_path / f"test.{ending}", vectorizer=None).Y)


def test_labels_met_only_in_the_test_part_come_last(tmp_path):
    data = read(put(tmp_path, train__csv="text,labels\na,z\n", test__csv="text,labels\nb,y;z\n"), vectorizer=None)
    assert data.label_names == ["z", "y"]
    assert_same(matrix([{0: 1}], 2), data.Y)
    assert_same(matrix([{0: 1, 1: 1}], 2), data.test.Y)


def test_both_parts_are_cut_at_the_same_separator(tmp_path):
    put(tmp_path, train__csv='text,labels\na,"hat, cap;shoe"\n', test__csv='text,labels\nb,"hat, cap"\n')
    assert read(tmp_path, vectorizer=None).label_names == ["hat, cap", "shoe"]


def test_label_names_of_a_table_are_label_text(tmp_path):
    """Z was None, so that rankers fitted to the matrices of a dataset had no label text."""
    put(tmp_path, train__csv="text,labels\na red fox,fox|red\na grey dog,dog\n", test__csv="text,labels\na dog,dog\n")
    data = read(tmp_path)
    assert data.Z.shape == (3, data.n_features)
    assert np.diff(data.Z.indptr).tolist() == [1, 1, 1]
    assert data.test.Z is data.Z
    ranker = longtail.make("textmatch").fit(data.X, data.Y, label_features=data.Z)
    assert ranker.predict(data.test.X, k=1).indices.tolist() == [2]
    put(tmp_path, x__csv="text,labels\na red fox,http://x.example/fox\nred,http://x.example/red\n")
    assert read(tmp_path / "x.csv").Z is None  # URIs are no text
    with pytest.raises(DataError, match="no label has text that shares a word with the points"):
        longtail.Tagger("textmatch").fit_dataset(read(tmp_path / "x.csv"))


def test_columns_by_name_and_by_custom(tmp_path):
    put(tmp_path, d__csv="Title;Content;Keywords;extra\nA;B;k;e\nC;;k;e\n")
    data = read(tmp_path / "d.csv", vectorizer=None)
    assert data.texts == ["A\nB", "C"]
    data = read(tmp_path / "d.csv", vectorizer=None, text=["extra", "Title"], labels="Content")
    assert data.texts == ["e\nA", "e\nC"]
    assert data.label_names == ["B"]


def test_column_of_identifiers_may_be_the_text(tmp_path):
    put(tmp_path, d__csv="id,labels\nred-fox,a\n")
    data = read(tmp_path / "d.csv", vectorizer=None, text="id")
    assert (data.texts, data.ids) == (["red-fox"], None)


def test_json_lines_with_names_of_labels(tmp_path):
    put(tmp_path, d__jsonl=lines({"text": "x", "labels": ["b", 3]}, {"text": "y", "labels": "b"}, {"text": "z"}))
    data = read(tmp_path / "d.jsonl", vectorizer=None)
    assert data.label_names == ["b", "3"]
    assert_same(matrix([{0: 1, 1: 1}, {0: 1}, {}], 2), data.Y)


def test_numbers_as_labels_and_long_documents(tmp_path):
    long = "word " * 60_000
    put(tmp_path, d__csv=f"text,label\n{long},7\nshort,5\n")
    limit = csv.field_size_limit()
    data = read(tmp_path / "d.csv", vectorizer=None)
    assert csv.field_size_limit() == limit
    assert data.texts[0] == long
    assert data.label_names == ["7", "5"]
