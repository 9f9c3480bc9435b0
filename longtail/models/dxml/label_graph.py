"""The label graph of DXML (§3.2), whose edges join related labels.

Two labels have an edge if a point has both. Its weight is the number of such points, or 1. A known hierarchy or any
other list of edges may be used instead. A graph is a symmetric CSR matrix (L, L) without diagonal; a label without
edges has an empty row.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from longtail.errors import DataError
from longtail.sparse import entry_rows, select_entries


def cooccurrence_graph(Y: csr_array, weighted: bool = True) -> csr_array:
    """Build the graph whose edges join labels that occur together.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of points, all values 1.
    weighted : bool
        Weight an edge by the number of points that have both labels. Otherwise every edge has the weight 1, as in the
        paper.

    Returns
    -------
    csr_array, (L, L)
        Symmetric, float32, with ascending indices and without diagonal. It has no edge if no point has two labels.
    """
    return _without_loops(csr_array(Y.T @ Y), weighted)


def pairs_at_most(Y: csr_array) -> int:
    """Return an upper bound of the entries of the co-occurrence graph of Y, without building the graph."""
    counts = np.diff(Y.indptr).astype(np.float64)
    return int(min(float(counts @ counts), float(Y.shape[1]) ** 2))


def edge_graph(edges: Any, n_labels: int, *, weighted: bool = True) -> csr_array:
    """Build a graph from a hierarchy or any other list of edges.

    Parameters
    ----------
    edges : path or sequence of (label, label) or (label, label, weight)
        Parent and child, or any two related labels, as numbers from 0. The direction does not matter, and the weights
        of repeated edges are added. A path names a file with one edge per line, whose values are separated by tabs,
        commas or blanks.
    n_labels : int
        L, the number of labels.
    weighted : bool
        Keep the weights. Otherwise every edge has the weight 1.

    Returns
    -------
    csr_array, (L, L)
        As from :func:`cooccurrence_graph`.
    """
    path: Path | None = None
    if isinstance(edges, str | os.PathLike):
        path = Path(edges)
        edges = _read_edges(path)
    left, right, weights = [], [], []
    for row, edge in enumerate(edges):
        where: dict[str, Any] = {"row": row} if path is None else {"path": path, "line": row + 1}
        if len(edge) == 0:  # an empty line
            continue
        if isinstance(edge, str) or len(edge) not in (2, 3):
            raise DataError(f"{edge!r} is not an edge", **where, remedy="Give two labels and, if wanted, a weight")
        left.append(_label_number(edge[0], n_labels, where))
        right.append(_label_number(edge[1], n_labels, where))
        weights.append(_edge_weight(edge[2], where) if len(edge) == 3 else 1.0)
    if not left:
        raise DataError("the hierarchy has no edges", path=path, remedy="Give some, or leave the hierarchy out")
    half = coo_array((np.array(weights, np.float32), (left, right)), shape=(n_labels, n_labels))
    return _without_loops(csr_array(half + half.T), weighted)


def strongest(graph: csr_array, k: int) -> csr_array:
    """Return the graph with only the k heaviest edges of each label, heaviest first."""
    order = np.lexsort((graph.indices, -graph.data, entry_rows(graph)))
    rank = np.arange(len(order)) - np.repeat(graph.indptr[:-1], np.diff(graph.indptr))
    sorted_graph = csr_array((graph.data[order], graph.indices[order], graph.indptr), shape=graph.shape)
    return select_entries(sorted_graph, rank < k)


def _without_loops(graph: csr_array, weighted: bool) -> csr_array:
    """Remove edges of a label with itself and edges without weight."""
    kept = select_entries(graph, (entry_rows(graph) != graph.indices) & (graph.data > 0)).astype(np.float32)
    if not weighted:
        kept.data[:] = 1
    kept.sort_indices()
    return kept


def _read_edges(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text ({error.reason})", path=path, remedy="Save it as UTF-8") from error
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror})", path=path, remedy="Give the path of an edge list"
        ) from error
    edges = []
    for line in lines:
        separator = next((mark for mark in "\t," if mark in line), None)
        edges.append([part.strip() for part in line.split(separator)] if line.strip() else [])
    return edges


def _label_number(label: Any, n_labels: int, where: dict[str, Any]) -> int:
    try:
        number = int(label)
    except (TypeError, ValueError):
        raise DataError(f"{label!r} is not the number of a label", **where, remedy="Number labels from 0") from None
    if not 0 <= number < n_labels:
        raise DataError(f"there is no label {number}", **where, remedy=f"Labels are numbered from 0 to {n_labels - 1}")
    return number


def _edge_weight(weight: Any, where: dict[str, Any]) -> float:
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 < number < float("inf"):
        raise DataError(f"{weight!r} is not an edge weight", **where, remedy="Give a number above 0")
    return number
