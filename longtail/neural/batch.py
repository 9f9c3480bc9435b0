"""Mini-batches: their points as a small CSR matrix, and the candidate labels that these are scored against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import rows as kernels
from longtail.kernels.gather import gather_rows
from longtail.sparse import label_counts


@dataclass
class Points:
    """Points of a batch, as a CSR matrix whose columns are the features that occur in them."""

    ptr: np.ndarray  # (B + 1,)
    idx: np.ndarray  # positions in `features`
    val: np.ndarray
    features: np.ndarray  # (F,) the row of each column in the token table

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the batch by columns (CSC): ptr, row, value."""
        return kernels.columns(self.ptr, self.idx, self.val, len(self.features))

    def drop(self, keep: float, rng: np.random.Generator) -> None:
        """Apply input dropout (GLaS §3.3): keep each feature with probability `keep`, scaled by 1 / keep."""
        if keep < 1:
            kept = rng.random(len(self.val), dtype=np.float32) < keep
            self.val *= kept * np.float32(1 / keep)

    def average(self) -> None:
        """Divide each point by the number of its non-zero features, so that sums become means (MNN eq. 2 and 6)."""
        n_before = np.concatenate([[0], np.cumsum(self.val != 0)])
        counts = n_before[self.ptr[1:]] - n_before[self.ptr[:-1]]
        self.val *= np.repeat((1 / np.maximum(counts, 1)).astype(np.float32), np.diff(self.ptr))


def points(X: csr_array, rows: np.ndarray, place: np.ndarray, unit: bool) -> Points:
    """Gather rows of X as a batch.

    Parameters
    ----------
    X : csr_array, (N, D)
        Points.
    rows : array, (B,)
        Rows of X to gather.
    place : int array, (D,)
        Scratch memory, all -1.
    unit : bool
        Scale each point to length 1.
    """
    ptr, idx, val, square, features = gather_rows(X.indptr, X.indices, X.data, rows, place)
    if unit:
        scale = np.where(square > 0, 1 / np.sqrt(np.where(square > 0, square, 1)), 1).astype(np.float32)
        val *= np.repeat(scale, np.diff(ptr))
    return Points(ptr, idx, val, features)


@dataclass
class Candidates:
    """Labels that a batch is scored against, and the positives of each point among them."""

    labels: np.ndarray  # (C,) ascending
    ptr: np.ndarray  # (B + 1,) where the positives of each point begin in `places`
    places: np.ndarray  # positives, as positions in `labels`
    rates: np.ndarray | None  # (C,) probability that a label is a candidate; None if all labels are


class CandidateSampler:
    """Draws the candidates of a batch.

    If labels are few, all of them are candidates. Otherwise these are the positives of the batch and labels drawn
    uniformly, with replacement.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of training points.
    n_candidates : int
        Number of labels drawn per batch. With no more labels than this, all labels are candidates.
    batch_size : int
        Points per batch, from which the probability of being a candidate is computed.
    """

    def __init__(self, Y: csr_array, n_candidates: int, batch_size: int) -> None:
        self.Y, self.n_labels, self.batch_size = Y, Y.shape[1], batch_size
        self.n_drawn = n_candidates
        self.all = n_candidates >= self.n_labels
        self.labels = np.arange(self.n_labels, dtype=np.int32)
        self.place = np.full(self.n_labels, -1, np.int32)
        if self.all:
            return
        frequency = label_counts(Y) / Y.shape[0]
        absent = (1 - frequency) ** batch_size * (1 - 1 / self.n_labels) ** self.n_drawn  # drawn with replacement
        self.rates = np.maximum(1 - absent, 1e-6).astype(np.float32)

    def on(self, Y: csr_array) -> CandidateSampler:
        """Return a sampler with the same settings for other points."""
        return CandidateSampler(Y, self.n_drawn, self.batch_size)

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> Candidates:
        """Draw the candidates of one batch."""
        ptr, own = kernels.positives(self.Y.indptr, self.Y.indices, rows, self.labels)
        if self.all:
            return Candidates(self.labels, ptr, own, None)
        labels = np.union1d(own, rng.integers(self.n_labels, size=self.n_drawn, dtype=np.int32))
        self.place[labels] = np.arange(len(labels))
        places = self.place[own]
        self.place[labels] = -1
        return Candidates(labels, ptr, places, self.rates[labels])


def looks_binary(X: csr_array) -> bool:
    """Return whether features are just present or absent: all values of a point are the same, whatever its length."""
    if X.nnz == 0:
        return False
    first = np.repeat(X.data[np.minimum(X.indptr[:-1], X.nnz - 1)], np.diff(X.indptr))
    return bool(np.allclose(X.data, first, rtol=1e-4))


def rarity(X: csr_array) -> np.ndarray:
    """Return the smoothed inverse document frequency of each feature: log((1 + N) / (1 + points that have it)) + 1."""
    return (np.log((1 + X.shape[0]) / (1 + label_counts(X))) + 1).astype(np.float32)
