"""What rankers around other rankers share: the base they fit, its cost, and scores of points it was not fitted to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.data.split import as_new_points, hold_out_points
from longtail.engine import current
from longtail.errors import SettingsError, number_of
from longtail.models.base import Ranker, data_bytes
from longtail.progress import stage

_log = logging.getLogger("longtail.models")

_HELD_OUT = 0.1, 1000, 4000  # share of the points, and how many at least (a quarter, if that is less) and at most
_KEPT_SHARE = (
    0.4  # memory that a fitted copy of the base keeps while the next is fitted, as a share; benchmarks/scale/run.py
)


class Wrapper(Ranker):
    """Base of the rankers that wrap one other ranker.

    The ranker given as `base` is a recipe: fitting fits a copy of it, ``base_``, and leaves the one given as it was,
    whether that had been fitted or not. A subclass calls :meth:`_fit_base`, names ``base_`` among the parts of its
    `_state` through :meth:`_parts`, and returns from :meth:`_copies` how many copies one ``fit`` trains.

    Attributes
    ----------
    base_ : Ranker
        The fitted copy.
    """

    kind: ClassVar[str] = ""
    base: Any
    base_: Ranker

    def fit(self, X: Any, Y: Any, *, label_features: Any = None, validation: Any = None) -> Self:
        """Learn from points and their labels; see :meth:`longtail.models.base.Ranker.fit`.

        Before it starts, the logger ``longtail.models`` reports how many rankers are to be fitted.
        """
        self.check_params()
        _log.info("%s", self.cost())
        return super().fit(X, Y, label_features=label_features, validation=validation)

    def check_params(self) -> None:
        """Compare every parameter, those of the base too, with its constraint; the base must be a ranker."""
        check_base(self.base, type(self).__name__)
        super().check_params()

    def _fit_base(
        self,
        X: csr_array,
        Y: csr_array,
        Z: csr_array | None = None,
        validation: tuple[csr_array, csr_array] | None = None,
        recipe: Ranker | None = None,
    ) -> Ranker:
        """Fit a copy of the base to these points, and keep it.

        Parameters
        ----------
        X, Y, Z, validation
            As for ``fit``.
        recipe : Ranker, optional
            The base with its data-dependent choices settled (:meth:`tuned`). The fitted copy then shows the parameters
            of the base that was given, as it would if it had made these choices itself.
        """
        self.base_ = (self.base if recipe is None else recipe).unfitted()
        self.base_._steps = self._steps.inside("base")
        self.base_.fit(X, Y, label_features=Z, validation=validation)
        if recipe is not None:
            self.base_.set_params(**self.base.unfitted().get_params(deep=False))
        return self.base_

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy around a base whose data-dependent choices are settled on this data."""
        base = self._tuned_base(X, Y, Z)
        return type(self)(**self.get_params(deep=False) | {"base": base})

    def n_fits(self) -> dict[str, int]:
        """Return how many rankers of each kind one ``fit`` trains, this one included."""
        copies = self._copies()
        inner = {kind: copies * n for kind, n in check_base(self.base, type(self).__name__).n_fits().items()}
        return dict(Counter({self.kind: 1}) + Counter(inner))

    def cost(self) -> str:
        """Return what one ``fit`` trains, such as "ranknet(bonsai): 4 fits of bonsai"."""
        fits = Counter(self.n_fits()) - Counter({self.kind: 1})
        counts = [f"{number_of(n, 'fit')} of {kind}" for kind, n in fits.items()]
        return f"{_expression(self)}: {', '.join(counts)}"

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: those of a fit of the base, what an earlier fit leaves, and copies of points."""
        base = check_base(self.base, type(self).__name__)
        return (1 + _KEPT_SHARE) * base.memory_needed(X, Y, Z) + 2 * data_bytes(X, Y, Z)

    def _copies(self) -> int:
        """Return the number of copies of the base that one ``fit`` trains."""
        return 1

    def _tuned_base(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> Ranker:
        """Return an unfitted copy of the base whose data-dependent choices are settled, to be fitted several times."""
        base = check_base(self.base, type(self).__name__).unfitted()
        base._steps = self._steps.inside("choices")
        return base.tuned(X, Y, Z)

    def _hold_out(self, Y: csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Return points to fit the base to, and points held out to learn from them how to combine its scores."""
        share, least, most = _HELD_OUT
        return hold_out_points(Y, share, [self._seed, 7], at_least=min(least, Y.shape[0] // 4), at_most=most)

    def _copy_of(self, recipe: Ranker, name: str) -> Ranker:
        """Return a copy of the base to be fitted; a checkpoint keeps its steps under `name`."""
        copy = recipe.unfitted()
        copy._steps = self._steps.inside(name)
        return copy

    def _parts(self) -> dict[str, Ranker]:
        return {"base": self.base_}

    def _fitted_parts(self) -> Iterable[Ranker]:
        return (self.base_,)

    def _restore_base(self, parts: dict[str, Ranker]) -> None:
        self.base_ = parts["base"]


def _expression(ranker: Any) -> str:
    """Return a ranker as the command line writes it, without parameters."""
    inner = getattr(ranker, "base", None)
    return f"{ranker.kind}({_expression(inner)})" if isinstance(inner, Ranker) else ranker.kind


def check_base(base: Any, wrapper: str) -> Ranker:
    """Return the base itself; raise an error with what to give instead if it is not a ranker."""
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
    """Score every training point by a copy of the base that never saw it.

    Scores of points that a model was fitted to are too good: what is learnt from them does not hold for new points.
    Folds are drawn at random, so a label with a single point is unknown to the copy that scores that point, as it would
    be to any model. Choices that depend on the data (:meth:`Ranker.tuned`) are made once, on all points, and hold for
    all copies.

    Parameters
    ----------
    base : Ranker
        A recipe; it is copied, not fitted.
    X, Y, Z : csr_array
        Points (N, D), their labels (N, L), and label text (L, D) or None.
    k : int
        Scores per point.
    n_folds : int
        Copies to fit, each to the points of all folds but one.
    random_state : int
        Seed of the folds.

    Returns
    -------
    csr_array, (N, L)
        At most `k` scores per row, the best first.
    """
    n_points = X.shape[0]
    if not 2 <= n_folds <= n_points:
        raise SettingsError(f"n_folds={n_folds} must be from 2 to the number of points (n_samples={n_points})")
    parts = folds(n_points, n_folds, random_state)
    recipe = base.tuned(X, Y, Z)
    copies = [recipe.unfitted() for _ in parts]
    for number, copy in enumerate(copies):
        copy._steps = base._steps.inside(f"fold-{number + 1}")
    scores = score_folds(copies, parts, X, Y, Z, k)
    return _rows_back(vstack(scores, format="csr"), np.concatenate(parts))


def score_folds(
    copies: list[Ranker], parts: list[np.ndarray], X: csr_array, Y: csr_array, Z: csr_array | None, k: int
) -> list[csr_array]:
    """Fit each copy to all points but those of its fold, and return its scores for these, at most `k` per row."""
    with stage("scoring out of fold") as done:
        return current().map(
            _score_fold,
            zip(copies, parts, strict=True),
            (X, Y, Z, k),
            n_jobs=1,  # one after another on this machine: a fit has threads of its own
            uses_whole_machine=True,
            finished=lambda *_: done(1 / len(parts)),
        )


def _score_fold(fold: tuple[Ranker, np.ndarray], X: csr_array, Y: csr_array, Z: csr_array | None, k: int) -> csr_array:
    """Fit a ranker to all points but those of its fold, and return its scores for these."""
    copy, held = fold
    rest = np.setdiff1d(np.arange(X.shape[0]), held)
    if Y[rest].nnz == 0:
        raise SettingsError("With so many folds (n_folds) a part of the points has no label. Take fewer folds.")
    return copy.fit(X[rest], Y[rest], label_features=Z).predict(as_new_points(X, Y, Z, held), k)


def folds(n_points: int, n_folds: int, random_state: int) -> list[np.ndarray]:
    """Return the points of each fold of ``out_of_fold``, ascending."""
    order = np.random.default_rng(random_state).permutation(n_points)
    return [np.sort(part) for part in np.array_split(order, n_folds)]


def _rows_back(scores: csr_array, rows: np.ndarray) -> csr_array:
    """Put row i of the result where point i is in `rows`; entries keep their order in a row."""
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows))
    return scores[place]
