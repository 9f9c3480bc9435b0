"""Sparse text: odd but lawful rows, blocks and threads, and how much memory reading takes."""

from __future__ import annotations

import gzip
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.data import Dataset, read, sparse_text, write
from tests.data.cases import assert_same, matrix


@pytest.fixture
def load(tmp_path):
    def load(text: str | bytes):
        (tmp_path / "train.txt").write_bytes(text.encode() if isinstance(text, str) else text)
        return read(tmp_path / "train.txt", require_labels=False)

    return load


def test_points_without_labels_or_features_are_kept(load):
    data = load("5 2 2\n1 0:1\n 1:2\n0,1\n\n1:3\n")
    assert_same(matrix([{0: 1}, {1: 2}, {}, {}, {1: 3}], 2), data.X)
    assert_same(matrix([{1: 1}, {}, {0: 1, 1: 1}, {}, {}], 2), data.Y)


def test_duplicates_are_summed_or_merged_and_zeros_dropped(load):
    data = load("2 4 3\n2,0,2 3:1 0:0.5 3:0.25 1:0\n1 2:1 2:-1\n")
    assert_same(matrix([{0: 0.5, 3: 1.25}, {}], 4), data.X)
    assert_same(matrix([{0: 1, 2: 1}, {1: 1}], 3), data.Y)


@pytest.mark.parametrize(
    "text",
    [
        "1 2 2\n0,1 0:1 1:2",  # no newline at the end
        "1 2 2\r\n0,1 0:1 1:2\r\n",
        "\ufeff1 2 2\n0,1 0:1 1:2\n",
        " 1  2\t2 \n0,1\t0:1  1:2   \n",
        "1 2 2\n0, 1 0:1 1:2\n",
        "1 2 2\n0,1 0:1. 1:+2e0\n",
        "1 2 2\n0,1 0:1 1:2\n\n\n \n",  # blank lines after the last row
    ],
)
def test_odd_but_lawful(load, text):
    data = load(text)
    assert_same(matrix([{0: 1, 1: 2}], 2), data.X)
    assert_same(matrix([{0: 1, 1: 1}], 2), data.Y)


def test_no_points_at_all(load):
    data = load("0 5 3\n")
    assert data.X.shape == (0, 5)
    assert data.Y.shape == (0, 3)


def many_rows(n: int, d: int = 5000, n_labels: int = 300, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)

    def rows(mean: int, width: int) -> csr_array:
        sizes = rng.poisson(mean, n)
        A = csr_array(
            (rng.normal(size=sizes.sum()), rng.integers(0, width, sizes.sum()), np.r_[0, sizes.cumsum()]), (n, width)
        )
        A.sum_duplicates()
        return A.astype(np.float32)

    X, Y = rows(60, d), rows(3, n_labels)
    Y.data[:] = 1
    return Dataset(X=X, Y=Y)


@pytest.mark.parametrize("block", [1, 50, 1000, 1 << 20])
def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch, block):
    data = many_rows(200)
    write(data, tmp_path / "d.txt")
    cut = sparse_text.line_blocks
    monkeypatch.setattr(sparse_text, "line_blocks", lambda stream, size: cut(stream, block))
    held = read(tmp_path / "d.txt")
    assert_same(data.X, held.X)
    assert_same(data.Y, held.Y)


def test_rows_longer_than_a_block(tmp_path):
    X = csr_array(np.random.default_rng(0).random((2, 40_000)).astype(np.float32))
    data = Dataset(X=X, Y=matrix([{0: 1}, {}], 1))
    write(data, tmp_path / "d.txt")
    assert (tmp_path / "d.txt").stat().st_size > 4 * 2**17
    assert_same(X, read(tmp_path / "d.txt").X)


@pytest.mark.parametrize("packed", [False, True])
def test_reading_holds_less_than_twice_the_result(tmp_path, packed):
    data = many_rows(25_000)
    path = tmp_path / "d.txt"
    write(data, path)
    if packed:
        path = tmp_path / "d.txt.gz"
        path.write_bytes(gzip.compress((tmp_path / "d.txt").read_bytes(), 1))
    read(path)  # whatever is loaded once
    tracemalloc.start()
    try:
        held = read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    result = sum(a.nbytes for A in (held.X, held.Y) for a in (A.data, A.indices, A.indptr))
    assert peak < 2 * result
