"""Exact search: every vector is looked at.

One query is one pass over the vectors. A batch is a matrix product, a block of queries by a block of vectors at a time,
whose best entries are then scored exactly (see :mod:`longtail.kernels.search`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.index.base import Found, Index, limit_blas
from longtail.kernels import pool
from longtail.kernels import search as kernels

_QUERIES, _VECTORS = 512, 4096  # of one block: 8 MB of inner products


class ExactIndex(Index):
    """All vectors, searched exactly; see :class:`longtail.index.base.Index`."""

    kind = "exact"

    def _search(self, queries: np.ndarray, squares: np.ndarray, k: int, n_jobs: int | None) -> Found:
        return exact_search(self, queries, squares, k, n_jobs)

    def _search_one(self, query: np.ndarray, k: int) -> Found:
        ids, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        kernels.scan(query, self._rows, self._l2, k, ids, scores)
        return ids, scores

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {}, {"vectors": self._rows, "squares": self._squares}

    @classmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> ExactIndex:
        index = cls.__new__(cls)
        index._set_metric(meta["metric"])
        index._hold_stored(arrays)
        return index


def exact_search(index: Index, queries: np.ndarray, squares: np.ndarray, k: int, n_jobs: int | None) -> Found:
    """The k best vectors of each query of any index, in blocks; queries as the index has prepared them."""
    n = len(queries)
    ids = np.full((n, k), -1, np.int32)
    scores = np.full((n, k), -np.inf, np.float32)
    with limit_blas(n_jobs):
        for low in range(0, n, _QUERIES):
            part = slice(low, low + _QUERIES)
            _search_part(index, queries[part], squares[part], ids[part], scores[part], 1 if n < 16 else n_jobs)
    return ids, scores


def _search_part(
    index: Index, queries: np.ndarray, squares: np.ndarray, ids: np.ndarray, scores: np.ndarray, n_jobs: int | None
) -> None:
    sizes = np.zeros(len(queries), np.int64)
    rows = pool.blocks(len(queries), n_jobs)
    for start in range(0, len(index), _VECTORS):
        products = queries @ index.vectors[start : start + _VECTORS].T  # (queries, vectors) of this block

        def take_in(block: tuple[int, int], products: np.ndarray = products, start: int = start) -> None:
            kernels.keep_best(
                products, queries, index.vectors, squares, index._squares, index._largest, index._l2, start, *block,
                ids.shape[1], ids, scores, sizes,
            )  # fmt: skip

        pool.run(take_in, rows, n_jobs)
    kernels.sort_rows(ids, scores, sizes, 0, len(queries))
