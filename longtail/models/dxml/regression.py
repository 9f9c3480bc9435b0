"""Regression of points onto label vectors (DXML §3.3): one hidden layer, an output of length 1, the smooth-l1 loss.

    h = act(x W1 + b1)           (B, h)   act is ReLU or the identity; rows of W1 (D, h) are gathered and summed
    f = unit(drop(h W2 + b2))    (B, l)   dropout after the last layer, then scaled to length 1 (§4.1)
    loss = sum smooth_l1(f - t)  over the l coordinates, mean or sum over the batch (eq. 1 to 3)

Several networks may be trained on the same batches. The vector of a point is then the concatenation of their outputs:
one space in which the cosine is the mean of the networks' cosines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail.index import make_index
from longtail.kernels import pool
from longtail.kernels.blas import product
from longtail.kernels.encode import SparseRows
from longtail.kernels.rows import encode
from longtail.metrics import evaluate
from longtail.models.dxml.embedding import embed_points
from longtail.models.dxml.knn_vote import Vote, VotingPoints
from longtail.neural.batch import Points, points
from longtail.neural.measured_learner import validation_entry
from longtail.neural.optimizers import RowOptimizer
from longtail.neural.tables import Tables
from longtail.sparse import Arrays, Pair, with_prefix, without_prefix

_ADDED_LENGTH, _NO_LENGTH = np.float32(1e-12), np.float32(1e-4)
_VOTE_IN_TRAINING = Vote(30, 12.0, 0.0, 0.0)  # the vote by which networks are measured after each epoch
_MOST_MEASURED = 1000  # held-out points on which metrics are computed after each epoch
_MOST_VOTERS = 20_000  # training points that may be their neighbours then


@dataclass(frozen=True)
class RegressionSettings:
    """Settings of a network and of its optimisers."""

    hidden: int  # width of the hidden layer
    relu: bool
    dropout: float  # probability of dropping an output
    optimizer: str
    decay: float
    n_jobs: int | None = None
    summed: bool = False  # use the gradient of the sum over a batch (eq. 3), not of the mean
    unit_targets: bool = True  # scale the mean label vector of a point to length 1


def smooth_l1(outputs: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    r"""Compute the smooth l1 loss, quadratic near the target and linear far from it, and its gradient.

    Formula: :math:`\frac{1}{B} \sum_{i,j} h(a_{ij} - b_{ij})`, h(z) = z²/2 up to \|z\| = 1, \|z\| - ½ beyond (eq. 2).

    Reference: DXML §3.3, after Girshick. For outputs and targets of length 1 it is nearly one minus their cosine.
    """
    gap = outputs - targets
    size = np.abs(gap)
    value = np.where(size <= 1, 0.5 * gap * gap, size - 0.5).sum(dtype=np.float64)
    np.clip(gap, -1, 1, out=gap)
    gap /= len(gap)
    return float(value / len(gap)), gap


class RegressionNetwork(Tables):
    """The network: tables W1, b1, W2, b2, the forward pass and the training step.

    Parameters
    ----------
    n_features, width : int
        D and l, the numbers of inputs and outputs.
    settings : RegressionSettings
        Settings of the network.
    rng : Generator
        Draws the initial weights.
    """

    def __init__(self, n_features: int, width: int, settings: RegressionSettings, rng: np.random.Generator) -> None:
        self.settings = settings
        h = settings.hidden
        tables = {
            "W1": rng.standard_normal((n_features, h), np.float32) * np.float32(0.1),
            "b1": np.zeros((1, h), np.float32),
            "W2": rng.standard_normal((h, width), np.float32) * np.float32(np.sqrt(1 / h)),
            "b2": np.zeros((1, width), np.float32),
        }
        super().__init__(tables, settings.optimizer, settings.decay, ("W1", "W2"), settings.n_jobs)

    def forward(self, batch: Points, rng: np.random.Generator | None) -> tuple[np.ndarray, ...]:
        """Return the hidden layer (B, h), dropout mask (B, l) or 1, lengths (B, 1) and outputs of length 1 (B, l)."""
        h = np.empty((len(batch.ptr) - 1, self.settings.hidden), np.float32)
        W1, b1 = self.tables["W1"], self.tables["b1"][0]

        def work(block: tuple[int, int]) -> None:
            encode(batch.ptr, batch.idx, batch.val, batch.features, W1, b1, *block, h)

        pool.run(work, pool.blocks(len(h), self.settings.n_jobs), self.settings.n_jobs)
        if self.settings.relu:
            np.maximum(h, 0, out=h)
        z = product(h, self.tables["W2"], self.settings.n_jobs)
        z += self.tables["b2"]
        mask = np.ones((1, 1), np.float32)
        if rng is not None and self.settings.dropout > 0:
            keep = 1 - self.settings.dropout
            mask = (rng.random(z.shape, np.float32) < keep) * np.float32(1 / keep)
            z *= mask
        length = np.sqrt(np.einsum("ij,ij->i", z, z))[:, None] + _ADDED_LENGTH
        z /= length
        return h, mask, length, z

    def step(self, batch: Points, targets: np.ndarray, rate: float, rng: np.random.Generator) -> float:
        """Take one step on a batch and return the loss."""
        h, mask, length, f = self.forward(batch, rng)
        value, df = smooth_l1(f, targets)
        if self.settings.summed:
            df *= len(df)
        inverse = np.where(length > _NO_LENGTH, 1 / length, 0)  # an output of length 0 has no direction to change
        dz = (df - np.einsum("ij,ij->i", df, f)[:, None] * f) * inverse * mask  # (B, l)
        dh = product(dz, self.tables["W2"].T, self.settings.n_jobs)  # (B, h)
        if self.settings.relu:
            dh *= h > 0
        self.step_table("W2", product(h.T, dz, self.settings.n_jobs), rate)
        self.step_table("b2", dz.sum(axis=0)[None], rate)
        self.step_table("b1", dh.sum(axis=0)[None], rate)
        self.optimizers["W1"].step_sparse(self.tables["W1"], batch.features, batch.columns(), dh, rate)
        return value

    @staticmethod
    def bytes_needed(n_features: int, settings: RegressionSettings) -> int:
        """Estimate the bytes of training: tables, their optimisers and the best tables so far."""
        return 4 * n_features * settings.hidden * (2 + RowOptimizer.tables(settings.optimizer))


class RegressionLearner:
    """Trains networks to map points to the mean vector of their labels; a learner of :mod:`longtail.neural.loop`.

    Parameters
    ----------
    networks : list of RegressionNetwork
        Networks that are trained on the same batches. Each has its own random numbers.
    vectors : list of array, (L, l)
        Label vectors of each network, of length 1.
    X : csr_array, (M, D)
        Points, used without a copy.
    rows : array, (N,)
        Rows of X to train on.
    Y : csr_array, (N, L)
        Labels of these rows; every point has at least one.
    validation : tuple of csr_array, optional
        Held-out points and their labels.
    input_dropout : float
        Probability of dropping a feature in a step.
    n_jobs : int, optional
        Number of networks that take a step in parallel. The threads within a network are in its own settings.
    """

    def __init__(
        self,
        networks: list[RegressionNetwork],
        vectors: list[np.ndarray],
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        validation: Pair | None,
        input_dropout: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        self.networks, self.vectors, self.X, self.rows, self.Y = networks, vectors, X, rows, Y
        self.input_dropout, self.n_jobs = input_dropout, n_jobs
        self.validation = None
        self._features, self._labels = np.full(X.shape[1], -1, np.int32), np.full(Y.shape[1], -1, np.int32)
        if validation is not None:
            self.validation = validation[0][:_MOST_MEASURED], validation[1][:_MOST_MEASURED]
            stride = -(-len(rows) // _MOST_VOTERS)
            self._voters = X[rows[::stride]], Y[::stride]

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take one step of every network on these training points and return the mean loss."""
        batch = points(self.X, self.rows[rows], self._features, unit=True)
        labels = points(self.Y, rows, self._labels, unit=False)
        seeds = rng.integers(1 << 62, size=len(self.networks))  # so that networks may take the step in any order

        def work(at: int) -> float:
            rng = np.random.default_rng(seeds[at])
            own = Points(batch.ptr, batch.idx, batch.val.copy(), batch.features)
            own.drop(1 - self.input_dropout, rng)
            network = self.networks[at]
            targets = mean_vectors(labels, self.vectors[at], network.settings.unit_targets)
            return network.step(own, targets, rate, rng)

        return sum(pool.run(work, range(len(self.networks)), self.n_jobs)) / len(self.networks)

    def measure(self) -> dict[str, float]:
        """Compute metrics of held-out points whose labels are ranked by a vote of their nearest training points."""
        if self.validation is None:
            return {}
        X, Y = self._voters
        no_vectors = np.zeros((Y.shape[1], 1), np.float32)  # this vote does not use label vectors
        voters = VotingPoints(make_index(self._embed(X), "ip", "exact"), Y, no_vectors, _VOTE_IN_TRAINING)
        held = self.validation[0]
        scores = voters.rank(self._embed(held), held, min(5, Y.shape[1]))
        return validation_entry(evaluate(self.validation[1], scores, train_Y=self.Y, ks=(1, 5)))

    def _embed(self, X: csr_array) -> np.ndarray:
        tables = [network.tables for network in self.networks]
        return embed_points(tables, SparseRows.of(X), self.networks[0].settings.relu, self.n_jobs)

    def arrays(self) -> Arrays:
        """Return the whole state of all networks for a checkpoint, optimisers included."""
        return self._joined([network.arrays() for network in self.networks])

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that :meth:`arrays` returned."""
        for at, network in enumerate(self.networks):
            network.restore(without_prefix(f"{at}.", arrays))

    def weights(self) -> Arrays:
        """Return the tables of all networks."""
        return self._joined([network.tables for network in self.networks])

    @staticmethod
    def _joined(states: list[Arrays]) -> Arrays:
        return {name: array for at, state in enumerate(states) for name, array in with_prefix(f"{at}.", state).items()}


def mean_vectors(labels: Points, vectors: np.ndarray, unit: bool) -> np.ndarray:
    """Return the mean label vector of each point of a batch (Alg. 1, line 3); `unit` scales them to length 1."""
    n, width = len(labels.ptr) - 1, vectors.shape[1]
    t = np.empty((n, width), np.float32)
    origin = np.zeros(width, np.float32)
    encode(labels.ptr, labels.idx, labels.val, labels.features, vectors, origin, 0, n, t)
    if unit:
        t /= np.sqrt(np.einsum("ij,ij->i", t, t))[:, None] + _ADDED_LENGTH
    else:
        t /= np.diff(labels.ptr)[:, None].astype(np.float32)
    return t
