"""The interface of every index: search vectors, add vectors, store them as plain arrays.

The score of a vector is its inner product with the query (``ip``) or the cosine of the two (``cosine``; 0 if one of
them is all zeros). Higher is better. Equal scores rank by smaller id.
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
    """Base class of indexes.

    Parameters
    ----------
    vectors : array, shape (n, d)
        The vectors to search. Their ids are their row numbers. Float32 rows are used without a copy, except that
        ``cosine`` copies vectors that do not have length 1 and scales the copy.
    metric : {"ip", "cosine"}
        The score; see :mod:`longtail.index.base`.
    """

    kind: ClassVar[str]

    def __init__(self, vectors: np.ndarray, metric: str = "ip") -> None:
        if metric not in METRICS:
            raise SettingsError(f"metric={metric!r}: choose one of {', '.join(METRICS)}.")
        self.metric = metric
        self._stored = checked(vectors, "vector", metric)

    @classmethod
    def _from_stored(cls, meta: dict[str, Any], vectors: Vectors) -> Self:
        """Return an index that has metric and vectors; a subclass sets its other attributes."""
        index = cls.__new__(cls)
        index.metric = meta["metric"]
        index._stored = Vectors(*map(frozen, vectors))
        return index

    @property
    def vectors(self) -> np.ndarray:
        """The vectors searched, shape (n, d), read-only; scaled to length 1 if the metric is the cosine."""
        return self._stored.rows

    @property
    def width(self) -> int:
        """Number of coordinates of a vector."""
        return self._stored.rows.shape[1]

    def __len__(self) -> int:
        return len(self._stored.rows)

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
        if len(prepared.rows) == 1:  # starting threads takes longer than a search for one query
            ids, scores = self._search_one(prepared.rows[0], min(k, len(self)))
            fill = (0, k - len(ids))
            return np.pad(ids, fill, constant_values=-1)[None], np.pad(scores, fill, constant_values=-np.inf)[None]
        return self._search(prepared, k, n_jobs)

    def search_one(self, query: np.ndarray, k: int, *, trusted: bool = False) -> IdsAndScores:
        """Find the k best vectors of one query on the calling thread.

        Parameters
        ----------
        query : array, shape (d,)
            The query.
        k : int
            Number of vectors to find.
        trusted : bool
            Skip all checks. The query must be float32, finite and of the right length, and the metric ``ip``.

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
        """Append vectors; their ids follow the present ones.

        Add many vectors per call: each call copies all vectors. Do not add while other threads search.
        """
        new = checked(vectors, "vector", self.metric, self.width)
        if len(new.rows):
            first = len(self)
            pairs = zip(self._stored, new, strict=True)
            self._stored = Vectors(*(frozen(np.concatenate(pair)) for pair in pairs))
            self._index_from(first)

    def extended(self, vectors: np.ndarray) -> Self:
        """Return an index of the present vectors and further ones; this index does not change.

        Parameters
        ----------
        vectors : array, shape (n, d)
            As for :meth:`add`.
        """
        twin = copy(self)
        twin.add(vectors)
        return twin

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return settings as JSON values, and arrays. :func:`longtail.index.from_arrays` restores the index."""
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
        """Declare the rules that the arrays of :meth:`to_arrays` must meet, for `n` vectors of `width` numbers."""
        check_facts({"metric": OneOf(*METRICS)}, meta, "a stored index")
        number = cosines if meta["metric"] == "cosine" else floats
        return Rules({"vectors": number(f"{n} {width}"), "squares": floats(n, least=0)})

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...

    @classmethod
    @abstractmethod
    def _restored(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Index: ...

    def _index_from(self, first: int) -> None:  # noqa: B027 (an exact index has nothing to do)
        """Index the new vectors, those from row `first` on."""


def checked(rows: np.ndarray, what: str, metric: str, width: int | None = None) -> Vectors:
    """Check vectors, convert them to float32, and scale them to length 1 if the metric is the cosine.

    Parameters
    ----------
    rows : array, shape (n, d)
        Vectors or queries.
    what : str
        Their name in error messages: "vector" or "query".
    metric : {"ip", "cosine"}
        The score.
    width : int, optional
        Number of coordinates that they must have.
    """
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
    with np.errstate(over="ignore"):  # too large numbers become infinite; the error below names their row
        rows = np.ascontiguousarray(rows, np.float32)
    rows = frozen(rows)
    squares = np.empty(len(rows), np.float32)
    bad = kernels.squares(rows, squares)
    if bad >= 0:
        raise DataError(
            f"{what} with a value that is not a number, or too large",
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
