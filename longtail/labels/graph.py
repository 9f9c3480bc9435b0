"""The label graph of DXML (Zhang et al., 2018, §3.2): which labels lie near each other.

Two labels have an edge if a point ever carried both, weighted by how many points did or not at all; a known hierarchy,
or any list of edges, may stand in for it. A graph is a symmetric CSR (L, L) without a diagonal; a label without edges
has an empty row.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from longtail.errors import DataError


def cooccurrence_graph(Y: csr_array, weighted: bool = True) -> csr_array:
    """Labels that occur together.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of points, ones.
    weighted : bool
        Weight an edge by the number of points that carry both labels; otherwise every edge weighs 1, as in the paper.

    Returns
    -------
    csr_array, (L, L)
        Symmetric, float32, indices ascending, no diagonal. Without a single edge if no point has two labels.
    """
    return _without_loops(csr_array(Y.T @ Y), weighted)


def pairs_at_most(Y: csr_array) -> int:
    """Entries that the co-occurrence graph of Y can have at most, without making it."""
    counts = np.diff(Y.indptr).astype(np.float64)
    return int(min(float(counts @ counts), float(Y.shape[1]) ** 2))


def edge_graph(edges: Any, n_labels: int, *, names: Sequence[str] | None = None, weighted: bool = True) -> csr_array:
    """A graph from a hierarchy or any other list of edges.

    Parameters
    ----------
    edges : path or sequence of (label, label) or (label, label, weight)
        Parent and child, or any two neighbours; directions do not matter and repeated edges add up. A path names a
        file with one edge a line, separated by tabs or commas or, where there are none, by blanks.
    n_labels : int
        L. Labels are numbers from 0, or names if `names` are given.
    names : list of str, optional
        Names of the labels in their order.
    weighted : bool
        Keep the weights; otherwise every edge weighs 1.

    Returns
    -------
    csr_array, (L, L)
        As from :func:`cooccurrence_graph`.
    """
    path: Path | None = None
    if isinstance(edges, str | os.PathLike):
        path = Path(edges)
        edges = _lines(path)
    place = None if names is None else {name: at for at, name in enumerate(names)}
    left, right, weights = [], [], []
    for row, edge in enumerate(edges):
        where: dict[str, Any] = {"row": row} if path is None else {"path": path, "line": row + 1}
        if len(edge) == 0:  # an empty line
            continue
        if isinstance(edge, str) or len(edge) not in (2, 3):
            raise DataError(f"{edge!r} is no edge", **where, remedy="Give two labels and, if wanted, a weight")
        left.append(_label(edge[0], n_labels, place, where))
        right.append(_label(edge[1], n_labels, place, where))
        weights.append(_weight(edge[2], where) if len(edge) == 3 else 1.0)
    if not left:
        raise DataError("the hierarchy has no edges", path=path, remedy="Give some, or leave the hierarchy out")
    half = coo_array((np.array(weights, np.float32), (left, right)), shape=(n_labels, n_labels))
    return _without_loops(csr_array(half + half.T), weighted)


def strongest(graph: csr_array, k: int) -> csr_array:
    """The k heaviest edges of each label, heaviest first."""
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    order = np.lexsort((graph.indices, -graph.data, rows))
    rank = np.arange(len(order)) - np.repeat(graph.indptr[:-1], np.diff(graph.indptr))
    order = order[rank < k]
    counts = np.minimum(np.diff(graph.indptr), k)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(graph.indptr.dtype)
    return csr_array((graph.data[order], graph.indices[order], indptr), shape=graph.shape)


def widened(graph: csr_array, n_labels: int) -> csr_array:
    """The same graph with room for more labels, which have no edges."""
    more = np.full(n_labels - graph.shape[0], graph.indptr[-1], graph.indptr.dtype)
    return csr_array((graph.data, graph.indices, np.concatenate([graph.indptr, more])), shape=(n_labels, n_labels))


def _without_loops(graph: csr_array, weighted: bool) -> csr_array:
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    keep = (rows != graph.indices) & (graph.data > 0)
    indptr = np.concatenate([[0], np.cumsum(keep)])[graph.indptr].astype(graph.indptr.dtype)
    data = graph.data[keep].astype(np.float32)
    if not weighted:
        data[:] = 1
    found = csr_array((data, graph.indices[keep], indptr), shape=graph.shape)
    found.sort_indices()
    return found


def _lines(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text ({error.reason})", path=path, remedy="Save it as UTF-8") from error
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror})", path=path, remedy="Give the path of an edge list"
        ) from error
    found = []
    for line in lines:
        separator = next((mark for mark in "\t," if mark in line), None)
        found.append([part.strip() for part in line.split(separator)] if line.strip() else [])
    return found


def _label(label: Any, n_labels: int, place: Mapping[str, int] | None, where: dict[str, Any]) -> int:
    if place is not None:
        if str(label) not in place:
            raise DataError(f"there is no label {label!r}", **where, remedy="Use the names of the training labels")
        return place[str(label)]
    try:
        number = int(label)
    except (TypeError, ValueError):
        raise DataError(f"{label!r} is no number of a label", **where, remedy="Number labels from 0") from None
    if not 0 <= number < n_labels:
        raise DataError(f"there is no label {number}", **where, remedy=f"Labels are numbered from 0 to {n_labels - 1}")
    return number


def _weight(weight: Any, where: dict[str, Any]) -> float:
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 < number < float("inf"):
        raise DataError(f"{weight!r} is no weight of an edge", **where, remedy="Give a number above 0")
    return number
