"""Bad input: every error names the file, the line where there is one, and a remedy."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import sys

import numpy as np
import polars
import pytest
import zstandard
from scipy.sparse import bsr_array, csr_array, save_npz

from longtail.data import read
from longtail.data.quiet_panics import quiet_panics
from longtail.errors import DataError, LongtailError, SettingsError
from tests.data.cases import matrix, put

LABELS = '{"uid": "a", "title": "Alpha"}\n{"uid": "b", "title": "Beta"}\n'
POINT = '{"title": "x", "target_ind": [0]}\n'


def refused(path, what: str, *, at: str, **options) -> str:
    """Reading must fail with a message that begins with the place, says what, and ends with a remedy."""
    with pytest.raises(DataError) as caught:
        read(path, vectorizer=None, **options)
    message = str(caught.value)
    assert re.search(what, message), message
    assert caught.value.remedy, message
    assert re.search(rf"{re.escape(at)}( row \d+)?: ", message), message
    return message


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("3 2 2\n0 0:1\n1 1:1\n", 3, "header promises 3 rows, the file holds 2"),
        ("1 2 2\n0 0:1\n1 1:1\n", 3, "header promises 1 rows, the file holds more than 1"),
        ("1 2 2\n0 0:1\n\n\n1 1:1\n", 3, "more than 1"),
        ("1 2\n0 0:1\n", 1, "header is '1 2', expected 3 whole numbers: <points> <features> <labels>"),
        ("1 2 2 2\n0 0:1\n", 1, "header is"),
        ("1 x 2\n0 0:1\n", 1, "header is '1 x 2'"),
        ("1 2.0 2\n0 0:1\n", 1, "header is"),
        ("1 -2 2\n0 0:1\n", 1, "header is"),
        ("1 99999999999 2\n0 0:1\n", 1, "header is"),
        ("hello world\n", 1, "header is 'hello world'"),
        ("__label__red a red apple\n", 1, "header is .* fastText's format is not read"),
        ("\n1 2 2\n0 0:1\n", 1, "first line is blank"),
        ("1 2 2\n2 0:1\n", 2, "label '2' is out of range: the header promises 2 labels"),
        ("1 2 2\n0,99999999999999999999 0:1\n", 2, "label '0,99999999999999999999'|label '99999999999999999999'"),
        ("2 2 2\n0 0:1\n0 1:1 2:1\n", 3, "column 2 is out of range: the header promises 2"),
        ("1 2 2\n0 4294967296:1\n", 2, "column 4294967296 is out of range"),
        ("1 2 2\n0 0:abc\n", 2, "the value in '0:abc' is not a number"),
        ("1 2 2\n0 0:\n", 2, "not a number"),
        ("1 2 2\n0 0:1.2.3\n", 2, "not a number"),
        ("1 2 2\n0 0:1e\n", 2, "not a number"),
        ("1 2 2\n0 0:.\n", 2, "not a number"),
        ("1 2 2\n0 0:0x10\n", 2, "not a number"),
        ("1 2 2\n0 0:nan\n", 2, "the value in '0:nan' is not finite"),
        ("1 2 2\n0 0:-inf\n", 2, "not finite"),
        ("1 2 2\n0 0:1e39\n", 2, "too large for float32"),
        ("1 2 2\n0 0:3e38 0:3e38\n", 2, "too large for float32"),
        ("1 2 2\n0 -1:1\n", 2, "'-1:1' does not begin with a whole number"),
        ("1 2 2\n-1 0:1\n", 2, "'-1' does not begin with a whole number"),
        ("1 2 2\nsports 0:1\n", 2, "'sports' does not begin with a whole number"),
        ("1 2 2\n1.0 0:1\n", 2, "'1.0' does not begin|neither a label"),
        ("1 2 2\n0 1 1:1\n", 2, "'1' is neither a label at the start of the row nor an f:v pair"),
        ("1 2 2\n0 0:1 1\n", 2, "neither a label"),
        ("1 2 2\n0,,1 0:1\n", 2, "does not begin with a whole number"),
        ("1 2 2\n0 0:1;1:1\n", 2, "not a number"),
    ],
)
def test_repository_text(tmp_path, text, line, what):
    put(tmp_path, train__txt=text)
    refused(tmp_path / "train.txt", what, at=f"train.txt:{line}", format="sparse")


def test_line_numbers_far_into_a_file(tmp_path):
    rows = ["0 0:0.25"] * 100_000
    rows[77_777] = "0 0:0.25 9:1"
    put(tmp_path, train__txt="\n".join(["100000 2 2", *rows]) + "\n")
    refused(tmp_path, "column 9", at="train.txt:77779")


@pytest.mark.parametrize(
    "name", ["train.txt", "train.svm", "d.csv", "d.tsv", "d.jsonl", "trn.json", "d.parquet", "X.npz"]
)
def test_empty_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    (tmp_path / "Y.npz").write_bytes(b"")
    refused(tmp_path / name, "empty|not a Parquet|not a sparse matrix", at=name)


def test_file_without_rows(tmp_path):
    put(tmp_path, d__csv="text,labels\n", train__svm="# nothing\n\n")
    polars.DataFrame({"text": [], "labels": []}).write_parquet(tmp_path / "d.parquet")
    refused(tmp_path / "d.csv", "no rows", at="d.csv")
    refused(tmp_path / "d.parquet", "no rows", at="d.parquet")
    refused(tmp_path / "train.svm", "no rows", at="train.svm")


def test_missing_path(tmp_path):
    refused(tmp_path / "nowhere", "no such file", at="nowhere")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "the folder holds nothing. Looked for", at="empty")
    table = tmp_path / "empty" / "mine.csv"
    table.write_text("text,labels\na,b\n")
    refused(
        tmp_path / "empty",
        f"holds mine.csv. Give the file itself, {table}, or name it as below. Looked for",
        at="empty",
    )


PACK = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.ZstdCompressor(write_checksum=True).compress}


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv"])
def test_truncated_or_damaged_compression(tmp_path, ending, kind):
    rng = np.random.default_rng(0)
    noise = [f"{a:.6f}" for a in rng.random(20_000)]
    if kind == "txt":
        text = "20000 2 2\n" + "".join(f"0 0:{a}\n" for a in noise)
    elif kind == "csv":
        text = "text,labels\n" + "".join(f"{a},x\n" for a in noise)
    else:
        text = "".join(f'{{"text": "{a}", "labels": ["x"]}}\n' for a in noise)
    packed = PACK[ending](text.encode())
    path = tmp_path / f"train.{kind}.{ending}"
    path.write_bytes(packed)
    assert read(path, vectorizer=None).n_points == 20_000
    path.write_bytes(packed[: len(packed) // 2])
    refused(path, "cut off", at=path.name)
    path.write_bytes(packed[:-3])
    refused(path, "cut off", at=path.name)
    middle = len(packed) // 2
    path.write_bytes(packed[:middle] + bytes(100) + packed[middle + 100 :])
    refused(path, "damaged", at=path.name)


def test_no_labels_at_all(tmp_path):
    put(tmp_path, train__txt="2 2 2\n 0:1\n 1:1\n")
    refused(tmp_path, "no point has a label", at="train.txt")
    assert read(tmp_path, require_labels=False).Y.nnz == 0
    put(tmp_path / "t", trn__json='{"title": "x", "target_ind": []}\n', lbl__json=LABELS)
    refused(tmp_path / "t", "no point has a label", at="trn.json")
    put(tmp_path, d__csv="text,labels\nx,\n")
    refused(tmp_path / "d.csv", "no point has a label", at="d.csv")


def test_parts_that_do_not_fit(tmp_path):
    put(tmp_path / "a", train__txt="1 2 2\n0 0:1\n", test__txt="1 3 2\n0 0:1\n")
    refused(tmp_path / "a", "3 features, but train.txt has 2", at="test.txt")
    put(tmp_path / "b", train__txt="1 2 2\n0 0:1\n", test__txt="1 2 3\n0 0:1\n")
    refused(tmp_path / "b", "3 labels, but train.txt has 2", at="test.txt")
    put(tmp_path / "c", a_train__txt="1 2 2\n0 0:1\n", b_train__txt="1 2 2\n0 0:1\n")
    refused(tmp_path / "c", "several: a_train.txt, b_train.txt", at="c")


def test_label_features_folder(tmp_path):
    def folder(**changes):
        files = {
            "trn_X_Xf__txt": "2 3\n0:1\n1:1\n",
            "trn_X_Y__txt": "2 2\n0:1\n1:1\n",
            "lbl_X_Xf__txt": "2 3\n0:1\n1:1\n",
            "Yf__txt": "a\nb\n",
        }
        return put(tmp_path / f"f{len(list(tmp_path.iterdir()))}", **(files | changes))

    assert read(folder()).n_labels == 2
    (tmp_path / "f0" / "trn_X_Y.txt").unlink()
    refused(tmp_path / "f0", "trn_X_Xf.txt is there but trn_X_Y.txt is not", at="f0")
    refused(
        folder(trn_X_Xf__txt="2 3 4\n0:1\n1:1\n"), "expected 2 whole numbers: <rows> <columns>", at="trn_X_Xf.txt:1"
    )
    refused(folder(trn_X_Xf__txt="2 3\n0:1\n1 1:1\n"), "'1' is not an f:v pair", at="trn_X_Xf.txt:3")
    refused(folder(trn_X_Y__txt="3 2\n0:1\n1:1\n0:1\n"), "3 rows, but trn_X_Xf.txt has 2", at="trn_X_Y.txt")
    refused(folder(trn_X_Y__txt="2 2\n0:1\n1:-1\n"), "negative", at="trn_X_Y.txt row 1")
    refused(folder(trn_X_Y__txt="2 2\n0:1\n2:1\n"), "column 2 is out of range", at="trn_X_Y.txt:3")
    refused(folder(lbl_X_Xf__txt="2 4\n0:1\n1:1\n"), "2 × 4, expected 2 labels × 3 features", at="lbl_X_Xf.txt:1")
    refused(folder(Yf__txt="a\nb\nc\n"), "3 labels, expected 2", at="Yf.txt")
    refused(
        folder(filter_labels_train__txt="0 1\n0 2\n"), "outside 2 points × 2 labels", at="filter_labels_train.txt:2"
    )
    refused(folder(filter_labels_train__txt="0 1\n0\n"), "two whole numbers", at="filter_labels_train.txt:2")
    refused(folder(lbl__json=LABELS * 2), "4 labels, expected 2", at="lbl.json")
    refused(folder(trn_points__json='{"uid": "a"}\n'), "1 points, expected 2", at="trn_points.json")
    refused(folder(vectorizer__npz="nonsense"), "vectorizer cannot be read", at="vectorizer.npz")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("[1, 2]", "the entry holds a list, not an object.*or one list of objects"),
        ("3", "holds a number"),
        ("null", "holds null"),
        ('"text"', "holds a string"),
        ("{", "not valid JSON"),
        ('{"title": "x", "target_ind": [NaN]}', "not valid JSON"),
        ('{"title": "\udcff"}', "not valid JSON"),
        ('{"title": "x", "target_ind": [2]}', "target_ind names label 2, but lbl.json holds 2, counted from 0"),
        ('{"title": "x", "target_ind": [-1]}', "target_ind names label -1"),
        ('{"title": "x", "target_ind": [99999999999]}', "not a number in range"),
        ('{"title": "x", "target_ind": ["a"]}', "not a number in range"),
        ('{"title": "x", "target_ind": [0.5]}', "not a number in range"),
        ('{"title": "x", "target_ind": 0}', "target_ind is not a list"),
        ('{"title": "x"}', "target_ind is missing"),
        ('{"title": "x", "target_ind": [0], "target_rel": [1, 2]}', "target_rel does not match"),
        ('{"title": "x", "target_ind": [0], "target_rel": [-1]}', "negative"),
        ('{"title": "x", "target_ind": [0], "target_rel": [1e39]}', "infinite"),
        ('{"title": "x", "target_ind": [0], "target_rel": ["a"]}', "not a number in range"),
        ('{"target_ind": [0]}', 'neither "title" nor "content"'),
        ('{"title": 5, "target_ind": [0]}', '"title" is not a string'),
        ('{"title": "x", "uid": [], "target_ind": [0]}', '"uid" is neither'),
    ],
)
def test_raw_text(tmp_path, line, what):
    text = (POINT + "\n" + line + "\n" + POINT).encode(errors="surrogateescape")
    put(tmp_path, trn__json=text, lbl__json=LABELS)
    refused(tmp_path, what, at="trn.json:3")


def test_raw_text_labels_file(tmp_path):
    put(tmp_path, trn__json=POINT)
    refused(tmp_path, "no lbl.json", at=tmp_path.name)
    refused(put(tmp_path, lbl__json=LABELS + '{"text": "x"}\n'), 'neither "title" nor "uid"', at="lbl.json:3")
    refused(put(tmp_path, lbl__json=LABELS + "7\n"), "holds a number", at="lbl.json:3")
    refused(put(tmp_path, lbl__json=""), "empty", at="lbl.json")


def test_npz(tmp_path):
    X, Y = matrix([{0: 1}, {1: 1}], 2), matrix([{0: 1}, {1: 1}], 2)

    def pair(X, Y, what, at, **arrays):
        for name, A in (("X", X), ("Y", Y)):
            if A is not None:
                save_npz(tmp_path / f"{name}.npz", A)
        if arrays:
            np.savez(tmp_path / "X.npz", **arrays)
        refused(tmp_path, what, at=at)

    save_npz(tmp_path / "X.npz", X)
    refused(tmp_path, "X.npz is there but Y.npz is not", at=tmp_path.name)
    pair(X, matrix([{0: 1}], 2), "1 rows, but X.npz has 2", "Y.npz")
    pair(X, matrix([{0: 1}, {0: -1}], 2), "negative", "Y.npz row 1")
    pair(matrix([{0: 1}, {1: np.nan}], 2), Y, "NaN", "X.npz row 1")
    pair(csr_array(np.full((2, 2), 1e60)), Y, "too large for float32", "X.npz row 0")
    pair(csr_array(np.full((2, 2), 1j)), Y, "complex128", "X.npz")
    pair(bsr_array(np.eye(2)), Y, "stored as bsr", "X.npz")
    pair(None, Y, "not a sparse matrix", "X.npz", words=np.array(["a"]))
    broken = {"format": b"csr", "shape": [2, 2], "data": np.ones(2), "_is_array": True}
    pair(None, Y, "broken", "X.npz", indices=np.array([0, 7]), indptr=np.array([0, 1, 2]), **broken)
    pair(None, Y, "broken", "X.npz", indices=np.array([0, 1]), indptr=np.array([0, 2, 1]), **broken)
    save_npz(tmp_path / "X.npz", X)
    data = (tmp_path / "X.npz").read_bytes()
    (tmp_path / "X.npz").write_bytes(data[:-50])
    refused(tmp_path, "not a sparse matrix", at="X.npz")


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("text,labels\na,x\nb\n", "d.csv:3", "the row has 1 field, the header 2"),
        ("text,labels\na,x\nb,y,z\n", "d.csv:3", "the row has 3 fields, the header 2"),
        ('text,labels\n"a\nb",x\nc\n', "d.csv:4", "the row has 1 field"),
        ('text,labels\n"a,x\n', "d.csv:2", "not valid CSV"),
        ("text,text\na,x\n", "d.csv:1", "columns named twice: text"),
        ("labels,words\na,x\n", "d.csv:1", "no column has a usual name of the text column.*text=.*'labels', 'words'"),
        ("url,text\na,x\n", "d.csv:1", "no column has a usual name of the labels column.*labels=.*'url', 'text'"),
        (b"text,labels\na,x\n\xff,y\n", "d.csv:3", "the file is not UTF-8.*iconv -f"),
        ("text,labels\na,x\n".encode("utf-16-le"), "d.csv", "holds NUL bytes, as UTF-16 does"),
        ("text\tlabels\na\tx\n".encode("utf-16-be"), "d.csv", "holds NUL bytes, as UTF-16 does"),
        ("text,labels\na,\"['x'\"\n", "d.csv:2", "cannot read the list of labels"),
        ("text,labels\na,\"[['x']]\"\n", "d.csv:2", "not a list of names"),
    ],
)
def test_csv(tmp_path, text, at, what):
    put(tmp_path, d__csv=text)
    refused(tmp_path / "d.csv", what, at=at)


def test_missing_columns_list_those_present(tmp_path):
    put(tmp_path, d__csv="text,labels\na,x\n", d__jsonl='{"text": "a", "labels": "x"}\n{"body": "b"}\n')
    refused(tmp_path / "d.csv", "no column 'abstract'.*'text', 'labels'", at="d.csv:1", text="abstract")
    refused(tmp_path / "d.csv", "no column 'tags'.*'text', 'labels'", at="d.csv:1", labels="tags")
    refused(tmp_path / "d.jsonl", "no field 'text'.*'body'", at="d.jsonl:2")


def test_columns_of_the_wrong_kind(tmp_path):
    put(tmp_path, d__jsonl='{"text": 5, "labels": "x"}\n', e__jsonl='{"text": "a", "labels": {"x": 1}}\n')
    refused(tmp_path / "d.jsonl", "column 'text' does not hold text", at="d.jsonl:1")
    refused(tmp_path / "e.jsonl", "not a list of names", at="e.jsonl:1")
    put(tmp_path, d__parquet="PAR1 nonsense")
    refused(tmp_path / "d.parquet", "not a Parquet file", at="d.parquet")


def test_a_parquet_file_with_damaged_rows(tmp_path):
    """Its schema can be read, so that the damage shows only where rows are."""
    polars = pytest.importorskip("polars")
    polars.DataFrame({"text": ["some words"] * 9, "labels": ["x"] * 9}).write_parquet(tmp_path / "d.parquet")
    content = bytearray((tmp_path / "d.parquet").read_bytes())
    content[4:40] = bytes(36)
    (tmp_path / "d.parquet").write_bytes(content)
    refused(tmp_path / "d.parquet", "not a Parquet file, or not all of it", at="d.parquet")


def test_binary_file(tmp_path):
    (tmp_path / "d.bin").write_bytes(bytes(range(256)))
    refused(tmp_path / "d.bin", "not text", at="d.bin")
    (tmp_path / "d.npz").write_bytes(b"")
    refused(tmp_path / "d.npz", "no dataset", at="d.npz")


def test_parquet_without_polars_names_the_extra(tmp_path, monkeypatch):
    polars.DataFrame({"text": ["a"], "labels": ["b"]}).write_parquet(tmp_path / "d.parquet")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        SettingsError, match=r'd.parquet: reading Parquet needs polars.*pip install "longtail\[parquet\]"'
    ):
        read(tmp_path / "d.parquet")


def test_a_table_in_utf_16_is_recognised_by_its_first_bytes(tmp_path) -> None:
    (tmp_path / "d.csv").write_bytes("text,labels\na,x\n".encode("utf-16"))
    with pytest.raises(DataError, match="iconv -f utf-16 -t utf-8"):
        read(tmp_path / "d.csv")


def test_a_panic_of_polars_does_not_reach_standard_error(tmp_path, capfd):
    polars.DataFrame({"text": ["some words"] * 9, "labels": [["x", "y"]] * 9}).write_parquet(tmp_path / "d.parquet")
    content = (tmp_path / "d.parquet").read_bytes()
    rng, panics = np.random.default_rng(0), 0
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")  # of the description of columns
    for _ in range(400):
        damaged = bytearray(content)
        damaged[rng.integers(start, len(content) - 8)] = rng.integers(256)
        (tmp_path / "d.parquet").write_bytes(damaged)
        try:
            read(tmp_path / "d.parquet", vectorizer=None)
        except LongtailError as error:
            panics += "called `" in str(error) or "index out of bounds" in str(error)
    assert panics
    assert "panicked" not in capfd.readouterr().err


def test_other_messages_on_standard_error_stay(capfd):
    with quiet_panics():
        os.write(2, b"a remark of another thread\n")
    with quiet_panics():
        os.write(2, b"thread 'x' panicked at y.rs:1\n")
    assert capfd.readouterr().err == "a remark of another thread\n"
