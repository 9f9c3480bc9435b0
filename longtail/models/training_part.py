"""The points that a ranker is fitted to, and those that it holds out meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from longtail.data.split import as_new_points, hold_out_points
from longtail.sparse import Pair, labelled_rows, take_labels


@dataclass(frozen=True)
class TrainingPart:
    """Points divided into those to train on now and those held out.

    Attributes
    ----------
    X, Y, Z : csr_array
        All points (N, D), their labels (N, L), and label text (L, D) or None.
    rows : array
        Points to train on.
    rest : array, optional
        Points that are held out now and learnt from in the end; None where the held-out points are not among X.
    held : tuple of csr_array, optional
        Held-out points, without the words that they alone have, and their labels.
    negatives : csr_array, (len(rows), L), optional
        Labels that another member of a blend suggests for the training points: hard negatives.
    listed_elsewhere : bool
        Whether other members list labels, so that this one need not search for any.
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
        """Hold out a share of the labelled points, or none where a validation part is given.

        Parameters
        ----------
        X, Y, Z : csr_array
            Points, their labels, and label text or None.
        validation : tuple of csr_array, optional
            Held-out points that are not among X.
        fraction : float
            Share of the points to hold out.
        seed : int
            Seed of the draw.
        most : int
            Largest number of points to hold out.
        keep_labels : bool
            Never hold out the last training point of a label.
        as_new : bool
            Remove the words that held-out points alone have; see :func:`longtail.data.split.as_new_points`.
        """
        share = 0.0 if validation is not None else fraction
        rows, rest = hold_out_points(Y, share, seed, keep_labels=keep_labels, labelled_only=True, at_most=most)
        if not len(rest):
            return cls(X, Y, Z, rows, None, validation)
        return cls(X, Y, Z, rows, rest, (as_new_points(X, Y, Z, rest) if as_new else X[rest], Y[rest]))

    def with_features(self, X: csr_array, Z: csr_array | None, X_held: csr_array | None) -> TrainingPart:
        """Return the same division of the points with other features of them and of label text.

        `X_held` are held-out points that are not among `X`.
        """
        points = X_held if self.rest is None else X[self.rest]
        held = None if self.held is None or points is None else (points, self.held[1])
        return replace(self, X=X, Z=Z, held=held)

    def all_rows(self) -> np.ndarray:
        """Return the points that are learnt from now or in the end."""
        return self.rows if self.rest is None else np.concatenate([self.rows, self.rest])

    def held_with(self, labels: np.ndarray) -> Pair | None:
        """Return the held-out points that have some of these labels, over these labels alone; None if none has."""
        if self.held is None:
            return None
        Y = take_labels(self.held[1], labels)
        rows = labelled_rows(Y)
        return (self.held[0][rows], Y[rows]) if len(rows) else None


class MemberParts(NamedTuple):
    """The training part as members of a blend see it: the features before the vectors, or the vectors alone."""

    words: TrainingPart
    vectors: TrainingPart

    def seen_by(self, member: Any) -> TrainingPart:
        """Return what a member is fitted to."""
        return self.vectors if member.takes_vectors else self.words
