"""Exact search: every vector is scored.

One query is one pass over the vectors. A batch is a matrix product of a block of queries and a block of vectors; its
best entries are then scored exactly (see :mod:`longtail.kernels.search`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.index.base import IdsAndScores, Index, Vectors
from longtail.kernels import pool
from longtail.kernels import search as kernels
from longtail.kernels.blas import product, single_threaded

_QUERIES, _VECTORS = 512, 4096  # per block: 8 MB of inner products


class ExactIndex(Index):
    """All vectors, searched exactly; see :class:`longtail.index.base.Index`."""

    kind = "exact"

    def _search(self, queries: Vectors, k: int, n_jobs: int | None) -> IdsAndScores:
        return exact_search(self._held, queries, k, n_jobs)

    def _search_one(self, query: np.ndarray, k: int) -> IdsAndScores:
        ids, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        kernels.scan(query, self._held.rows, k, ids, scores)
        return ids, scores

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {}, {"vectors": self._held.rows, "squares": self._held.squares}

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
        for low in range(0, n, _QUERIES):
            part = slice(low, low + _QUERIES)
            block = kernels.Heaps(*(array[part] for array in heaps))
            _search_block(vectors.rows, queries.rows[part], slack[part], block, 1 if n < 16 else n_jobs)
    return heaps.ids, heaps.scores


def _search_block(
    vectors: np.ndarray, queries: np.ndarray, slack: np.ndarray, heaps: kernels.Heaps, n_jobs: int | None
) -> None:
    rows = pool.blocks(len(queries), n_jobs)
    for start in range(0, len(vectors), _VECTORS):
        products = product(queries, vectors[start : start + _VECTORS].T, n_jobs)  # (queries, vectors) of this block

        def add(block: tuple[int, int], products: np.ndarray = products, start: int = start) -> None:
            kernels.add_products(products, queries, vectors, start, slack, *block, heaps)

        pool.run(add, rows, n_jobs)
    kernels.sort_rows(heaps.ids, heaps.scores, heaps.sizes, 0, len(queries))
