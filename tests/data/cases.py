"""Small datasets for the tests of files, and what it means for two of them to be the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from longtail.data import Dataset

finite = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda v: v != 0)
words = st.text(st.characters(codec="utf-8"), max_size=12)
names = words.filter(bool)


def matrix(rows: list[dict[int, float]], width: int) -> csr_array:
    """Rows given as {column: value}."""
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    columns = [c for row in rows for c in sorted(row)]
    values = [row[c] for row in rows for c in sorted(row)]
    return csr_array((np.array(values, np.float32), np.array(columns, np.int32), indptr), shape=(len(rows), width))


@st.composite
def matrices(draw: Any, n: int, width: int, values: Any = finite) -> csr_array:
    row = st.dictionaries(st.integers(0, width - 1), values, max_size=6) if width else st.just({})
    return matrix(draw(st.lists(row, min_size=n, max_size=n)), width)


@st.composite
def datasets(draw: Any, *, graded: bool = False, text: bool = False) -> Dataset:
    """Datasets of all shapes: empty rows, extreme values, odd names, with and without each optional part."""
    d, n_labels = draw(st.integers(1, 9)), draw(st.integers(1, 7))
    relevance = finite.map(abs) if graded else st.just(1.0)
    label_ids = draw(st.lists(names, min_size=n_labels, max_size=n_labels)) if text or draw(st.booleans()) else None
    label_names = draw(st.none() | st.lists(names, min_size=n_labels, max_size=n_labels)) if label_ids else None
    label_texts = draw(st.none() | st.lists(words, min_size=n_labels, max_size=n_labels)) if label_names else None
    Z = draw(st.none() | matrices(n_labels, d)) if not text else None

    def part(test: Dataset | None) -> Dataset:
        n = draw(st.integers(1, 6))
        pair = st.tuples(st.integers(0, n - 1), st.integers(0, n_labels - 1))
        return Dataset(
            X=None if text else draw(matrices(n, d)),
            Y=draw(matrices(n, n_labels, relevance)),
            Z=Z,
            ids=draw(st.none() | st.lists(names, min_size=n, max_size=n)),
            texts=draw(
                st.lists(words, min_size=n, max_size=n) if text else st.none() | st.lists(words, min_size=n, max_size=n)
            ),
            label_ids=label_ids,
            label_names=label_names,
            label_texts=label_texts,
            ignore=draw(st.none() | st.lists(pair, max_size=4).map(lambda p: np.array(p, np.int32).reshape(-1, 2))),
            test=test,
            name="d",
        )

    return part(part(None) if draw(st.booleans()) else None)


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Equal to the last bit, structure and types included."""
    if isinstance(a, Dataset):
        assert isinstance(b, Dataset), where
        for field in dataclasses.fields(a):
            if field.name != "vectorizer":
                assert_same(getattr(a, field.name), getattr(b, field.name), f"{where}.{field.name}")
    elif isinstance(a, csr_array):
        assert isinstance(b, csr_array), where
        assert a.shape == b.shape, where
        assert a.dtype == b.dtype == np.float32, where
        assert b.indices.dtype == b.indptr.dtype == np.int32, where
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), where)
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b, where)
    else:
        assert a == b, where


def put(folder: Path, **files: str | bytes) -> Path:
    """Write files named like ``train__txt`` (two underscores for the dot) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


class Counts:
    """A stand-in for a vectoriser: one column a word, counted."""

    def fit_transform(self, texts: list[str], label_texts: list[str] | None = None) -> csr_array:
        self.seen = sorted({word for text in [*texts, *(label_texts or ())] for word in text.split()})
        self.n_features_ = len(self.seen)
        return self.transform(texts)

    def transform(self, texts: list[str]) -> csr_array:
        place = {word: i for i, word in enumerate(self.seen)}
        rows = [{place[w]: float(text.split().count(w)) for w in text.split() if w in place} for text in texts]
        return matrix(rows, len(self.seen))
