"""Combine candidate lists and pair scorers into one ranking.

:class:`CandidatePredictor` is the only place where the scores of several models are combined: it unites their
candidates, computes the features of each (point, candidate) pair, and ranks the candidates by a :class:`Combiner`. The
result for a point is the same alone and in a batch. It also collects the held-out pairs on which a combiner is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.candidates import CandidateList, PairScorer
from longtail.combine.combiner import Combiner, Layout
from longtail.combine.label_profile import LabelProfile
from longtail.kernels import combine as kernels
from longtail.kernels.combine import Known, Lists, Pairs, TopLabels, Weights
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import FEW_SLOW_ROWS, spread
from longtail.params import SHARE, OneOf
from longtail.sparse import Arrays, bounded_scores, entry_keys, from_top_k, label_counts, logistic
from longtail.store.facts import check_facts
from longtail.store.invariants import Rules, csr, flags, floats

# Labels that each member lists per point, or k if that is more. With 64 of them P@k and B@k of held-out points differed
# by 0.3 at most, in either direction (five data sets), for a fifth more time.
WIDTH = 24
_OWN_WIDTH = 64  # labels that each scorer lists itself if no member lists any
_ROWS = 4096  # points predicted at once
_LEARNT_ROWS = 512  # held-out points whose features are in memory at once
_LEADING = 20  # labels of each member that the combiner is trained on; with 14, B of held-out points was lower on Tate
_HALF_A_PAIR = 0.5  # right pairs to expect among labels without training points if the held-out points show none
_RARE = 3  # training points of a rare label; such labels then show how well text alone scores

Listing = Callable[[csr_array, int], list[CandidateList]]


@dataclass
class CandidatePredictor:
    """Combines members into one ranking of labels.

    Attributes
    ----------
    scorers : list of PairScorer
        Members that score any pair. Members that list candidates are not attributes; their lists are arguments.
    frequency : array, (L,)
        Frequency of each label (:func:`longtail.combine.label_profile.frequencies`).
    unseen : bool array, (L,)
        Which labels have no training points.
    profile : LabelProfile
        Text and centroids of labels, from which similarity features are computed.
    combiner : Combiner
        The function from the features of a pair to its log odds.
    width : int
        Number of labels requested from each lister, at least.
    n_features : int, optional
        Number of features that scorers and the profile use; further columns are for listers only.
    """

    scorers: list[PairScorer]
    frequency: np.ndarray
    unseen: np.ndarray
    profile: LabelProfile
    combiner: Combiner = field(default_factory=lambda: Combiner.untrained(Layout(0, 0)))
    width: int = WIDTH
    n_features: int | None = None

    def points(self, X: csr_array) -> SparseRows:
        """Return points with only the features that scorers and the profile use."""
        points = SparseRows.of(X)
        return points if self.n_features is None else points.divided(self.n_features)[0]

    def layout(self, n_listers: int) -> Layout:
        """Return the layout of a pair's features for `n_listers` listers."""
        return Layout(len(self.scorers), n_listers, self.profile.width)

    # Prediction --------------------------------------------------------------------------------------------------

    def predict(self, X: csr_array, listing: Listing, k: int, n_jobs: int | None) -> csr_array:
        """Return the k best labels per point as a matrix (N, L), best first; `listing` calls the listers."""
        n = X.shape[0]
        labels, scores, counts = np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.zeros(n, np.int32)
        for start in range(0, n, _ROWS):
            part = slice(start, min(start + _ROWS, n))
            rows = X[part] if n > _ROWS else X
            best = TopLabels(labels[part], scores[part], counts[part])
            self._rank(self.points(rows), listing(rows, max(k, self.width)), k, n_jobs, best)
        return from_top_k(labels, scores, counts, len(self.frequency))

    def predict_one(self, point: SparseRows, lists: list[CandidateList], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels of one point and their probabilities."""
        best = TopLabels(np.empty((1, k), np.int32), np.empty((1, k), np.float32), np.zeros(1, np.int32))
        self._rank(point, lists, k, 1, best)
        n = best.counts[0]
        return best.labels[0, :n], best.scores[0, :n]

    def _rank(
        self, points: SparseRows, lists: list[CandidateList], k: int, n_jobs: int | None, best: TopLabels
    ) -> None:
        points = points.frozen()
        pairs, _ = self._pairs(points, lists, 0 if lists else max(k, _OWN_WIDTH), n_jobs)
        known, weights = self._packed

        def work(block: tuple[int, int]) -> None:
            kernels.rank(points, pairs, known, weights, *block, best)

        spread(work, len(pairs.labels), n_jobs, FEW_SLOW_ROWS)

    @cached_property
    def _packed(self) -> tuple[Known, Weights]:
        """Label properties and combiner as tuples of arrays, for kernels."""
        return Known(self.frequency, self.unseen, self.profile.packed()), self.combiner.packed()

    def _pairs(
        self, points: SparseRows, lists: list[CandidateList], n_own: int, n_jobs: int | None
    ) -> tuple[Pairs, list[Any]]:
        """Return the candidates of points with the members' scores, and the points as each scorer encodes them.

        `n_own` is the number of labels that each scorer lists itself. In prediction, scorers list labels only if there
        are no listers: in addition to those of label trees, neighbours and label text, the labels of a network changed
        metrics of held-out Debian packages by 0.17 at most, and took a quarter of the time. They are listed to train
        the combiner, though: without them P@1 was 0.4 lower, and labels without training points were ranked too high.
        """
        n = len(points.ptr) - 1
        encoded = [scorer.encode(points, n_jobs) for scorer in self.scorers]
        own = np.empty((n, 0), np.int32)
        if n_own:
            found = [s.shortlist(e, n_own, n_jobs) for s, e in zip(self.scorers, encoded, strict=True)]
            own = np.concatenate([own, *found], axis=1)
        packed = pack(lists, n)
        most = len(packed.labels)
        if n > 1 and lists:
            most = int(np.diff(packed.starts, axis=1).max(axis=1, initial=0).sum())
        labels = np.empty((n, own.shape[1] + most), np.int32)
        where = np.empty(len(packed.labels), np.int32)
        spread(lambda block: kernels.unite(own, packed, *block, labels, where), n, n_jobs)
        if len(self.scorers) == 1:
            odds = self.scorers[0].log_odds(encoded[0], labels, n_jobs)[None]
        else:
            odds = np.empty((len(self.scorers), *labels.shape), np.float32)
            for m, scorer in enumerate(self.scorers):
                odds[m] = scorer.log_odds(encoded[m], labels, n_jobs)
        return Pairs(labels, odds, packed, where), encoded

    def pair_features(self, point: SparseRows, lists: list[CandidateList], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the candidates that :meth:`predict_one` ranks for one point, (n,), and their features, (n, F)."""
        point = point.frozen()
        pairs, _ = self._pairs(point, lists, 0 if lists else max(k, _OWN_WIDTH), 1)
        rows = np.empty((*pairs.labels.shape, self.layout(len(lists)).n_features), np.float32)
        kernels.features(point, pairs, self._packed[0], 0, 1, rows)
        there = pairs.labels[0] >= 0
        return pairs.labels[0][there], rows[0][there]

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return facts and arrays to store. Members are stored separately."""
        facts, arrays = self.combiner.state()
        return facts, arrays | {"frequency": self.frequency, "unseen": self.unseen} | self.profile.arrays()

    @staticmethod
    def array_rules(
        facts: dict[str, Any], names: Container[str], n_scorers: int, n_listers: int, n_features: str = "D"
    ) -> Rules:
        """Declare the rules that the arrays of :meth:`state` must meet, for these numbers of members and features."""
        text, centroids = (f"profile_{name}_data" in names for name in ("text", "centroids"))
        expected = [n_scorers, n_listers, 3 * text + centroids]
        check_facts({"layout": OneOf(expected), "share": SHARE}, facts, "the combiner")
        rules = Rules({"frequency": floats("L", least=0), "unseen": flags("L")})
        rules |= Combiner.array_rules(Layout(*expected), names)
        for name, there in (("text", text), ("centroids", centroids)):
            rules |= csr(f"profile_{name}", "L", n_features, unit=True) if there else Rules()
        return rules

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays, scorers: list[PairScorer], n_features: int) -> Self:
        """Restore the predictor from what :meth:`state` returned."""
        frequency, unseen = np.array(arrays["frequency"]), np.array(arrays["unseen"])
        profile = LabelProfile.from_arrays(arrays, (len(frequency), n_features))
        return cls(scorers, frequency, unseen, profile, Combiner.restored(facts, arrays))

    # Training ----------------------------------------------------------------------------------------------------

    def collect(self, X: csr_array, Y: csr_array, listing: Listing, n_jobs: int | None) -> HeldOutPairs:
        """Collect the features of the leading candidates of held-out points, and which of them are right.

        Only labels among the first few of some member are taken. All other pairs are clearly wrong, and far more
        numerous. A combiner fitted to them would be less accurate on the doubtful pairs, which decide the ranking.
        """
        found: list[HeldOutPairs] = []
        keys = entry_keys(Y)
        for start in range(0, X.shape[0], _LEARNT_ROWS):
            rows = X[start : start + _LEARNT_ROWS]
            lists = listing(rows, self.width)
            points, layout = self.points(rows).frozen(), self.layout(len(lists))
            pairs, encoded = self._pairs(points, lists, _LEADING if lists else _OWN_WIDTH, n_jobs)
            features = np.empty((*pairs.labels.shape, layout.n_features), np.float32)
            spread(
                lambda block, s=points, p=pairs, f=features: kernels.features(s, p, self._packed[0], *block, f),
                len(features),
                n_jobs,
            )
            point, at = np.nonzero(_leading(pairs.labels, features, layout))
            label = pairs.labels[point, at]
            right = np.isin((start + point) * np.int64(Y.shape[1]) + label, keys)
            text_odds = np.empty((len(label), len(self.scorers)), np.float32)
            for m, scorer in enumerate(self.scorers):
                text_odds[:, m] = scorer.text_log_odds(encoded[m], point, label, n_jobs)
            found.append(HeldOutPairs(features[point, at], right, start + point, label, text_odds))
        return HeldOutPairs(*(np.concatenate(parts) for parts in zip(*(f.parts() for f in found), strict=True)))


@dataclass
class HeldOutPairs:
    """Pairs of held-out points and candidate labels, to train a combiner on."""

    features: np.ndarray  # (n, F)
    right: np.ndarray  # (n,) bool
    points: np.ndarray  # (n,)
    labels: np.ndarray  # (n,)
    text_odds: np.ndarray  # (n, M) log odds of each scorer by the label's text alone

    def parts(self) -> tuple[np.ndarray, ...]:
        """Return all arrays in the order of the fields."""
        return self.features, self.right, self.points, self.labels, self.text_odds

    def cross_scored(self, layout: Layout, shape: tuple[int, int], k: int, n_trees: int | None = None) -> csr_array:
        """Score each half of the held-out points by a combiner that is trained on the other half.

        `n_trees` is the number of boosted trees. By default it is chosen again for each half.
        """
        first = (np.random.default_rng(0).permutation(shape[0]) < shape[0] // 2)[self.points]
        odds = np.empty(len(self.right))
        for half in (first, ~first):
            if half.any() and not half.all():
                combiner = Combiner.untrained(layout).fitted(
                    self.features[half], self.right[half], self.points[half], n_trees
                )
                odds[~half] = combiner.log_odds(self.features[~half])
            else:
                odds[half] = Combiner.untrained(layout).log_odds(self.features[half])
        return _best_pairs(self.points, self.labels, odds, shape, k)

    def scored_by(self, layout: Layout, member: int, shape: tuple[int, int], k: int) -> csr_array:
        """Return the scores of one member alone; `member` is its number in :meth:`Layout.log_odds_columns`."""
        column = layout.log_odds_columns()[member]
        there = np.ones(len(self.right), bool)
        if member >= layout.n_scorers:
            there = self.features[:, column + 1] > 0
        return _best_pairs(self.points[there], self.labels[there], self.features[there, column], shape, k)

    def of_labels(self, mask: np.ndarray) -> HeldOutPairs:
        """Return the pairs of the labels for which the mask (L,) is true."""
        kept = mask[self.labels]
        return HeldOutPairs(*(part[kept] for part in self.parts()))

    def without(self, columns: list[int]) -> HeldOutPairs:
        """Return the pairs without some columns of their features."""
        return replace(self, features=np.delete(self.features, columns, axis=1))

    def train(self, layout: Layout, Y_train: csr_array, Y_held: csr_array, text_lister: int | None) -> Combiner:
        """Train a combiner for labels with training points, and for labels that have text only.

        The second part is trained on the pairs of labels without training points. These include labels that no held-out
        point has. Without them, labels with text only came first for half of 2,000 Debian packages, after training on
        3,000. If none of these pairs is right, the second part is trained on the rarest labels. Its constant is then
        lowered so that half a right pair is expected among all of them.

        `text_lister` is the number of the lister that compares texts, if there is one.
        """
        counts, met = label_counts(Y_train), label_counts(Y_held)
        seen = counts[self.labels] > 0
        combiner = Combiner.untrained(layout)
        if not seen.any():
            return combiner
        combiner = combiner.fitted(self.features[seen], self.right[seen], self.points[seen])
        n_unseen = np.count_nonzero(~seen)
        apart = bool(self.right[~seen].any())
        some = ~seen if apart else counts[self.labels] <= _RARE
        if not some.any() or (text_lister is None and not layout.n_scorers):
            return combiner
        rows = self.features[some].copy()
        for m in range(layout.n_scorers):
            rows[:, layout.scorer(m)] = self.text_odds[some, m]
        if apart:
            alone = met[(counts > 0) | (met > 0)].mean() / met[(met > 0) & (counts == 0)].mean()
            shift = float(np.log(alone * n_unseen / np.count_nonzero(met[self.labels[~seen]])))
        else:
            expected = n_unseen * float(self.right[some].mean())
            shift = float(np.log(_HALF_A_PAIR / expected)) if expected > 0 else 0.0
        points = self.points[some] if apart else None
        return combiner.fitted_unseen(rows, self.right[some], text_lister, min(0.0, shift), points)


def _best_pairs(points: np.ndarray, labels: np.ndarray, odds: np.ndarray, shape: tuple[int, int], k: int) -> csr_array:
    """Return the k pairs with the highest log odds per point, as a matrix of probabilities, best first."""
    order = np.lexsort((labels, -odds, points))
    counts = np.bincount(points, minlength=shape[0])
    ptr = np.concatenate([[0], np.cumsum(counts)])
    best = order[np.arange(len(order)) - np.repeat(ptr[:-1], counts) < k]
    scores = bounded_scores(logistic(odds[best]))
    indptr = np.concatenate([[0], np.cumsum(np.minimum(counts, k))])
    return csr_array((scores, labels[best], indptr), shape=shape)


def pack(lists: Sequence[CandidateList], n_points: int) -> Lists:
    """Join the lists of all members into a few arrays, so that kernels do not depend on the number of members."""
    starts = np.empty((len(lists), n_points + 1), np.int64)
    if not lists:
        return Lists(starts, np.empty(0, np.int32), np.empty(0, np.float32), np.empty((0, n_points), np.float32))
    if n_points == 1:  # much faster than the code for batches below
        ends = np.cumsum([len(listed.labels) for listed in lists])
        starts[0, 0], starts[1:, 0], starts[:, 1] = 0, ends[:-1], ends
        labels, scores, certainties = (np.concatenate(parts) for parts in list(zip(*lists, strict=True))[1:])
        return Lists(starts, labels, scores, certainties[:, None])
    certainty = np.empty((len(lists), n_points), np.float32)
    begin = 0
    for number, listed in enumerate(lists):
        np.add(listed.ptr, begin - listed.ptr[0], out=starts[number], casting="unsafe")
        certainty[number] = listed.certainty
        begin = starts[number, -1]
    labels = np.concatenate([listed.labels[listed.ptr[0] : listed.ptr[-1]] for listed in lists])
    scores = np.concatenate([listed.scores[listed.ptr[0] : listed.ptr[-1]] for listed in lists])
    return Lists(starts, labels, scores, certainty)


def _leading(labels: np.ndarray, features: np.ndarray, layout: Layout) -> np.ndarray:
    """Return a mask (N, S) of the candidates that are among the first few of some member."""
    found = np.zeros(labels.shape, bool)
    for number, column in enumerate(layout.log_odds_columns()):
        there = labels >= 0
        if number >= layout.n_scorers:
            there &= features[:, :, column + 1] > 0
        values = np.where(there, features[:, :, column], -np.inf)
        k = min(_LEADING, values.shape[1])
        floor = -np.partition(-values, k - 1, axis=1)[:, k - 1 : k]
        found |= there & (values >= floor)
    return found
