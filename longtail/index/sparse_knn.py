"""Nearest neighbours among sparse points: no training, and every label that has a point can be found.

Points are compared by the cosine of their heaviest features, through an inverted index; the nearest ones vote for their
labels with a power of their similarity.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from longtail.kernels import sparse_knn as kernels
from longtail.kernels.best import n_lanes
from longtail.kernels.pool import FEW_SLOW_ROWS, spread
from longtail.kernels.sparse_knn import InvertedIndex, Votes, VoteScratch, VoteSettings
from longtail.sparse import frozen, resized, short_starts, unit_rows
from longtail.store.invariants import Rules, cosines, floats, indices, pointers

TERMS = 32  # heaviest features of a point that take part: more is slower on long texts, and hardly better
# Stored points met by way of a query's features, after which its most frequent ones are left out. With 45,000 points
# the lower number takes two thirds of the time and lowered P@1, P@5 and recall of held-out points by 0.3 at most
# (Debian packages, Tate, EU laws); with 500,000 (yso-titles) by 0.4, 0.3 and 0.9.
LEAST_COMPARED, MOST_COMPARED = 1 << 14, 1 << 15
_ARRAYS = ("ptr", "rows", "values", "label_ptr", "labels")
_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-6, 1e3  # beyond what can be learnt


@dataclass
class SparseKNN:
    """Stored points and their labels.

    Attributes
    ----------
    ptr, rows, values : arrays
        Points by feature.
    label_ptr, labels : arrays
        Labels by point.
    n_labels : int
    weights : array, (D,), optional
        What features are multiplied by before points are compared; see :mod:`longtail.index.feature_weights`.
    """

    ptr: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray
    n_labels: int
    weights: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))

    def __post_init__(self) -> None:
        for name in (*_ARRAYS, "weights"):
            setattr(self, name, frozen(getattr(self, name)))
        self._most = int(np.diff(self.label_ptr).max(initial=0))
        self.usually_compared = min(max((len(self.label_ptr) - 1) // 4, LEAST_COMPARED), MOST_COMPARED)
        self._scratch = threading.local()

    @classmethod
    def of(cls, X: csr_array, Y: csr_array, before: SparseKNN | None = None, weights: np.ndarray | None = None) -> Self:
        """Store points and their labels after those of `before`; Y has the columns of all labels.

        `weights` are those of features; those of `before`, if it is given.
        """
        weights = before.weights if before is not None else np.empty(0, np.float32) if weights is None else weights
        data = X.data * weights[X.indices] if len(weights) else X.data
        ptr, idx, val = kernels.heaviest(X.indptr, X.indices, data, TERMS)
        points = csr_array((val, idx, short_starts(ptr)), shape=X.shape)
        if before is not None:
            old, labels = before._points(X.shape[1]), before._labels()
            points, Y = vstack([old, points]), csr_array(vstack([resized(labels, n_columns=Y.shape[1]), Y]))
        by_feature = csc_array(points)
        by_feature.sort_indices()  # points in ascending order: sums do not depend on how they were collected
        return cls(
            by_feature.indptr.astype(np.int64),
            by_feature.indices.astype(np.int32, copy=False),
            by_feature.data,
            Y.indptr.astype(np.int64),
            Y.indices.astype(np.int32),
            Y.shape[1],
            weights,
        )

    def matrices(self, n_features: int) -> tuple[csr_array, csr_array]:
        """Return the heaviest features of the stored points, rows of length 1, (N, D), and their labels, (N, L)."""
        points = self._points(n_features)
        if len(self.weights):
            points.data /= self.weights[points.indices]
            points = unit_rows(points)
        return points, self._labels()

    def _points(self, n_features: int) -> csr_array:
        """Return the heaviest features of the stored points, weighed and scaled to length 1, (N, D)."""
        n = len(self.label_ptr) - 1
        return csr_array(csc_array((self.values, self.rows, self.ptr), shape=(n, n_features)))

    def _labels(self) -> csr_array:
        """Return the labels of the stored points, (N, L)."""
        n = len(self.label_ptr) - 1
        return csr_array((np.ones(len(self.labels), np.float32), self.labels, self.label_ptr), shape=(n, self.n_labels))

    def __getstate__(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what to store, but for the number of labels."""
        return {name: getattr(self, name) for name in (*_ARRAYS, *["weights"][: len(self.weights)])}

    @staticmethod
    def array_rules(weighed: bool = False) -> Rules:
        """Declare what the arrays must be; D and L are the numbers of features and labels."""
        return Rules(
            ({"weights": floats("D", least=_LEAST_WEIGHT, most=_LARGEST_WEIGHT)} if weighed else {})
            | {
                "ptr": pointers("D+1", into="entries", dtypes="i8"),
                "rows": indices("entries", below="N"),
                "values": cosines("entries"),
                "label_ptr": pointers("N+1", into="label_entries", dtypes="i8"),
                "labels": indices("label_entries", below="L"),
            }
        )

    def vote(
        self,
        points: Any,
        n_neighbors: int,
        k: int,
        n_jobs: int | None,
        shared: bool = True,
        in_order: bool = True,
        sharpness: int = 2,
        n_compared: int | None = None,
    ) -> Votes:
        """Return the k best labels per point, and the highest similarity of each point.

        Parameters
        ----------
        points : NamedTuple of (ptr, idx, val)
            Points to compare.
        n_neighbors : int
            Stored points that vote.
        k : int
            Labels per point, at most.
        n_jobs : int, optional
            Number of threads.
        shared : bool
            Score a label by its share of the votes, or by the similarity of the most similar point that has it.
        in_order : bool
            Return the labels of a point from the best to the worst. Sorting takes a tenth of the time.
        sharpness : int
            Power of the similarity that is the weight of a vote.
        n_compared : int, optional
            Stored points met by way of a point's features, after which its most frequent ones are left out. By default
            the `usually_compared` of this index.
        """
        n = len(points.ptr) - 1
        out = Votes(
            np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.zeros(n, np.int32), np.zeros(n, np.float32)
        )
        n_neighbors = min(n_neighbors, max(1, len(self.label_ptr) - 1))  # scratch is in proportion to it
        settings = VoteSettings(
            n_neighbors,
            n_lanes(n_neighbors),
            TERMS,
            n_compared or self.usually_compared,
            self._most,
            shared,
            sharpness,
            in_order,
        )
        index = self._index

        def work(block: tuple[int, int]) -> None:
            kernels.vote(points, index, settings, self._buffers(), *block, out)

        spread(work, n, n_jobs, FEW_SLOW_ROWS)
        return out

    def nearest(
        self, indices: np.ndarray, values: np.ndarray, n: int, n_compared: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the stored points that vote for one point, and their similarities, the highest first.

        Parameters
        ----------
        indices, values : arrays
            Features of the point.
        n : int
            Number of stored points, at most.
        n_compared : int, optional
            As in :meth:`vote`.
        """
        indices, values = np.asarray(indices, np.int32), np.asarray(values, np.float32)
        if len(self.weights):
            values = values * self.weights[indices]
        points = (np.array([0, len(indices)]), indices, values)
        _, terms, weights = kernels.heaviest(*points, TERMS)
        sizes = self.ptr[terms + 1] - self.ptr[terms]
        order = np.argsort(sizes, kind="stable")
        met = np.cumsum(sizes[order])
        rarest = met == sizes[order]  # it takes part in any case
        order = order[(met <= (n_compared or self.usually_compared)) | rarest]
        near = np.zeros(len(self.label_ptr) - 1, np.float32)
        for term, weight in zip(terms[order].tolist(), weights[order].tolist(), strict=True):
            span = slice(self.ptr[term], self.ptr[term + 1])
            near[self.rows[span]] += np.float32(weight) * self.values[span]
        best = np.argsort(-near, kind="stable")[:n]
        best = best[near[best] > 0]
        return best, near[best]

    def point_rows(self, features: np.ndarray, points: Sequence[int], n_features: int) -> csr_array:
        """Return the stored values of some features, one row per listed point, (len(points), D)."""
        values = np.zeros((len(points), len(features)), np.float32)
        for at, feature in enumerate(np.asarray(features).tolist()):
            span = slice(self.ptr[feature], self.ptr[feature + 1])
            place = np.searchsorted(self.rows[span], points)
            hit = np.flatnonzero(place < self.ptr[feature + 1] - self.ptr[feature])
            hit = hit[self.rows[span][place[hit]] == np.asarray(points)[hit]]
            values[hit, at] = self.values[span][place[hit]]
        rows, columns = np.nonzero(values)
        shape = (len(points), n_features)
        return csr_array((values[rows, columns], (rows, np.asarray(features)[columns])), shape=shape)

    @cached_property
    def _index(self) -> InvertedIndex:
        """Return what the kernels take; the largest values are found at the first use, not while a model is loaded."""
        peaks = np.empty(len(self.ptr) - 1, np.float32)
        kernels.write_peaks(self.ptr, self.values, peaks)
        return InvertedIndex(self.ptr, self.rows, self.values, frozen(peaks), self.label_ptr, self.labels, self.weights)

    def _buffers(self) -> VoteScratch:
        """Return the scratch memory of this thread, kept between calls."""
        if not hasattr(self._scratch, "buffers"):
            self._scratch.buffers = VoteScratch(
                np.zeros(len(self.label_ptr) - 1, np.float32),
                np.zeros(self.n_labels, np.float32),
                np.empty(self.usually_compared, np.int32),
                np.empty(self.usually_compared, np.float32),
            )
        return self._scratch.buffers
