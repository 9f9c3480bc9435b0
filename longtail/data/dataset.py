"""The dataset class: sparse features and labels of points, with their names and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import DataError, number_of
from longtail.notebook import notebook_html
from longtail.sparse import resized

if TYPE_CHECKING:
    from longtail.data.text import TextVectorizer


@dataclass(eq=False, repr=False)
class Dataset:
    """Features and labels of points (documents), with optional names, texts and a test part.

    Matrices are canonical `scipy.sparse.csr_array`: rows sorted, no duplicates, no stored zeros, float32 values. A
    point without features or without labels is an empty row.

    Parameters
    ----------
    X : csr_array of shape (N, D) or None
        Features of the points. None if text was read without a vectorizer.
    Y : csr_array of shape (N, L)
        Labels of the points: 1 where a point has a label, or the relevance of the label if the files give one.
    Z : csr_array of shape (L, D) or None
        Features of the label texts, with the same columns as `X`. Without label texts, `read` computes them from the
        label names. None if no name has a word of the vocabulary.
    ids : list of str or None
        Identifier of each point.
    texts : list of str or None
        Text of each point.
    label_ids : list of str or None
        Identifier of each label.
    label_names : list of str or None
        Name of each label, as shown to people.
    label_texts : list of str or None
        Text of each label, from which `Z` is computed.
    ignore : int32 array of shape (P, 2) or None
        Pairs (row, label) that are excluded from training and evaluation, for example products that are their own
        labels.
    test : Dataset or None
        The test part, with the same features and labels.
    vectorizer : TextVectorizer or None
        The vectorizer that computed `X` and `Z` from texts.
    name : str
        Name shown in tables.
    vector_size : int
        Size of the dense vector of each text, which is in the last columns of `X` and `Z`; 0 if there is none.
    labels_separator : str or None
        The separator at which the label cells of a table were cut. None if labels were lists, or no separator occurred.
    numbered_by_occurrence : bool
        Whether labels are numbered in the order in which they occur in a table. Another file with the same labels then
        has other numbers, so that labels of two files must be compared by name.
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
    labels_separator: str | None = None
    vector_size: int = 0
    numbered_by_occurrence: bool = False

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
        """Number of features, D; 0 if there is no feature matrix."""
        return 0 if self.X is None else int(self.X.shape[1])

    def __repr__(self) -> str:
        extras = [
            f.name
            for f in fields(self)
            if f.name not in ("X", "Y", "name", "test", "labels_separator", "vector_size", "numbered_by_occurrence")
            and getattr(self, f.name) is not None
        ]
        parts = [
            repr(self.name),
            f"n_points={self.n_points}",
            f"n_features={self.n_features}",
            f"n_labels={self.n_labels}",
        ]
        parts += [f"test={number_of(self.test.n_points, 'point')}"] if self.test is not None else []
        return f"Dataset({', '.join(parts + extras)})"

    def _repr_html_(self) -> str:
        per_point = self.Y.nnz / max(self.n_points, 1)
        facts = {
            "points": f"{self.n_points:,}" + ("" if self.test is None else f" and {self.test.n_points:,} for testing"),
            "labels": f"{self.n_labels:,}, {per_point:.1f} per point",
            "features": "not computed" if self.X is None else f"{self.n_features:,}",
        }
        names = self.shown_label_names()
        rows = []
        for at in range(min(self.n_points, 5)):
            text = self.texts[at] if self.texts is not None else self.ids[at] if self.ids is not None else str(at)
            labels = [names[label] for label in self.Y.indices[self.Y.indptr[at] : self.Y.indptr[at + 1]][:8]]
            rows.append((text if len(text) <= 200 else f"{text[:199]}…", ", ".join(labels)))
        return notebook_html(f"Dataset {self.name}", facts, ["point" if self.texts is None else "text", "labels"], rows)

    def shown_label_names(self) -> list[str]:
        """Return the names of the labels, or else their identifiers, or else their numbers."""
        return self.label_names or self.label_ids or [str(label) for label in range(self.n_labels)]

    def described_labels(self) -> list[str]:
        """Return the text of each label. Without texts, return the names, with an empty text for a URI."""
        if self.label_texts is not None:
            return self.label_texts
        return ["" if "://" in name else name for name in self.label_names or ()]

    def label_features(self, transform: Callable[[list[str]], csr_array] | None = None) -> csr_array | None:
        """Return the features of the label texts: `Z` or, if it is None, features computed from the label names.

        Parameters
        ----------
        transform : function, optional
            Function from texts to features; by default the vectorizer's ``transform``.

        Returns
        -------
        csr_array of shape (L, D) or None
            None if no name has a word of the vocabulary.
        """
        if self.Z is not None or self.vectorizer is None or not self.label_names:
            return self.Z
        if transform is None:
            no_encoder = self.vector_size and not getattr(self.vectorizer, "vector_size_", 0)
            transform = self.vectorizer.transform_terms if no_encoder else self.vectorizer.transform
        Z = transform(self.described_labels())
        if not Z.nnz:
            return None
        return Z if self.X is None else resized(Z, n_columns=self.n_features)

    def subset(self, rows: Any) -> Dataset:
        """Return the points of `rows` in the given order, without the test part.

        Parameters
        ----------
        rows : array of int, array of bool, or slice
            The rows to take. A row may be taken more than once.

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
        """Renumber the labels: return the same points with the columns of `Y` in the order of `label_ids`.

        A table numbers its labels in the order in which they occur, which may differ from the training data of a
        model. Labels that are not in `label_ids` get columns after these, so that labels that the model cannot suggest
        still count as missed.

        Parameters
        ----------
        label_ids : sequence of str
            Identifiers of labels in the order of the new columns.

        Returns
        -------
        Dataset
        """
        if self.label_ids is None:
            raise DataError("the labels have no identifiers to match", remedy="Read data that has label names")
        position = {label: j for j, label in enumerate(label_ids)}
        if len(position) < len(label_ids) or len(set(self.label_ids)) < self.n_labels:
            raise DataError(
                "two labels have the same identifier", remedy="Labels are matched by identifier; make them distinct"
            )
        columns = np.array([position.setdefault(label, len(position)) for label in self.label_ids], np.int32)
        order = list(position)
        old = np.full(len(order), -1)  # the old column of each label, -1 if it has none
        old[columns] = np.arange(self.n_labels)

        def reorder(strings: list[str] | None) -> list[str] | None:
            if strings is None:
                return None
            return [strings[i] if i >= 0 else label for i, label in zip(old, order, strict=True)]

        def renumber(part: Dataset, test: Dataset | None) -> Dataset:
            Y = csr_array(
                (part.Y.data, columns[part.Y.indices], part.Y.indptr), shape=(part.n_points, len(order)), copy=True
            )
            Y.sort_indices()
            Z = part.Z
            if Z is not None:
                Z = resized(Z, Z.shape[0] + 1)[old]  # -1 takes the empty last row
            ignore = part.ignore
            if ignore is not None:
                ignore = np.stack([ignore[:, 0], columns[ignore[:, 1]]], axis=1)
            return replace(
                part,
                Y=Y,
                Z=Z,
                label_ids=order,
                label_names=reorder(part.label_names),
                label_texts=reorder(part.label_texts),
                ignore=ignore,
                test=test,
                numbered_by_occurrence=False,
            )

        return renumber(self, None if self.test is None else renumber(self.test, None))

    def validate(self, *, require_labels: bool = True) -> Dataset:
        """Check that all parts are consistent, and return the dataset itself.

        Parameters
        ----------
        require_labels : bool
            Whether a dataset in which no point has a label is an error.

        Raises
        ------
        DataError
            The message names the inconsistent part and what was expected.
        """
        n, L = self.Y.shape
        _check_matrix("Y", self.Y, n, L)
        if self.Y.nnz and self.Y.data.min() <= 0:
            row = row_of_entry(self.Y, int(np.argmax(self.Y.data <= 0)))
            raise DataError("a label's relevance is not positive", row=row, remedy="Leave such labels out")
        if require_labels and not self.Y.nnz:
            raise DataError("no point has a label", remedy="Training needs labels; check the labels column or file")
        if self.X is not None:
            _check_matrix("X", self.X, n, self.X.shape[1])
        if self.Z is not None:
            _check_matrix("Z", self.Z, L, self.X.shape[1] if self.X is not None else self.Z.shape[1])
        for name, length in (("ids", n), ("texts", n), ("label_ids", L), ("label_names", L), ("label_texts", L)):
            strings = getattr(self, name)
            if strings is not None and len(strings) != length:
                raise DataError(f"{name} has {len(strings)} entries, expected {length}")
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


def row_of_entry(A: csr_array, entry: int) -> int:
    """Return the row of a stored entry, given by its position among all stored entries."""
    return int(np.searchsorted(A.indptr, entry, side="right")) - 1


def _check_matrix(name: str, A: Any, n: int, m: int) -> None:
    if not isinstance(A, csr_array):
        remedy = "Pass scipy.sparse.csr_array(matrix, dtype=numpy.float32)"
        raise DataError(f"{name} is a {type(A).__name__}, expected a csr_array", remedy=remedy)
    if A.shape != (n, m):
        raise DataError(f"{name} has shape {A.shape}, expected {(n, m)}")
    # min and max are NaN if any value is: valid data needs no temporary array of booleans.
    if A.nnz and not (np.isfinite(A.data.min()) and np.isfinite(A.data.max())):
        row = row_of_entry(A, int(np.argmin(np.isfinite(A.data))))
        raise DataError(f"{name} holds a NaN or an infinite value", row=row, remedy="Remove or replace it")
    if A.nnz and (A.indices.min() < 0 or A.indices.max() >= m):
        raise DataError(f"{name} holds a column outside 0 … {m - 1}")
