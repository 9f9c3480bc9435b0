"""Datasets: shapes, subsets, labels put in another order, and the checks."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

import longtail.data
from longtail.data import Dataset
from longtail.errors import DataError
from tests.data.cases import assert_same, datasets, matrix


def example(**changes) -> Dataset:
    data = Dataset(
        X=matrix([{0: 1}, {}, {1: 2}], 2),
        Y=matrix([{0: 1, 2: 1}, {}, {1: 1}], 3),
        Z=matrix([{0: 1}, {1: 1}, {}], 2),
        ids=["p", "q", "r"],
        texts=["a", "b", "c"],
        label_ids=["x", "y", "z"],
        label_names=["X", "Y", "Z"],
        label_texts=["ex", "why", "zed"],
        ignore=np.array([[0, 2], [2, 1], [0, 0]], np.int32),
        test=Dataset(X=matrix([{0: 1}], 2), Y=matrix([{2: 1}], 3), label_ids=["x", "y", "z"]),
    )
    return dataclasses.replace(data, **changes)


def test_shape_and_repr():
    data = example().validate()
    assert (data.n_points, data.n_features, data.n_labels) == (3, 2, 3)
    assert dataclasses.replace(data, X=None, Z=None).n_features == 0
    assert repr(data).startswith("Dataset('data', n_points=3, n_features=2, n_labels=3, test=1 point, Z, ids")


def test_subset():
    part = example().subset([2, 0, 2])
    assert_same(matrix([{1: 2}, {0: 1}, {1: 2}], 2), part.X)
    assert_same(matrix([{1: 1}, {0: 1, 2: 1}, {1: 1}], 3), part.Y)
    assert part.ids == ["r", "p", "r"]
    assert part.texts == ["c", "a", "c"]
    assert sorted(map(tuple, part.ignore.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert part.ignore.dtype == np.int32
    assert part.test is None
    assert part.label_names == ["X", "Y", "Z"]
    assert example().subset(np.array([True, False, True])).ids == ["p", "r"]
    assert example().subset(slice(1)).ids == ["p"]
    assert example().subset([]).n_points == 0


@settings(deadline=None, max_examples=50)
@given(datasets(), st.data())
def test_subset_of_everything_is_the_same(data, draw):
    whole = data.subset(slice(None)).validate(require_labels=False)
    pairs = None if data.ignore is None else np.unique(data.ignore, axis=0)
    assert_same(dataclasses.replace(data, test=None, ignore=pairs), whole)


def test_with_labels_follows_the_given_order_and_keeps_strangers_last():
    data = example().with_labels(["z", "new", "x"]).validate()
    assert data.label_ids == ["z", "new", "x", "y"]
    assert data.label_names == ["Z", "new", "X", "Y"]
    assert data.label_texts == ["zed", "new", "ex", "why"]
    assert_same(matrix([{0: 1, 2: 1}, {}, {3: 1}], 4), data.Y)
    assert_same(matrix([{0: 1}], 4), data.test.Y)
    assert_same(matrix([{}, {}, {0: 1}, {1: 1}], 2), data.Z)
    np.testing.assert_array_equal(data.ignore, [[0, 0], [2, 3], [0, 2]])
    assert_same(example().Y, example().with_labels(["x", "y", "z"]).Y)
    with pytest.raises(DataError, match="no identifiers"):
        example(label_ids=None).with_labels(["x"])
    for data, ids in ((example(), ["x", "x"]), (example(label_ids=["x", "x", "y"]), ["x"])):
        with pytest.raises(DataError, match="same identifier"):
            data.with_labels(ids)


NAN = csr_array((np.array([np.nan], np.float32), [0], [0, 0, 1, 1]), shape=(3, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": matrix([{}], 2)}, r"X has shape \(1, 2\), expected \(3, 2\)"),
        ({"X": csr_matrix(np.eye(3, 2))}, "X is a csr_matrix, expected a csr_array.*Pass"),
        ({"X": NAN}, "row 1: X holds a NaN"),
        ({"X": csr_array(np.full((3, 2), np.inf, np.float32))}, "row 0: X holds a NaN or an infinite"),
        ({"Z": matrix([{}, {}], 2)}, r"Z has shape"),
        ({"Y": matrix([{}, {}, {}], 3)}, "no point has a label.*Training needs labels"),
        ({"Y": matrix([{}, {1: -1}, {0: 1}], 3)}, "row 1: a label's relevance is not positive"),
        ({"ids": ["p"]}, "ids has 1 entries, expected 3"),
        ({"label_names": ["p"]}, "label_names has 1 entries, expected 3"),
        ({"ignore": np.zeros(3, np.int32)}, r"expected \(P, 2\)"),
        ({"ignore": np.array([[3, 0]], np.int32)}, "outside 3 points × 3 labels"),
        ({"test": Dataset(X=None, Y=matrix([{}], 9))}, "the test part has 9 labels, the training part 3"),
        ({"test": Dataset(X=matrix([{}], 9), Y=matrix([{}], 3))}, "the test part has 9 features"),
    ],
)
def test_validate_names_what_does_not_fit(changes, message):
    with pytest.raises(DataError, match=message):
        example(**changes).validate()


def test_validate_refuses_columns_out_of_range():
    data = example()
    data.X.indices[0] = 5
    with pytest.raises(DataError, match="X holds a column outside 0 … 1"):
        data.validate()


def test_package_imports_lightly_and_lists_its_names():
    assert {"Dataset", "read", "write", "TextVectorizer"} <= set(dir(longtail.data))
    with pytest.raises(AttributeError, match="no attribute 'spam'"):
        _ = longtail.data.spam
    code = (
        "import sys, longtail.data\n"
        "assert not {'numpy', 'scipy', 'polars', 'numba'} & set(sys.modules)\n"
        "longtail.data.read; longtail.data.Dataset\n"
        "assert not {'polars', 'zstandard', 'sklearn', 'numba', 'torch'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
