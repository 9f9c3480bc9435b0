"""What is written is read back the same, to the last bit, and nothing half-written is ever seen."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.data import Dataset, TextVectorizer, read, write, writing
from longtail.errors import DataError, SettingsError
from longtail.store import atomic
from tests.data.cases import assert_same, datasets, finite, matrices, matrix, put

compressions = st.sampled_from([None, "gz", "xz", "zst"])


def through_files(data: Dataset, format: str, compression: str | None) -> Dataset:
    with tempfile.TemporaryDirectory() as folder:
        path = write(data, Path(folder) / "d", format, compression=compression)
        return read(path, vectorizer=None, require_labels=False)


@settings(deadline=None, max_examples=60)
@given(datasets(), compressions)
def test_sparse_text_round_trip(data, compression):
    assert_same(data, through_files(data, "sparse", compression))


@settings(deadline=None, max_examples=40)
@given(datasets(graded=True), compressions)
def test_npz_round_trip(data, compression):
    assert_same(data, through_files(data, "npz", compression))


@settings(deadline=None, max_examples=40)
@given(st.booleans().flatmap(lambda graded: datasets(graded=graded, text=True)), compressions)
def test_json_round_trip(data, compression):
    assert_same(data, through_files(data, "json", compression))


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(st.integers(0, 5), st.integers(1, 5)).flatmap(lambda s: matrices(*s)),
    st.sampled_from(["", ".gz", ".xz", ".zst"]),
)
def test_single_file_round_trip(X, ending):
    data = Dataset(X=X, Y=matrix([{}] * X.shape[0], 2), name="d")
    with tempfile.TemporaryDirectory() as folder:
        path = write(data, Path(folder) / f"d.txt{ending}")
        assert_same(data, read(path, require_labels=False))


@settings(deadline=None, max_examples=30)
@given(st.lists(finite, min_size=1, max_size=200))
def test_values_are_written_with_the_fewest_digits(values):
    data = Dataset(X=matrix([dict(enumerate(values))], len(values)), Y=matrix([{0: 1}], 1))
    with tempfile.TemporaryDirectory() as folder:
        text = write(data, Path(folder) / "d.txt").read_text().split()[4:]
    for token, value in zip(text, values, strict=True):
        shortest = np.format_float_scientific(np.float32(value), unique=True, trim="-")
        digits = shortest.split("e")[0].lstrip("-").replace(".", "")
        written = token.split(":")[1].split("e")[0].lstrip("-").replace(".", "").strip("0")
        assert len(written) <= len(digits)


def example(**changes) -> Dataset:
    data = Dataset(
        X=matrix([{0: 1, 2: 0.1}, {}], 3), Y=matrix([{1: 1}, {}], 2), texts=["a", "b\nc"],
        label_ids=["x", "y"], label_names=["X", "Y"],
    )  # fmt: skip
    return dataclasses.replace(data, **changes)


def test_text_of_the_files(tmp_path):
    data = example(Z=matrix([{}, {1: 2}], 3))
    data.test = dataclasses.replace(data, Y=matrix([{}, {0: 1, 1: 1}], 2), ignore=np.array([[1, 0]], np.int32))
    write(data, tmp_path / "sparse", "sparse")
    assert (tmp_path / "sparse" / "train.txt").read_text() == "2 3 2\n1 0:1 2:0.1\n\n"
    assert (tmp_path / "sparse" / "test.txt").read_text() == "2 3 2\n 0:1 2:0.1\n0,1\n"
    assert (tmp_path / "sparse" / "lbl_X_Xf.txt").read_text() == "2 3\n\n1:2\n"
    assert (tmp_path / "sparse" / "filter_labels_test.txt").read_text() == "1 0\n"
    write(data, tmp_path / "json", "json")
    points = [json.loads(line) for line in (tmp_path / "json" / "trn.json").read_text().splitlines()]
    assert points == [{"title": "a", "target_ind": [1]}, {"title": "b", "content": "c", "target_ind": []}]
    assert sorted(p.name for p in (tmp_path / "json").iterdir()) == [
        "filter_labels_test.txt", "lbl.json", "trn.json", "tst.json",
    ]  # fmt: skip


def test_default_formats(tmp_path):
    write(example(), tmp_path / "a")
    assert (tmp_path / "a" / "trn_X.npz").exists()
    write(example(X=None), tmp_path / "b")
    assert (tmp_path / "b" / "trn.json").exists()
    assert write(example(), tmp_path / "new" / "c.txt.zst").read_bytes().startswith(b"\x28\xb5\x2f\xfd")


def test_labels_without_names_are_called_by_their_place_in_json(tmp_path):
    write(example(label_ids=None, label_names=None), tmp_path / "d", "json")
    assert read(tmp_path / "d", vectorizer=None).label_ids == ["0", "1"]


def test_vectoriser_goes_along(tmp_path):
    put(tmp_path, train__csv="text,labels\nred fox,a\nblue sky,b\n")
    data = read(tmp_path)
    for format in ("sparse", "npz"):
        held = read(write(data, tmp_path / format, format))
        assert isinstance(held.vectorizer, TextVectorizer)
        assert_same(data.vectorizer.transform(["red sky"]), held.vectorizer.transform(["red sky"]))
        assert_same(data.X, held.X)


def test_writing_twice_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write(example(), tmp_path / name, "sparse", compression="gz")
    assert (tmp_path / "a" / "train.txt.gz").read_bytes() == (tmp_path / "b" / "train.txt.gz").read_bytes()


@pytest.mark.parametrize(
    ("changes", "name", "options", "error", "message"),
    [
        ({"texts": None}, "d", {"format": "json"}, DataError, "no texts to write"),
        ({"X": None}, "d", {"format": "npz"}, DataError, "no features to write"),
        ({"Y": matrix([{1: 0.5}, {}], 2)}, "d", {"format": "sparse"}, DataError, "graded labels.*npz"),
        ({"test": example()}, "d.txt", {}, DataError, "one file cannot hold.*folder"),
        ({"ids": ["one"]}, "d", {}, DataError, "ids has 1 entries"),
        ({}, "d", {"format": "svmlight"}, SettingsError, "cannot be written. Use one of sparse, lf, npz, json, table"),
        ({}, "d", {"compression": "zip"}, SettingsError, "compression 'zip' is unknown"),
        ({}, "d.txt", {"compression": "gz"}, SettingsError, "End the file's name in"),
        ({}, "d.json", {"format": "json"}, SettingsError, "d.json cannot be written with the format 'json'.*a folder"),
        ({}, "d.txt", {"format": "npz"}, SettingsError, "d.txt cannot be written with the format 'npz'.*a folder"),
        ({}, "d.txt", {"format": "table"}, SettingsError, "table.*is written as .csv, .tsv or .jsonl"),
        ({}, "d.json.gz", {}, SettingsError, "d.json.gz cannot be written. As one file"),
        ({}, "d.xlsx", {}, SettingsError, "d.xlsx cannot be written. As one file.*name a folder, without an ending"),
        ({}, "d.gz", {}, SettingsError, "d.gz cannot be written. As one file"),
        ({}, "d.parquet", {}, SettingsError, "d.parquet cannot be written. As one file, a dataset is written as .csv"),
    ],
)
def test_refusals_leave_nothing_behind(tmp_path, changes, name, options, error, message):
    with pytest.raises(error, match=message):
        write(example(**changes), tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["d", "d.txt"])
@pytest.mark.parametrize("before", [False, True])
def test_crash_leaves_the_old_or_nothing(tmp_path, monkeypatch, name, before):
    if before:
        write(example(), tmp_path / name, "sparse")
    listing = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))

    def crash(stream, X, Y):
        stream.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "_write_rows", crash)
    with pytest.raises(KeyboardInterrupt):
        write(example(), tmp_path / name, "sparse", overwrite=True)
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == listing
    if before:
        assert_same(example().X, read(tmp_path / name).X)


@pytest.mark.parametrize("error", [OSError("disk on fire"), KeyboardInterrupt()])
@pytest.mark.parametrize("when", ["before", "after"])
def test_failed_rename_puts_the_old_folder_back(tmp_path, monkeypatch, error, when):
    """Where folders cannot be swapped in one step, the old one is moved aside for an instant."""
    write(example(), tmp_path / "d")
    rename = Path.rename

    def fail(source, target):
        if when == "before" and ".new-" in source.name:
            raise error
        rename(source, target)
        if when == "after" and ".old-" in Path(target).name:
            raise error

    monkeypatch.setattr(atomic, "_exchange", lambda first, second: False)
    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((DataError, KeyboardInterrupt), match=r"/d: cannot be written \(disk on fire\)|^$"):
        write(example(X=matrix([{}, {}], 3)), tmp_path / "d", overwrite=True)
    assert_same(example().X, read(tmp_path / "d").X)
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_existing_data_is_replaced_only_when_asked(tmp_path):
    for name in ("d", "d.txt"):
        write(example(), tmp_path / name)
        with pytest.raises(DataError, match=r"exists.*overwrite=True"):
            write(example(), tmp_path / name)
    other = example(X=matrix([{1: 5}, {}], 3))
    write(other, tmp_path / "d", "sparse", overwrite=True)
    assert not (tmp_path / "d" / "trn_X.npz").exists()
    assert_same(other.X, read(tmp_path / "d").X)
    (tmp_path / "d" / "thesis.doc").write_text("years of work")
    with pytest.raises(DataError, match=r"not part of a dataset: thesis\.doc"):
        write(other, tmp_path / "d", overwrite=True)
    with pytest.raises(DataError, match="a file where a folder"):
        write(other, tmp_path / "d" / "thesis.doc", overwrite=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="folders that are swapped in one step")
def test_a_dataset_stands_under_its_name_at_every_moment(tmp_path, monkeypatch):
    """A process killed at any step of the swap must leave a dataset."""
    write(example(), tmp_path / "d")
    sound = []

    def seen(event, args):
        if event in ("os.rename", "os.remove", "shutil.rmtree"):
            sound.append((tmp_path / "d").is_dir())

    watched = True
    sys.addaudithook(lambda event, args: seen(event, args) if watched else None)
    write(example(), tmp_path / "d", overwrite=True)
    watched = False
    assert sound
    assert all(sound)


def test_a_folder_or_a_link_with_the_name_of_a_part_is_kept(tmp_path):
    write(example(), tmp_path / "d")
    (tmp_path / "d" / "train.csv").mkdir()
    (tmp_path / "d" / "train.csv" / "thesis.doc").write_text("years of work")
    with pytest.raises(DataError, match=r"not part of a dataset: train\.csv"):
        write(example(), tmp_path / "d", overwrite=True)
    assert (tmp_path / "d" / "train.csv" / "thesis.doc").is_file()


def test_a_link_is_followed_and_stays(tmp_path):
    other = example(X=matrix([{1: 5}, {}], 3))
    for name in ("d", "d.txt"):
        write(example(), tmp_path / "real" / name)
        (tmp_path / name).symlink_to(Path("real") / name)
        write(other, tmp_path / name, "sparse", overwrite=True)
        assert (tmp_path / name).is_symlink()
        assert_same(other.X, read(tmp_path / "real" / name).X)


def test_files_get_the_usual_permissions(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask of all threads was changed"))
    (tmp_path / "usual").write_text("")
    write(example(), tmp_path / "d.txt")
    write(example(), tmp_path / "d")
    assert (tmp_path / "d.txt").stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "folder").mkdir()
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == stat.S_IMODE((tmp_path / "folder").stat().st_mode)


def test_real_data_round_trips(shared_data, tmp_path):
    data = read(shared_data("bibtex"), name="d")
    for format in ("sparse", "npz"):
        assert_same(data, read(write(data, tmp_path / format / "d", format)))
