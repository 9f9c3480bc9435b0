"""Training of RankNet's network on scored candidates of points whose labels are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.engine import memory
from longtail.kernels import rerank as kernels
from longtail.kernels.rerank import CandidateLists, RerankLearning, RerankNet, RerankState
from longtail.models.ranknet.presets import RERANK_LOSSES
from longtail.models.ranknet.reranker import TABLES, Reranker, no_pairs
from longtail.sparse import Arrays

_LAST_RATE = 0.1  # learning rate in the last epoch, as a share of the first
_LOSS_NUMBERS = dict(zip(RERANK_LOSSES, (kernels.LOGISTIC, kernels.POPULATION), strict=True))


@dataclass(frozen=True)
class ScoredPoints:
    """Candidates of points, scored by a base that was not fitted to these points."""

    candidates: CandidateLists
    rows: np.ndarray  # points to learn from
    right: np.ndarray  # (nnz,) bool, whether the point has the label
    points: np.ndarray  # (nnz,) number of training points of the label in that base
    value: np.ndarray  # (L,) weight of each label in the logistic loss


def start_tables(n_labels: int, pairs: csr_array | None, settings: Any) -> Arrays:
    """Return initial tables. The last table of each part is zero, so that the network does not change any score.

    Parameters
    ----------
    n_labels : int
        L, the number of labels.
    pairs : csr_array, (L, L), optional
        Labels that occur together, for blocks of full rank only.
    settings : namespace
        The result of :meth:`longtail.models.ranknet.RankNet.settings`, and ``seed``.
    """
    rng = np.random.default_rng(settings.seed)
    n_blocks, n_hidden = settings.n_blocks, settings.hidden
    rank = 0 if settings.bottleneck is None else settings.bottleneck
    n_pairs = 0 if pairs is None else pairs.nnz
    needed = 8.0 * n_blocks * (n_labels * (2 * rank + 1) + n_pairs)  # float32, and the state of each
    memory.require(needed, "RankNet", "Lower bottleneck or n_blocks, or give a bottleneck instead of None.")
    hidden = rng.normal(0, np.sqrt(2 / kernels.N_FEATURES), (n_hidden, kernels.N_FEATURES))
    down = rng.normal(0, 1, (n_blocks, 1 if rank == 0 else n_labels, rank))
    tables = {
        "inner": hidden.astype(np.float32),
        "outer": np.zeros(n_hidden, np.float32),
        "start": np.zeros((n_blocks, rank), np.float32),
        "down": down.astype(np.float32),
        "up": np.zeros(down.shape, np.float32),
        "bias": np.zeros((n_blocks, n_labels), np.float32),
        "weights": np.zeros((n_blocks, n_pairs), np.float32),
    }
    if pairs is None:
        return tables | no_pairs()
    return tables | {"pair_ptr": pairs.indptr.astype(np.int64), "pair_idx": pairs.indices.astype(np.int32)}


def learn_reranker(
    data: ScoredPoints, pairs: csr_array | None, settings: Any, done: Callable[[float], None]
) -> Reranker:
    """Train a network.

    Parameters
    ----------
    data : ScoredPoints
        Scored candidates, and which of them are correct.
    pairs, settings
        See :func:`start_tables`.
    done : callable
        Called after each epoch with the share of the work that it is.
    """
    tables = start_tables(len(data.value), pairs, settings)
    net = RerankNet(**{name: tables[name] for name in TABLES}, trust=np.float32(settings.trust))
    state = RerankState(*(np.zeros_like(tables[name]) for name in RerankState._fields))
    rng = np.random.default_rng(settings.seed)
    candidates = data.candidates
    if not len(candidates.text):
        candidates = candidates._replace(text=np.zeros(len(candidates.labels), np.float32))
    for epoch in range(settings.epochs if data.right.any() else 0):
        learning = RerankLearning(
            data.right,
            data.points,
            data.value,
            _LOSS_NUMBERS[settings.loss],
            np.float32(settings.weight),
            np.float32(settings.margin),
            -1 if settings.n_irrelevant is None else settings.n_irrelevant,
            np.float32(settings.learning_rate * (1 - (1 - _LAST_RATE) * epoch / max(settings.epochs - 1, 1))),
            np.float32(settings.decay),
        )
        kernels.learn(rng.permutation(data.rows), candidates, net, state, learning, int(rng.integers(1 << 30)))
        done(1 / settings.epochs)
    return Reranker(tables, settings.trust)
