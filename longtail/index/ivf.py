"""Partitioned search (inverted file): only the partitions nearest to a query are opened.

The vectors of a partition are neighbours in memory as 8-bit codes, a quarter of the memory traffic of float32; the best
of them by code are scored again exactly. Partitions come from k-means. Whether they are opened by the score of their
mean or by its direction alone, and how far a search goes, is measured when the index is built, so that the requested
recall is met: at most `n_probe` partitions are opened, and fewer where the centroid of
the next one scores less than `reach` times the best vector so far. On vectors without structure most partitions may be
needed. Then all are opened and the search is exact: for one query a scan of the codes, twice as fast as one of the
vectors, and for a batch matrix products, which are faster still. Vectors that score high for
queries from all directions, such as those of labels with a large bias, have a partition of their own that is always
opened, where that makes searches shorter.

All parts are plain arrays, so that a stored index is memory-mapped and searching needs no library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from longtail.errors import SettingsError
from longtail.index.base import IdsAndScores, Index, Vectors, checked
from longtail.index.exact import exact_search
from longtail.index.partition import (
    Partitioned,
    nearest_centroids,
    needed_effort,
    sample_searches,
    sampled_queries,
    train_partitions,
)
from longtail.kernels import pool
from longtail.kernels import search as kernels
from longtail.params import Constraint, Integer, Number, optional
from longtail.sparse import frozen
from longtail.store.facts import YES_NO, Record, check_facts
from longtail.store.invariants import Rules, codes, floats, indices, pointers

_HUBS = 1.0  # vectors that a search always looks at, as a multiple of the square root of all
_NO_REACH = -1e30  # a reach that no search ends by
_MOST = 0.5  # of the vectors: where a search would scan more, it scans all
_FEW_QUERIES = 8  # a matrix product of fewer reads all vectors for too little
_PARTITION_ARRAYS = ("centroids", "indptr", "order", "codes", "scales")


class IVFIndex(Index):
    """Vectors in partitions.

    Parameters
    ----------
    vectors, metric
        See :class:`longtail.index.base.Index`.
    n_partitions : int, optional
        Number of partitions; by default the square root of the number of vectors.
    n_probe : int, optional
        Number of partitions to open per query. By default as many as `recall` needs, and fewer for easy queries. May be
        set later, too.
    recall : float
        Share of the true `recall_k` nearest vectors to find.
    recall_k : int
        Number of neighbours that `recall` is about.
    log_odds : bool
        Whether scores of `queries` are log odds. Neighbours then count by their probability in the recall, not equally.
    n_rescored : int
        Number of vectors that may be scored exactly, the best by code (never fewer than 2 k).
    queries : array, shape (m, d), optional
        A sample of the queries to expect, from which `n_probe` is chosen; made from the vectors if not given.
    random_state : int
        Seed of the partitions.
    n_jobs : int, optional
        Number of threads for building; all cores by default.
    """

    kind = "ivf"

    def __init__(
        self,
        vectors: np.ndarray,
        metric: str = "ip",
        *,
        n_partitions: int | None = None,
        n_probe: int | None = None,
        recall: float = 0.99,
        recall_k: int = 5,
        log_odds: bool = False,
        n_rescored: int = 64,
        queries: np.ndarray | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        for name, value in (("n_partitions", n_partitions), ("n_probe", n_probe), ("recall_k", recall_k)):
            _check_positive(name, value)
        if not 0 < recall <= 1:
            raise SettingsError(f"recall={recall}: must lie in (0, 1].")
        super().__init__(vectors, metric)
        self.n_rescored = int(n_rescored)
        self.random_state = int(random_state)
        self._wanted: dict[str, Any] = {
            "n_partitions": n_partitions,
            "n_probe": n_probe,
            "recall": recall,
            "recall_k": recall_k,
            "log_odds": bool(log_odds),
        }
        self._queries = sampled_queries(queries, self.random_state)
        self._build(n_jobs)

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return len(self._parts.centroids)

    @property
    def n_probe(self) -> int:
        """Number of partitions that a search opens, at most. If it is set, a search opens exactly as many."""
        return self._effort.n_probe

    @n_probe.setter
    def n_probe(self, value: int) -> None:
        _check_positive("n_probe", value)
        self._wanted["n_probe"] = int(value)
        self._effort = self._go(int(value), -math.inf)

    @property
    def _opens_all(self) -> bool:
        return self._effort.n_probe >= self.n_partitions and self._effort.reach <= _NO_REACH

    def _go(self, n_probe: int, reach: float) -> kernels.Effort:
        return kernels.Effort(int(n_probe), float(reach), self.n_rescored, self._hubs)

    def _build(self, n_jobs: int | None) -> None:
        n, wanted = len(self), self._wanted
        n_partitions = min(n, wanted["n_partitions"] or round(math.sqrt(n)))
        self._trained_on = n
        if n:
            made = train_partitions(self._held, n_partitions, np.random.default_rng(self.random_state), n_jobs)
        else:
            made = Partitioned(self._held, np.empty((0, self.width), np.float32), np.empty(0, np.int32))
        effort = max(1, n_partitions), -math.inf
        if n:
            effort, made = self._cheapest(made, n_jobs)
        self._lay_out(made, n_jobs)
        self._effort = self._go(*effort) if wanted["n_probe"] is None else self._go(wanted["n_probe"], -math.inf)

    def _cheapest(self, made: Partitioned, n_jobs: int | None) -> tuple[tuple[int, float], Partitioned]:
        """Return the effort that finds what `recall` asks for, and the way to rank partitions that needs the least."""
        n, k, log_odds = len(self), int(self._wanted["recall_k"]), self._wanted.get("log_odds", False)
        samples = sample_searches(self._held, self._queries, self.metric, k, log_odds, self.random_state, n_jobs)
        n_hubs = round(_HUBS * math.sqrt(n))
        ways = [made]
        if 0 < n_hubs < n:
            ways.append(made.with_hubs(np.concatenate([sample.queries for sample in samples]), n_hubs))
        # Half of what may be missed is left to n_probe and half to reach; codes miss next to nothing.
        share = (1 + self._wanted["recall"]) / 2
        efforts = [
            (needed_effort(parts, samples, share), parts) for way in ways for parts in (way, way.of_equal_length())
        ]
        per_partition = n / len(made.centroids)

        def n_scanned(way: tuple[tuple[int, float], Partitioned]) -> float:
            (n_probe, _), parts = way
            return n_probe * per_partition + (n_hubs if parts.hubs else 0)

        plain = min((way for way in efforts if not way[1].hubs), key=n_scanned)
        best = min(efforts, key=n_scanned)
        # The effort is measured on a sample. A small saving is as likely to be chance, which costs recall.
        chosen = best if n_scanned(best) < 0.5 * n_scanned(plain) else plain
        return chosen if n_scanned(chosen) <= _MOST * n else ((len(made.centroids), -math.inf), made)

    def _lay_out(self, made: Partitioned, n_jobs: int | None = None) -> None:
        """Bring the vectors of each partition together."""
        _, centroids, partition, self._hubs = made
        n, rows = len(partition), self._held.rows
        indptr = np.concatenate([[0], np.cumsum(np.bincount(partition, minlength=len(centroids)))]).astype(np.int64)
        order = frozen(np.argsort(partition, kind="stable").astype(np.int32))
        codes, scales = np.empty((n, self.width), np.int8), np.empty(n, np.float32)
        pool.run(
            lambda block: kernels.encode_int8(rows, order, *block, codes, scales),
            pool.blocks(n, n_jobs, smallest=1024),
            n_jobs,
        )
        self._parts = kernels.Partitions(rows, *map(frozen, (centroids, indptr, order, codes, scales)))

    def _added(self, first: int) -> None:
        if len(self) > 2 * self._trained_on:  # most vectors are new, and the partitions were not made for them
            self._rebuild()
            return
        parts = self._parts
        partition = np.empty(len(self), np.int32)
        partition[parts.order] = np.repeat(np.arange(self.n_partitions, dtype=np.int32), np.diff(parts.indptr))
        partition[first:] = nearest_centroids(self._held.rows[first:], None, parts.centroids, None)
        self._lay_out(Partitioned(self._held, parts.centroids, partition, self._hubs))

    def _rebuild(self) -> None:
        """Make new partitions.

        A loaded index no longer has the queries to expect. Queries made from the vectors may be easier: vectors with a
        bias as their last number are long in a direction that all queries share. Then at least the same share of the
        partitions is opened as before.
        """
        before, share = self._effort, self.n_probe / max(1, self.n_partitions)
        self._build(None)
        if self._queries is None and self._wanted["n_probe"] is None:
            n_probe = max(self.n_probe, math.ceil(share * self.n_partitions))
            self._effort = self._go(n_probe, min(before.reach, self._effort.reach))

    def _search(self, queries: Vectors, k: int, n_jobs: int | None) -> IdsAndScores:
        n = len(queries.rows)
        if n >= _FEW_QUERIES and self._opens_all:
            return exact_search(self._held, queries, k, n_jobs)
        ids, scores = np.empty((n, k), np.int32), np.empty((n, k), np.float32)

        def work(block: tuple[int, int]) -> None:
            if self._opens_all:
                kernels.scan_codes_of_rows(queries.rows, *block, self._parts, ids, scores)
            else:
                kernels.probe_rows(queries.rows, *block, self._parts, self._effort, ids, scores)

        pool.run(work, pool.blocks(n, n_jobs, smallest=8), n_jobs)
        return ids, scores

    def _search_one(self, query: np.ndarray, k: int) -> IdsAndScores:
        ids, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        if self._opens_all:
            kernels.scan_codes(query, self._parts, k, ids, scores)
        else:
            kernels.probe(query, self._parts, self._effort, k, ids, scores)
        return ids, scores

    def n_opened(self, query: np.ndarray, k: int) -> int:
        """Return the number of partitions that a search for one query opens."""
        rows = checked(np.asarray(query)[None], "query", self.metric, self.width).rows
        ids, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        return int(kernels.probe(rows[0], self._parts, self._effort, k, ids, scores)[1])

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        meta = {
            "n_probe": self._effort.n_probe,
            "reach": max(self._effort.reach, _NO_REACH),  # JSON has no infinity
            "n_rescored": self.n_rescored,
            "random_state": self.random_state,
            "trained_on": self._trained_on,
            "wanted": self._wanted,
            "hubs": self._hubs,
        }
        arrays = {"vectors": self._held.rows, "squares": self._held.squares}
        return meta, arrays | {name: getattr(self._parts, name) for name in _PARTITION_ARRAYS}

    @classmethod
    def array_rules(cls, meta: dict[str, Any], n: str, width: str) -> Rules:
        """Declare what the arrays of :meth:`to_arrays` must be, for `n` vectors of `width` numbers."""
        wanted = Record({"n_partitions": optional(Integer(1)), "n_probe": optional(Integer(1))})
        facts: dict[str, Constraint] = {
            "n_probe": Integer(1),
            "reach": Number(),
            "n_rescored": Integer(1),
            "random_state": Integer(0, 2**63 - 1),
            "trained_on": Integer(0),
            "wanted": wanted,
        }
        if "hubs" in meta:  # folders of older versions have none
            facts["hubs"] = YES_NO
        check_facts(facts, meta, "a stored index")
        parts = f"{n}.partitions"
        return super().array_rules(meta, n, width) | Rules(
            {
                "centroids": floats(f"{parts} {width}"),
                "indptr": pointers(f"{parts}+1", into=n, dtypes="i8"),
                "order": indices(n, below=n, distinct=True),
                "codes": codes(f"{n} {width}"),
                "scales": floats(n),
            }
        )

    @classmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> IVFIndex:
        index = cls._from_stored(meta, Vectors(arrays["vectors"], arrays["squares"]))
        index.n_rescored = int(meta["n_rescored"])
        index.random_state, index._trained_on = int(meta["random_state"]), int(meta["trained_on"])
        index._wanted, index._queries = dict(meta["wanted"]), None
        index._hubs = bool(meta.get("hubs", False))
        index._effort = index._go(meta["n_probe"], meta.get("reach", -math.inf))
        rows = index._held.rows
        index._parts = kernels.Partitions(rows, *(frozen(arrays[name]) for name in _PARTITION_ARRAYS))
        return index


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise SettingsError(f"{name}={value}: must be at least 1.")
