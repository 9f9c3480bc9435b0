"""Search in a graph of neighbours (HNSW), through faiss.

Malkov and Yashunin, *Efficient and robust approximate nearest neighbor search using hierarchical navigable small world
graphs*, 2018. faiss walks the graph; what it finds is scored again here, so that scores and ties are those of every
other index. A graph is stored with its vectors as faiss writes it, and read into memory when loaded: where a model is
to be memory-mapped, or faiss is not installed, use partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.errors import ModelError, SettingsError
from longtail.index.base import Found, Index, frozen, limit_blas
from longtail.kernels import pool
from longtail.kernels import search as kernels


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise SettingsError(
            'kind="hnsw" needs faiss: pip install "longtail[neural]", or choose another kind.'
        ) from error
    return faiss


class HNSWIndex(Index):
    """Vectors in a graph of neighbours.

    Parameters
    ----------
    vectors, metric
        See :class:`longtail.index.base.Index`.
    links : int
        Neighbours of a vector in the graph.
    breadth : int
        How many candidates a search keeps (efSearch); more finds more and takes longer. May be set later, too.
    build_breadth : int
        The same while the graph is built (efConstruction).
    n_jobs : int
        Threads for building. With more than one, the graph, and so what is found, differs a little from run to run.
    """

    kind = "hnsw"

    def __init__(
        self, vectors: np.ndarray, metric: str = "ip", *, links: int = 32, breadth: int = 64, build_breadth: int = 100,
        n_jobs: int = 1,
    ) -> None:  # fmt: skip
        faiss = _faiss()
        for name, value in (("links", links), ("breadth", breadth), ("build_breadth", build_breadth)):
            if value < 2:
                raise SettingsError(f"{name}={value}: must be at least 2.")
        super().__init__(vectors, metric)
        self.breadth = int(breadth)
        self._graph = faiss.IndexHNSWFlat(
            self.width, int(links), faiss.METRIC_L2 if self._l2 else faiss.METRIC_INNER_PRODUCT
        )
        self._graph.hnsw.efConstruction = int(build_breadth)
        with limit_blas(n_jobs):
            self._graph.add(self._rows)
        self._share_vectors()

    def _share_vectors(self) -> None:
        """Look at the copy that faiss holds instead of keeping another."""
        faiss = _faiss()
        shape = (self._graph.ntotal, self._graph.d)
        rows = np.empty(shape, np.float32)
        if rows.size:
            flat = faiss.downcast_index(self._graph.storage)
            rows = faiss.rev_swig_ptr(flat.get_xb(), rows.size).reshape(shape)
        squares = np.empty(len(rows), np.float32)
        kernels.squares(frozen(rows), squares)
        self._hold(rows, squares)

    @property
    def vectors(self) -> np.ndarray:
        """A copy of what is searched: the original belongs to faiss and goes with this index."""
        return self._rows.copy()

    def add(self, vectors: np.ndarray) -> None:
        """Append vectors; their ids continue. Not while other threads search."""
        rows, _ = self._prepared(vectors, "vector")
        if len(rows):
            with limit_blas(1):
                self._graph.add(rows)
            self._share_vectors()

    def _search(self, queries: np.ndarray, squares: np.ndarray, k: int, n_jobs: int | None) -> Found:
        faiss = _faiss()
        most = min(k, len(self))
        how = faiss.SearchParametersHNSW(efSearch=max(self.breadth, most))
        with limit_blas(n_jobs):
            _, found = self._graph.search(queries, most, params=how)
        ids, scores = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)
        jobs = 1 if len(queries) < 64 else n_jobs
        pool.run(
            lambda block: kernels.rescore(queries, self._rows, self._l2, found, *block, k, ids, scores),
            pool.blocks(len(queries), jobs), jobs,
        )  # fmt: skip
        return ids, scores

    def _search_one(self, query: np.ndarray, k: int) -> Found:
        ids, scores = self._search(query[None], np.empty(0), k, None)
        count = np.count_nonzero(ids[0] >= 0)
        return ids[0, :count], scores[0, :count]

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"breadth": self.breadth}, {"graph": _faiss().serialize_index(self._graph)}

    @classmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> HNSWIndex:
        faiss = _faiss()
        index = cls.__new__(cls)
        index._set_metric(meta["metric"])
        index.breadth = int(meta["breadth"])
        metric = faiss.METRIC_L2 if index._l2 else faiss.METRIC_INNER_PRODUCT
        try:
            graph = faiss.deserialize_index(np.array(arrays["graph"], np.uint8))
        except RuntimeError as error:
            raise ModelError("the graph of a stored index is damaged. Train or copy the model again.") from error
        if type(graph) is not faiss.IndexHNSWFlat or graph.metric_type != metric:
            raise ModelError("a stored index holds another graph than it says. Train or copy the model again.")
        index._graph = graph
        index._share_vectors()
        return index
