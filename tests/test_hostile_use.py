"""What a clumsy or hostile user once broke, one test per finding; further tests of each stand where it says.

1. Paths are looked at before they are written to or removed (tests/store/test_replace.py).
2. Model folders are not trusted (tests/store/test_invariants.py, tests/fuzz).
3. Malformed matrices are refused (tests/fuzz/matrices.py, tests/models/test_base.py, tests/contract.py).
4. Settings changed after a fit are compared again (tests/test_settings.py).
5. A save that is killed leaves a whole model and no leftovers (tests/store/test_saves.py).
6. No input is misread in silence: blank lines, feature numbers, lists of labels (tests/cli/test_streaming.py).
7. Numbers of NumPy are settings and can be saved (tests/test_settings.py, tests/models/test_base.py).
8. Nothing hangs: fifos, bombs, endless counts, compilation (tests/data/test_hostile_files.py).
9. The command line ends with one sentence and exit code 2 (tests/cli/test_hard_ends.py, tests/cli/test_bad_input.py).
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner, Result

import longtail
from longtail import store
from longtail.cli.app import app
from longtail.data import synthetic
from longtail.errors import DataError, LongtailError, ModelError, SettingsError
from tests.fuzz.models import build
from tests.fuzz.mutate import set_array


@pytest.fixture(scope="module")
def data() -> longtail.Dataset:
    return synthetic.make(60, 30, 8, random_state=0)


def command(*words: Any, **given: Any) -> Result:
    """Run the command line in this process; a foreign exception ends with exit code 1."""
    return CliRunner().invoke(app, list(map(str, words)), **given)


def test_finding_1_a_checkpoint_or_a_save_never_removes_what_is_not_ours(tmp_path: Path) -> None:
    table = tmp_path / "d.csv"
    table.write_text("text,labels\n" + "".join(f"word{i % 5} word{i % 3},l{i % 4}\n" for i in range(40)))
    (tmp_path / "mydocs").mkdir()
    (tmp_path / "mydocs" / "thesis.txt").write_text("years")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path in (table, tmp_path / "mydocs"):
        ended = command("train", table, "-m", "mnn", "-o", tmp_path / "m", "--set", f"mnn.checkpoint={path}")
        assert ended.exit_code == 2, ended.stderr
        assert "is not a checkpoint" in ended.stderr
        with pytest.raises(DataError, match="not overwritten"):
            longtail.Tagger("popular").fit(["some words"], [["x"]]).save(path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("kind", "array"),
    [("fastxml", "labels"), ("fastxml", "child"), ("bonsai", "nodes"), ("bonsai", "ptr"), ("knn", "rows")],
)
def test_finding_2_indices_beyond_an_array_are_refused_on_load(tmp_path: Path, kind: str, array: str) -> None:
    build(kind, tmp_path / "m")
    path = tmp_path / "m" / f"{array}.npy"
    values = np.load(path)
    set_array(path, np.full_like(values, min(2**31 - 1, np.iinfo(values.dtype).max)))  # with a checksum that is right
    with pytest.raises(ModelError, match="Train or copy the model again"):
        longtail.load(tmp_path / "m")


def test_finding_2_a_large_folder_is_checked_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 1 GiB checksums are left out, never the rules."""
    build("fastxml", tmp_path / "m")
    monkeypatch.setattr("longtail.store.folder._VERIFY_BELOW", 1)
    path = tmp_path / "m" / "labels.npy"
    set_array(path, np.full_like(np.load(path), 2**31 - 1))
    with pytest.raises(ModelError, match=r"labels\.npy holds 2147483647"):
        longtail.load(tmp_path / "m")


def test_finding_2_inspect_verify_sees_what_the_checksum_does_not(tmp_path: Path) -> None:
    build("knn", tmp_path / "m")
    path = next(path for path in sorted((tmp_path / "m").glob("*.npy")) if path.stem == "label_ptr")
    set_array(path, np.load(path)[::-1].copy())
    ended = command("inspect", tmp_path / "m", "--verify")
    assert ended.exit_code == 2, ended.stdout
    assert path.name in ended.stderr
    assert "Traceback" not in ended.stderr


def test_finding_3_indices_that_count_from_1_are_refused_with_the_remedy(data: longtail.Dataset) -> None:
    X = data.X.copy()
    X.indices = X.indices + 1
    with pytest.raises(DataError, match="subtract 1"):
        longtail.make("knn").fit(X, data.Y)
    model: Any = longtail.make("knn").fit(data.X, data.Y)
    for use in (model.predict, lambda X: model.partial_fit(X, data.Y)):
        with pytest.raises(DataError, match="outside 0"):
            use(X)


@pytest.mark.parametrize(("model", "name"), [("bonsai", "beam"), ("ranknet(knn)", "n_candidates")])
def test_finding_4_a_setting_of_0_after_the_fit_is_refused(data: longtail.Dataset, model: str, name: str) -> None:
    fitted: Any = longtail.make(model).fit(data.X, data.Y)
    setattr(fitted, name, 0)
    with pytest.raises(SettingsError, match=f"{name} is 0"):
        fitted.predict(data.X)
    with pytest.raises(SettingsError, match=f"{name} is 0"):
        fitted.rank([0], [1.0])


def test_finding_5_a_model_stands_under_its_name_at_every_moment(tmp_path: Path, monkeypatch: Any) -> None:
    """Where two folders are swapped in one step, no moment exists in which the name is free."""
    if not sys.platform.startswith("linux"):
        pytest.skip("renameat2")
    target = tmp_path / "m"

    def write(n: int) -> None:
        with store.atomic_folder(target) as fresh:
            store.write(fresh, "test", {"n": n}, {})

    write(1)
    moved: list[Path] = []
    monkeypatch.setattr(Path, "rename", lambda self, to: moved.append(self))
    write(2)
    assert not moved  # neither the old nor the new folder was renamed: they changed places
    assert store.read(target).meta["n"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_finding_6_blank_lines_keep_their_rows(tmp_path: Path) -> None:
    texts = ["red apple", "green pear", "red plum", "blue fig"] * 5
    tagger = longtail.Tagger("knn").fit(texts, [[text.split()[1]] for text in texts])
    tagger.save(tmp_path / "m")
    (tmp_path / "in.txt").write_text("red apple\n\n\nblue fig\n")
    from_file = command("predict", tmp_path / "m", "--input", tmp_path / "in.txt", "-k", "1", "--json")
    from_stdin = command(
        "predict", tmp_path / "m", "--input", "-", "-k", "1", "--json", input="red apple\n\n\nblue fig\n"
    )
    for ended in (from_file, from_stdin):
        rows = json.loads(ended.stdout)
        assert [[label["label"] for label in row["labels"]] for row in rows] == [["apple"], [], [], ["fig"]]


def test_finding_6_rank_refuses_what_predict_refuses(data: longtail.Dataset) -> None:
    model = longtail.make("knn").fit(data.X, data.Y)
    for indices, values in (([2**32 + 1], [1.0]), ([1.7], [1.0]), ([1], [np.nan]), ([1], [1j])):
        with pytest.raises(DataError):
            model.rank(np.array(indices), np.array(values))
    with pytest.raises(SettingsError):
        model.rank([1], [1.0], -1)
    for odd in (None, "ab", ["a"], [[1, 2]], 3, [1, 2, 3], np.array([1, "a"], object), np.zeros(2, "M8[s]")):
        with pytest.raises(DataError):
            model.rank(odd, np.ones(2, np.float32))
        with pytest.raises(DataError):
            model.rank(np.array([1, 2], np.int32), odd)
    once, twice = model.rank([1, 2], [1.0, 1.0]), model.rank([1, 2, 1], [0.5, 1.0, 0.5])
    np.testing.assert_array_equal(once[0], twice[0])
    np.testing.assert_allclose(once[1], twice[1])
    frozen = np.array([1, 2], np.int32)
    frozen.flags.writeable = False
    for same in (frozen, np.array([1, 9, 2], np.int32)[::2], np.ma.array([1, 2]), np.array([1, 2], ">i8")):
        np.testing.assert_array_equal(model.rank(same, np.ones(2))[0], once[0])


@pytest.mark.parametrize("name", ["propensity_a", "propensity_b"])
@pytest.mark.parametrize("model", ["pfastrexml", "ranknet(popular)", "taug(popular)"])
def test_finding_6_an_infinite_propensity_is_refused(data: longtail.Dataset, model: str, name: str) -> None:
    for value in (np.inf, np.nan, -1.0):
        with pytest.raises(SettingsError, match=name):
            longtail.make(model, {name: value}).fit(data.X, data.Y)


def test_finding_6_lists_of_label_numbers_get_the_remedy() -> None:
    with pytest.raises(DataError, match=r"Tagger.*MultiLabelBinarizer"):
        longtail.make("popular").fit(np.eye(3), [[0, 2], [1, 2], [0, 1]])


def test_finding_7_numbers_of_numpy_are_stored_as_numbers(data: longtail.Dataset, tmp_path: Path) -> None:
    settings = {"n_neighbors": np.int64(3), "sharpness": np.int16(2), "n_jobs": np.int32(1)}
    longtail.make("knn", settings).fit(data.X, data.Y).save(tmp_path / "m")
    stored = json.loads((tmp_path / "m" / "model.json").read_text())["meta"]["params"]
    assert stored == {"n_jobs": 1, "n_neighbors": 3, "sharpness": 2, "n_compared": None, "feature_weights": "learnt"}


def test_finding_8_a_fifo_and_a_bomb_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.data.files._ALWAYS_ALLOWED", 1 << 20)  # for a smaller bomb
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo.csv")
        with pytest.raises(DataError, match="fifo"):
            longtail.read(tmp_path / "fifo.csv")
    with gzip.open(tmp_path / "bomb.csv.gz", "wb", compresslevel=9) as stream:
        stream.write(bytes(1 << 21))
    with pytest.raises(DataError, match="LONGTAIL_MOST_UNPACKED"):
        longtail.read(tmp_path / "bomb.csv.gz")


@pytest.mark.parametrize("kind", ["knn", "glas"])
def test_finding_8_read_only_points_compile_nothing_anew(data: longtail.Dataset, kind: str) -> None:
    from numba.core import event

    compiled: list[str] = []

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            compiled.append(str(event.data["dispatcher"]))

        def on_end(self, event: Any) -> None:
            pass

    model = longtail.make(kind, {"epochs": 1} if kind == "glas" else {}).fit(data.X, data.Y)
    X = csr_array(data.X[:4])
    expected, point = model.predict(X).toarray(), model.rank(X.indices[:3], X.data[:3])
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    with event.install_listener("numba:compile", Listener()):
        np.testing.assert_array_equal(model.predict(X).toarray(), expected)
        np.testing.assert_array_equal(model.rank(X.indices[:3], X.data[:3])[0], point[0])
    assert not compiled


def test_finding_8_a_cut_off_that_would_fill_the_memory_is_refused(data: longtail.Dataset) -> None:
    scores = longtail.make("popular").fit(data.X, data.Y).predict(data.X)
    with pytest.raises(SettingsError, match="from 1 to 10000"):
        longtail.evaluate(data.Y, scores, ks=[2**31])


@pytest.mark.parametrize(
    "line",
    [
        ["train", "d.csv", "-m", "popular", "-o", "x", "--seed", "-1"],
        ["train", "d.csv", "-m", "bonsai", "-o", "x", "--set", "bonsai.cost=x"],
        ["train", "d.csv", "-m", "blend(seconds=x)", "-o", "x"],
        ["train", "d.csv", "-m", "popular", "-o", "/"],
    ],
)
def test_finding_9_a_mistake_is_one_sentence_and_exit_code_2(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d.csv").write_text("text,labels\na b,c\n")
    monkeypatch.chdir(tmp_path)
    ended = command(*line)
    assert ended.exit_code == 2
    assert "Traceback" not in ended.stderr
    assert ended.stderr.strip()


def test_every_error_of_ours_is_a_value_error() -> None:
    assert issubclass(LongtailError, ValueError)
