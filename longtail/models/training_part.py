"""The division of the training points into those that a ranker is fitted to and those that are held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from longtail.data.split import as_new_points, hold_out_points
from longtail.sparse import Pair, labelled_rows, take_labels


@dataclass(frozen=True)
class TrainingPart:
    """Points to train on, and held-out points.

    Attributes
    ----------
    X, Y, Z : csr_array
        All points (N, D), their labels (N, L), and label text (L, D) or None.
    rows : array
        Rows of X to train on.
    rest : array, optional
        Rows of X that are held out first and learnt from at the end. None if the held-out points are not in X.
    held : tuple of csr_array, optional
        Held-out points and their labels. Words that occur in held-out points only are removed from them.
    negatives : csr_array, (len(rows), L), optional
        Labels that another member of a blend suggests for the points to train on, as hard negatives.
    listed_elsewhere : bool
        Whether other members of a blend list labels, so that this one needs no index to search for labels.
    """

    X: csr_array
    Y: csr_array
    Z: csr_array | None
    rows: np.ndarray
    rest: np.ndarray | None
    held: Pair | None
    negatives: csr_array | None = None
    listed_elsewhere: bool = False

    @classmethod
    def divide(
        cls,
        X: csr_array,
        Y: csr_array,
        Z: csr_array | None,
        validation: Pair | None,
        fraction: float,
        seed: int,
        most: int,
        keep_labels: bool = False,
        as_new: bool = True,
    ) -> TrainingPart:
        """Hold out a share of the labelled points, or none if `validation` is given.

        Parameters
        ----------
        X, Y, Z : csr_array
            Points, their labels, and label text or None.
        validation : tuple of csr_array, optional
            Held-out points that are not in X, and their labels.
        fraction : float
            Share of the points to hold out.
        seed : int
            Seed of the random choice of points.
        most : int
            Largest number of points to hold out.
        keep_labels : bool
            Never hold out the only remaining training point of a label.
        as_new : bool
            Remove words that occur in held-out points only; see :func:`longtail.data.split.as_new_points`.
        """
        share = 0.0 if validation is not None else fraction
        rows, rest = hold_out_points(Y, share, seed, keep_labels=keep_labels, labelled_only=True, at_most=most)
        if not len(rest):
            return cls(X, Y, Z, rows, None, validation)
        return cls(X, Y, Z, rows, rest, (as_new_points(X, Y, Z, rest) if as_new else X[rest], Y[rest]))

    def with_features(self, X: csr_array, Z: csr_array | None, X_held: csr_array | None) -> TrainingPart:
        """Return the same division of the points with features X and label text Z.

        `X_held` are the features of the held-out points if these are not in `X`.
        """
        points = X_held if self.rest is None else X[self.rest]
        held = None if self.held is None or points is None else (points, self.held[1])
        return replace(self, X=X, Z=Z, held=held)

    def all_rows(self) -> np.ndarray:
        """Return all rows of X that are learnt from, first or at the end."""
        return self.rows if self.rest is None else np.concatenate([self.rows, self.rest])

    def held_with(self, labels: np.ndarray) -> Pair | None:
        """Return the held-out points with any of `labels` and their columns of Y for these; None if there are none."""
        if self.held is None:
            return None
        Y = take_labels(self.held[1], labels)
        rows = labelled_rows(Y)
        return (self.held[0][rows], Y[rows]) if len(rows) else None


class MemberParts(NamedTuple):
    """The training part for members of a blend: with the features before the vectors, and with the vectors alone."""

    words: TrainingPart
    vectors: TrainingPart

    def seen_by(self, member: Any) -> TrainingPart:
        """Return the part that a member is fitted to."""
        return self.vectors if member.takes_vectors else self.words
