"""The network of RankNet: what it learns from the base's scores, and the ranking it makes of them.

The arithmetic is in :mod:`longtail.kernels.rerank`; here are its tables, their start, and the passes over the points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail.engine import memory
from longtail.kernels import pool
from longtail.kernels import rerank as kernels

LOSSES = {"logistic": kernels.LOGISTIC, "population": kernels.POPULATION}
_TABLES = ("inner", "outer", "start", "down", "up", "bias", "weights")
_NAMES = (*_TABLES, "pair_ptr", "pair_idx")
_SLOWEST = 0.1  # share of the learning rate left at the end


@dataclass(frozen=True)
class RerankSettings:
    """How the network is built and learns; see :class:`longtail.models.ranknet.RankNet`."""

    n_blocks: int
    rank: int | None
    hidden: int
    trust: float
    loss: str
    weight: float
    margin: float
    n_irrelevant: int | None
    epochs: int
    rate: float
    decay: float
    seed: int


@dataclass
class Candidates:
    """Labels that the base found for each point, the best first, as CSR, and what is known of each."""

    ptr: np.ndarray  # (N + 1,) int64
    labels: np.ndarray  # (nnz,) int32
    scores: np.ndarray  # (nnz,) float32
    text: np.ndarray  # (nnz,) similarity of point and label text, or (0,)

    @classmethod
    def of(cls, scores: csr_array) -> Candidates:
        """Those of a matrix of scores; one set of types, so that every kernel is compiled once."""
        return cls(
            scores.indptr.astype(np.int64, copy=False),
            scores.indices.astype(np.int32, copy=False),
            scores.data.astype(np.float32, copy=False),
            np.empty(0, np.float32),
        )

    @classmethod
    def of_point(cls, labels: np.ndarray, scores: np.ndarray) -> Candidates:
        """Those of one point."""
        return cls(
            np.array([0, len(labels)], np.int64),
            labels.astype(np.int32, copy=False),
            scores.astype(np.float32, copy=False),
            np.empty(0, np.float32),
        )


class Reranker:
    """Shared part and residual blocks over candidates.

    Parameters
    ----------
    tables : dict of arrays
        inner (H, F), outer (H,), start (B, rank), down and up (B, L, rank), bias (B, L), weights (B, pairs),
        pair_ptr (L + 1,), pair_idx (pairs,): the last three empty unless the blocks have full rank.
    trust : float
        Training points at which a label's own rows count by half.
    """

    def __init__(self, tables: dict[str, np.ndarray], trust: float) -> None:
        self.net = tuple(frozen(tables[name]) for name in _NAMES)
        self.trust = np.float32(trust)

    def arrays(self) -> dict[str, np.ndarray]:
        """What to store."""
        return dict(zip(_NAMES, self.net, strict=True))

    @classmethod
    def start(cls, n_labels: int, pairs: csr_array | None, settings: RerankSettings) -> dict[str, np.ndarray]:
        """Tables of a network that leaves every score as it is: whatever comes last in a part is zero."""
        rng = np.random.default_rng(settings.seed)
        n_blocks = settings.n_blocks
        rank = 0 if settings.rank is None else settings.rank
        n_pairs = 0 if pairs is None else pairs.nnz
        needed = 8.0 * n_blocks * (n_labels * (2 * rank + 1) + n_pairs)  # float32, and the state of each
        memory.require(needed, "RankNet", "Lower rank or n_blocks, or give a rank instead of None.")
        hidden = rng.normal(0, np.sqrt(2 / kernels.N_FEATURES), (settings.hidden, kernels.N_FEATURES))
        down = rng.normal(0, 1, (n_blocks, 1 if rank == 0 else n_labels, rank))
        return {
            "inner": hidden.astype(np.float32),
            "outer": np.zeros(settings.hidden, np.float32),
            "start": np.zeros((n_blocks, rank), np.float32),
            "down": down.astype(np.float32),
            "up": np.zeros(down.shape, np.float32),
            "bias": np.zeros((n_blocks, n_labels), np.float32),
            "weights": np.zeros((n_blocks, n_pairs), np.float32),
            "pair_ptr": np.zeros(1, np.int64) if pairs is None else pairs.indptr.astype(np.int64),
            "pair_idx": np.zeros(0, np.int32) if pairs is None else pairs.indices.astype(np.int32),
        }

    @classmethod
    def learn(
        cls,
        found: Candidates,
        rows: np.ndarray,
        points: np.ndarray,
        right: np.ndarray,
        worth: np.ndarray,
        pairs: csr_array | None,
        settings: RerankSettings,
        told: Callable[[float], None],
    ) -> Reranker:
        """Learn from candidates whose truth is known.

        Parameters
        ----------
        found : Candidates
            Scores of points by a base that never saw them.
        rows : int array
            The points to learn from.
        points : array, (nnz,)
            Training points that the label of each candidate had in that base.
        right : bool array, (nnz,)
            Whether the point has the label.
        worth : array, (L,)
            Weight of a label in the logistic loss.
        pairs : csr_array, (L, L), optional
            Labels that occur together; given for blocks of full rank only.
        settings : RerankSettings
        told : callable
            Told the share of the work done after each pass.
        """
        tables = cls.start(len(worth), pairs, settings)
        net = tuple(tables[name] for name in _NAMES)
        state = tuple(np.zeros_like(tables[name]) for name in _TABLES)
        rng = np.random.default_rng(settings.seed)
        text = found.text if len(found.text) else np.zeros(len(found.labels), np.float32)
        drawn = -1 if settings.n_irrelevant is None else settings.n_irrelevant
        for epoch in range(settings.epochs if right.any() else 0):
            rate = settings.rate * (1 - (1 - _SLOWEST) * epoch / max(settings.epochs - 1, 1))
            kernels.learn(
                rng.permutation(rows), found.ptr, found.labels, found.scores, points, text, right, worth,
                np.float32(settings.trust), net, state, LOSSES[settings.loss], np.float32(settings.weight),
                np.float32(settings.margin), drawn, np.float32(rate), np.float32(settings.decay),
                int(rng.integers(1 << 30)),
            )  # fmt: skip
            told(1 / settings.epochs)
        return cls(tables, settings.trust)

    @classmethod
    def identity(cls) -> Reranker:
        """The network that learnt nothing."""
        empty = RerankSettings(0, 0, 0, 1.0, "logistic", 1.0, 1.0, None, 0, 0.0, 0.0, 0)
        return cls(cls.start(1, None, empty), 1.0)

    def rank(
        self,
        found: Candidates,
        points: np.ndarray,
        worth: tuple[np.ndarray, np.ndarray, np.ndarray],
        learnt: bool,
        m: int,
        k: int,
        n_jobs: int | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The k best of each point's first m candidates: labels and scores (N, k), and how many of them count."""
        n = len(found.ptr) - 1
        labels, scores = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        counts = np.empty(n, np.int64)

        def work(block: tuple[int, int]) -> None:
            first, last = block
            kernels.rerank(
                found.ptr, found.labels, found.scores, found.text, points, worth, learnt, self.trust, self.net,
                m, k, first, last, labels[first:last], scores[first:last], counts[first:last],
            )  # fmt: skip

        jobs = 1 if n < 64 else n_jobs
        pool.run(work, pool.blocks(n, jobs), jobs)
        return labels, scores, counts


def add_similarity(
    found: Candidates, x: tuple[np.ndarray, np.ndarray, np.ndarray], Z: csr_array, n_jobs: int | None
) -> None:
    """Fill in how similar the points x (ptr, idx, val) are to the texts of their candidates."""
    n = len(found.ptr) - 1
    found.text = np.empty(len(found.labels), np.float32)

    def work(block: tuple[int, int]) -> None:
        kernels.similarity(*x, found.ptr, found.labels, Z.indptr, Z.indices, Z.data, *block, found.text)

    jobs = 1 if n < 64 else n_jobs
    pool.run(work, pool.blocks(n, jobs), jobs)


def frozen(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written: the type of a mapped array, so that kernels are compiled once for both."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
