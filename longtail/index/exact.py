"""Exact search: score every vector.

For one query, a kernel passes over all vectors. For a batch, blocks of queries are multiplied with blocks of vectors as
matrices. Entries that may be among the best are scored again, so that a batch gives the same scores as single queries
(see :mod:`longtail.kernels.search`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.index.base import IdsAndScores, Index, Vectors
from longtail.kernels import pool
from longtail.kernels import search as kernels
from longtail.kernels.blas import product, single_threaded

_QUERIES_AT_ONCE, _VECTORS_AT_ONCE = 512, 4096  # 8 MB of inner products


class ExactIndex(Index):
    """Exact search of all vectors; see :class:`longtail.index.base.Index`."""

    kind = "exact"

    def _search(self, queries: Vectors, k: int, n_jobs: int | None) -> IdsAndScores:
        return exact_search(self._stored, queries, k, n_jobs)

    def _search_one(self, query: np.ndarray, k: int) -> IdsAndScores:
        ids, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        kernels.scan(query, self._stored.rows, k, ids, scores)
        return ids, scores

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {}, {"vectors": self._stored.rows, "squares": self._stored.squares}

    @classmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> ExactIndex:
        return cls._from_stored(meta, Vectors(arrays["vectors"], arrays["squares"]))


def exact_search(vectors: Vectors, queries: Vectors, k: int, n_jobs: int | None) -> IdsAndScores:
    """Find the k best vectors of each query, block by block."""
    n = len(queries.rows)
    heaps = kernels.Heaps(np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32), np.zeros(n, np.int64))
    slack = np.empty(n, np.float32)
    kernels.rounding_slack(queries.squares, vectors.squares.max(initial=0.0), vectors.rows.shape[1], slack)
    with single_threaded():
        for start in range(0, n, _QUERIES_AT_ONCE):
            part = slice(start, start + _QUERIES_AT_ONCE)
            block = kernels.Heaps(*(array[part] for array in heaps))
            _search_block(vectors.rows, queries.rows[part], slack[part], block, 1 if n < 16 else n_jobs)
    return heaps.ids, heaps.scores


def _search_block(
    vectors: np.ndarray, queries: np.ndarray, slack: np.ndarray, heaps: kernels.Heaps, n_jobs: int | None
) -> None:
    """Fill the heaps with the best vectors of a block of queries."""
    rows = pool.blocks(len(queries), n_jobs)
    for start in range(0, len(vectors), _VECTORS_AT_ONCE):
        products = product(queries, vectors[start : start + _VECTORS_AT_ONCE].T, n_jobs)  # (queries, vectors)

        def add(block: tuple[int, int], products: np.ndarray = products, start: int = start) -> None:
            kernels.add_products(products, queries, vectors, start, slack, *block, heaps)

        pool.run(add, rows, n_jobs)
    kernels.sort_rows(heaps.ids, heaps.scores, heaps.sizes, 0, len(queries))
