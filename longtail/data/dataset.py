"""A dataset: documents, labels and what is known about both, all sparse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import DataError

if TYPE_CHECKING:
    from longtail.data.text import TextVectorizer


@dataclass(eq=False, repr=False)
class Dataset:
    """Points, their labels, and what is known about both.

    Matrices are canonical `scipy.sparse.csr_array`: rows sorted, no duplicates, no stored zeros, float32 values. A
    point may have no features and may have no labels; either is an empty row.

    Parameters
    ----------
    X : csr_array of shape (N, D) or None
        Features of the points. None when text was read without a vectoriser.
    Y : csr_array of shape (N, L)
        Labels of the points: 1 where a point has a label, or its relevance where the files grade it.
    Z : csr_array of shape (L, D) or None
        Features of the label texts, over the same vocabulary as `X`.
    ids : list of str or None
        Name of each point.
    texts : list of str or None
        Text of each point, where it was read.
    label_ids : list of str or None
        Identifier of each label.
    label_names : list of str or None
        What to show for each label.
    label_texts : list of str or None
        The text that `Z` was made from.
    ignore : int32 array of shape (P, 2) or None
        Pairs (row, label) to leave out when predictions are judged: a product that is its own label, for example.
    test : Dataset or None
        The test part, over the same features and labels.
    vectorizer : TextVectorizer or None
        What turned texts into `X` and `Z`.
    name : str
        Name to show in tables.
    """

    X: csr_array | None
    Y: csr_array
    Z: csr_array | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None
    label_ids: list[str] | None = None
    label_names: list[str] | None = None
    label_texts: list[str] | None = None
    ignore: np.ndarray | None = None
    test: Dataset | None = None
    vectorizer: TextVectorizer | None = None
    name: str = field(default="data")

    @property
    def n_points(self) -> int:
        """Number of points, N."""
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels, L."""
        return int(self.Y.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features, D; 0 while there are none."""
        return 0 if self.X is None else int(self.X.shape[1])

    def __repr__(self) -> str:
        extras = [
            f.name
            for f in fields(self)
            if f.name not in ("X", "Y", "name", "test") and getattr(self, f.name) is not None
        ]
        parts = [
            repr(self.name),
            f"n_points={self.n_points}",
            f"n_features={self.n_features}",
            f"n_labels={self.n_labels}",
        ]
        parts += [f"test={self.test.n_points} points"] if self.test is not None else []
        return f"Dataset({', '.join(parts + extras)})"

    def subset(self, rows: Any) -> Dataset:
        """The points of `rows`, in that order, over the same features and labels and without the test part.

        Parameters
        ----------
        rows : array of int, array of bool, or slice
            Which points; a point may be taken more than once.

        Returns
        -------
        Dataset
        """
        rows = np.arange(self.n_points)[rows]
        ignore = self.ignore
        if ignore is not None:
            shape = (self.n_points, self.n_labels)
            pairs = csr_array((np.ones(len(ignore), np.int8), (ignore[:, 0], ignore[:, 1])), shape=shape)
            ignore = np.stack(pairs[rows].nonzero(), axis=1).astype(np.int32)
        return replace(
            self,
            X=None if self.X is None else self.X[rows],
            Y=self.Y[rows],
            ids=None if self.ids is None else [self.ids[i] for i in rows],
            texts=None if self.texts is None else [self.texts[i] for i in rows],
            ignore=ignore,
            test=None,
        )

    def with_labels(self, label_ids: Sequence[str]) -> Dataset:
        """The same points over another list of labels, matched by identifier.

        A dataset read from a table numbers the labels it meets; a model has numbered those it was trained on. This puts
        the first in the order of the second. Labels that `label_ids` lacks are placed after it, so that a label a model
        cannot know still counts as missed.

        Parameters
        ----------
        label_ids : sequence of str
            Identifiers in the wanted order.

        Returns
        -------
        Dataset
        """
        if self.label_ids is None:
            raise DataError("the labels have no identifiers to match", remedy="Read data that names its labels")
        place = {label: j for j, label in enumerate(label_ids)}
        if len(place) < len(label_ids) or len(set(self.label_ids)) < self.n_labels:
            raise DataError(
                "two labels have the same identifier", remedy="Labels are matched by identifiers of their own"
            )
        columns = np.array([place.setdefault(label, len(place)) for label in self.label_ids], np.int32)
        old = np.full(len(place), -1)
        old[columns] = np.arange(self.n_labels)

        def move(part: Dataset, test: Dataset | None) -> Dataset:
            Y = csr_array(
                (part.Y.data, columns[part.Y.indices], part.Y.indptr), shape=(part.n_points, len(place)), copy=True
            )
            Y.sort_indices()
            Z = part.Z
            if Z is not None:
                empty = csr_array((1, Z.shape[1]), dtype=Z.dtype)
                Z = csr_array(_stack(Z, empty)[old])  # -1 takes the empty row
            known = list(place)
            names, texts = ([held and [held[i] if i >= 0 else label for i, label in zip(old, known, strict=True)]
                             for held in (part.label_names, part.label_texts)])  # fmt: skip
            ignore = part.ignore
            if ignore is not None:
                ignore = np.stack([ignore[:, 0], columns[ignore[:, 1]]], axis=1)
            return replace(
                part, Y=Y, Z=Z, label_ids=known, label_names=names, label_texts=texts, ignore=ignore, test=test
            )

        return move(self, None if self.test is None else move(self.test, None))

    def validate(self, *, require_labels: bool = True) -> Dataset:
        """Check that all parts fit together; return the dataset itself.

        Parameters
        ----------
        require_labels : bool
            Whether a dataset in which no point has a label is an error.

        Raises
        ------
        DataError
            With the part that does not fit and what was expected.
        """
        n, L = self.Y.shape
        _check_matrix("Y", self.Y, n, L)
        if self.Y.nnz and self.Y.data.min() <= 0:
            row = int(np.searchsorted(self.Y.indptr, np.argmax(self.Y.data <= 0), side="right")) - 1
            raise DataError("a label's relevance is not positive", row=row, remedy="Leave such labels out")
        if require_labels and not self.Y.nnz:
            raise DataError("no point has a label", remedy="Training needs labels; check the labels' column or file")
        if self.X is not None:
            _check_matrix("X", self.X, n, self.X.shape[1])
        if self.Z is not None:
            _check_matrix("Z", self.Z, L, self.X.shape[1] if self.X is not None else self.Z.shape[1])
        for name, length in (("ids", n), ("texts", n), ("label_ids", L), ("label_names", L), ("label_texts", L)):
            held = getattr(self, name)
            if held is not None and len(held) != length:
                raise DataError(f"{name} has {len(held)} entries where {length} were expected")
        if self.ignore is not None:
            pairs = self.ignore
            if pairs.ndim != 2 or pairs.shape[1] != 2:
                raise DataError(f"ignore has shape {pairs.shape}, expected (P, 2)")
            if len(pairs) and (pairs.min() < 0 or pairs[:, 0].max() >= n or pairs[:, 1].max() >= L):
                raise DataError(f"ignore holds a pair outside {n} points × {L} labels")
        if self.test is not None:
            if self.test.n_labels != L:
                raise DataError(f"the test part has {self.test.n_labels} labels, the training part {L}")
            if self.X is not None and self.test.X is not None and self.test.n_features != self.n_features:
                raise DataError(
                    f"the test part has {self.test.n_features} features, the training part {self.n_features}"
                )
            self.test.validate(require_labels=False)
        return self


def _stack(a: csr_array, b: csr_array) -> csr_array:
    from scipy.sparse import vstack

    return vstack([a, b], format="csr")


def _check_matrix(name: str, A: Any, n: int, m: int) -> None:
    if not isinstance(A, csr_array):
        remedy = "Pass scipy.sparse.csr_array(matrix, dtype=numpy.float32)"
        raise DataError(f"{name} is a {type(A).__name__}, expected a csr_array", remedy=remedy)
    if A.shape != (n, m):
        raise DataError(f"{name} has shape {A.shape}, expected {(n, m)}")
    if A.nnz and not (np.isfinite(A.data.min()) and np.isfinite(A.data.max())):  # both spread NaN; no array is made
        row = int(np.searchsorted(A.indptr, np.argmin(np.isfinite(A.data)), side="right")) - 1
        raise DataError(f"{name} holds a NaN or an infinite value", row=row, remedy="Remove or replace it")
    if A.nnz and (A.indices.min() < 0 or A.indices.max() >= m):
        raise DataError(f"{name} holds a column outside 0 … {m - 1}")
