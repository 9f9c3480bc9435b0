"""What rankers around other rankers share: the base they fit, and honest scores for the points it was fitted to."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.data.split import split
from longtail.errors import SettingsError
from longtail.models.base import Ranker
from longtail.progress import stage


class Wrapper(Ranker):
    """Base of the rankers that wrap one other ranker.

    The ranker given as `base` is a recipe: fitting fits a copy of it, ``base_``, and leaves the one given as it was,
    whether that had been fitted or not. A subclass calls :meth:`_fit_base`, and names ``base_`` among the parts of its
    `_state` through :meth:`_parts`.

    Attributes
    ----------
    base_ : Ranker
        The fitted copy.
    """

    kind: ClassVar[str] = ""
    base: Any
    base_: Ranker

    def _fit_base(
        self,
        X: csr_array,
        Y: csr_array,
        Z: csr_array | None = None,
        validation: tuple[csr_array, csr_array] | None = None,
    ) -> Ranker:
        """Fit a copy of the base to these points, and keep it."""
        self.base_ = check_base(self.base, type(self).__name__).unfitted()
        self.base_.fit(X, Y, label_features=Z, validation=validation)
        return self.base_

    def _parts(self) -> dict[str, Ranker]:
        return {"base": self.base_}

    def _restore_base(self, parts: dict[str, Ranker]) -> None:
        self.base_ = parts["base"]


def check_base(base: Any, wrapper: str) -> Ranker:
    """The base itself, or an error that says what to give instead."""
    if isinstance(base, Ranker):
        return base
    if isinstance(base, type) and issubclass(base, Ranker):
        raise SettingsError(f"{wrapper} was given the class {base.__name__}. Give an instance: {base.__name__}()")
    if isinstance(base, str):
        raise SettingsError(
            f"{wrapper} was given the name {base!r}. Give a ranker, or let the name be read: "
            f"longtail.make('{wrapper.lower()}({base})')"
        )
    raise SettingsError(f"{wrapper} was given {type(base).__name__} as its base. Give a ranker, such as Bonsai()")


def out_of_fold(
    base: Ranker,
    X: csr_array,
    Y: csr_array,
    Z: csr_array | None = None,
    *,
    k: int = 50,
    n_folds: int = 3,
    random_state: int = 0,
) -> csr_array:
    """Scores for every training point, each by a copy of the base that never saw it.

    Scores of points that a model was fitted to are too good: what is learnt from them does not hold for new points.
    Folds are drawn at random, so a label with a single point is unknown to the copy that scores that point, as it would
    be to any model.

    Parameters
    ----------
    base : Ranker
        A recipe; it is copied, not fitted.
    X, Y, Z : csr_array
        Points (N, D), their labels (N, L), and label text (L, D) or None.
    k : int
        Scores a point.
    n_folds : int
        Copies to fit, each to the points of all folds but one.
    random_state : int
        Seed of the folds.

    Returns
    -------
    csr_array, (N, L)
        At most `k` scores a row, the best first.
    """
    n_points = X.shape[0]
    if not 2 <= n_folds <= n_points:
        raise SettingsError(f"n_folds={n_folds} must be at least 2 and at most the number of points, {n_points}")
    parts = folds(n_points, n_folds, random_state)
    scores = []
    with stage("scoring out of fold") as done:
        for held in parts:
            rest = np.setdiff1d(np.arange(n_points), held)
            if Y[rest].nnz == 0:
                raise SettingsError(f"With n_folds={n_folds} a part of the points has no label. Take fewer folds.")
            scores.append(base.unfitted().fit(X[rest], Y[rest], label_features=Z).predict(X[held], k))
            done(1 / n_folds)
    return _rows_back(vstack(scores, format="csr"), np.concatenate(parts))


def folds(n_points: int, n_folds: int, random_state: int) -> list[np.ndarray]:
    """The points of each fold of ``out_of_fold``, ascending."""
    order = np.random.default_rng(random_state).permutation(n_points)
    return [np.sort(part) for part in np.array_split(order, n_folds)]


def _rows_back(scores: csr_array, rows: np.ndarray) -> csr_array:
    """Row i of the result is the row of `scores` that stands for point i; entries keep their order in a row."""
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows))
    return scores[place]


def hold_out(
    X: csr_array, Y: csr_array, fraction: float, random_state: int
) -> tuple[tuple[csr_array, csr_array], tuple[csr_array, csr_array]]:
    """(X, Y) to fit and (X, Y) to choose settings on; every label keeps a point to be learnt from."""
    train, held = split(Y, fraction, random_state)
    return (X[train], Y[train]), (X[held], Y[held])
