"""The label graph: from labels of points, from a hierarchy, and what it must refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.errors import DataError
from longtail.models.dxml.label_graph import cooccurrence_graph, edge_graph, pairs_at_most, strongest

Y = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 1, 1, 0]], np.float32)


def test_labels_of_one_point_are_joined() -> None:
    expected = Y.T @ Y
    np.fill_diagonal(expected, 0)
    graph = cooccurrence_graph(csr_array(Y))
    np.testing.assert_array_equal(graph.toarray(), expected)
    np.testing.assert_array_equal(cooccurrence_graph(csr_array(Y), weighted=False).toarray(), expected > 0)
    assert graph.dtype == np.float32
    assert graph.nnz <= pairs_at_most(csr_array(Y))
    assert np.diff(graph.indptr)[3] == 0  # never with another


def test_points_with_one_label_each_give_no_edge() -> None:
    assert cooccurrence_graph(csr_array(np.eye(3, dtype=np.float32))).nnz == 0


def test_a_hierarchy_replaces_it() -> None:
    graph = edge_graph([(0, 1), (0, 2, 2.5), (1, 0), (3, 3)], 5).toarray()
    expected = np.zeros((5, 5))
    expected[0, 1] = expected[1, 0] = 2
    expected[0, 2] = expected[2, 0] = 2.5
    np.testing.assert_array_equal(graph, expected)
    np.testing.assert_array_equal(edge_graph([(0, 1), (1, 0)], 2, weighted=False).toarray(), [[0, 1], [1, 0]])


@pytest.mark.parametrize("text", ["0\t1\n\n1\t2\n", "0,1,1\n1, 2\n", "0 1\n1 2"])
def test_edges_from_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "edges.tsv"
    path.write_text(text)
    np.testing.assert_array_equal(edge_graph(path, 3).toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1), (0, 7)], r"row 1: there is no label 7\. Labels are numbered from 0 to 2"),
        ([(0, -1)], "there is no label -1"),
        ([("a", "b")], "'a' is not the number of a label"),
        ([(0,)], "is not an edge"),
        (["ab"], "'ab' is not an edge"),
        ([(0, 1, 0)], "0 is not an edge weight"),
        ([(0, 1, "much")], "'much' is not an edge weight"),
        ([(0, 1, float("nan"))], "nan is not an edge weight"),
        ([], "has no edges"),
    ],
)
def test_edges_that_cannot_be_are_refused(edges: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        edge_graph(edges, 3)


def test_a_file_that_cannot_be_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n0 9\n")
    with pytest.raises(DataError, match=r"edges.txt:2: there is no label 9"):
        edge_graph(path, 3)
    with pytest.raises(DataError, match="cannot be read"):
        edge_graph(tmp_path / "none", 3)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        edge_graph(str(path), 3)


def test_the_heaviest_edges() -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 5, (30, 30)).astype(np.float32)
    found = strongest(csr_array(dense), 4)
    for row in range(30):
        order = sorted(np.flatnonzero(dense[row]), key=lambda j: (-dense[row, j], j))[:4]
        part = slice(found.indptr[row], found.indptr[row + 1])
        assert found.indices[part].tolist() == order
        np.testing.assert_array_equal(found.data[part], dense[row, order])
