"""Partitioned search (inverted file): only the partitions nearest to a query are opened.

The vectors of a partition lie together as eight-bit codes, a quarter of the memory traffic of float32; the best of them
by code are scored again exactly. Partitions come from k-means; how many are opened is measured when the index is built,
so that the recall asked for is met: on vectors without structure that may be nearly all of them, and the search is then
a scan of the codes, a few times as fast as an exact one.

All parts are plain arrays, so that a stored index is memory-mapped and searching needs neither faiss nor torch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from longtail.errors import ModelError, SettingsError
from longtail.index.base import Found, Index, frozen
from longtail.index.partition import assign, k_means, needed_probes
from longtail.kernels import pool
from longtail.kernels import search as kernels


class IVFIndex(Index):
    """Vectors in partitions.

    Parameters
    ----------
    vectors, metric
        See :class:`longtail.index.base.Index`.
    n_partitions : int, optional
        By default the square root of the number of vectors.
    n_probe : int, optional
        Partitions to open for a query. By default as many as `recall` needs. May be set later, too.
    recall : float
        Share of the true `recall_k` nearest vectors that is to be found.
    recall_k : int
        For how many neighbours `recall` is meant.
    n_rescored : int
        How many of the best by code are scored exactly (never fewer than 2 k).
    queries : array, shape (m, d), optional
        A sample of what will be asked, from which `n_probe` is chosen; made from the vectors where not given.
    random_state : int
        Seed of the partitions.
    n_jobs : int, optional
        Threads for building; every core by default.
    """

    kind = "ivf"

    def __init__(
        self, vectors: np.ndarray, metric: str = "ip", *, n_partitions: int | None = None, n_probe: int | None = None,
        recall: float = 0.99, recall_k: int = 5, n_rescored: int = 64, queries: np.ndarray | None = None,
        random_state: int = 0, n_jobs: int | None = None,
    ) -> None:  # fmt: skip
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
        }
        self._build(queries, n_jobs)

    @property
    def n_partitions(self) -> int:
        """How many partitions there are."""
        return len(self._centroids)

    @property
    def n_probe(self) -> int:
        """How many partitions a search opens; may be set."""
        return self._n_probe

    @n_probe.setter
    def n_probe(self, value: int) -> None:
        _check_positive("n_probe", value)
        self._n_probe = self._wanted["n_probe"] = int(value)

    def _build(self, queries: np.ndarray | None, n_jobs: int | None) -> None:
        rng = np.random.default_rng(self.random_state)
        n = len(self)
        wanted = self._wanted
        n_partitions = min(n, wanted["n_partitions"] or round(math.sqrt(n)))
        self._trained_on = n
        if n:
            self._centroids, partition = k_means(self._rows, n_partitions, self._l2, rng, n_jobs)
        else:
            self._centroids, partition = np.empty((0, self.width), np.float32), np.empty(0, np.int32)
        self._centroids = frozen(self._centroids)
        self._centroid_squares = np.einsum("ij,ij->i", self._centroids, self._centroids)
        self._lay_out(partition, n_jobs)
        self._n_probe = wanted["n_probe"] or max(1, n_partitions)
        if n and wanted["n_probe"] is None:
            # Half of what may be missed is left to the codes.
            share, k = (1 + wanted["recall"]) / 2, int(wanted["recall_k"])
            self._n_probe = needed_probes(self, self._centroids, partition, queries, k, share, rng, n_jobs)

    def _lay_out(self, partition: np.ndarray, n_jobs: int | None = None) -> None:
        """Bring the vectors of each partition together."""
        n = len(partition)
        counts = np.bincount(partition, minlength=self.n_partitions)
        self._indptr = frozen(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
        self._order = frozen(np.argsort(partition, kind="stable").astype(np.int32))
        codes, scales = np.empty((n, self.width), np.int8), np.empty(n, np.float32)
        pool.run(
            lambda block: kernels.encode(self._rows, self._order, *block, codes, scales),
            pool.blocks(n, n_jobs, smallest=1024), n_jobs,
        )  # fmt: skip
        self._codes, self._scales = frozen(codes), frozen(scales)

    def _added(self, first: int) -> None:
        if len(self) > 2 * self._trained_on:  # the old partitions may know nothing of what is here now
            self._build(None, None)
            return
        partition = np.empty(len(self), np.int32)
        partition[self._order] = np.repeat(np.arange(self.n_partitions, dtype=np.int32), np.diff(self._indptr))
        partition[first:] = assign(self._rows[first:], None, self._centroids, self._l2, None)
        self._lay_out(partition)

    def _parts(self) -> tuple[Any, ...]:
        return (
            self._rows, self._squares, self._l2, self._centroids, self._centroid_squares, self._indptr, self._order,
            self._codes, self._scales, self._n_probe, self.n_rescored,
        )  # fmt: skip

    def _search(self, queries: np.ndarray, squares: np.ndarray, k: int, n_jobs: int | None) -> Found:
        n = len(queries)
        ids, scores = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        parts = self._parts()
        pool.run(
            lambda block: kernels.probe_rows(queries, *block, *parts, k, ids, scores),
            pool.blocks(n, n_jobs, smallest=8), n_jobs,
        )  # fmt: skip
        return ids, scores

    def _search_one(self, query: np.ndarray, k: int) -> Found:
        ids, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        kernels.probe(query, *self._parts(), k, ids, scores)
        return ids, scores

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        meta = {
            "n_probe": self._n_probe,
            "n_rescored": self.n_rescored,
            "random_state": self.random_state,
            "trained_on": self._trained_on,
            "wanted": self._wanted,
        }
        arrays = {
            "vectors": self._rows,
            "squares": self._squares,
            "centroids": self._centroids,
            "indptr": self._indptr,
            "order": self._order,
            "codes": self._codes,
            "scales": self._scales,
        }
        return meta, arrays

    @classmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> IVFIndex:
        index = cls.__new__(cls)
        index._set_metric(meta["metric"])
        index._hold_stored(arrays)
        index._n_probe, index.n_rescored = int(meta["n_probe"]), int(meta["n_rescored"])
        index.random_state, index._trained_on = int(meta["random_state"]), int(meta["trained_on"])
        index._wanted = dict(meta["wanted"])
        n, width = index._rows.shape
        names = ("centroids", "indptr", "order", "codes", "scales")
        index._centroids, index._indptr, index._order, index._codes, index._scales = (frozen(arrays[a]) for a in names)
        # Kernels do not check addresses, so nothing may point outside.
        partitions = len(index._centroids)
        sound = (
            _is(index._centroids, np.float32, (partitions, width))
            and _is(index._indptr, np.int64, (partitions + 1,))
            and _is(index._order, np.int32, (n,))
            and _is(index._codes, np.int8, (n, width))
            and _is(index._scales, np.float32, (n,))
            and index._indptr[0] == 0
            and index._indptr[-1] == n
            and (np.diff(index._indptr) >= 0).all()
            and (np.bincount(np.clip(index._order, 0, n), minlength=n) == 1).all()
        )
        if not sound:
            raise ModelError("the arrays of a stored index do not fit together. Train or copy the model again.")
        index._centroid_squares = np.einsum("ij,ij->i", index._centroids, index._centroids)
        return index


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise SettingsError(f"{name}={value}: must be at least 1.")


def _is(array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> bool:
    return array.dtype == dtype and array.shape == shape
