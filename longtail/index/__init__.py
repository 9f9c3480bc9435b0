"""Nearest-neighbour and inner-product search: exact, in partitions, or in a graph, behind one interface.

>>> import numpy as np
>>> from longtail.index import make_index
>>> index = make_index(np.eye(3), metric="cosine")
>>> ids, scores = index.search_one(np.array([1.0, 2.0, 0.0]), k=2)
>>> ids.tolist()
[1, 0]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.errors import ModelError, SettingsError
from longtail.index.base import Index
from longtail.index.exact import ExactIndex
from longtail.index.hnsw import HNSWIndex
from longtail.index.ivf import IVFIndex
from longtail.params import OneOf
from longtail.store.facts import Record, check_facts
from longtail.store.invariants import Rules

__all__ = ["ExactIndex", "HNSWIndex", "IVFIndex", "Index", "array_rules", "from_arrays", "make_index"]

_KINDS: dict[str, type[Index]] = {"exact": ExactIndex, "ivf": IVFIndex, "hnsw": HNSWIndex}
_EXACT_BELOW = 1 << 22  # numbers, 16 MB: an exact search of one query takes about a millisecond


def make_index(vectors: np.ndarray, metric: str = "ip", kind: str = "auto", **settings: Any) -> Index:
    """Build an index of vectors.

    Parameters
    ----------
    vectors : array, shape (n, d)
        Vectors of finite numbers. The id of a vector is its row number.
    metric : {"ip", "cosine"}
        Inner product or cosine. Higher scores are better.
    kind : {"auto", "exact", "ivf", "hnsw"}
        "exact" scores every vector, "ivf" searches the nearest partitions, "hnsw" a graph. "auto" is exact up to 4
        million numbers, such as 8,000 vectors of length 512, and partitioned beyond.
    **settings
        Settings of :class:`IVFIndex` or :class:`HNSWIndex`. With "auto" give those of :class:`IVFIndex`; an exact
        index ignores them.

    Returns
    -------
    Index
        With ``search(queries, k)``, ``search_one(query, k)``, ``add(vectors)`` and ``to_arrays()``.
    """
    if kind == "auto":
        kind = "exact" if np.size(vectors) <= _EXACT_BELOW else "ivf"
        if kind == "exact":
            settings = {}
    if kind not in _KINDS:
        raise SettingsError(f"kind={kind!r}: choose one of auto, {', '.join(_KINDS)}.")
    try:
        return _KINDS[kind](vectors, metric, **settings)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise SettingsError(f'an index of kind "{kind}" has no such setting: {", ".join(settings)}.') from error


def array_rules(meta: Any, n: str, width: str, *, graph: bool = False) -> Rules:
    """Declare the rules that the arrays of a stored index must meet, for `n` vectors of `width` numbers.

    A graph holds its vectors itself, so their shape is known only after it is restored. Set `graph` to allow graphs,
    and compare the shape then.
    """
    kinds = OneOf(*(kind for kind in _KINDS if graph or kind != "hnsw"))
    check_facts({"index": Record({"kind": kinds})}, {"index": meta}, "a stored index")
    return _KINDS[meta["kind"]].array_rules(meta, n, width)


def from_arrays(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Index:
    """Restore an index from what :meth:`Index.to_arrays` returned; arrays may be memory-mapped.

    Kernels use the arrays as addresses. First check arrays of unknown origin against :func:`array_rules` with
    :func:`longtail.store.invariants.check_arrays`, as every model does when it is loaded.
    """
    try:
        return _KINDS[meta["kind"]]._restored(meta, arrays)
    except (KeyError, TypeError) as error:
        raise ModelError(f"a stored index lacks {error} or has it wrong. Train or copy the model again.") from error
