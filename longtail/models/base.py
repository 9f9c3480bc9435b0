"""The protocol that all rankers share.

A ranker learns from ``fit(X, Y)``. ``predict(X, k)`` returns a sparse matrix with at most ``k`` scores per row, best
first, each in (0, 1). The base class checks all input, so that the file of an algorithm holds only the algorithm. A
subclass defines ``_fit`` and ``_predict``, and ``_state`` and ``_restore`` of :mod:`longtail.models.stored_ranker`,
which saves and loads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.combine.candidates import CandidateList, PairScorer
from longtail.engine import current, memory
from longtail.engine.checkpoints import NO_STEPS, Steps, run_identity
from longtail.errors import DataError, ModelError, number_of
from longtail.kernels.encode import SparseRows
from longtail.metrics.thresholds import MOST_DECIDED, check_threshold
from longtail.models.checks import (
    check_feature_names,
    check_features,
    check_k,
    check_labels,
    check_point,
    compiled_form,
    feature_names,
)
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.stored_ranker import StoredRanker
from longtail.models.training_part import TrainingPart
from longtail.params import seed_of
from longtail.sparse import Arrays as Arrays
from longtail.sparse import Pair, select_entries

_INNER = ("base_", "tail_", "members_", "matcher_")  # attributes that hold the rankers inside a ranker
_POINTS_PER_TASK = 8192  # points that one task of a cluster predicts


class Ranker(StoredRanker):
    """Base class of all rankers.

    Attributes
    ----------
    n_features_in_ : int
        Number of features (columns) of the training matrix.
    feature_names_in_ : array of str, (n_features_in_,)
        Column names of the training data; only if it was a data frame with names.
    n_labels_ : int
        Number of labels (columns) of the training labels.
    """

    threshold_: float | None = None  # the one with the best micro-F1 on held-out points, if the ranker chooses one
    _data_copies: ClassVar[float] = 1.7  # memory of a fit, relative to the data; measured by benchmarks/scale/run.py
    _less_memory: ClassVar[str] = "Use fewer points or features (max_features, min_df)."  # end of the memory error
    _shares_tasks: ClassVar[bool] = False  # whether a fit divides all its work into small tasks of the engine
    takes_vectors: ClassVar[bool] = False  # whether a blend gives it the dense vectors of points, not their features
    _steps: Steps = NO_STEPS  # checkpoint of the finished steps of a fit
    _checked: bool = False  # whether the present parameters have been compared with their constraints

    @learns_on_a_copy
    def fit(self, X: Any, Y: Any, *, label_features: Any = None, validation: Any = None) -> Self:
        """Learn from points and their labels. A fit that fails leaves the ranker as it was.

        Parameters
        ----------
        X : sparse or dense matrix, or data frame of numbers, (N, D)
            Features, one row per point. A row may be empty.
        Y : sparse or dense matrix, (N, L)
            Labels. A non-zero entry means that the point has the label. Rows and columns may be empty.
        label_features : sparse matrix, (L, D), optional
            Label text in the same feature space, for rankers that use it.
        validation : tuple of (X, Y), optional
            Held-out points for early stopping and for choosing settings. Without them, a ranker that needs such points
            holds out some of the training points.

        Returns
        -------
        Ranker
            The ranker itself.
        """
        self._check_params_if_changed(always=True)
        for name in ("_drawn_seed", "label_map_"):
            self.__dict__.pop(name, None)
        names, ranker = feature_names(X), type(self).__name__
        X = check_features(X)
        if 0 in X.shape:
            which = "sample" if X.shape[0] == 0 else "feature"
            raise DataError(f"X has 0 {which}(s) (shape={X.shape}) while a minimum of 1 is required.")
        Y = check_labels(Y, X.shape[0], ranker=ranker)
        Z = None if label_features is None else self._check_label_features(label_features, X, Y)
        if validation is not None:
            validation = self._check_validation(validation, X, Y)
        self.n_features_in_, self.n_labels_ = X.shape[1], Y.shape[1]
        self._keep_feature_names(names)
        with memory.fitted_into(lambda: self.memory_needed(X, Y, Z), type(self).__name__, self._less_memory):
            self._steps.begin(
                lambda: run_identity({"model": repr(self), "seed": self._seed}, X, Y, Z, *(validation or ()))
            )
            self._fit(X, Y, Z, validation)
        return self

    @contextmanager
    def resumable(self, folder: str | os.PathLike[str]) -> Iterator[Self]:
        """Keep the finished steps of a fit in `folder`, and resume from those that are there.

        Fit and save within the block. If the process is killed, run the same code again: it resumes after the last
        finished step (tree, epoch of a network, member of a blend) and ends with the same model. The folder is removed
        at the end of the block. After an error it stays. Steps of other data or settings are removed.

        Parameters
        ----------
        folder : path-like
            A folder that does not exist yet, or that an earlier run left.
        """
        self._steps = steps = Steps(folder)
        try:
            yield self
            steps.remove()
        finally:
            steps.close()
            del self._steps

    def _run_step(self, name: str, ranker: Ranker, compute: Callable[[], Any]) -> None:
        """Run one step of a fit that changes an inner ranker, or load the result from the checkpoint.

        Parameters
        ----------
        name : str
            Name of the step in the checkpoint.
        ranker : Ranker
            The ranker that the step changes, such as a member of a blend.
        compute : callable
            Runs the step.
        """
        stored = self._steps.find(name)
        if stored is not None:
            ranker._take_over(stored)
            return
        ranker._steps = self._steps.inside(name)
        compute()
        with self._steps.writing(name) as fresh:
            if fresh is not None:
                ranker._write(fresh)
        del ranker._steps

    @property
    def _seed(self) -> int:
        """The seed of this fit, made from `random_state` once."""
        if not hasattr(self, "_drawn_seed"):
            self._drawn_seed = seed_of(getattr(self, "random_state", None))
        return self._drawn_seed

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy with all data-dependent choices made on this data.

        A wrapper fits several copies of its base. Choices such as the cost of a label tree are made once, for all
        copies.
        """
        return self.unfitted()

    def _scored_like(self, fitted: Ranker) -> Self:
        """Return an unfitted copy that will score on the same scale as the fitted ranker.

        Some rankers calibrate their scores on a few held-out points. The copy takes over that calibration, because it
        would get a different one from other points.
        """
        return self.unfitted()

    def n_fits(self) -> dict[str, int]:
        """Return how many rankers of each kind one ``fit`` trains, this one included."""
        return {self.kind: 1}

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the peak memory of a fit to this data in bytes, without the data itself.

        Parameters
        ----------
        X, Y, Z : csr_array
            Points (N, D), their labels (N, L), and label text (L, D) or None.
        """
        return self._data_copies * data_bytes(X, Y, Z)

    def memory_as_member(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit as a member of a blend, where some rankers do less work than alone."""
        return self.memory_needed(X, Y, Z)

    def predict(self, X: Any, k: int = 5) -> csr_array:
        """Score the best labels of each point.

        Parameters
        ----------
        X : sparse or dense matrix, or data frame of numbers, (N, D)
            Features, in the order of the training data.
        k : int
            Number of labels per row, at most.

        Returns
        -------
        csr_array, (N, L)
            Scores in (0, 1), from the highest to the lowest in each row.
        """
        self._check_ready()
        X, k = self._check_X(X), min(check_k(k), self.n_labels_)
        if current().remote and X.shape[0] > _POINTS_PER_TASK:
            blocks = [slice(start, start + _POINTS_PER_TASK) for start in range(0, X.shape[0], _POINTS_PER_TASK)]
            return vstack(current().map(_predict_block, blocks, (self, X, k)), format="csr")
        return self._predict_here(X, k)

    def _predict_here(self, X: csr_array, k: int) -> csr_array:
        """Score the best labels of checked points in this process, without tasks of the engine."""
        if self.label_map_ is not None:
            return self.label_map_.predict(self._predict, X, k, self.n_labels_)
        return self._predict(X, k)

    def predict_proba(self, X: Any, k: int = MOST_DECIDED) -> csr_array:
        """Return the probabilities of the best labels of each point: the scores of :meth:`predict`.

        ``blend`` and ``calibrated(…)`` learn probabilities from held-out points. The scores of other rankers order
        labels, but may be too high or too low as probabilities. ``longtail evaluate`` shows by how much (ECE).

        Parameters
        ----------
        X
            As for :meth:`predict`.
        k : int
            Number of labels per row, at most.

        Returns
        -------
        csr_array, (N, L)
            Probabilities in (0, 1), from the highest to the lowest in each row. Labels that are left out are unlikely.
        """
        return self.predict(X, k)

    def predict_labels(self, X: Any, threshold: Any = 0.5, k: int = MOST_DECIDED) -> csr_array:
        """Assign the labels whose score reaches the threshold. A point may get no label.

        Parameters
        ----------
        X
            As for :meth:`predict`.
        threshold : float or "auto"
            A number from 0 to 1. Higher thresholds assign fewer labels. "auto" is the threshold with the best micro-F1
            on held-out points, which ``blend`` and ``calibrated(…)`` choose when they are fitted.
        k : int
            Number of labels per row, at most.

        Returns
        -------
        csr_array of int8, (N, L)
            A label indicator matrix, as :mod:`sklearn.metrics` takes it.
        """
        self._check_fitted()
        scores = self.predict(X, k)
        decided = select_entries(scores, scores.data >= self._threshold(threshold))
        labels = csr_array((np.ones(decided.nnz, np.int8), decided.indices, decided.indptr), shape=decided.shape)
        labels.sort_indices()
        return labels

    def _threshold(self, threshold: Any) -> float:
        """Return a threshold as a number from 0 to 1."""
        if not isinstance(threshold, str) or threshold != "auto":
            return check_threshold(threshold)
        if self.threshold_ is None:
            raise ModelError(
                f"{type(self).__name__} has no automatic threshold. Give a number, choose one on held-out points with "
                f"Tagger.optimize or longtail optimize DIR DATA --save, or train calibrated({self.kind})."
            )
        return self.threshold_

    def rank(self, indices: np.ndarray, values: np.ndarray, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Rank the labels of one point: like :meth:`predict`, but faster, because no sparse matrix is built.

        Parameters
        ----------
        indices : array of int, (nnz,)
            Numbers of the point's features, fastest if ascending.
        values : array, (nnz,)
            Values of these features.
        k : int
            Number of labels, at most.

        Returns
        -------
        labels, scores : arrays
            Labels and their scores, best first.
        """
        self._check_ready()
        indices, values = check_point(indices, values, self.n_features_in_)
        if self.label_map_ is not None:
            row = self.predict(csr_array((values, indices, [0, len(indices)]), shape=(1, self.n_features_in_)), k)
            return row.indices, row.data
        return self._rank(indices, values, min(check_k(k), self.n_labels_))

    def score(self, X: Any, y: Any) -> float:
        """Return the precision at 1 as a fraction: what scikit-learn's searches maximise.

        Parameters
        ----------
        X : sparse or dense matrix, or data frame of numbers, (N, D)
            Features, in the order of the training data.
        y : sparse or dense matrix, (N, L)
            Labels; the name is lower case because scikit-learn passes them by this name.
        """
        from longtail.metrics import evaluate

        self._check_ready()
        X = self._check_X(X)
        Y = check_labels(y, X.shape[0], self.n_labels_, ranker=type(self).__name__)
        return evaluate(Y, self.predict(X, 1), ks=(1,))["P@1"] / 100

    # What an algorithm defines -----------------------------------------------------------------------------------

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        raise AssertionError(f"{type(self).__name__} must define _fit")

    def _predict(self, X: csr_array, k: int) -> csr_array:
        raise AssertionError(f"{type(self).__name__} must define _predict")

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Rank the labels of one checked point. Override it if there is a faster way than a batch of one."""
        point = csr_array((values, indices, np.array([0, len(indices)], np.int32)), shape=(1, self.n_features_in_))
        best = self._predict(point, k)
        return best.indices, best.data

    # Methods that a blend calls; override them if there is a faster way -----------------------------------------------

    def _candidates(self, points: SparseRows, k: int, n_jobs: int | None) -> CandidateList:
        """List the k best labels of each point, with a certainty per point."""
        if len(points.ptr) == 2:
            begin, end = points.ptr[0], points.ptr[1]
            best = self._rank(points.idx[begin:end], points.val[begin:end], min(k, self.n_labels_))
            return CandidateList.of_one(*best)
        X = csr_array((points.val, points.idx, points.ptr), shape=(len(points.ptr) - 1, self.n_features_in_))
        return CandidateList.of_scores(self._predict(X, min(k, self.n_labels_)))

    def _scores_text(self) -> bool:
        """Return whether the fitted ranker can add labels that have text only, with ``add_labels``."""
        return hasattr(self, "add_labels")

    def _pair_scorer(self) -> PairScorer | None:
        """Return the scorer of any (point, label) pair, or None if the ranker only lists labels."""
        return None

    def _fit_part(self, part: TrainingPart) -> None:
        """Fit a member of a blend to the points that are not held out."""
        validation = part.held if part.rest is None else None
        self.fit(part.X[part.rows], part.Y[part.rows], label_features=part.Z, validation=validation)

    def _fit_rest(self, part: TrainingPart) -> None:
        """Learn from the held-out points too, after the combiner is trained. By default fit to all points again."""
        self.fit(part.X, part.Y, label_features=part.Z)

    def _n_trainings(self, part: TrainingPart) -> int:
        """Return how many trainings :meth:`tuned` and :meth:`_fit_part` take together.

        A training is the unit whose time a budget measures: the epochs of a network, or the whole fit of other rankers.
        """
        return 1

    def _rest_share(self, n_points: int) -> float:
        """Return the time of :meth:`_fit_rest` relative to one training; 0 for rankers that hardly train."""
        return 1.0

    # Checks ------------------------------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        """Raise an error unless the model is fitted and all parameters, also those of its parts, are valid."""
        if not self._checked:  # it is set only below and after loading, when the model is fitted
            self._check_fitted()
        self._check_params_if_changed()
        for part in self._fitted_parts():
            part._check_params_if_changed()

    def _fitted_parts(self) -> Iterable[Ranker]:
        """Return the inner rankers whose parameters a prediction uses without calling their ``predict``."""
        return ()

    def _check_further_points(self, X: Any, Y: Any) -> Pair:
        """Check the input of ``partial_fit``: it may have additional labels, but must have all known ones."""
        self._check_ready()
        X = self._check_X(X)
        Y = check_labels(Y, X.shape[0], ranker=type(self).__name__)
        if Y.shape[1] < self.n_labels_:
            raise DataError(
                f"Y has {number_of(Y.shape[1], 'label')}, but the model was trained with {self.n_labels_}",
                remedy="Keep the old columns in their places and append new ones",
            )
        return X, Y

    def _check_loaded(self) -> None:
        """Compare the parameters of a loaded model with their constraints."""
        self._check_params_if_changed(always=True)

    def _check_params_if_changed(self, always: bool = False) -> None:
        """Compare the parameters with their constraints, if one was set since the last time or if `always` is set."""
        if always or not self._checked:
            self.check_params()
            self._checked = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. The next use of the ranker checks a parameter against its constraint."""
        object.__setattr__(self, name, value)
        if name[-1] != "_" and name[0] != "_":
            self._checked = False

    def _check_X(self, X: Any) -> csr_array:
        """Check points in the feature space of the training points, and return them as CSR."""
        ranker = type(self).__name__
        check_feature_names(X, getattr(self, "feature_names_in_", None), ranker)
        return compiled_form(check_features(X, self.n_features_in_, ranker=ranker))

    @staticmethod
    def _check_label_features(label_features: Any, X: csr_array, Y: csr_array) -> csr_array:
        Z = check_features(label_features, name="label_features")
        if Z.shape != (Y.shape[1], X.shape[1]):
            raise DataError(
                f"label_features is {Z.shape[0]} x {Z.shape[1]}, but the data has "
                f"{number_of(Y.shape[1], 'label')} and {number_of(X.shape[1], 'feature')}",
                remedy="Give one row per label, in the feature space of X (one vocabulary for both)",
            )
        return Z

    @staticmethod
    def _check_validation(validation: Any, X: csr_array, Y: csr_array) -> Pair:
        try:
            X_held, Y_held = validation
        except (TypeError, ValueError):
            raise DataError("validation is not a pair", remedy="Give (X, Y) of the held-out points") from None
        X_held = check_features(X_held, X.shape[1])
        return X_held, check_labels(Y_held, X_held.shape[0], Y.shape[1])


def _predict_block(rows: slice, ranker: Ranker, X: csr_array, k: int) -> csr_array:
    """Score the best labels of a block of rows: one task of the engine."""
    return ranker._predict_here(X[rows], k)


def data_bytes(*matrices: csr_array | None) -> float:
    """Return the memory of sparse matrices in bytes."""
    return float(sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in matrices if m is not None))


def inner_rankers(ranker: Ranker) -> list[Ranker]:
    """Return the rankers directly inside a ranker, such as the base of a wrapper or the members of a blend."""
    values = [getattr(ranker, name, None) for name in _INNER]
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return [one for one in flat if isinstance(one, Ranker)]


def walk_rankers(ranker: Ranker) -> Iterator[Ranker]:
    """Yield a ranker, then all rankers inside it at any depth."""
    yield ranker
    for part in inner_rankers(ranker):
        yield from walk_rankers(part)
