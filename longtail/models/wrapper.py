"""What wrappers share: fit copies of a base, count these fits, and score points that the base was not fitted to."""

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
from longtail.sparse import Pair

_log = logging.getLogger("longtail.models")

_HELD_OUT = 0.1, 1000, 4000  # points to hold out: share, fewest (or a quarter of all, if that is less) and most
_KEPT_SHARE = 0.4  # of the memory of a fit, which its copy of the base keeps during the next; benchmarks/scale/run.py


class Wrapper(Ranker):
    """Base of the rankers that wrap one other ranker.

    The ranker given as `base` is a recipe: a fit trains a copy of it, ``base_``, and does not change the one given. A
    subclass calls :meth:`_fit_base`, returns the copy as a part of its `_state` with :meth:`_parts`, and returns from
    :meth:`_copies` how many copies one ``fit`` trains.

    Attributes
    ----------
    base_ : Ranker
        The fitted copy of the base.
    """

    kind: ClassVar[str] = ""
    base: Any
    base_: Ranker

    def fit(self, X: Any, Y: Any, *, label_features: Any = None, validation: Any = None) -> Self:
        """Learn from points and their labels; see :meth:`longtail.models.base.Ranker.fit`.

        Before it starts, it writes to the logger ``longtail.models`` how many rankers it will fit.
        """
        self.check_params()
        _log.info("%s", self.cost())
        return super().fit(X, Y, label_features=label_features, validation=validation)

    def check_params(self) -> None:
        """Check that the base is a ranker and that every parameter, also of the base, meets its constraint."""
        self._checked_base()
        super().check_params()

    def _checked_base(self) -> Ranker:
        """Return the base; raise an error if it is not a ranker."""
        return check_base(self.base, type(self).__name__)

    def _fit_base(
        self,
        X: csr_array,
        Y: csr_array,
        Z: csr_array | None = None,
        validation: Pair | None = None,
        recipe: Ranker | None = None,
    ) -> Ranker:
        """Fit a copy of the base to these points, and keep it.

        Parameters
        ----------
        X, Y, Z, validation
            As for ``fit``.
        recipe : Ranker, optional
            The base with its data-dependent choices made (:meth:`tuned`). The fitted copy nevertheless shows the
            parameters of the base that was given, as if it had made these choices itself.
        """
        self.base_ = (self.base if recipe is None else recipe).unfitted()
        self.base_._steps = self._steps.inside("base")
        self.base_.fit(X, Y, label_features=Z, validation=validation)
        if recipe is not None:
            self.base_.set_params(**self.base.unfitted().get_params(deep=False))
        return self.base_

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy around a base with all data-dependent choices made on this data."""
        base = self._tuned_base(X, Y, Z)
        return type(self)(**self.get_params(deep=False) | {"base": base})

    def n_fits(self) -> dict[str, int]:
        """Return how many rankers of each kind one ``fit`` trains, this one included."""
        copies = self._copies()
        inner = {kind: copies * n for kind, n in self._checked_base().n_fits().items()}
        return dict(Counter({self.kind: 1}) + Counter(inner))

    def cost(self) -> str:
        """Return what one ``fit`` trains, such as "ranknet(bonsai): 4 fits of bonsai"."""
        fits = Counter(self.n_fits()) - Counter({self.kind: 1})
        counts = [f"{number_of(n, 'fit')} of {kind}" for kind, n in fits.items()]
        return f"{_expression(self)}: {', '.join(counts)}"

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: a fit of the base, what the fit before it keeps, and copies of the points."""
        return (1 + _KEPT_SHARE) * self._checked_base().memory_needed(X, Y, Z) + 2 * data_bytes(X, Y, Z)

    def _copies(self) -> int:
        """Return the number of copies of the base that one ``fit`` trains."""
        return 1

    def _tuned_base(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> Ranker:
        """Return an unfitted copy of the base with all data-dependent choices made, to be fitted several times."""
        base = self._checked_base().unfitted()
        base._steps = self._steps.inside("choices")
        return base.tuned(X, Y, Z)

    def _hold_out(self, Y: csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Return points to fit the base to, and held-out points on which its scores are measured."""
        share, fewest, most = _HELD_OUT
        return hold_out_points(Y, share, [self._seed, 7], at_least=min(fewest, Y.shape[0] // 4), at_most=most)

    def _copy_of(self, recipe: Ranker, name: str) -> Ranker:
        """Return an unfitted copy of the base, whose steps a checkpoint keeps under `name`."""
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
    """Return the composition of a ranker as on the command line, without parameters: "ranknet(bonsai)"."""
    inner = getattr(ranker, "base", None)
    return f"{ranker.kind}({_expression(inner)})" if isinstance(inner, Ranker) else ranker.kind


def check_base(base: Any, wrapper: str) -> Ranker:
    """Return the base; if it is not a ranker, raise an error that says what to give instead."""
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
    """Score every training point by a copy of the base that was not fitted to it.

    A model scores the points that it was fitted to too well, so that nothing learnt from these scores holds for new
    points. Folds are drawn at random. If a label has a single point, the copy that scores this point does not know the
    label, as would be the case for a new point. Data-dependent choices (:meth:`Ranker.tuned`) are made once, on all
    points, for all copies.

    Parameters
    ----------
    base : Ranker
        Ranker to copy; it is not fitted itself.
    X, Y, Z : csr_array
        Points (N, D), their labels (N, L), and label text (L, D) or None.
    k : int
        Number of scores per point.
    n_folds : int
        Number of copies to fit, each to the points of all folds but one. More folds are slower, and their scores are
        nearer to those of a model of all points.
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
    return _in_point_order(vstack(scores, format="csr"), np.concatenate(parts))


def score_folds(
    copies: list[Ranker], parts: list[np.ndarray], X: csr_array, Y: csr_array, Z: csr_array | None, k: int
) -> list[csr_array]:
    """Fit each copy to all points but those of its fold, and score these; return at most `k` scores per row."""
    with stage("scoring out of fold") as done:
        return current().map(
            _score_fold,
            zip(copies, parts, strict=True),
            (X, Y, Z, k),
            n_jobs=1,  # one after another on this machine, because each fit uses several threads
            uses_whole_machine=True,
            finished=lambda *_: done(1 / len(parts)),
        )


def _score_fold(fold: tuple[Ranker, np.ndarray], X: csr_array, Y: csr_array, Z: csr_array | None, k: int) -> csr_array:
    """Fit a copy to all points but those of its fold, and score these: one task of the engine."""
    copy, held = fold
    rest = np.setdiff1d(np.arange(X.shape[0]), held)
    if Y[rest].nnz == 0:
        raise SettingsError("With so many folds (n_folds) a part of the points has no label. Take fewer folds.")
    return copy.fit(X[rest], Y[rest], label_features=Z).predict(as_new_points(X, Y, Z, held), k)


def folds(n_points: int, n_folds: int, random_state: int) -> list[np.ndarray]:
    """Divide points into folds at random; return the points of each fold in ascending order."""
    order = np.random.default_rng(random_state).permutation(n_points)
    return [np.sort(part) for part in np.array_split(order, n_folds)]


def _in_point_order(scores: csr_array, points: np.ndarray) -> csr_array:
    """Reorder rows so that row i belongs to point i; `points` has the point of each present row."""
    row_of = np.empty(len(points), np.int64)
    row_of[points] = np.arange(len(points))
    return scores[row_of]
