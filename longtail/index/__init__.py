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

__all__ = ["ExactIndex", "HNSWIndex", "IVFIndex", "Index", "from_arrays", "make_index"]

_KINDS: dict[str, type[Index]] = {"exact": ExactIndex, "ivf": IVFIndex, "hnsw": HNSWIndex}
_EXACT_BELOW = 1 << 22  # numbers, 16 MB: an exact search of one query takes about a millisecond


def make_index(vectors: np.ndarray, metric: str = "ip", kind: str = "auto", **settings: Any) -> Index:
    """Make vectors searchable.

    Parameters
    ----------
    vectors : array, shape (n, d)
        Finite numbers; ids are row numbers.
    metric : {"ip", "cosine", "l2"}
        Inner product, cosine, or distance. Higher scores are better: for "l2" they are minus the squared distance.
    kind : {"auto", "exact", "ivf", "hnsw"}
        "auto" is exact up to some 8,000 vectors of length 512 (as many numbers, if shorter), partitions beyond.
    **settings
        Of :class:`IVFIndex` or :class:`HNSWIndex`. With "auto", those of :class:`IVFIndex`, unused where all are looked
        at.

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


def from_arrays(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Index:
    """The index that :meth:`Index.to_arrays` took apart; arrays may be memory-mapped."""
    try:
        return _KINDS[meta["kind"]]._restored(meta, arrays)
    except (KeyError, TypeError) as error:
        raise ModelError(f"a stored index lacks {error} or has it wrong. Train or copy the model again.") from error
