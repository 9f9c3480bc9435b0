"""Candidates of a batch for DECAF: its positives, the hardest labels of its points, and some drawn at random.

Candidates are shared inside a batch, so that scoring is one matrix product. Labels come in at unequal rates: a frequent
one is nearly always some point's positive, a rare one hardly ever. The loss weighs negatives by those rates.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import rows as kernels
from longtail.neural.batch import Candidates


class ShortlistSampler:
    """Draws the candidates of batches.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of training points. Labels without any are left out: they may be correct.
    n_drawn : int
        Labels drawn uniformly per batch; all labels are candidates where there are no more than these.
    batch_size : int
    shortlist : array, (N, S), optional
        Labels that each point is easily mistaken to have, -1 for none; positives among them do no harm.
    n_hard : int, optional
        How many of a point's shortlist take part in a batch; all, if not given.
    """

    def __init__(
        self, Y: csr_array, n_drawn: int, batch_size: int, shortlist: np.ndarray | None = None, n_hard: int | None = 0
    ) -> None:
        self.Y, self.n_drawn = Y, n_drawn
        frequency = np.bincount(Y.indices, minlength=Y.shape[1]) / Y.shape[0]
        self.pool = np.flatnonzero(frequency).astype(np.int32)
        self.all = n_drawn >= len(self.pool)
        self._same = np.arange(Y.shape[1], dtype=np.int32)
        self._place = np.full(Y.shape[1], -1, np.int32)
        self.shortlist = shortlist
        width = 0 if shortlist is None else shortlist.shape[1]
        self.n_hard = width if n_hard is None else min(n_hard, width)
        if self.all:
            self._place[self.pool] = np.arange(len(self.pool), dtype=np.int32)
            return
        absent = (1 - frequency) ** batch_size * (1 - 1 / len(self.pool)) ** n_drawn
        if shortlist is not None and self.n_hard:
            met = np.bincount(shortlist[shortlist >= 0], minlength=Y.shape[1])
            share = np.minimum(met * (self.n_hard / shortlist.shape[1]) / Y.shape[0], 1)
            absent *= (1 - share) ** batch_size
        self.rates = np.maximum(1 - absent, 1e-6).astype(np.float32)

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> Candidates:
        """Candidates of the batch of these points."""
        if self.all:
            ptr, places = kernels.positives(self.Y.indptr, self.Y.indices, rows, self._place)
            return Candidates(self.pool, ptr, places, None)
        ptr, own = kernels.positives(self.Y.indptr, self.Y.indices, rows, self._same)
        parts = [own, self.pool[rng.integers(len(self.pool), size=self.n_drawn)]]
        if self.shortlist is not None and self.n_hard:
            width = self.shortlist.shape[1]
            whole = np.arange(width)[None]
            chosen = whole if self.n_hard == width else rng.integers(width, size=(len(rows), self.n_hard))
            hard = self.shortlist[rows[:, None], chosen].ravel()
            parts.append(hard[hard >= 0])
        labels = np.unique(np.concatenate(parts))
        self._place[labels] = np.arange(len(labels), dtype=np.int32)
        places = self._place[own]
        self._place[labels] = -1
        return Candidates(labels, ptr, places, self.rates[labels])
