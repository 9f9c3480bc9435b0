"""Search in a graph of neighbours (HNSW), through faiss.

Malkov and Yashunin, *Efficient and robust approximate nearest neighbor search using hierarchical navigable small world
graphs*, 2018. faiss searches the graph. The candidates that it finds are scored again here, so that scores and the
order of ties are those of every other index. A graph is stored with its vectors in the format of faiss, and is read
into memory when loaded. Use partitions for a model that shall be memory-mapped, or if faiss is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from longtail.errors import ModelError, SettingsError
from longtail.index.base import METRICS, IdsAndScores, Index, Vectors, checked
from longtail.kernels import pool
from longtail.kernels import search as kernels
from longtail.params import Integer, OneOf
from longtail.sparse import frozen
from longtail.store.facts import check_facts
from longtail.store.invariants import Rules, codes


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise SettingsError(
            'kind="hnsw" needs faiss: pip install "longtail[neural]", or choose another kind.'
        ) from error
    return faiss


@contextmanager
def _limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Limit faiss to `n_jobs` threads within the block."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(pool.cores(n_jobs))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class HNSWIndex(Index):
    """Approximate search in a graph of neighbours.

    Parameters
    ----------
    vectors, metric
        See :class:`longtail.index.base.Index`.
    links : int
        Number of neighbours of a vector in the graph. More links raise the recall and need more memory.
    breadth : int
        Number of candidates that a search keeps (efSearch). More candidates raise the recall and take longer. It may
        be changed after the graph is built.
    build_breadth : int
        Number of candidates that are kept while the graph is built (efConstruction). More make a better graph and take
        longer.
    n_jobs : int
        Number of threads that build the graph. With more than one, graph and results differ a little from run to run.
    """

    kind = "hnsw"
    _graph: Any

    def __init__(
        self,
        vectors: np.ndarray,
        metric: str = "ip",
        *,
        links: int = 32,
        breadth: int = 64,
        build_breadth: int = 100,
        n_jobs: int = 1,
    ) -> None:
        faiss = _faiss()
        for name, value in (("links", links), ("breadth", breadth), ("build_breadth", build_breadth)):
            if value < 2:
                raise SettingsError(f"{name}={value}: must be at least 2.")
        super().__init__(vectors, metric)
        self.breadth = int(breadth)
        graph = faiss.IndexHNSWFlat(self.width, int(links), faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = int(build_breadth)
        with _limit_threads(n_jobs):
            graph.add(self._stored.rows)
        self._set_graph(graph)

    def _set_graph(self, graph: Any) -> None:
        """Set the graph, and use its copy of the vectors instead of a second one."""
        faiss = _faiss()
        shape = (graph.ntotal, graph.d)
        rows = np.empty(shape, np.float32)
        if rows.size:
            flat = faiss.downcast_index(graph.storage)
            rows = faiss.rev_swig_ptr(flat.get_xb(), rows.size).reshape(shape)
        squares = np.empty(len(rows), np.float32)
        kernels.squares(frozen(rows), squares)
        stored = Vectors(frozen(rows), frozen(squares))
        vars(self).update(_graph=graph, _stored=stored)  # in one step, because the vectors are memory of the graph

    @property
    def vectors(self) -> np.ndarray:
        """A copy of the vectors searched: the original belongs to faiss and is freed with this index."""
        return self._stored.rows.copy()

    def add(self, vectors: np.ndarray) -> None:
        """Append vectors; their ids follow the present ones. Do not add while other threads search."""
        rows, _ = checked(vectors, "vector", self.metric, self.width)
        if len(rows):
            graph = _faiss().clone_index(self._graph)  # copies of this index share the graph
            with _limit_threads(1):
                graph.add(rows)
            self._set_graph(graph)

    def _search(self, queries: Vectors, k: int, n_jobs: int | None) -> IdsAndScores:
        faiss = _faiss()
        n_candidates = min(k, len(self))
        params = faiss.SearchParametersHNSW(efSearch=max(self.breadth, n_candidates))
        with _limit_threads(n_jobs):
            _, candidates = self._graph.search(queries.rows, n_candidates, params=params)
        n = len(queries.rows)
        ids, scores = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        pool.spread(
            lambda block: kernels.rescore(queries.rows, self._stored.rows, candidates, *block, ids, scores), n, n_jobs
        )
        return ids, scores

    def _search_one(self, query: np.ndarray, k: int) -> IdsAndScores:
        ids, scores = self._search(Vectors(query[None], np.empty(0, np.float32)), k, None)
        count = np.count_nonzero(ids[0] >= 0)
        return ids[0, :count], scores[0, :count]

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"breadth": self.breadth}, {"graph": _faiss().serialize_index(self._graph)}

    @classmethod
    def array_rules(cls, meta: dict[str, Any], n: str, width: str) -> Rules:
        """Declare the rules that the arrays of :meth:`to_arrays` must meet."""
        check_facts({"metric": OneOf(*METRICS), "breadth": Integer(2, 1 << 20)}, meta, "a stored index")
        return Rules({"graph": codes(f"{n}.bytes", "u1")})

    @classmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> HNSWIndex:
        faiss = _faiss()
        index = cls._from_stored(meta, Vectors(np.empty((0, 1), np.float32), np.empty(0, np.float32)))
        index.breadth = int(meta["breadth"])
        try:
            graph = faiss.deserialize_index(np.array(arrays["graph"], np.uint8))
        except (RuntimeError, MemoryError) as error:
            raise ModelError("the graph of a stored index is damaged. Train or copy the model again.") from error
        if type(graph) is not faiss.IndexHNSWFlat or graph.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise ModelError("a stored index holds another graph than its settings say. Train or copy the model again.")
        if not _is_sound(faiss, graph):
            raise ModelError("the graph of a stored index leads out of it. Train or copy the model again.")
        index._set_graph(graph)
        return index


def _is_sound(faiss: Any, graph: Any) -> bool:
    """Return whether vectors, levels and links of a graph fit together. faiss does not check this when it reads one."""
    flat, n = faiss.downcast_index(graph.storage), graph.ntotal
    if not isinstance(flat, faiss.IndexFlat) or (flat.ntotal, flat.d) != (n, graph.d):
        return False
    if flat.codes.size() != 4 * n * graph.d:
        return False
    hnsw = graph.hnsw
    names = ("levels", "offsets", "neighbors", "cum_nneighbor_per_level")
    levels, offsets, links, ends = (faiss.vector_to_array(getattr(hnsw, name)).astype(np.int64) for name in names)
    if len(levels) != n or len(offsets) != n + 1 or offsets[0] != 0 or offsets[-1] != len(links):
        return False
    if n == 0:
        return hnsw.entry_point == -1
    if len(ends) < 2 or ends[0] != 0 or (np.diff(ends) < 0).any() or levels.min() < 1 or levels.max() >= len(ends):
        return False
    if (np.diff(offsets) != ends[levels]).any() or links.min(initial=0) < -1 or links.max(initial=-1) >= n:
        return False
    place = np.arange(len(links)) - np.repeat(offsets[:-1], np.diff(offsets))
    level = np.searchsorted(ends, place, side="right") - 1  # of each link; its target must reach up to that level
    if (levels[links[links >= 0]] <= level[links >= 0]).any() or not 0 <= hnsw.entry_point < n:
        return False
    return hnsw.max_level == levels.max() - 1 and levels[hnsw.entry_point] == levels.max()
