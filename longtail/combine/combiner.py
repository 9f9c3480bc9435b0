"""The trained part of a combination: from the features of a (point, label) pair to the probability of the label.

Each member has its own scale of scores, and members trained on sampled negatives do not score frequent and rare labels
on one scale. The combiner learns from held-out points how to correct for both. A logistic regression weighs the
features; its weights are regularised towards the plain mean of the members, so that few held-out points change them
little. Boosted trees learn interactions, which no weighted sum can express. Both make different errors, and a weighted
mean of their log odds ranks better than either alone.

The regression scores each pair by itself. Of two labels with the same features, the one that is ranked first for its
point is correct more often. At the end, the first label of a point and all others therefore have separate monotone
calibrations.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.boosted_trees import BoostedTrees, no_trees
from longtail.combine.logistic import fit_logistic
from longtail.combine.score_map import ScoreMap, fit_by_rank, in_the_same_order, is_first
from longtail.kernels.combine import OF_ALL, OF_LISTER, OF_SCORER, Weights
from longtail.sparse import bounded_scores, entry_keys, logistic, with_prefix, without_prefix
from longtail.store.invariants import Rules, floats

_VALIDATION_SHARE = 0.25  # of the held-out points, on which the number of trees is chosen
_TREES, _RATE = 150, 0.15  # 300 trees at half the rate were no better on Debian packages and Tate, and twice as slow
_TREES_OF_SEEN, _TREES_OF_UNSEEN = "combiner_trees_", "combiner_unseen_trees_"  # names of arrays in a model folder
_FEWEST_RIGHT = 1000  # right pairs needed to grow trees; with fewer, trees only memorise them
_FEWEST_RIGHT_UNSEEN = 100  # the same for labels with text only: they are never many, and few of their features matter


@dataclass(frozen=True)
class Layout:
    """The columns of each member in the features of a pair."""

    n_scorers: int
    n_listers: int
    n_likeness: int = 0

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return OF_ALL + OF_SCORER * self.n_scorers + OF_LISTER * self.n_listers + self.n_likeness

    def scorer(self, m: int) -> int:
        """Return the first column of scorer m: its log odds."""
        return OF_ALL + OF_SCORER * m

    def lister(self, v: int) -> int:
        """Return the first column of lister v: its log odds; the next column is 1 if it lists the label."""
        return OF_ALL + OF_SCORER * self.n_scorers + OF_LISTER * v

    def tree_columns(self) -> np.ndarray:
        """Return the columns that boosted trees split; the others are products of these, which trees do not need."""
        listers = [self.lister(v) + part for v in range(self.n_listers) for part in (0, 3)]  # log odds and certainty
        likeness = range(self.n_features - self.n_likeness, self.n_features)
        return np.array([1, *(self.scorer(m) for m in range(self.n_scorers)), *listers, *likeness], np.int32)

    def log_odds_columns(self) -> list[int]:
        """Return the column of each member's log odds."""
        return [self.scorer(m) for m in range(self.n_scorers)] + [self.lister(v) for v in range(self.n_listers)]


@dataclass(frozen=True)
class Combiner:
    """The function from the features of a pair to log odds.

    Attributes
    ----------
    layout : Layout
        Columns of the features.
    seen : array, (features,)
        Weights of the regression for labels with training points.
    unseen : array, (features,)
        Weights of the regression for labels that have text only.
    trees : BoostedTrees, optional
        Trees for labels with training points. They score the labels that the regression ranks high.
    unseen_trees : BoostedTrees, optional
        Trees for labels that have text only. Where there are such trees, they alone give the log odds: a weighted sum
        makes little use of text similarity. They raised P@1 by 2.8 and B@1, 3, 5 by 6.5, 2.4 and 1.3 on held-out
        Debian packages, and by 0.3 and 1.0, 0.7, 0.4 on Tate.
    share : float
        Weight of `trees` in the log odds; the regression has the rest. In nine trials on five data sets, 0.7 had a
        higher held-out B@1 than 0.9 each time, by 0.3 on average, and P@1, 3, 5 were higher by 0.1 on average.
    first, others : ScoreMap
        Calibration of the first label of a point, and of all others.
    """

    layout: Layout
    seen: np.ndarray
    unseen: np.ndarray
    trees: BoostedTrees | None = None
    unseen_trees: BoostedTrees | None = None
    share: float = 0.7
    first: ScoreMap = field(default_factory=ScoreMap.same)
    others: ScoreMap = field(default_factory=ScoreMap.same)

    @classmethod
    def untrained(cls, layout: Layout) -> Combiner:
        """Return a combiner that averages the members' log odds; for labels with text only, those of scorers alone."""
        columns = layout.log_odds_columns()
        seen = np.zeros(layout.n_features)
        seen[columns] = 1 / max(1, len(columns))
        unseen = np.zeros(layout.n_features)
        scorer_columns = columns[: layout.n_scorers] or columns
        unseen[scorer_columns] = 1 / max(1, len(scorer_columns))
        return cls(layout, seen, unseen)

    def fitted(self, rows: np.ndarray, right: np.ndarray, points: np.ndarray, n_trees: int | None = None) -> Combiner:
        """Train the weights and trees of labels with training points.

        With trees, the regression does not use similarity features: these are computed for the leading labels only.

        Parameters
        ----------
        rows : array, (n, F)
            Features of held-out pairs.
        right : bool array, (n,)
            Whether the label of each pair is correct.
        points : array, (n,)
            The point of each pair.
        n_trees : int, optional
            Number of boosted trees. By default the best number on a part of the points.
        """
        trees = self._grow_trees(rows, right, points, _FEWEST_RIGHT, n_trees)
        seen = self.seen.copy()
        columns = slice(None) if trees is None else slice(self.layout.n_features - self.layout.n_likeness)
        seen[columns] = fit_logistic(rows[:, columns], right, self.seen[columns])
        return replace(self, seen=seen, trees=trees)

    def _grow_trees(
        self, rows: np.ndarray, right: np.ndarray, points: np.ndarray, fewest_right: int, n_trees: int | None = None
    ) -> BoostedTrees | None:
        """Grow `n_trees` trees, by default the number that is best on a part of the points; None for none."""
        columns = self.layout.tree_columns()
        features = np.ascontiguousarray(rows[:, columns])
        if n_trees is None:
            n_trees = 0
            if np.count_nonzero(right) >= fewest_right:
                held_out = (np.random.default_rng(0).random(points.max() + 1) < _VALIDATION_SHARE)[points]
                trial = BoostedTrees.fit(features[~held_out], right[~held_out], _TREES, _RATE)
                n_trees = trial.best_size(features[held_out], right[held_out])
        return BoostedTrees.fit(features, right, n_trees, _RATE).over(columns) if n_trees else None

    def fitted_unseen(
        self, rows: np.ndarray, right: np.ndarray, text_lister: int | None, shift: float, points: np.ndarray | None
    ) -> Combiner:
        """Train the weights of labels that have text only, from pairs whose labels are treated like that.

        Parameters
        ----------
        rows, right : arrays, (n, F) and (n,)
            Features of held-out pairs, and whether the label of each is correct.
        text_lister : int or None
            Number of the lister that compares texts, if there is one.
        shift : float
            Added to the constant. Most labels of these pairs occur in held-out points, so they look more frequent than
            labels that are added later.
        points : array, (n,), or None
            The point of each pair, if the labels really have no training points. Then trees are grown too. They need
            no shift: their pairs hold all such labels that a held-out point might have.
        """
        columns = [0, *(self.layout.scorer(m) for m in range(self.layout.n_scorers))]
        if text_lister is not None:
            first = self.layout.lister(text_lister)
            columns += [first, first + 1, first + 4]
        unseen = self.unseen.copy()
        unseen[columns] = fit_logistic(rows[:, columns], right, self.unseen[columns])
        unseen[0] += shift
        trees = None if points is None else self._grow_trees(rows, right, points, _FEWEST_RIGHT_UNSEEN)
        return replace(self, unseen=unseen, unseen_trees=trees)

    def calibrated(self, scores: csr_array, Y: csr_array) -> tuple[Combiner, csr_array]:
        """Learn the calibration from held-out scores, made by combiners that were not trained on these points.

        Parameters
        ----------
        scores : csr_array, (N, L)
            Probabilities, in each row from the highest to the lowest (:meth:`HeldOutPairs.cross_scored`).
        Y : csr_array, (N, L)
            Correct labels; every point has at least one.

        Returns
        -------
        Combiner, csr_array
            The combiner with its calibration, and the calibrated scores.
        """
        first = is_first(scores)
        correct = np.isin(entry_keys(scores), entry_keys(Y))
        maps = fit_by_rank(scores.data, correct, first, "platt")  # nearly calibrated already: two parameters suffice
        odds = np.where(first, maps[0](scores.data), maps[1](scores.data))
        mapped = in_the_same_order(scores, bounded_scores(logistic(odds)))
        return replace(self, first=maps[0], others=maps[1]), csr_array(
            (mapped, scores.indices, scores.indptr), shape=scores.shape
        )

    def packed(self) -> Weights:
        """Return the combiner as the tuple of arrays that kernels take."""
        trees, unseen_trees = (t or no_trees() for t in (self.trees, self.unseen_trees))
        forests = trees.packed(), unseen_trees.packed()
        return Weights(self.seen, self.unseen, self.share, *forests, self.first.knots, self.others.knots)

    @property
    def n_trees(self) -> int:
        """Number of boosted trees."""
        return 0 if self.trees is None else len(self.trees.features)

    def log_odds(self, rows: np.ndarray, unseen: bool = False) -> np.ndarray:
        """Return the log odds of pairs with features (n, F); set `unseen` if their labels have text only."""
        weights, trees = (self.unseen, self.unseen_trees) if unseen else (self.seen, self.trees)
        odds = rows @ weights
        if trees is None:
            return odds
        share = 1.0 if unseen else self.share
        return (1 - share) * odds + share * trees.log_odds(rows)

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return facts and arrays to store."""
        layout = [self.layout.n_scorers, self.layout.n_listers, self.layout.n_likeness]
        arrays = {"combiner_seen": self.seen, "combiner_unseen": self.unseen}
        arrays |= self.first.arrays("combiner_first_") | self.others.arrays("combiner_others_")
        for prefix, trees in ((_TREES_OF_SEEN, self.trees), (_TREES_OF_UNSEEN, self.unseen_trees)):
            if trees is not None:
                arrays |= with_prefix(prefix, trees.arrays())
        return {"layout": layout, "share": self.share}, arrays

    @staticmethod
    def array_rules(layout: Layout, names: Container[str]) -> Rules:
        """Declare the rules that the arrays of :meth:`state` must meet; `names` are those in the folder."""
        n = str(layout.n_features)
        rules = Rules({f"combiner_{name}": floats(n, "f8") for name in ("seen", "unseen")})
        rules |= ScoreMap.array_rules("combiner_first_") | ScoreMap.array_rules("combiner_others_")
        for prefix, n_trees in ((_TREES_OF_SEEN, "T"), (_TREES_OF_UNSEEN, "U")):
            if f"{prefix}bias" in names:
                rules |= BoostedTrees.array_rules(n, n_trees).prefixed(prefix)
        return rules

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Restore the combiner from what :meth:`state` returned."""
        seen, unseen = np.array(arrays["combiner_seen"]), np.array(arrays["combiner_unseen"])
        trees, unseen_trees = (_restored_trees(prefix, arrays) for prefix in (_TREES_OF_SEEN, _TREES_OF_UNSEEN))
        maps = (ScoreMap.from_arrays(f"combiner_{name}_", arrays) for name in ("first", "others"))
        return cls(Layout(*facts["layout"]), seen, unseen, trees, unseen_trees, facts["share"], *maps)


def _restored_trees(prefix: str, arrays: dict[str, np.ndarray]) -> BoostedTrees | None:
    """Restore the trees whose arrays have names that begin with `prefix`; None if there are none."""
    parts = {name: np.array(part) for name, part in without_prefix(prefix, arrays).items()}
    return BoostedTrees(**parts) if parts else None
