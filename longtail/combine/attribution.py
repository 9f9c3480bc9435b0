"""The contribution of each member to the log odds of a label in a combination: its Shapley value (Shapley, 1953).

A label that a member does not list has a fixed low score from that member. To add the member to a set of others
replaces this score by its own and changes the log odds of the combination. The contribution of the member is that
change, averaged over all orders in which the members can be added. With four members this takes 16 evaluations of the
combiner. The contributions and the log odds without any member sum to the log odds of the score, although boosted
trees are not additive.
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
    rest: float  # log odds if no member lists the label: from its frequency and its similarity to the point


def attribute(
    predictor: CandidatePredictor,
    point: SparseRows,
    lists: list[CandidateList],
    ranking: tuple[np.ndarray, np.ndarray],
    labels: Sequence[int],
) -> list[Shares | None]:
    """Compute the contributions of the members to each label; None for a label that no member lists.

    Parameters
    ----------
    predictor : CandidatePredictor
        A trained combination.
    point : SparseRows
        One point.
    lists : list of CandidateList
        The candidates of the point from each lister.
    ranking : (labels, scores)
        The labels that the combination predicts for the point, best first, and their probabilities.
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
    shares: list[Shares | None] = []
    for label in labels:
        at, rank = np.flatnonzero(candidates == label), np.flatnonzero(ranking[0] == label)
        if not len(at) or not len(rank):
            shares.append(None)
            continue
        variants = _member_subsets(rows[at[0]], combiner)
        is_unseen = bool(unseen[at[0]])
        if reranked[at[0]]:
            odds = combiner.log_odds(variants, is_unseen)
        else:
            odds = variants @ (combiner.unseen if is_unseen else combiner.seen)
        knots = (combiner.others if rank[0] else combiner.first).knots
        odds = np.array([kernels.calibrated(one, knots) for one in odds.tolist()])
        if rank[0]:  # a label is never scored above the one before it
            odds = np.minimum(odds, kernels.log_odds_of(float(ranking[1][rank[0] - 1])))
        shares.append(Shares(_shapley_values(odds, n_members), float(odds[0])))
    return shares


def _member_subsets(row: np.ndarray, combiner: Combiner) -> np.ndarray:
    """Return the features of a pair for each subset of the members, (2^members, F).

    Bit m of a subset's number says whether member m is in it. The features of members outside the subset are those of
    a label that they do not list.
    """
    layout, frequency = combiner.layout, row[1]
    n_members = layout.n_scorers + layout.n_listers
    variants = np.repeat(row[None], 1 << n_members, axis=0)
    for m in range(n_members):
        absent = (np.arange(len(variants)) >> m) & 1 == 0
        if m < layout.n_scorers:
            column = layout.scorer(m)
            unlisted = [kernels.FLOOR, kernels.FLOOR * frequency, kernels.probability(float(kernels.FLOOR))]
        else:
            column = layout.lister(m - layout.n_scorers)
            certainty = row[column + 3]
            unlisted = [kernels.FLOOR, 0, kernels.FLOOR * frequency, certainty, kernels.FLOOR * certainty, 0, 0]
        variants[absent, column : column + len(unlisted)] = unlisted
    return variants


def _shapley_values(values: np.ndarray, n_members: int) -> np.ndarray:
    """Return the Shapley value of each member from the value of each subset, numbered as in :func:`_member_subsets`."""
    subsets = np.arange(len(values))
    sizes = np.bitwise_count(subsets)
    shares = np.empty(n_members)
    for m in range(n_members):
        without = subsets[(subsets >> m) & 1 == 0]
        weights = 1 / (n_members * np.array([comb(n_members - 1, size) for size in sizes[without].tolist()]))
        shares[m] = weights @ (values[without | (1 << m)] - values[without])
    return shares
