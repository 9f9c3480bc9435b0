"""Properties of labels that no member provides: their frequency, their text, and the mean of their training points."""

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

_WIDTH = 64  # strongest features kept of a centroid; 256 were no better on held-out points
_NO_VECTORS = LabelVectors(
    *(frozen(np.zeros(size, dtype)) for size, dtype in ((1, np.int64), (0, np.int32), (0, np.float32)))
)


@dataclass
class LabelProfile:
    """Label text and label centroids as sparse vectors of length 1; each may be missing.

    Attributes
    ----------
    text : csr_array, (L, D), optional
        Features of each label's text.
    centroids : csr_array, (L, D), optional
        Mean of each label's training points.
    """

    text: csr_array | None = None
    centroids: csr_array | None = None

    @classmethod
    def of(cls, X: csr_array, Y: csr_array, Z: csr_array | None, n_jobs: int | None, centroids: bool = True) -> Self:
        """Build the profile from training points X, their labels Y and label text Z, with centroids or without."""
        text = None if Z is None or not Z.nnz else frozen_csr(unit_rows(Z))
        return cls(text, frozen_csr(mean_label_vectors(X, Y, _WIDTH, n_jobs)) if centroids else None)

    @property
    def width(self) -> int:
        """Number of similarity features of a (point, label) pair."""
        return 3 * (self.text is not None) + (self.centroids is not None)

    def likeness(self, points: SparseRows, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Compute the similarity features of points and their listed labels (N, S), as (N, S, width)."""
        out = np.empty((*labels.shape, self.width), np.float32)
        profile = self.packed()
        spread(lambda block: write_likeness(points, profile, labels, *block, out), len(labels), n_jobs)
        return out

    def packed(self) -> Profile:
        """Return the profile as the tuple of arrays that kernels take."""
        return Profile(_vectors(self.text), _vectors(self.centroids))

    def append(self, Z: csr_array) -> None:
        """Append labels that have text Z (n, D) and no training points."""
        from scipy.sparse import vstack

        if self.text is not None:
            self.text = frozen_csr(csr_array(vstack([self.text, unit_rows(Z)], format="csr")))
        if self.centroids is not None:
            self.centroids = frozen_csr(resized(self.centroids, self.centroids.shape[0] + Z.shape[0]))

    def update(self, X: csr_array, Y: csr_array, labels: np.ndarray, n_jobs: int | None) -> None:
        """Recompute the centroids of `labels` from all points X (N, D) and their labels Y (N, L)."""
        if self.centroids is None:
            return
        updated = np.zeros(Y.shape[1], np.bool_)
        updated[labels] = True
        Y = select_labels(Y, updated)
        rows = labelled_rows(Y)
        fresh = mean_label_vectors(X[rows], Y[rows], _WIDTH, n_jobs)
        kept = select_entries(self.centroids, ~updated[entry_rows(self.centroids)])
        self.centroids = frozen_csr(csr_array(kept + fresh))

    # Storing -----------------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return the arrays to store."""
        matrices = {"profile_text": self.text, "profile_centroids": self.centroids}
        present = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        return {key: array for name, matrix in present.items() for key, array in csr_arrays(name, matrix).items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, shape: tuple[int, int]) -> Self:
        """Restore what :meth:`arrays` returned; `shape` is (L, D)."""
        return cls(*(csr_from_arrays(f"profile_{name}", arrays, shape) for name in ("text", "centroids")))


def _vectors(matrix: csr_array | None) -> LabelVectors:
    if matrix is None:
        return _NO_VECTORS
    return LabelVectors(matrix.indptr, matrix.indices, matrix.data)


def frequencies(Y: csr_array) -> np.ndarray:
    """Return the frequency of each label as the combiner uses it: log(1 + its points) / log(1 + all points)."""
    return (np.log1p(label_counts(Y)) / np.log1p(Y.shape[0])).astype(np.float32)
