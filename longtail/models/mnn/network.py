"""The matching network of MNN, which compares the mean vector of features with the mean vector of labels by cosine.

    f_x(x) = 1/|r| Σ r_k w_k e'_k     (eq. 6, 7)   weighted mean over the features that dropout keeps
    f_y(y) = 1/T Σ e_t                (eq. 1, 3)   mean over the labels of a point
    c(x, y) = cos(f_x(x), f_y(y))     (eq. 8)

The points of a batch are compared with the label sets of the same batch. Negatives are drawn from the label sets of
other points.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import pool
from longtail.kernels.blas import product
from longtail.kernels.rows import encode
from longtail.neural.batch import Points
from longtail.neural.encoding import activate, through_length
from longtail.neural.losses import noise_contrastive
from longtail.neural.optimizers import RowOptimizer
from longtail.neural.tables import Tables

_SHORTEST_MEAN = np.float32(1e-6)  # the gradient of a shorter mean, which has no clear direction, is limited


class MatchingNetwork(Tables):
    """Two tables of vectors. Points and label sets are encoded as means of their rows, scaled to length 1.

    Parameters
    ----------
    features : array, (D, d)
        Initial vectors of features; training changes them in place.
    labels : array, (L, d)
        Initial vectors of labels; training changes them in place.
    optimizer : {"adam", "adagrad", "sgd", "momentum"}
        Optimiser of both tables.
    decay : float
        Weight decay of the rows that a batch uses.
    n_jobs : int, optional
        Number of threads; all cores by default.
    """

    def __init__(
        self, features: np.ndarray, labels: np.ndarray, optimizer: str, decay: float, n_jobs: int | None
    ) -> None:
        super().__init__({"features": features, "labels": labels}, optimizer, decay, n_jobs=n_jobs)
        self.n_jobs = n_jobs
        self._origin = np.zeros(features.shape[1], np.float32)

    def step(self, batch: Points, sets: Points, negatives: np.ndarray, margin: float, rate: float) -> float:
        """Take one step on points and their label sets, which are averaged already, and return the loss.

        `negatives` (B, h) are positions of label sets in the batch.
        """
        x, x_length = self._encode("features", batch)  # (B, d)
        y, y_length = self._encode("labels", sets)
        cosines = product(x, y.T, self.n_jobs)  # (B, B), eq. 8
        value = noise_contrastive(cosines, negatives, margin)  # cosines are now the gradient
        dx, dy = product(cosines, y, self.n_jobs), product(cosines.T, x, self.n_jobs)
        self._learn("features", batch, through_length(dx, x, np.maximum(x_length, _SHORTEST_MEAN)), rate)
        self._learn("labels", sets, through_length(dy, y, np.maximum(y_length, _SHORTEST_MEAN)), rate)
        return value

    def _encode(self, name: str, batch: Points) -> tuple[np.ndarray, np.ndarray]:
        """Encode a batch by one table; return vectors of length 1 (B, d), and their lengths before scaling (B, 1)."""
        out = np.empty((len(batch.ptr) - 1, len(self._origin)), np.float32)

        def work(block: tuple[int, int]) -> None:
            encode(batch.ptr, batch.idx, batch.val, batch.features, self.tables[name], self._origin, *block, out)

        pool.run(work, pool.blocks(len(out), self.n_jobs), self.n_jobs)
        return activate(out, relu=False, normalize=True)

    def _learn(self, name: str, batch: Points, up: np.ndarray, rate: float) -> None:
        """Step the rows of a batch in one table by the gradient (B, d) of its means."""
        self.optimizers[name].step_sparse(self.tables[name], batch.features, batch.columns(), up, rate)

    @staticmethod
    def bytes_needed(n_features: int, n_labels: int, dim: int, optimizer: str, batch_size: int) -> int:
        """Estimate the bytes of training: tables, optimisers, the best tables so far, the largest arrays of a step."""
        copies = 2 + RowOptimizer.tables(optimizer)
        return 4 * ((n_features + n_labels) * dim * copies + batch_size * (3 * batch_size + 8 * dim))


def set_numbers(Y: csr_array) -> np.ndarray:
    """Return a hash per row of Y, which is equal for equal sets of labels; others collide with probability 2^-64."""
    keys = np.random.default_rng(0).integers(1, 2**63, Y.shape[1], dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(keys[Y.indices], dtype=np.uint64)])  # wraps around
    return sums[Y.indptr[1:]] - sums[Y.indptr[:-1]]


def draw_negatives(sets: np.ndarray, n_negatives: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `n_negatives` other points for each point of a batch, as positions (B, h).

    A point with the same label set is not a negative. It is replaced by the point itself, which the loss ignores.
    """
    n = len(sets)
    own = np.arange(n)[:, None]
    if n == 1:
        return np.zeros((1, n_negatives), np.int64)
    if n_negatives >= n - 1:  # each other point once
        others = (own + np.arange(1, n)) % n
    else:
        others = (own + rng.integers(1, n, size=(n, n_negatives))) % n
    return np.where(sets[others] == sets[:, None], own, others)
