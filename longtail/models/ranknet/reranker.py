"""Prediction of RankNet: score the candidates of a point with a trained network, and rank them.

The kernels are in :mod:`longtail.kernels.rerank`. The network is trained in :mod:`longtail.models.ranknet.training`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import pool
from longtail.kernels import rerank as kernels
from longtail.kernels.encode import SparseRows
from longtail.kernels.rerank import CandidateLists, RankingRule, RerankNet
from longtail.kernels.topk import TopLabels
from longtail.sparse import Arrays, frozen
from longtail.store.invariants import Read, Relation, Rules, Sizes, floats, indices, pointers

N_POSITIONS = 5  # ranks that have separate gains; further ranks have the gain of the last one
TABLES = RerankNet._fields[:-1]


class Reranker:
    """A network over candidates: the part that all labels share, and residual blocks.

    Parameters
    ----------
    tables : dict of arrays
        The fields of :class:`longtail.kernels.rerank.RerankNet`.
    trust : float
        Number of training points at which a label's own weights get half their full effect.
    """

    def __init__(self, tables: Arrays, trust: float) -> None:
        self.net = RerankNet(**{name: frozen(tables[name]) for name in TABLES}, trust=np.float32(trust))

    @classmethod
    def identity(cls) -> Reranker:
        """Return a network that does not change any score."""
        shapes = {"inner": (0, kernels.N_FEATURES), "outer": (0,), "start": (0, 0), "down": (0, 1, 0), "up": (0, 1, 0)}
        shapes |= {"bias": (0, 1), "weights": (0, 0)}
        tables = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        return cls(tables | no_pairs(), 1.0)

    def arrays(self) -> Arrays:
        """Return the tables to store."""
        return {name: getattr(self.net, name) for name in TABLES}

    @staticmethod
    def array_rules(pairs: bool) -> Rules:
        """Declare the rules that the tables must meet; with `pairs`, blocks have full rank."""
        return Rules(
            {
                "inner": floats(f"H {kernels.N_FEATURES}"),
                "outer": floats("H"),
                "start": floats("B rank"),
                "down": floats("B rows rank"),
                "up": floats("B rows rank"),
                "bias": floats("B bias_rows"),
                "weights": floats("B pairs" if pairs else "B 0"),
                "pair_ptr": pointers("L+1" if pairs else "1", into="pairs" if pairs else "0"),
                "pair_idx": indices("pairs" if pairs else "0", below="L"),
            },
            (Relation(_know_all_labels, "of the network do not have a row per label"),),
        )

    def rank(
        self, candidates: CandidateLists, points: np.ndarray, rule: RankingRule, k: int, n_jobs: int | None
    ) -> TopLabels:
        """Return the k best candidates of each point; `points` (L,) is the number of training points of each label."""
        n = len(candidates.ptr) - 1
        top = TopLabels.empty(n, k)
        pool.spread(lambda block: kernels.rerank(candidates, self.net, points, rule, *block, top), n, n_jobs)
        return top


def _know_all_labels(arrays: Mapping[str, np.ndarray], sizes: Sizes, read: Read) -> bool:
    """Return whether the blocks, if there are any, have a row for every label."""
    full_rank = len(arrays["pair_ptr"]) > 1
    rows = 1 if full_rank else sizes["L"]
    return sizes["B"] == 0 or (sizes["bias_rows"] == sizes["L"] and sizes["rows"] >= rows)


def no_pairs() -> Arrays:
    """Return the empty arrays of label pairs for blocks of low rank."""
    return {"pair_ptr": np.zeros(1, np.int64), "pair_idx": np.zeros(0, np.int32)}


def candidate_lists(scores: csr_array) -> CandidateLists:
    """Return the candidates of a matrix of scores, with fixed types so that kernels are compiled once."""
    return CandidateLists(
        scores.indptr.astype(np.int64, copy=False),
        scores.indices.astype(np.int32, copy=False),
        scores.data.astype(np.float32, copy=False),
        np.empty(0, np.float32),
    )


def candidate_list(labels: np.ndarray, scores: np.ndarray) -> CandidateLists:
    """Return the candidates of one point."""
    return CandidateLists(
        np.array([0, len(labels)], np.int64),
        labels.astype(np.int32, copy=False),
        scores.astype(np.float32, copy=False),
        np.empty(0, np.float32),
    )


def with_similarity(candidates: CandidateLists, x: SparseRows, Z: csr_array, n_jobs: int | None) -> CandidateLists:
    """Add the similarity of each point to the text of its candidates; rows of Z (L, D) have length 1."""
    text = np.empty(len(candidates.labels), np.float32)
    z = SparseRows.of(Z)

    def work(block: tuple[int, int]) -> None:
        kernels.similarity(x, candidates.ptr, candidates.labels, z, *block, text)

    pool.spread(work, len(candidates.ptr) - 1, n_jobs)
    return candidates._replace(text=text)


class RankingRules:
    """Builds the ranking rule for any `tail`. The last rule is cached, because `tail` rarely changes.

    Parameters
    ----------
    propensity : array, (L,)
        Inverse propensity of each label.
    largest : array, (positions,) or (1,)
        Largest possible gain per position, relative to `typical`; without a network, the largest inverse propensity.
        Scores are divided by it.
    typical : array, (positions,)
        See :func:`typical_gain`.
    learnt : bool
        Whether the probabilities of a network are ranked, or the scores of the base.
    """

    def __init__(self, propensity: np.ndarray, largest: np.ndarray, typical: np.ndarray, learnt: bool) -> None:
        self.propensity, self.largest, self.typical, self.learnt = propensity, largest, typical, learnt
        self._last: tuple[tuple[float, int], RankingRule] | None = None

    def rule(self, tail: float, n_candidates: int) -> RankingRule:
        """Return the ranking rule: the gain of a correct label at each position.

        Parameters
        ----------
        tail : float
            Weight of PSP@k against P@k. Without a network, the power of the inverse propensity that multiplies a score.
        n_candidates : int
            Number of candidates that are re-ranked.
        """
        last = self._last  # read once: another thread may set it
        if last is None or last[0] != (tail, n_candidates):
            last = self._last = (tail, n_candidates), self._make(tail, n_candidates)
        return last[1]

    def _make(self, tail: float, n_candidates: int) -> RankingRule:
        gain, share = self.propensity, np.float32(tail)
        if self.learnt:
            plain, scale = np.full(len(self.typical), 1 - share), share / self.typical
            most = plain + share * self.largest
        else:
            gain, plain, scale = gain**share, np.zeros(1, np.float32), np.ones(1, np.float32)
            most = self.largest**share
        return RankingRule(frozen(gain), frozen(plain / most), frozen(scale / most), n_candidates, self.learnt)


def typical_gain(Y: csr_array, gain: np.ndarray, n_positions: int) -> np.ndarray:
    """Return the mean gain per position of the k labels of a point with the highest gains, for k = 1 .. n_positions.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of points.
    gain : array, (L,)
        Gain of each label if it is correct. A position without a label has the gain 0.
    n_positions : int
        Largest k.
    """
    order = np.lexsort((-gain[Y.indices], np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))))
    position = np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], np.diff(Y.indptr))
    first = position < n_positions
    total = np.bincount(position[first], gain[Y.indices[order]][first], n_positions)
    n_points = max(int(np.count_nonzero(np.diff(Y.indptr))), 1)
    return (total.cumsum() / np.arange(1, n_positions + 1) / n_points).astype(np.float32)
