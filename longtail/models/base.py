"""The one protocol of everything that ranks labels.

A ranker learns from ``fit(X, Y)`` and answers ``predict(X, k)`` with a sparse matrix of scores: at most ``k`` a row,
the best first, every score in (0, 1). This file checks what comes in, so that an algorithm's file holds only the
algorithm: a subclass writes ``_fit``, ``_predict``, ``_state`` and ``_restore``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail import store
from longtail.errors import DataError, ModelError, SettingsError
from longtail.params import Params

Arrays = dict[str, np.ndarray]


class Ranker(Params):
    """Base of every ranker.

    Attributes
    ----------
    n_features_in_ : int
        Features of the training matrix.
    n_labels_ : int
        Labels of the training matrix.
    """

    kind: ClassVar[str] = ""  # the name in model folders and on the command line
    n_features_in_: int
    n_labels_: int

    def fit(self, X: Any, Y: Any, *, label_features: Any = None, validation: Any = None) -> Self:
        """Learn from points and their labels.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            Features. A row may be empty.
        Y : sparse or dense matrix, (N, L)
            Labels: any non-zero entry means that the label is right for the point. A row or a column may be empty.
        label_features : sparse matrix, (L, D), optional
            Label text in the same feature space, for rankers that use it.
        validation : tuple of (X, Y), optional
            Points for early stopping and for choosing settings, where a ranker does so. Without it, such a ranker
            holds out a part of the training points.
        """
        X = check_features(X)
        if 0 in X.shape:
            which = "sample" if X.shape[0] == 0 else "feature"
            raise DataError(f"X has 0 {which}(s) (shape={X.shape}) while a minimum of 1 is required.")
        Y = check_labels(Y, X.shape[0])
        Z = None if label_features is None else self._check_label_features(label_features, X, Y)
        if validation is not None:
            validation = self._check_validation(validation, X, Y)
        self.n_features_in_, self.n_labels_ = X.shape[1], Y.shape[1]
        self._fit(X, Y, Z, validation)
        return self

    def predict(self, X: Any, k: int = 5) -> csr_array:
        """Score the best labels of each point.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
        k : int
            How many labels a row, at most.

        Returns
        -------
        csr_array, (N, L)
            Scores in (0, 1), in each row from the highest to the lowest.
        """
        if not hasattr(self, "n_labels_"):
            raise ModelError(f"This {type(self).__name__} has not been fitted. Call fit first, or load a saved model.")
        X = check_features(X, self.n_features_in_)
        if not isinstance(k, int | np.integer) or k < 1:
            raise SettingsError(f"k is {k!r}; give a whole number from 1")
        return self._predict(X, min(int(k), self.n_labels_))

    def rank(self, indices: np.ndarray, values: np.ndarray, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Best labels of one point, for services: as :meth:`predict`, without the cost of sparse matrices.

        Parameters
        ----------
        indices, values : arrays, (nnz,)
            The point's features, ascending, and their values.
        k : int
            How many labels, at most.

        Returns
        -------
        labels, scores : arrays
            The best first.
        """
        if not hasattr(self, "n_labels_"):
            raise ModelError(f"This {type(self).__name__} has not been fitted. Call fit first, or load a saved model.")
        indices = np.ascontiguousarray(indices, np.int32)
        values = np.ascontiguousarray(values, np.float32)
        if indices.ndim != 1 or indices.shape != values.shape:
            raise DataError(
                f"indices {indices.shape} and values {values.shape} differ", remedy="Give two equal vectors"
            )
        found = self._rank(indices, values, min(int(k), self.n_labels_))
        if found is None:
            raise DataError(
                f"The point has a feature outside 0..{self.n_features_in_ - 1} or a value that is no number",
                remedy="Use the vectoriser (or feature order) of the training data",
            )
        return found

    def score(self, X: Any, Y: Any) -> float:
        """Precision at 1, so that scikit-learn's searches have something to maximise."""
        from longtail.metrics import evaluate

        Y = check_labels(Y, check_features(X).shape[0])
        return evaluate(Y, self.predict(X, k=1), train_Y=Y, ks=(1,))["P@1"] / 100

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to `folder`, whole or not at all. :func:`longtail.load` gives it back."""
        if not hasattr(self, "n_labels_"):
            raise ModelError(f"This {type(self).__name__} has not been fitted, so there is nothing to save. Call fit.")
        with store.atomic_folder(folder) as fresh:
            self._write(fresh)

    def _write(self, folder: Path) -> None:
        facts, arrays, parts = self._state()
        params = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in parts and not _holds_rankers(value)
        }
        meta = {"params": params, "n_features": self.n_features_in_, "n_labels": self.n_labels_, **facts}
        store.write(folder, self.kind, meta | {"parts": sorted(parts)}, arrays)
        for name, part in parts.items():
            (folder / name).mkdir()
            part._write(folder / name)

    @classmethod
    def _read(cls, stored: store.Stored, parts: dict[str, Ranker]) -> Self:
        model = cls(**stored.meta["params"], **{name: part for name, part in parts.items() if name in cls._defaults()})
        model.n_features_in_, model.n_labels_ = stored.meta["n_features"], stored.meta["n_labels"]
        model._restore(stored.meta, stored.arrays, parts)
        return model

    # What an algorithm writes ------------------------------------------------------------------------------------

    def _fit(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: tuple[csr_array, csr_array] | None
    ) -> None:
        raise AssertionError(f"{type(self).__name__} must define _fit")

    def _predict(self, X: csr_array, k: int) -> csr_array:
        raise AssertionError(f"{type(self).__name__} must define _predict")

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        """One point; None where it has a feature or a value that cannot be. A shorter way may override it."""
        if len(indices) and (
            indices.min() < 0 or indices.max() >= self.n_features_in_ or not np.isfinite(values).all()
        ):
            return None
        point = csr_array((values, indices, np.array([0, len(indices)], np.int32)), shape=(1, self.n_features_in_))
        found = self._predict(point, k)
        return found.indices, found.data

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        """What is learnt: small facts as JSON values, arrays, and the rankers this one wraps."""
        raise AssertionError(f"{type(self).__name__} must define _state")

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        raise AssertionError(f"{type(self).__name__} must define _restore")

    # Checks ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _check_label_features(label_features: Any, X: csr_array, Y: csr_array) -> csr_array:
        Z = check_features(label_features, name="label_features")
        if Z.shape != (Y.shape[1], X.shape[1]):
            raise DataError(
                f"label_features is {Z.shape[0]} x {Z.shape[1]}, but there are {Y.shape[1]} labels "
                f"and {X.shape[1]} features",
                remedy="Give one row a label, in the feature space of X (one vocabulary for both)",
            )
        return Z

    @staticmethod
    def _check_validation(validation: Any, X: csr_array, Y: csr_array) -> tuple[csr_array, csr_array]:
        try:
            X_held, Y_held = validation
        except (TypeError, ValueError):
            raise DataError("validation is not a pair", remedy="Give (X, Y) of the held-out points") from None
        X_held = check_features(X_held, X.shape[1])
        return X_held, check_labels(Y_held, X_held.shape[0], Y.shape[1])


def _holds_rankers(value: Any) -> bool:
    """Whether a parameter is a list of rankers: these are parts of a model, not settings to be written down."""
    return isinstance(value, list | tuple) and any(isinstance(part, Ranker) for part in value)


def check_features(X: Any, n_features: int | None = None, name: str = "X") -> csr_array:
    """Any matrix to CSR float32 with int32 indices; used in place where it already is that."""
    if not issparse(X):
        X = _from_dense(X, name)
    elif X.ndim != 2:
        raise DataError(f"{name} has {X.ndim} dimension(s)", remedy="Give a two-dimensional matrix, one row a point")
    if np.issubdtype(X.dtype, np.complexfloating):
        raise DataError(f"{name} holds complex numbers. Complex data not supported", remedy="Give real numbers")
    if X.format != "csr" or not isinstance(X, csr_array):
        X = csr_array(X)
    if X.dtype != np.float32:
        X = X.astype(np.float32)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.indices.dtype != np.int32 and X.shape[1] <= np.iinfo(np.int32).max:
        X = csr_array((X.data, X.indices.astype(np.int32), X.indptr), shape=X.shape)
    if n_features is not None and X.shape[1] != n_features:
        raise DataError(
            f"{name} has {X.shape[1]} features, but the model was trained with {n_features}. "
            f"X has {X.shape[1]} features, but Ranker is expecting {n_features} features as input",
            remedy="Use the vectoriser (or feature order) of the training data",
        )
    if not np.isfinite(X.data).all():
        bad = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row = int(np.searchsorted(X.indptr, bad, side="right") - 1)
        raise DataError(f"{name} holds NaN or infinity", row=row, remedy="Remove or replace such values")
    return X


def check_labels(Y: Any, n_points: int, n_labels: int | None = None) -> csr_array:
    """Any matrix to a CSR of ones: the positions of its non-zero entries."""
    if not issparse(Y):
        Y = _from_dense(Y, "Y")
    Y = csr_array(Y) if Y.format != "csr" or not isinstance(Y, csr_array) else Y
    if Y.shape[0] != n_points:
        raise DataError(f"Y has {Y.shape[0]} rows, but X has {n_points}", remedy="Give one row of labels a point")
    if n_labels is not None and Y.shape[1] != n_labels:
        raise DataError(f"Y has {Y.shape[1]} labels, but {n_labels} were expected", remedy="Use one label space")
    if not np.isfinite(Y.data).all():
        raise DataError("Y holds NaN or infinity", remedy="Give 1 for a right label and nothing elsewhere")
    if not Y.has_canonical_format or not Y.data.all():
        Y = Y.copy()
        Y.sum_duplicates()
        Y.eliminate_zeros()
    if Y.nnz == 0:
        raise DataError("Y names no label at all", remedy="Give at least one point with a label")
    return csr_array((np.ones(Y.nnz, np.float32), Y.indices.astype(np.int32, copy=False), Y.indptr), shape=Y.shape)


def _from_dense(matrix: Any, name: str) -> csr_array:
    array = np.asarray(matrix)
    if array.ndim != 2:
        raise DataError(
            f"{name} has {array.ndim} dimension(s), not two. Reshape your data", remedy="Give one row a point"
        )
    if array.dtype == object:
        array = array.astype(np.float64)
    if array.dtype.kind not in "biufc":
        raise DataError(f"{name} holds {array.dtype}, not numbers", remedy="For text use Tagger, or vectorise it first")
    return csr_array(array)
