"""The interface of every index: vectors that can be searched, added to, and stored as plain arrays.

Scores: higher is better. ``ip`` is the inner product, ``cosine`` the cosine (0 where a vector has no length). Equal
scores rank by smaller id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from longtail.errors import DataError, SettingsError
from longtail.kernels import search as kernels
from longtail.params import OneOf
from longtail.sparse import frozen
from longtail.store.facts import check_facts
from longtail.store.invariants import Rules, cosines, floats

METRICS = ("ip", "cosine")
IdsAndScores = tuple[np.ndarray, np.ndarray]


class Vectors(NamedTuple):
    """Checked vectors and their squared lengths."""

    rows: np.ndarray  # (n, d) float32, read-only
    squares: np.ndarray  # (n,)


class Index(ABC):
    """Vectors under search.

    Parameters
    ----------
    vectors : array, shape (n, d)
        Stored as float32, without a copy if they are float32 rows already (``cosine`` stores a scaled copy unless they
        have unit length). Ids are their row numbers.
    metric : {"ip", "cosine"}
        The score: see this module.
    """

    kind: ClassVar[str]

    def __init__(self, vectors: np.ndarray, metric: str = "ip") -> None:
        if metric not in METRICS:
            raise SettingsError(f"metric={metric!r}: choose one of {', '.join(METRICS)}.")
        self.metric = metric
        self._held = checked(vectors, "vector", metric)

    @classmethod
    def _from_stored(cls, meta: dict[str, Any], vectors: Vectors) -> Self:
        """Return an index of stored vectors; its other parts are still missing."""
        index = cls.__new__(cls)
        index.metric = meta["metric"]
        index._held = Vectors(*map(frozen, vectors))
        return index

    @property
    def vectors(self) -> np.ndarray:
        """The vectors searched, shape (n, d), read-only; of unit length if the metric is the cosine."""
        return self._held.rows

    @property
    def width(self) -> int:
        """Length of a vector."""
        return self._held.rows.shape[1]

    def __len__(self) -> int:
        return len(self._held.rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} x {self.width}, metric={self.metric!r})"

    def search(self, queries: np.ndarray, k: int, *, n_jobs: int | None = None) -> IdsAndScores:
        """Find the k best vectors of each query.

        Parameters
        ----------
        queries : array, shape (m, d)
            The queries.
        k : int
            Number of vectors to find per query.
        n_jobs : int, optional
            Number of threads; all cores by default.

        Returns
        -------
        ids : int32 array, shape (m, k)
            Best first; -1 where there are fewer than k vectors.
        scores : float32 array, shape (m, k)
            Their scores; minus infinity beside -1.
        """
        _check_k(k)
        prepared = checked(queries, "query", self.metric, self.width)
        if not len(self) or not len(prepared.rows):
            shape = (len(prepared.rows), k)
            return np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
        if len(prepared.rows) == 1:  # without the threads and limits of a batch, which take longer than the search
            ids, scores = self._search_one(prepared.rows[0], min(k, len(self)))
            fill = (0, k - len(ids))
            return np.pad(ids, fill, constant_values=-1)[None], np.pad(scores, fill, constant_values=-np.inf)[None]
        return self._search(prepared, k, n_jobs)

    def search_one(self, query: np.ndarray, k: int, *, trusted: bool = False) -> IdsAndScores:
        """Find the k best vectors of one query, shape (d,), on this thread.

        Parameters
        ----------
        query : array, shape (d,)
            The query.
        k : int
            Number of vectors to find.
        trusted : bool
            Take the query as it is, without checks: float32, finite, of the right length, and not for the cosine.

        Returns
        -------
        ids, scores : arrays, shape (min(k, n),)
            Best first.
        """
        if trusted and len(self):
            return self._search_one(frozen(query), min(k, len(self)))
        if type(query) is not np.ndarray or query.ndim != 1:
            query = np.asarray(query)
            if query.ndim != 1:
                raise DataError(
                    f"a query of shape {query.shape}", remedy="Give one vector, or call search for several."
                )
        _check_k(k)
        prepared = checked(query[None], "query", self.metric, self.width)
        if not len(self):
            return np.empty(0, np.int32), np.empty(0, np.float32)
        return self._search_one(prepared.rows[0], min(k, len(self)))

    def add(self, vectors: np.ndarray) -> None:
        """Append vectors; their ids continue.

        Add many at once, because each call may move all vectors, and not while other threads search.
        """
        new = checked(vectors, "vector", self.metric, self.width)
        if len(new.rows):
            before = len(self)
            pairs = zip(self._held, new, strict=True)
            self._held = Vectors(*(frozen(np.concatenate(pair)) for pair in pairs))
            self._added(before)

    def extended(self, vectors: np.ndarray) -> Self:
        """Return an index of these and further vectors; this one stays as it is.

        Parameters
        ----------
        vectors : array, shape (n, d)
            As for :meth:`add`.
        """
        twin = copy(self)
        twin.add(vectors)
        return twin

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return settings as JSON values, and arrays; :func:`longtail.index.from_arrays` restores the index."""
        meta, arrays = self._state()
        return {"kind": self.kind, "metric": self.metric, **meta}, arrays

    @abstractmethod
    def _search(self, queries: Vectors, k: int, n_jobs: int | None) -> IdsAndScores:
        """Search for checked queries among at least one vector."""

    @abstractmethod
    def _search_one(self, query: np.ndarray, k: int) -> IdsAndScores:
        """Search for one checked query; k is at most the number of vectors."""

    @classmethod
    def array_rules(cls, meta: dict[str, Any], n: str, width: str) -> Rules:
        """Declare what the arrays of :meth:`to_arrays` must be, for `n` vectors of `width` numbers."""
        check_facts({"metric": OneOf(*METRICS)}, meta, "a stored index")
        number = cosines if meta["metric"] == "cosine" else floats
        return Rules({"vectors": number(f"{n} {width}"), "squares": floats(n, least=0)})

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...

    @classmethod
    @abstractmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Index: ...

    def _added(self, first: int) -> None:  # noqa: B027 (an index may have nothing to do)
        """Index the rows from `first` on, which are new."""


def checked(rows: np.ndarray, what: str, metric: str, width: int | None = None) -> Vectors:
    """Return rows as float32 of the given width, scaled to length 1 for the cosine, and their squared lengths."""
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "fiub":
        raise DataError(
            f"{what}s of shape {rows.shape} and type {rows.dtype}", remedy="Give an array of numbers, one row each."
        )
    if width is not None and rows.shape[1] != width:
        raise DataError(
            f"{what}s of length {rows.shape[1]}, but the index holds vectors of length {width}",
            remedy="Give vectors made by the same model.",
        )
    with np.errstate(over="ignore"):  # becomes infinite, which is refused below with the row's number
        rows = np.ascontiguousarray(rows, np.float32)
    rows = frozen(rows)
    squares = np.empty(len(rows), np.float32)
    bad = kernels.squares(rows, squares)
    if bad >= 0:
        raise DataError(
            f"{what} that holds a value that is not a number, or too large",
            row=bad,
            remedy="Check how the vectors were made.",
        )
    if metric == "cosine" and not kernels.all_unit(squares):
        scaled = np.empty_like(rows)
        kernels.scale_rows(rows, scaled)
        rows = frozen(scaled)
        kernels.squares(rows, squares)
    return Vectors(rows, frozen(squares))


def _check_k(k: int) -> None:
    if k < 1:
        raise SettingsError(f"k={k}: give at least one.")
