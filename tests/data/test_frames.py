"""DataFrames of pandas and polars, and of anything with the same few methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars
import pytest

from longtail.data import read
from longtail.errors import DataError, SettingsError
from tests.data.cases import assert_same, matrix


class Column(list[Any]):
    """A column as pandas has it: missing values are NaN."""

    def to_list(self) -> list[Any]:
        return list(self)


class Frame:
    """A stand-in for a pandas DataFrame, which need not be installed."""

    def __init__(self, **columns: list[Any]) -> None:
        self._columns = {name: Column(values) for name, values in columns.items()}
        self.columns = np.array(list(columns), object)

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]


def frames(**columns: list[Any]) -> list[Any]:
    """The same table in every library that is installed."""
    made = [Frame(**columns), polars.DataFrame(columns, strict=False)]
    try:
        import pandas
    except ImportError:
        return made
    return [*made, pandas.DataFrame(columns)]


def test_columns_of_lists():
    for frame in frames(title=["one", "two", "three"], tags=[["b", "a"], [], ["a"]], id=[7, 8, 9]):
        data = read(frame, text="title", labels="tags", vectorizer=None)
        assert data.texts == ["one", "two", "three"]
        assert data.ids == ["7", "8", "9"]
        assert data.label_ids == data.label_names == ["b", "a"]
        assert data.labels_separator is None
        assert_same(matrix([{0: 1, 1: 1}, {}, {1: 1}], 2), data.Y)


def test_columns_of_separated_strings():
    for frame in frames(title=["one", "two", "three"], tags=["b, a", None, "a"]):
        data = read(frame, text="title", labels="tags", vectorizer=None)
        assert data.labels_separator == ","
        assert_same(matrix([{0: 1, 1: 1}, {}, {1: 1}], 2), data.Y)
    (frame, *_) = frames(title=["one", "two"], tags=["b c", "c"])
    assert read(frame, text="title", labels="tags", labels_separator=" ", vectorizer=None).label_names == ["b", "c"]


def test_missing_values_mean_none():
    frame = Frame(text=["a", math.nan, None], labels=[math.nan, "x", None])
    data = read(frame, vectorizer=None)
    assert data.texts == ["a", "", ""]
    assert_same(matrix([{}, {0: 1}, {}], 1), data.Y)
    numbers = Frame(text=["a", "b"], labels=[7.0, math.nan])  # what pandas makes of [7, None]
    assert read(numbers, vectorizer=None).label_names == ["7"]


def test_arrays_tuples_and_sets_are_lists():
    cells = [np.array(["b", "a"], object), ("a",), {"c", "a"}, np.array([3])]
    data = read(Frame(text=list("wxyz"), labels=cells), vectorizer=None)
    assert data.label_names == ["b", "a", "c", "3"]


def test_features_and_several_text_columns():
    for frame in frames(title=["red fox", "grey dog"], content=["one", "two"], labels=["a|b", "b"]):
        data = read(frame, name="animals")
        assert data.texts == ["red fox\none", "grey dog\ntwo"]
        assert data.X is not None
        assert data.X.shape == (2, 6)
        assert data.name == "animals"


def test_lazy_frames_of_polars():
    frame = polars.DataFrame({"text": ["a"], "labels": ["b"]}).lazy()
    assert read(frame, vectorizer=None).label_names == ["b"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"text": ["a"]}, {}, "no column has a usual name of the labels column.*labels=.*'text'"),
        ({"words": ["a"], "more": ["a"], "labels": ["b"]}, {}, "no column has a usual name of the text column.*text="),
        ({"text": ["a"], "labels": ["b"]}, {"text": "body"}, "there is no column 'body'.*'text', 'labels'"),
        ({"text": ["a", 5], "labels": ["b", "c"]}, {}, "row 1: column 'text' does not hold text, but int"),
        ({"text": ["a"], "labels": [{"b": 1}]}, {}, "row 0: the labels are not a list of names"),
        ({"text": ["a"], "labels": [0.5]}, {}, "row 0: the labels are not a list of names"),
        ({"text": [], "labels": []}, {}, "the table has no rows"),
        ({"text": ["a"], "labels": [None]}, {}, "no point has a label"),
    ],
)
def test_errors_name_the_row(columns, options, message):
    with pytest.raises(DataError, match=message):
        read(Frame(**columns), vectorizer=None, **options)


def test_columns_named_twice():
    frame = Frame(text=["a"], labels=["b"])
    frame.columns = np.array(["text", "labels", "text"], object)
    with pytest.raises(DataError, match="columns named twice: text"):
        read(frame)


def test_refuses_what_is_neither_path_nor_frame():
    with pytest.raises(DataError, match=r"cannot read a dataset from int\. Give a path or a DataFrame"):
        read(3)
    with pytest.raises(SettingsError, match="format 'npz' is for files"):
        read(Frame(text=["a"], labels=["b"]), format="npz")
