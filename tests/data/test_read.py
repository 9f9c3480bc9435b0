"""Layouts are recognised by their names and first lines, whatever the compression, and named when they are not."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import pytest
import zstandard
from scipy.sparse import csr_array, save_npz

from longtail.data import TextVectorizer, read
from longtail.errors import DataError, SettingsError
from tests.data.cases import Counts, assert_same, matrix, put

TRAIN, TEST = "3 4 3\n0,2 0:1 3:0.5\n1 1:2\n 2:-1\n", "1 4 3\n2 0:1\n"
X = matrix([{0: 1, 3: 0.5}, {1: 2}, {2: -1}], 4)
Y = matrix([{0: 1, 2: 1}, {1: 1}, {}], 3)
X_TEST, Y_TEST = matrix([{0: 1}], 4), matrix([{2: 1}], 3)
Z = matrix([{0: 1}, {}, {1: 0.5, 3: 2}], 4)

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}


def check(data, *, with_test=True, Z=None):
    assert_same(X, data.X)
    assert_same(Y, data.Y)
    assert_same(Z, data.Z)
    assert (data.test is not None) == with_test
    if with_test:
        assert_same(X_TEST, data.test.X)
        assert_same(Y_TEST, data.test.Y)
        assert data.test.Z is data.Z


@pytest.mark.parametrize("ending", PACK)
def test_repository_folder(tmp_path, ending):
    (tmp_path / f"train.txt{ending}").write_bytes(PACK[ending](TRAIN.encode()))
    (tmp_path / f"test.txt{ending}").write_bytes(PACK[ending](TEST.encode()))
    check(read(tmp_path))


def test_repository_folder_with_prefixed_names(tmp_path):
    data = read(put(tmp_path / "eurlex", eurlex_train__txt=TRAIN, eurlex_test__txt=TEST))
    check(data)
    assert data.name == "eurlex"


def test_single_file(tmp_path):
    put(tmp_path, train__txt=TRAIN, test__txt=TEST, filter_labels_train__txt="0 0\n")
    data = read(tmp_path / "train.txt")
    check(data, with_test=False)
    assert data.ignore is None
    assert data.name == "train"
    assert read(tmp_path / "train.txt", name="mine").name == "mine"


def test_compression_is_told_by_content_not_by_name(tmp_path):
    (tmp_path / "train.txt").write_bytes(gzip.compress(TRAIN.encode()))
    check(read(tmp_path / "train.txt"), with_test=False)


def test_several_members_or_frames_are_one_file(tmp_path):
    halves = TRAIN[:14].encode(), TRAIN[14:].encode()
    for ending, pack in PACK.items():
        path = tmp_path / f"train.txt{ending}"
        path.write_bytes(b"".join(map(pack, halves)))
        check(read(path), with_test=False)


@pytest.mark.parametrize("ending", PACK)
def test_label_features_folder(tmp_path, ending):
    files = {
        "trn_X_Xf.txt": "3 4\n0:1 3:0.5\n1:2\n2:-1\n",
        "trn_X_Y.txt": "3 3\n0:1.00000 2:1.0\n1:1\n\n",
        "tst_X_Xf.txt": "1 4\n0:1\n",
        "tst_X_Y.txt": "1 3\n2:1\n",
        "lbl_X_Xf.txt": "3 4\n0:1\n\n1:0.5 3:2\n",
        "Yf.txt": "first\n\nthird é\n",
        "filter_labels_train.txt": "0 2\n1 1\n",
        "filter_labels_test.txt": "0 0\n",
    }
    for name, text in files.items():
        (tmp_path / (name + ending)).write_bytes(PACK[ending](text.encode()))
    data = read(tmp_path)
    check(data, Z=Z)
    assert data.label_names == data.test.label_names == ["first", "", "third é"]
    np.testing.assert_array_equal(data.ignore, [[0, 2], [1, 1]])
    np.testing.assert_array_equal(data.test.ignore, [[0, 0]])
    assert data.ignore.dtype == np.int32


def test_label_names_in_latin_1(tmp_path):
    put(tmp_path, trn_X_Xf__txt="1 1\n0:1\n", trn_X_Y__txt="1 1\n0:1\n", Yf__txt="caf\xe9\n".encode("latin-1"))
    assert read(tmp_path).label_names == ["café"]


@pytest.mark.parametrize(
    ("x", "y", "x_test", "y_test", "z"),
    [
        ("trn_X", "trn_Y", "tst_X", "tst_Y", "lbl_Z"),
        ("X.trn", "Y.trn", "X.tst", "Y.tst", "Z"),
        ("trn_X_Xf", "trn_X_Y", "tst_X_Xf", "tst_X_Y", "lbl_X_Xf"),
        ("X_train", "Y_train", "X_test", "Y_test", "Z"),
        ("X", "Y", "X_test", "Y_test", "Z"),
    ],
)
def test_npz_pairs(tmp_path, x, y, x_test, y_test, z):
    for name, A in ((x, X), (y, Y), (x_test, X_TEST), (y_test, Y_TEST), (z, Z)):
        save_npz(tmp_path / f"{name}.npz", A)
    check(read(tmp_path), Z=Z)
    check(read(tmp_path / f"{x}.npz"), with_test=False)
    check(read(tmp_path / f"{y}.npz"), with_test=False)


def test_npz_pairs_may_be_compressed_again(tmp_path):
    for name, A in (("X", X), ("Y", Y)):
        save_npz(tmp_path / f"{name}.npz", A, compressed=False)
        packed = PACK[".zst"]((tmp_path / f"{name}.npz").read_bytes())
        (tmp_path / f"{name}.npz").unlink()
        (tmp_path / f"{name}.npz.zst").write_bytes(packed)
    check(read(tmp_path), with_test=False)


def test_npz_of_another_form_and_type_is_made_canonical(tmp_path):
    rows, columns, values = [0, 0, 0, 1, 2, 2], [3, 0, 3, 1, 2, 1], [0.25, 1, 0.25, 2, -1, 0]
    A = csr_array((np.array(values), np.array(columns, np.int64), np.array([0, 3, 4, 6])), shape=(3, 4))
    save_npz(tmp_path / "X.npz", A)
    save_npz(tmp_path / "Y.npz", Y.astype(bool).tocsc())
    assert rows == sorted(rows)
    check(read(tmp_path), with_test=False)


def test_svmlight_counts_from_one_or_from_zero(tmp_path):
    train, test = "# made by hand\n0,2 1:1 4:0.5 # first\n1 2:2\n\n 3:-1\n", "2 1:1\n"
    check(read(put(tmp_path / "one", train__svm=train, test__svm=test)))
    train, test = "0,2 0:1 3:0.5\r\n1 1:2\r\n 2:-1\r\n", "2 0:1\n"
    check(read(put(tmp_path / "zero", train__txt=train, test__txt=test)))
    check(read(tmp_path / "zero" / "train.txt"), with_test=False)


def test_svmlight_widths_are_those_of_the_wider_part(tmp_path):
    data = read(put(tmp_path, train__txt="0 0:1\n", test__txt="4 6:1\n"))
    assert data.X.shape == (1, 7)
    assert data.Y.shape == (1, 5)
    assert data.test.X.shape == (1, 7)


def test_format_overrides_what_names_tell(tmp_path):
    put(tmp_path, train__txt="3\n1 0:1\n")
    assert read(tmp_path / "train.txt", format="svmlight").n_points == 2
    assert read(tmp_path, format="svmlight").n_points == 2
    with pytest.raises(DataError, match=r"header"):
        read(tmp_path)
    with pytest.raises(DataError, match=r"no dataset of format 'npz'"):
        read(tmp_path, format="npz")
    with pytest.raises(SettingsError, match=r"format 'spam' is unknown.*sparse.*CSV, TSV, .* are 'table'"):
        read(tmp_path, format="spam")


def test_unknown_folder_lists_what_was_looked_for(tmp_path):
    put(tmp_path, readme__md="x")
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    message = str(caught.value)
    for name in ("readme.md", "train.txt", "trn_X_Xf.txt", "X.trn.npz", "lbl.json", "train.csv", ".zst"):
        assert name in message


def test_vectoriser_is_fitted_on_documents_and_label_texts(tmp_path):
    put(
        tmp_path,
        trn__json='{"title": "red fox", "target_ind": [0]}\n',
        tst__json='{"title": "red sky", "target_ind": []}\n',
    )
    put(tmp_path, lbl__json='{"title": "sky"}\n')
    counts = Counts()
    data = read(tmp_path, vectorizer=counts)
    assert counts.seen == ["fox", "red", "sky"]
    assert data.vectorizer is data.test.vectorizer is counts
    assert_same(matrix([{0: 1, 1: 1}], 3), data.X)
    assert_same(matrix([{2: 1}], 3), data.Z)
    assert_same(matrix([{1: 1, 2: 1}], 3), data.test.X)
    (tmp_path / "trn.json").write_text('{"title": "sky sky unheard", "target_ind": [0]}\n')
    assert_same(matrix([{2: 2}], 3), read(tmp_path, vectorizer=counts).X)  # fitted already: used as it is
    assert read(tmp_path, vectorizer=None).X is None
    assert isinstance(read(tmp_path).vectorizer, TextVectorizer)
    with pytest.raises(SettingsError, match="vectorizer 'word2vec' is unknown"):
        read(tmp_path, vectorizer="word2vec")


@pytest.mark.parametrize(
    ("name", "points", "test_points", "features", "labels"),
    [("bibtex", 4880, 2515, 1836, 159), ("delicious", 12920, 3185, 500, 983)],
)
def test_real_sparse_data(shared_data, name, points, test_points, features, labels):
    data = read(shared_data(name))
    assert (data.n_points, data.test.n_points) == (points, test_points)
    assert (data.n_features, data.n_labels) == (features, labels)
    assert data.name == name


@pytest.mark.parametrize(
    ("name", "points", "test_points", "labels", "first"),
    [("debian-packages", 45611, 11025, 37907, "0ad: Real"), ("tate", 47056, 11735, 14658, "woman")],
)
def test_real_text_data(shared_data, name, points, test_points, labels, first):
    data = read(shared_data(name), vectorizer=None)
    assert (data.n_points, data.test.n_points, data.n_labels) == (points, test_points, labels)
    assert data.label_names[0].startswith(first)
    assert len(data.ids) == len(data.texts) == points
    assert np.diff(data.Y.indptr).min() >= 1
