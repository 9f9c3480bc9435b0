"""Partitioned search (inverted file): search the partitions nearest to a query only.

k-means divides the vectors into partitions. A search ranks the partitions by the score of their centroids and opens the
best ones. The vectors of a partition lie side by side in memory as 8-bit codes, which is a quarter of the memory
traffic of float32. The best vectors by code are scored again exactly.

When the index is built, sample queries are searched exactly to find out how far a search must go for the requested
recall. It opens at most `n_probe` partitions, and stops earlier if the next centroid scores less than `reach` times the
best vector so far. The samples also decide two variants: whether partitions are ranked by the direction of their
centroid alone, and whether there is a partition of hubs that is always opened. Hubs are vectors that score high for
queries from all directions, such as those of labels with a large bias.

On vectors without structure most partitions may be needed. Then every search looks at all vectors: for one query it
scans the codes, which is twice as fast as scanning the vectors, and a batch is searched exactly by matrix products,
which are faster still.

All parts are plain arrays, so that a stored index is memory-mapped and a search needs no library.
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

_HUBS = 1.0  # number of hubs, as a multiple of the square root of the number of vectors
_NO_REACH = -1e30  # a reach that never ends a search
_MOST_SCANNED = 0.5  # of the vectors: an index whose searches would scan more scans all of them
_FEW_QUERIES = 8  # fewer queries do not pay for a matrix product, which reads all vectors
_PARTITION_ARRAYS = ("centroids", "indptr", "order", "codes", "scales")


class IVFIndex(Index):
    """Approximate search in partitions.

    Parameters
    ----------
    vectors, metric
        See :class:`longtail.index.base.Index`.
    n_partitions : int, optional
        Number of partitions; by default the square root of the number of vectors.
    n_probe : int, optional
        Number of partitions to open per query. By default as many as `recall` needs, and fewer for easy queries. It may
        be changed after the index is built.
    recall : float
        Share of the `recall_k` truly nearest vectors that a search shall find. A higher recall is slower.
    recall_k : int
        Number of neighbours over which `recall` is measured. Give the k of your searches.
    log_odds : bool
        Whether scores are log odds. The recall then weights each neighbour by its probability; otherwise all neighbours
        have the same weight.
    n_rescored : int
        Number of vectors to score exactly, the best by code; at least 2 k are.
    queries : array, shape (m, d), optional
        Sample of the expected queries, to measure how many partitions the recall needs. By default queries are made
        from the vectors.
    random_state : int
        Seed of the partitions.
    n_jobs : int, optional
        Number of threads that build the index; all cores by default.
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
        """Number of partitions that a search opens, at most. Once it is set, every search opens exactly as many."""
        return self._effort.n_probe

    @n_probe.setter
    def n_probe(self, value: int) -> None:
        _check_positive("n_probe", value)
        self._wanted["n_probe"] = int(value)
        self._effort = self._make_effort(int(value), -math.inf)

    @property
    def _opens_all(self) -> bool:
        return self._effort.n_probe >= self.n_partitions and self._effort.reach <= _NO_REACH

    def _make_effort(self, n_probe: int, reach: float) -> kernels.Effort:
        return kernels.Effort(int(n_probe), float(reach), self.n_rescored, self._hubs)

    def _build(self, n_jobs: int | None) -> None:
        """Divide the vectors into partitions and measure how far searches must go."""
        n, wanted = len(self), self._wanted
        n_partitions = min(n, wanted["n_partitions"] or round(math.sqrt(n)))
        self._trained_on = n
        if n:
            trained = train_partitions(self._stored, n_partitions, np.random.default_rng(self.random_state), n_jobs)
            effort, partitioned = self._choose_variant(trained, n_jobs)
        else:
            partitioned = Partitioned(self._stored, np.empty((0, self.width), np.float32), np.empty(0, np.int32))
            effort = 1, -math.inf
        self._lay_out(partitioned, n_jobs)
        if wanted["n_probe"] is not None:
            effort = wanted["n_probe"], -math.inf
        self._effort = self._make_effort(*effort)

    def _choose_variant(self, trained: Partitioned, n_jobs: int | None) -> tuple[tuple[int, float], Partitioned]:
        """Return the variant of the partitions that reaches the recall with the fewest vectors scanned, and its effort.

        The variants are with or without hubs, and with centroids as they are or scaled to equal length.
        """
        n, k, log_odds = len(self), int(self._wanted["recall_k"]), self._wanted.get("log_odds", False)
        samples = sample_searches(self._stored, self._queries, self.metric, k, log_odds, self.random_state, n_jobs)
        n_hubs = round(_HUBS * math.sqrt(n))
        unscaled = [trained]
        if 0 < n_hubs < n:
            unscaled.append(trained.with_hubs(np.concatenate([sample.queries for sample in samples]), n_hubs))
        # n_probe and reach may each cause half of the misses; the codes cause hardly any.
        recall = (1 + self._wanted["recall"]) / 2
        variants = [
            (needed_effort(parts, samples, recall), parts)
            for each in unscaled
            for parts in (each, each.of_equal_length())
        ]
        per_partition = n / len(trained.centroids)

        def n_scanned(variant: tuple[tuple[int, float], Partitioned]) -> float:
            (n_probe, _), parts = variant
            return n_probe * per_partition + (n_hubs if parts.hubs else 0)

        plain = min((variant for variant in variants if not variant[1].hubs), key=n_scanned)
        best = min(variants, key=n_scanned)
        # The effort is measured on a sample: a small saving may be chance and would cost recall.
        chosen = best if n_scanned(best) < 0.5 * n_scanned(plain) else plain
        return chosen if n_scanned(chosen) <= _MOST_SCANNED * n else ((len(trained.centroids), -math.inf), trained)

    def _lay_out(self, partitioned: Partitioned, n_jobs: int | None = None) -> None:
        """Store the codes of each partition side by side."""
        _, centroids, partition, self._hubs = partitioned
        n, rows = len(partition), self._stored.rows
        indptr = np.concatenate([[0], np.cumsum(np.bincount(partition, minlength=len(centroids)))]).astype(np.int64)
        order = frozen(np.argsort(partition, kind="stable").astype(np.int32))
        codes, scales = np.empty((n, self.width), np.int8), np.empty(n, np.float32)
        pool.run(
            lambda block: kernels.encode_int8(rows, order, *block, codes, scales),
            pool.blocks(n, n_jobs, smallest=1024),
            n_jobs,
        )
        self._parts = kernels.Partitions(rows, *map(frozen, (centroids, indptr, order, codes, scales)))

    def _index_from(self, first: int) -> None:
        if len(self) > 2 * self._trained_on:  # the partitions were not made for the new vectors, which are most
            self._rebuild()
            return
        parts = self._parts
        partition = np.empty(len(self), np.int32)
        partition[parts.order] = np.repeat(np.arange(self.n_partitions, dtype=np.int32), np.diff(parts.indptr))
        partition[first:] = nearest_centroids(self._stored.rows[first:], None, parts.centroids, None)
        self._lay_out(Partitioned(self._stored, parts.centroids, partition, self._hubs))

    def _rebuild(self) -> None:
        """Divide the vectors into new partitions.

        A loaded index no longer has the sample of expected queries, and queries made from the vectors may be easier:
        vectors with a bias as their last coordinate are long in a direction that all queries share. To be safe, a
        search then opens at least the same share of the partitions as before.
        """
        before, share = self._effort, self.n_probe / max(1, self.n_partitions)
        self._build(None)
        if self._queries is None and self._wanted["n_probe"] is None:
            n_probe = max(self.n_probe, math.ceil(share * self.n_partitions))
            self._effort = self._make_effort(n_probe, min(before.reach, self._effort.reach))

    def _search(self, queries: Vectors, k: int, n_jobs: int | None) -> IdsAndScores:
        n = len(queries.rows)
        if n >= _FEW_QUERIES and self._opens_all:
            return exact_search(self._stored, queries, k, n_jobs)
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
        arrays = {"vectors": self._stored.rows, "squares": self._stored.squares}
        return meta, arrays | {name: getattr(self._parts, name) for name in _PARTITION_ARRAYS}

    @classmethod
    def array_rules(cls, meta: dict[str, Any], n: str, width: str) -> Rules:
        """Declare the rules that the arrays of :meth:`to_arrays` must meet, for `n` vectors of `width` numbers."""
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
        index._effort = index._make_effort(meta["n_probe"], meta.get("reach", -math.inf))
        rows = index._stored.rows
        index._parts = kernels.Partitions(rows, *(frozen(arrays[name]) for name in _PARTITION_ARRAYS))
        return index


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise SettingsError(f"{name}={value}: must be at least 1.")
