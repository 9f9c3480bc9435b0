"""What is known of labels apart from any model: their frequency, their text, and the mean of their training points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.encode import SparseRows
from longtail.kernels.likeness import LabelVectors, Profile, write_likeness
from longtail.kernels.pool import spread
from longtail.linear.tree import mean_label_vectors
from longtail.sparse import (
    Arrays,
    csr_arrays,
    csr_from_arrays,
    entry_rows,
    frozen,
    frozen_csr,
    label_counts,
    labelled_rows,
    resized,
    select_entries,
    select_labels,
    unit_rows,
)

_WIDTH = 64  # strongest features kept of the mean of a label's points; 256 were no better on held-out points
_NO_VECTORS = LabelVectors(
    *(frozen(np.zeros(size, dtype)) for size, dtype in ((1, np.int64), (0, np.int32), (0, np.float32)))
)


@dataclass
class LabelProfile:
    """Label text and centroids as sparse vectors of length 1; each may be missing.

    Attributes
    ----------
    text : csr_array, (L, D), optional
    centroids : csr_array, (L, D), optional
        Mean of a label's training points.
    """

    text: csr_array | None = None
    centroids: csr_array | None = None

    @classmethod
    def of(cls, X: csr_array, Y: csr_array, Z: csr_array | None, n_jobs: int | None, centroids: bool = True) -> Self:
        """Compute label text and label centroids."""
        text = None if Z is None or not Z.nnz else frozen_csr(unit_rows(Z))
        return cls(text, frozen_csr(mean_label_vectors(X, Y, _WIDTH, n_jobs)) if centroids else None)

    @property
    def width(self) -> int:
        """Number of likeness features of a pair."""
        return 3 * (self.text is not None) + (self.centroids is not None)

    def likeness(self, points: SparseRows, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return how alike points and listed labels (N, S) are, (N, S, width)."""
        out = np.empty((*labels.shape, self.width), np.float32)
        profile = self.packed()
        spread(lambda block: write_likeness(points, profile, labels, *block, out), len(labels), n_jobs)
        return out

    def packed(self) -> Profile:
        """Return the profile as the tuple of arrays that kernels take."""
        return Profile(_vectors(self.text), _vectors(self.centroids))

    def append(self, Z: csr_array) -> None:
        """Add labels that have text only."""
        from scipy.sparse import vstack

        if self.text is not None:
            self.text = frozen_csr(csr_array(vstack([self.text, unit_rows(Z)], format="csr")))
        if self.centroids is not None:
            self.centroids = frozen_csr(resized(self.centroids, self.centroids.shape[0] + Z.shape[0]))

    def update(self, X: csr_array, Y: csr_array, labels: np.ndarray, n_jobs: int | None) -> None:
        """Compute the centroids of some labels again, from all points (N, D) and their labels (N, L)."""
        if self.centroids is None:
            return
        chosen = np.zeros(Y.shape[1], np.bool_)
        chosen[labels] = True
        theirs = select_labels(Y, chosen)
        rows = labelled_rows(theirs)
        fresh = mean_label_vectors(X[rows], theirs[rows], _WIDTH, n_jobs)
        kept = select_entries(self.centroids, ~chosen[entry_rows(self.centroids)])
        self.centroids = frozen_csr(csr_array(kept + fresh))

    # Storing -----------------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return what to store."""
        held = {"profile_text": self.text, "profile_centroids": self.centroids}
        return {key: array for name, m in held.items() if m is not None for key, array in csr_arrays(name, m).items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, shape: tuple[int, int]) -> Self:
        """Build what :meth:`arrays` took apart."""
        return cls(*(csr_from_arrays(f"profile_{name}", arrays, shape) for name in ("text", "centroids")))


def _vectors(matrix: csr_array | None) -> LabelVectors:
    if matrix is None:
        return _NO_VECTORS
    return LabelVectors(matrix.indptr, matrix.indices, matrix.data)


def frequencies(Y: csr_array) -> np.ndarray:
    """Return how often each label occurs, as the combiner uses it: log(1 + its points) / log(1 + all points)."""
    return (np.log1p(label_counts(Y)) / np.log1p(Y.shape[0])).astype(np.float32)
