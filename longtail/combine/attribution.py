"""What each member contributes to the log odds that a combination gives a label.

A member that does not list a label leaves it a low score of a fixed size. The contribution of a member is what its list
adds to the log odds compared with that, averaged over all orders in which the members can be added: its Shapley value
(Shapley, 1953). With four members these are 16 evaluations of the combiner. The contributions and the log odds without
any member sum to the log odds of the score, although boosted trees are not additive.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from longtail.combine.candidates import CandidateList
from longtail.combine.combiner import Combiner
from longtail.combine.predictor import CandidatePredictor
from longtail.kernels import combine as kernels
from longtail.kernels.encode import SparseRows

MOST_MEMBERS = 10  # every set of members is evaluated


class Shares(NamedTuple):
    """The log odds of one label as a sum."""

    members: np.ndarray  # (scorers + listers,) contributions, scorers first
    rest: float  # log odds if no member lists the label: its frequency, and how alike point and label are


def attribute(
    predictor: CandidatePredictor,
    point: SparseRows,
    lists: list[CandidateList],
    ranking: tuple[np.ndarray, np.ndarray],
    labels: Sequence[int],
) -> list[Shares | None]:
    """Return the contributions of the members to each label; None for a label that no member lists.

    Parameters
    ----------
    predictor : CandidatePredictor
        A trained combination.
    point : SparseRows
        One point.
    lists : list of CandidateList
        What its listers suggest for the point.
    ranking : (labels, scores)
        The labels that it predicts for the point, best first, and their probabilities.
    labels : sequence of int
        Labels to explain.
    """
    combiner = predictor.combiner
    n_members = combiner.layout.n_scorers + combiner.layout.n_listers
    if not 1 <= n_members <= MOST_MEMBERS:
        return [None] * len(labels)
    candidates, rows = predictor.pair_features(point, lists, len(ranking[0]))
    unseen = predictor.unseen[candidates]
    sums = np.where(unseen, rows @ combiner.unseen, rows @ combiner.seen)
    reranked = np.argsort(np.argsort(-sums, kind="stable")) < max(len(ranking[0]), kernels.RERANKED)
    found: list[Shares | None] = []
    for label in labels:
        at, place = np.flatnonzero(candidates == label), np.flatnonzero(ranking[0] == label)
        if not len(at) or not len(place):
            found.append(None)
            continue
        variants = _without_members(rows[at[0]], combiner)
        new = bool(unseen[at[0]])
        if reranked[at[0]]:
            odds = combiner.log_odds(variants, new)
        else:
            odds = variants @ (combiner.unseen if new else combiner.seen)
        knots = (combiner.others if place[0] else combiner.first).knots
        odds = np.array([kernels.calibrated(one, knots) for one in odds.tolist()])
        if place[0]:  # a label is never scored above the one before it
            odds = np.minimum(odds, kernels.log_odds_of(float(ranking[1][place[0] - 1])))
        found.append(Shares(_shapley_values(odds, n_members), float(odds[0])))
    return found


def _without_members(row: np.ndarray, combiner: Combiner) -> np.ndarray:
    """Return the features of a pair for each set of members that list its label, (2^members, F)."""
    layout, often = combiner.layout, row[1]
    n_members = layout.n_scorers + layout.n_listers
    variants = np.repeat(row[None], 1 << n_members, axis=0)
    for m in range(n_members):
        absent = (np.arange(len(variants)) >> m) & 1 == 0
        if m < layout.n_scorers:
            column = layout.scorer(m)
            low = [kernels.FLOOR, kernels.FLOOR * often, kernels.probability(float(kernels.FLOOR))]
        else:
            column = layout.lister(m - layout.n_scorers)
            certain = row[column + 3]
            low = [kernels.FLOOR, 0, kernels.FLOOR * often, certain, kernels.FLOOR * certain, 0, 0]
        variants[absent, column : column + len(low)] = low
    return variants


def _shapley_values(values: np.ndarray, n_members: int) -> np.ndarray:
    """Return the Shapley value of each member, given the value of each set of members by its bits."""
    sets = np.arange(len(values))
    sizes = np.bitwise_count(sets)
    shares = np.empty(n_members)
    for m in range(n_members):
        before = sets[(sets >> m) & 1 == 0]
        weights = 1 / (n_members * np.array([comb(n_members - 1, size) for size in sizes[before].tolist()]))
        shares[m] = weights @ (values[before | (1 << m)] - values[before])
    return shares
