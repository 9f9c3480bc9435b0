"""What every index is: vectors that can be searched, added to, and stored as plain arrays.

Scores: higher is better. ``ip`` the inner product, ``cosine`` the cosine (0 where a vector has no length), ``l2`` minus
the squared distance. Equal scores rank by smaller id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np

from longtail.errors import DataError, ModelError, SettingsError
from longtail.kernels import pool
from longtail.kernels import search as kernels

METRICS = ("ip", "cosine", "l2")
Found = tuple[np.ndarray, np.ndarray]


class Index(ABC):
    """Vectors under search.

    Parameters
    ----------
    vectors : array, shape (n, d)
        Kept as float32, without a copy where they are float32 rows already (``cosine`` keeps a scaled copy unless they
        have unit length). Ids are their row numbers.
    metric : {"ip", "cosine", "l2"}
        What is searched for; see this module.
    """

    kind: ClassVar[str]

    def __init__(self, vectors: np.ndarray, metric: str = "ip") -> None:
        self._set_metric(metric)
        self._hold(*self._prepared(vectors, "vector"))

    def _set_metric(self, metric: str) -> None:
        if metric not in METRICS:
            raise SettingsError(f"metric={metric!r}: choose one of {', '.join(METRICS)}.")
        self.metric = metric
        self._l2 = metric == "l2"

    def _hold(self, rows: np.ndarray, squares: np.ndarray) -> None:
        self._rows, self._squares = frozen(rows), frozen(squares)
        self._largest = np.float32(squares.max(initial=0.0))

    def _hold_stored(self, arrays: dict[str, np.ndarray]) -> None:
        """Hold vectors that were checked before they were stored; reading them all again would undo memory-mapping."""
        rows, squares = arrays["vectors"], arrays["squares"]
        if rows.ndim != 2 or rows.dtype != np.float32 or squares.shape != rows.shape[:1] or squares.dtype != np.float32:
            raise ModelError("the vectors of a stored index are damaged. Train or copy the model again.")
        self._hold(rows, squares)

    @property
    def vectors(self) -> np.ndarray:
        """What is searched, shape (n, d); of unit length where the metric is the cosine. Not to be written to."""
        return self._rows

    @property
    def width(self) -> int:
        """How long a vector is."""
        return self._rows.shape[1]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} x {self.width}, metric={self.metric!r})"

    def search(self, queries: np.ndarray, k: int, *, n_jobs: int | None = None) -> Found:
        """The k best vectors of each query.

        Parameters
        ----------
        queries : array, shape (m, d)
            The queries.
        k : int
            How many to find.
        n_jobs : int, optional
            Threads; every core by default.

        Returns
        -------
        ids : int32 array, shape (m, k)
            Best first; -1 where there are fewer than k vectors.
        scores : float32 array, shape (m, k)
            Their scores; minus infinity beside -1.
        """
        _check_k(k)
        queries, squares = self._prepared(queries, "query")
        if not len(self) or not len(queries):
            return np.full((len(queries), k), -1, np.int32), np.full((len(queries), k), -np.inf, np.float32)
        return self._search(queries, squares, k, n_jobs)

    def search_one(self, query: np.ndarray, k: int) -> Found:
        """The k best vectors of one query, shape (d,), on this thread: ids and scores, shape (min(k, found),)."""
        if type(query) is not np.ndarray or query.ndim != 1:
            query = np.asarray(query)
            if query.ndim != 1:
                raise DataError(f"a query of shape {query.shape}", remedy="Give one vector, or use search for many.")
        _check_k(k)
        query, _ = self._prepared(query[None], "query")
        if not len(self):
            return np.empty(0, np.int32), np.empty(0, np.float32)
        return self._search_one(query[0], min(k, len(self)))

    def add(self, vectors: np.ndarray) -> None:
        """Append vectors; their ids continue.

        Add many at once, since each call may move what is there, and not while other threads search.
        """
        rows, squares = self._prepared(vectors, "vector")
        if len(rows):
            self._hold(np.concatenate((self._rows, rows)), np.concatenate((self._squares, squares)))
            self._added(len(self._rows) - len(rows))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Settings as JSON values, and arrays to store; :func:`longtail.index.from_arrays` makes the index again."""
        meta, arrays = self._state()
        return {"kind": self.kind, "metric": self.metric, **meta}, arrays

    @abstractmethod
    def _search(self, queries: np.ndarray, squares: np.ndarray, k: int, n_jobs: int | None) -> Found:
        """`search` for checked queries and at least one vector."""

    @abstractmethod
    def _search_one(self, query: np.ndarray, k: int) -> Found:
        """`search_one` for a checked query and k at most the number of vectors."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...

    @classmethod
    @abstractmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Index: ...

    def _added(self, first: int) -> None:  # noqa: B027 (an index may have nothing to do)
        """Take in the rows from `first` on, which are new."""

    def _prepared(self, rows: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows as float32 of the right width, of unit length for the cosine, and their squared lengths."""
        rows = np.asarray(rows)
        if rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "fiub":
            raise DataError(
                f"{what}s of shape {rows.shape} and type {rows.dtype}", remedy="Give an array of numbers, a row each."
            )
        if hasattr(self, "_rows") and rows.shape[1] != self.width:
            raise DataError(
                f"{what}s of length {rows.shape[1]}, but the index holds vectors of length {self.width}",
                remedy="Give vectors made by the same model.",
            )
        with np.errstate(over="ignore"):  # becomes infinite, which is refused below with the row's number
            rows = np.ascontiguousarray(rows, np.float32)
        rows = frozen(rows)
        squares = np.empty(len(rows), np.float32)
        bad = kernels.squares(rows, squares)
        if bad >= 0:
            raise DataError(
                f"{what} that holds a value that is not a number, or too large", row=bad, remedy="Look for its source."
            )
        if self.metric == "cosine" and not kernels.all_unit(squares):
            scaled = np.empty_like(rows)
            kernels.unit_rows(rows, scaled)
            rows = frozen(scaled)
            kernels.squares(rows, squares)
        return rows, squares


def frozen(array: np.ndarray) -> np.ndarray:
    """The same memory, not to be written to: what is mapped, given or made then has one type, compiled for once."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def limit_blas(n_jobs: int | None) -> AbstractContextManager[Any]:
    """Keep matrix products to `n_jobs` threads where that is fewer than there are cores."""
    if pool.cores(n_jobs) == pool.cores(None):
        return nullcontext()
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(pool.cores(n_jobs))


def _check_k(k: int) -> None:
    if k < 1:
        raise SettingsError(f"k={k}: ask for at least one.")
