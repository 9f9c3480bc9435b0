"""The trained part of a combination: features of a pair in, the probability that the label is right out.

Members score on scales of their own, and sampled negatives leave open how frequent labels compare with rare ones. Held-
out points settle both. A logistic regression weighs the features; its weights are regularised towards the plain mean of
the members, so that few held-out points move them little. Boosted trees learn what no weighted sum can. The two err
differently, and a mean of their log odds ranks better than either alone.

The regression scores one pair at a time. Of two labels with the same features the one that comes first for its point is
correct more often, so that the first label and all others have a monotone calibration of their own at the end.
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
from longtail.sparse import bounded_scores, entry_keys, logistic
from longtail.store.invariants import Rules, floats

_CHECKED = 0.25  # share of held-out points by which the number of trees is chosen
_TREES, _RATE = 150, 0.15  # 300 trees at half the rate were no better on Debian packages and Tate, and twice as slow
_TREES_OF_SEEN, _TREES_OF_UNSEEN = "combiner_trees_", "combiner_unseen_trees_"  # arrays in a model folder
_FEWEST = 1000  # pairs that are right; with fewer, trees only memorise them
_FEWEST_UNSEEN = 100  # the same for labels that have text only: there are never many, and few features tell them apart


@dataclass(frozen=True)
class Layout:
    """Columns of the features, by member."""

    n_scorers: int
    n_listers: int
    n_likeness: int = 0

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return OF_ALL + OF_SCORER * self.n_scorers + OF_LISTER * self.n_listers + self.n_likeness

    def scorer(self, m: int) -> int:
        """First column of a scorer: its log odds."""
        return OF_ALL + OF_SCORER * m

    def lister(self, v: int) -> int:
        """First column of a lister: its log odds; the next is 1 if it lists the label."""
        return OF_ALL + OF_SCORER * self.n_scorers + OF_LISTER * v

    def tree_columns(self) -> np.ndarray:
        """Return the columns that boosted trees split: the others are made of these, and trees find that themselves."""
        listers = [self.lister(v) + part for v in range(self.n_listers) for part in (0, 3)]  # log odds and certainty
        likeness = range(self.n_features - self.n_likeness, self.n_features)
        return np.array([1, *(self.scorer(m) for m in range(self.n_scorers)), *listers, *likeness], np.int32)

    def log_odds_columns(self) -> list[int]:
        """Return the column of each member's log odds."""
        return [self.scorer(m) for m in range(self.n_scorers)] + [self.lister(v) for v in range(self.n_listers)]


@dataclass(frozen=True)
class Combiner:
    """How features of a pair become log odds.

    Attributes
    ----------
    layout : Layout
    seen : array, (features,)
        Weights for labels with training points.
    unseen : array, (features,)
        Weights for labels that have text only.
    trees : BoostedTrees, optional
        Their log odds are mixed in for labels with training points that rank high by `seen`.
    unseen_trees : BoostedTrees, optional
        For labels that have text only, whose log odds are those of these trees alone. How alike texts are says little
        by a weighted sum: on held-out Debian packages these trees raised P@1 by 2.8 and B@1, 3, 5 by 6.5, 2.4 and 1.3,
        on Tate by 0.3 and 1.0, 0.7 and 0.4.
    share : float
        Share of `trees` in the log odds of such a label. In nine trials on five data sets, 0.7 had the higher B@1 of
        held-out points than 0.9 in each, by 0.3 on average, and P@1, 3, 5 higher by 0.1 on average.
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
        """Return the mean of the members' log odds; for labels with text only, the scorers' alone."""
        columns = layout.log_odds_columns()
        seen = np.zeros(layout.n_features)
        seen[columns] = 1 / max(1, len(columns))
        unseen = np.zeros(layout.n_features)
        ahead = columns[: layout.n_scorers] or columns
        unseen[ahead] = 1 / max(1, len(ahead))
        return cls(layout, seen, unseen)

    def fitted(self, rows: np.ndarray, right: np.ndarray, points: np.ndarray, n_trees: int | None = None) -> Combiner:
        """Train on features (n, F) of held-out pairs, whether each is right, and the point that each belongs to.

        Without `n_trees`, a part of the points chooses how many boosted trees there are. Where there are trees,
        likeness is left to them: it is computed for the leading labels only.
        """
        boosted = self._boosted(rows, right, points, _FEWEST, n_trees)
        seen = self.seen.copy()
        weighed = slice(None) if boosted is None else slice(self.layout.n_features - self.layout.n_likeness)
        seen[weighed] = fit_logistic(rows[:, weighed], right, self.seen[weighed])
        return replace(self, seen=seen, trees=boosted)

    def _boosted(
        self, rows: np.ndarray, right: np.ndarray, points: np.ndarray, fewest: int, n_trees: int | None = None
    ) -> BoostedTrees | None:
        """Grow trees, as many as suit points that were not trained on unless `n_trees` says; None if none help."""
        columns = self.layout.tree_columns()
        few = np.ascontiguousarray(rows[:, columns])
        if n_trees is None:
            n_trees = 0
            if np.count_nonzero(right) >= fewest:
                checked = (np.random.default_rng(0).random(points.max() + 1) < _CHECKED)[points]
                grown = BoostedTrees.fit(few[~checked], right[~checked], _TREES, _RATE)
                n_trees = grown.best_size(few[checked], right[checked])
        return BoostedTrees.fit(few, right, n_trees, _RATE).over(columns) if n_trees else None

    def fitted_unseen(
        self, rows: np.ndarray, right: np.ndarray, text_lister: int | None, shift: float, points: np.ndarray | None
    ) -> Combiner:
        """Train the weights of labels that have text only, from pairs whose labels are treated as such.

        `text_lister` is the number of the lister that compares texts, if there is one. `shift` is added to the
        constant: labels are among the held-out pairs because a held-out point has them, so that they look more
        frequent than labels that are added later. `points` are those that the pairs belong to, where the labels do
        have text only, so that trees may be grown too; the trees need no shift, since all such labels that a held-out
        point might have are among their pairs.
        """
        columns = [0, *(self.layout.scorer(m) for m in range(self.layout.n_scorers))]
        if text_lister is not None:
            first = self.layout.lister(text_lister)
            columns += [first, first + 1, first + 4]
        unseen = self.unseen.copy()
        unseen[columns] = fit_logistic(rows[:, columns], right, self.unseen[columns])
        unseen[0] += shift
        trees = None if points is None else self._boosted(rows, right, points, _FEWEST_UNSEEN)
        return replace(self, unseen=unseen, unseen_trees=trees)

    def calibrated(self, scores: csr_array, Y: csr_array) -> tuple[Combiner, csr_array]:
        """Learn the calibration from scores of held-out points by combiners that did not see them.

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
        maps = fit_by_rank(scores.data, correct, first, "platt")  # log odds are nearly right: two parameters suffice
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
        """Return the log odds of pairs by their features (n, F); `unseen` if their labels have text only."""
        weights, trees = (self.unseen, self.unseen_trees) if unseen else (self.seen, self.trees)
        odds = rows @ weights
        if trees is None:
            return odds
        share = 1.0 if unseen else self.share
        return (1 - share) * odds + share * trees.log_odds(rows)

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts and arrays to store."""
        layout = [self.layout.n_scorers, self.layout.n_listers, self.layout.n_likeness]
        arrays = {"combiner_seen": self.seen, "combiner_unseen": self.unseen}
        arrays |= self.first.arrays("combiner_first_") | self.others.arrays("combiner_others_")
        for own, trees in ((_TREES_OF_SEEN, self.trees), (_TREES_OF_UNSEEN, self.unseen_trees)):
            if trees is not None:
                arrays |= {f"{own}{name}": array for name, array in trees.arrays().items()}
        return {"layout": layout, "share": self.share}, arrays

    @staticmethod
    def array_rules(layout: Layout, names: Container[str]) -> Rules:
        """Declare what the arrays of :meth:`state` must be, of which `names` are stored."""
        n = str(layout.n_features)
        rules = Rules({f"combiner_{name}": floats(n, "f8") for name in ("seen", "unseen")})
        rules |= ScoreMap.array_rules("combiner_first_") | ScoreMap.array_rules("combiner_others_")
        for own, n_trees in ((_TREES_OF_SEEN, "T"), (_TREES_OF_UNSEEN, "U")):
            if f"{own}bias" in names:
                rules |= BoostedTrees.array_rules(n, n_trees).prefixed(own)
        return rules

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Build what :meth:`state` took apart."""
        seen, unseen = np.array(arrays["combiner_seen"]), np.array(arrays["combiner_unseen"])
        trees, unseen_trees = (_trees_of(own, arrays) for own in (_TREES_OF_SEEN, _TREES_OF_UNSEEN))
        maps = (ScoreMap.from_arrays(f"combiner_{name}_", arrays) for name in ("first", "others"))
        return cls(Layout(*facts["layout"]), seen, unseen, trees, unseen_trees, facts["share"], *maps)


def _trees_of(own: str, arrays: dict[str, np.ndarray]) -> BoostedTrees | None:
    """Return the trees whose arrays have names that begin with `own`."""
    parts = {name.removeprefix(own): np.array(part) for name, part in arrays.items() if name.startswith(own)}
    return BoostedTrees(**parts) if parts else None
