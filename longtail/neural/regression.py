"""Points mapped onto given vectors (DXML §3.3): one hidden layer, an output of length 1, the smooth-l1 loss.

    h = act(x W1 + b1)           (B, h)   act is ReLU or nothing; W1 (D, h) is gathered and summed, as in network.py
    f = unit(drop(h W2 + b2))    (B, l)   dropout after the last layer, then length 1 (§4.1)
    loss = sum smooth_l1(f - t)  over the l coordinates, mean over the batch (eq. 1 to 3)

Several networks may be trained side by side on the same batches; a point is then their outputs in a row, so that an
ensemble is one space in which the cosine is the mean of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail.index import make_index
from longtail.index.base import frozen
from longtail.kernels import pool
from longtail.kernels import rows as kernels
from longtail.kernels import vote as predicting
from longtail.metrics import evaluate
from longtail.neural.batch import Points, points
from longtail.neural.neighbours import PLAIN, Neighbours
from longtail.neural.optimizers import RowOptimizer

_TINY, _SHORT = np.float32(1e-12), np.float32(1e-4)
_MEASURED = 1000  # held-out points that are followed after every epoch
_COMPARED = 20_000  # training points that they are compared with then
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class RegressionSettings:
    """What the network is and how its tables are stepped."""

    hidden: int
    relu: bool
    dropout: float  # chance of an output to be dropped
    optimizer: str
    decay: float
    n_jobs: int | None = None


def smooth_l1(outputs: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    r"""Smooth l1 loss: quadratic near its target, linear far from it.

    Formula: :math:`\frac{1}{B} \sum_{i,j} h(a_{ij} - b_{ij})`, h(z) = z²/2 up to \|z\| = 1, \|z\| - ½ beyond (eq. 2).

    Reference: DXML §3.3, after Girshick. For outputs and targets of length 1 it is nearly one minus their cosine.

    Returns the mean loss and its gradient with respect to the outputs.
    """
    gap = outputs - targets
    size = np.abs(gap)
    value = np.where(size <= 1, 0.5 * gap * gap, size - 0.5).sum(dtype=np.float64)
    np.clip(gap, -1, 1, out=gap)
    gap /= len(gap)
    return float(value / len(gap)), gap


class RegressionNetwork:
    """Tables, their optimisers, and the two directions.

    Parameters
    ----------
    n_features, width : int
        D and l.
    settings : RegressionSettings
    rng : Generator
    """

    def __init__(self, n_features: int, width: int, settings: RegressionSettings, rng: np.random.Generator) -> None:
        self.settings = settings
        h = settings.hidden
        self.tables: Arrays = {
            "W1": rng.standard_normal((n_features, h), np.float32) * np.float32(0.1),
            "b1": np.zeros((1, h), np.float32),
            "W2": rng.standard_normal((h, width), np.float32) * np.float32(np.sqrt(1 / h)),
            "b2": np.zeros((1, width), np.float32),
        }
        self.optimizers = {
            name: RowOptimizer(
                settings.optimizer,
                (table.shape[0], table.shape[1]),
                settings.decay if name[0] == "W" else 0.0,
                settings.n_jobs,
            )
            for name, table in self.tables.items()
        }

    def forward(self, batch: Points, rng: np.random.Generator | None) -> tuple[np.ndarray, ...]:
        """Hidden layer (B, h), what dropout lets through (B, l) or 1, lengths (B, 1) and outputs of length 1 (B, l)."""
        h = np.empty((len(batch.ptr) - 1, self.settings.hidden), np.float32)

        def work(block: tuple[int, int]) -> None:
            kernels.encode(
                batch.ptr, batch.idx, batch.val, batch.features, self.tables["W1"], self.tables["b1"][0], *block, h
            )

        pool.run(work, pool.blocks(len(h), self.settings.n_jobs), self.settings.n_jobs)
        if self.settings.relu:
            np.maximum(h, 0, out=h)
        z = h @ self.tables["W2"]
        z += self.tables["b2"]
        mask = np.ones((1, 1), np.float32)
        if rng is not None and self.settings.dropout > 0:
            keep = 1 - self.settings.dropout
            mask = (rng.random(z.shape, np.float32) < keep) * np.float32(1 / keep)
            z *= mask
        length = np.sqrt(np.einsum("ij,ij->i", z, z))[:, None] + _TINY
        z /= length
        return h, mask, length, z

    def step(self, batch: Points, targets: np.ndarray, rate: float, rng: np.random.Generator) -> float:
        """One step on one batch; returns the loss."""
        h, mask, length, f = self.forward(batch, rng)
        value, df = smooth_l1(f, targets)
        shrink = np.where(length > _SHORT, 1 / length, 0)  # a point of no length has no direction to be turned in
        dz = (df - np.einsum("ij,ij->i", df, f)[:, None] * f) * shrink * mask  # (B, l)
        dh = dz @ self.tables["W2"].T  # (B, h)
        if self.settings.relu:
            dh *= h > 0
        self._learn("W2", h.T @ dz, rate)
        self._learn("b2", dz.sum(axis=0)[None], rate)
        self._learn("b1", dh.sum(axis=0)[None], rate)
        self.optimizers["W1"].step_sparse(self.tables["W1"], batch.features, batch.columns(), dh, rate)
        return value

    def _learn(self, name: str, grad: np.ndarray, rate: float) -> None:
        self.optimizers[name].step(self.tables[name], np.arange(len(grad)), grad, rate)

    def arrays(self) -> Arrays:
        """Tables and optimisers, to store."""
        found = dict(self.tables)
        for name, optimizer in self.optimizers.items():
            found |= optimizer.arrays(name)
        return found

    def restore(self, arrays: Arrays) -> None:
        """State from :meth:`arrays`."""
        for name, table in self.tables.items():
            table[...] = arrays[name]
        for name, optimizer in self.optimizers.items():
            optimizer.restore(name, arrays)

    def adopt(self, tables: Arrays) -> None:
        """Go on from these tables, with optimisers that start anew."""
        for name, table in self.tables.items():
            table[...] = tables[name]

    @staticmethod
    def bytes_needed(n_features: int, settings: RegressionSettings) -> int:
        """Memory of training: tables, their optimisers and the best tables so far."""
        return 4 * n_features * settings.hidden * (2 + RowOptimizer.tables(settings.optimizer))


def embed(
    tables: list[Arrays], ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, relu: bool, n_jobs: int | None
) -> np.ndarray:
    """Points (the three arrays of their CSR) in the space of one or several networks, (N, l times their number).

    A point is the same alone and in a batch, to the last bit.
    """
    n, width = len(ptr) - 1, tables[0]["W2"].shape[1]
    found = np.empty((n, len(tables) * width), np.float32)
    X = tuple(map(frozen, (ptr, idx, val)))
    scale = np.float32(1 / np.sqrt(len(tables)))
    for at, table in enumerate(tables):
        weights = [frozen(array) for array in (table["W1"], table["b1"][0], table["W2"], table["b2"][0])]

        def work(block: tuple[int, int], weights: list[np.ndarray] = weights, at: int = at) -> None:
            predicting.embed(*X, *weights, relu, scale, *block, at * width, found)

        jobs = 1 if n < 64 else n_jobs
        pool.run(work, pool.blocks(n, jobs), jobs)
    return found


class RegressionLearner:
    """Steps networks on training points towards the mean vectors of their labels; see :mod:`longtail.neural.loop`.

    Parameters
    ----------
    networks : list of RegressionNetwork
        Trained side by side; each has its own random choices.
    vectors : list of array, (L, l)
        Label vectors of each network, of length 1.
    X : csr_array, (M, D)
        Points, used in place.
    rows : array, (N,)
        Those of them to train on.
    Y : csr_array, (N, L)
        Their labels, in the order of `rows`; each has some.
    validation : tuple of csr_array, optional
        Held-out points with labels.
    keep : float
        Chance of a feature to stay in input dropout.
    n_jobs : int, optional
        Networks that are stepped at once; a network's own settings say how many threads it uses itself.
    """

    def __init__(
        self,
        networks: list[RegressionNetwork],
        vectors: list[np.ndarray],
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        validation: tuple[csr_array, csr_array] | None,
        keep: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        self.networks, self.vectors, self.X, self.rows, self.Y = networks, vectors, X, rows, Y
        self.keep, self.n_jobs = keep, n_jobs
        self.validation = None
        self._features, self._labels = np.full(X.shape[1], -1, np.int32), np.full(Y.shape[1], -1, np.int32)
        if validation is not None:
            self.validation = validation[0][:_MEASURED], validation[1][:_MEASURED]
            stride = -(-len(rows) // _COMPARED)
            self._compared = X[rows[::stride]], Y[::stride]

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        batch = points(self.X, self.rows[rows], self._features, unit=True)
        labels = points(self.Y, rows, self._labels, unit=False)
        seeds = rng.integers(1 << 62, size=len(self.networks))  # so that it does not matter who is stepped first

        def work(at: int) -> float:
            rng = np.random.default_rng(seeds[at])
            own = Points(batch.ptr, batch.idx, batch.val.copy(), batch.features)
            own.drop(self.keep, rng)
            return self.networks[at].step(own, self._targets(labels, self.vectors[at]), rate, rng)

        return sum(pool.run(work, range(len(self.networks)), self.n_jobs)) / len(self.networks)

    @staticmethod
    def _targets(labels: Points, vectors: np.ndarray) -> np.ndarray:
        """Mean label vectors of a batch (Alg. 1, line 3), to length 1."""
        n, width = len(labels.ptr) - 1, vectors.shape[1]
        t = np.empty((n, width), np.float32)
        kernels.encode(
            labels.ptr, labels.idx, labels.val, labels.features, vectors, np.zeros(width, np.float32), 0, n, t
        )
        t /= np.sqrt(np.einsum("ij,ij->i", t, t))[:, None] + _TINY
        return t

    def measure(self) -> dict[str, float]:
        if self.validation is None:
            return {}
        X, Y = self._compared
        nothing = np.zeros((Y.shape[1], 1), np.float32)  # no label vectors: neighbours alone are followed
        near = Neighbours(make_index(self._embed(X), "ip", "exact"), Y, nothing, PLAIN)
        held = self.validation[0]
        scores = near.rank(self._embed(held), held, min(5, Y.shape[1]))
        found = evaluate(self.validation[1], scores, train_Y=self.Y, ks=(1, 5))
        figures = {f"validation_{name}": found[name] for name in ("P@1", "P@5", "PSP@1", "PSP@5", "nDCG@5")}
        return figures | {"monitor": found["nDCG@5"]}

    def _embed(self, X: csr_array) -> np.ndarray:
        settings = self.networks[0].settings
        tables = [network.tables for network in self.networks]
        return embed(tables, X.indptr, X.indices, X.data, settings.relu, self.n_jobs)

    def arrays(self) -> dict[str, np.ndarray]:
        return {f"{at}.{k}": v for at, network in enumerate(self.networks) for k, v in network.arrays().items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        for at, network in enumerate(self.networks):
            own = f"{at}."
            network.restore({name.removeprefix(own): array for name, array in arrays.items() if name.startswith(own)})

    def weights(self) -> dict[str, np.ndarray]:
        return {f"{at}.{k}": v for at, network in enumerate(self.networks) for k, v in network.tables.items()}
