"""The matching network of MNN: features and label sets each averaged to a vector, compared by cosine.

    f_x(x) = 1/|r| Σ r_k w_k e'_k     (eq. 6, 7)   the features that dropout leaves, weighted
    f_y(y) = 1/T Σ e_t                (eq. 1, 3)   the labels of a point
    c(x, y) = cos(f_x(x), f_y(y))     (eq. 8)

A batch is compared with its own label sets: those of other points are the negatives to draw from.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.index import Index, make_index
from longtail.index.ranking import vote
from longtail.kernels import pool
from longtail.kernels import rows as kernels
from longtail.metrics import evaluate
from longtail.neural.batch import Points, points
from longtail.neural.learner import MeasuredLearner
from longtail.neural.losses import noise_contrastive
from longtail.neural.network import activate, encode_all, through_length
from longtail.neural.optimizers import RowOptimizer
from longtail.neural.scoring import Scoring

_VOTERS, _ASKED = 20_000, 1000  # points that vote, and that are asked, to measure after an epoch
_SHORTEST = np.float32(1e-6)  # a mean shorter than this has no direction to be turned


class AveragingEncoder:
    """A table of vectors, of which the mean of some is an encoding, scaled to length 1.

    Parameters
    ----------
    table : array, (rows, d)
        Vectors at the start; stepped in place.
    optimizer : {"adam", "adagrad", "sgd"}
    decay : float
        Weight decay of the rows a batch touches.
    n_jobs : int, optional
    """

    def __init__(self, table: np.ndarray, optimizer: str, decay: float, n_jobs: int | None) -> None:
        self.table, self.n_jobs = table, n_jobs
        self.optimizer = RowOptimizer(optimizer, (table.shape[0], table.shape[1]), decay, n_jobs)
        self._origin = np.zeros(table.shape[1], np.float32)

    def encode(self, batch: Points) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors (B, d), and the lengths (B, 1) they had."""
        out = np.empty((len(batch.ptr) - 1, self.table.shape[1]), np.float32)

        def work(block: tuple[int, int]) -> None:
            kernels.encode(batch.ptr, batch.idx, batch.val, batch.features, self.table, self._origin, *block, out)

        pool.run(work, pool.blocks(len(out), self.n_jobs), self.n_jobs)
        return activate(out, relu=False, normalize=True)

    def learn(self, batch: Points, unit: np.ndarray, length: np.ndarray, grad: np.ndarray, rate: float) -> None:
        """Step the rows of the batch by the gradient (B, d) with respect to its unit vectors."""
        up = through_length(grad, unit, np.maximum(length, _SHORTEST))
        self.optimizer.step_sparse(self.table, batch.features, batch.columns(), up, rate)


class MatchingNetwork:
    """The two encoders.

    Parameters
    ----------
    features : array, (D, d)
        Vectors of features at the start.
    labels : array, (L, d)
        Vectors of labels at the start.
    optimizer, decay, n_jobs
        See :class:`AveragingEncoder`.
    """

    def __init__(
        self, features: np.ndarray, labels: np.ndarray, optimizer: str, decay: float, n_jobs: int | None
    ) -> None:
        self.encoders = {
            "features": AveragingEncoder(features, optimizer, decay, n_jobs),
            "labels": AveragingEncoder(labels, optimizer, decay, n_jobs),
        }

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """What is learnt: ``features`` (D, d) and ``labels`` (L, d)."""
        return {name: encoder.table for name, encoder in self.encoders.items()}

    def step(self, batch: Points, sets: Points, negatives: np.ndarray, margin: float, rate: float) -> float:
        """One step on points and their label sets, both averaged already; returns the loss. `negatives` is (B, h)."""
        f_x, f_y = self.encoders["features"], self.encoders["labels"]
        x, x_length = f_x.encode(batch)  # (B, d)
        y, y_length = f_y.encode(sets)
        cosines = x @ y.T  # (B, B), eq. 8
        value = noise_contrastive(cosines, negatives, margin)  # cosines are now the gradient
        dx, dy = cosines @ y, cosines.T @ x
        f_x.learn(batch, x, x_length, dx, rate)
        f_y.learn(sets, y, y_length, dy, rate)
        return value

    def arrays(self) -> dict[str, np.ndarray]:
        """Tables and optimisers, to store."""
        found = dict(self.tables)
        for name, encoder in self.encoders.items():
            found |= encoder.optimizer.arrays(name)
        return found

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """State from :meth:`arrays`."""
        for name, encoder in self.encoders.items():
            encoder.table[...] = arrays[name]
            encoder.optimizer.restore(name, arrays)

    @staticmethod
    def bytes_needed(n_features: int, n_labels: int, dim: int, optimizer: str, batch_size: int) -> int:
        """Memory of training: tables, their optimisers and the best tables so far; and the largest arrays of a step."""
        copies = 2 + RowOptimizer.tables(optimizer)
        return 4 * ((n_features + n_labels) * dim * copies + batch_size * (3 * batch_size + 8 * dim))


class MatchingLearner(MeasuredLearner):
    """Steps a matching network on training points.

    Parameters
    ----------
    network : MatchingNetwork
    X, rows, Y, validation
        See :class:`longtail.neural.learner.MeasuredLearner`.
    n_negatives : int
        h, the negatives drawn for a point.
    margin : float
        m of eq. 10.
    keep : float
        p of eq. 5, the chance of a feature to stay.
    n_jobs : int, optional
    votes : bool
        Measure by a vote of the nearest training points, too, and let the better of both decide on early stopping.
    """

    def __init__(
        self,
        network: MatchingNetwork,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        validation: tuple[csr_array, csr_array] | None,
        n_negatives: int,
        margin: float,
        keep: float,
        n_jobs: int | None,
        votes: bool = False,
    ) -> None:
        super().__init__(X, rows, Y, validation)
        self.votes = votes
        self.network, self.n_negatives, self.margin, self.keep, self.n_jobs = network, n_negatives, margin, keep, n_jobs
        self._features = np.full(X.shape[1], -1, np.int32)
        self._labels = np.full(Y.shape[1], -1, np.int32)
        self._sets = set_numbers(Y)

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        batch = points(self.X, self.rows[rows], self._features, unit=False)
        batch.drop(self.keep, rng)
        batch.average()
        sets = points(self.Y, rows, self._labels, unit=False)
        sets.average()
        negatives = draw_negatives(self._sets[rows], self.n_negatives, rng)
        return self.network.step(batch, sets, negatives, self.margin, rate)

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        index = make_index(self.network.tables["labels"], "cosine", "exact")
        return index.search(self._encoded(X), k, n_jobs=self.n_jobs)

    def measure(self) -> dict[str, float]:
        """As for other learners, labels ranked by the cosine; with votes the same by vote, as ``vote_`` figures."""
        found = super().measure()
        if not self.votes:
            return found
        voters = np.arange(0, len(self.rows), -(-len(self.rows) // _VOTERS))
        index = make_index(self._encoded(self.X[self.rows[voters]]), "cosine", "exact")
        labels = self.Y[voters]
        sample = voters[:: -(-len(voters) // _ASKED)]
        own = np.searchsorted(voters, sample)
        by_vote = {"train": self._by_vote(index, labels, self.X[self.rows[sample]], self.Y[sample], own)}
        if self.validation is not None:
            X, Y = self.validation
            by_vote["validation"] = self._by_vote(index, labels, X[:_ASKED], Y[:_ASKED])
            found["monitor"] = max(found["monitor"], by_vote["validation"]["nDCG@5"])
        for part, figures in by_vote.items():
            found |= {f"vote_{key}": figures[key.partition("_")[2]] for key in list(found) if key.startswith(part)}
        return found

    def _by_vote(
        self, index: Index, labels: csr_array, X: csr_array, Y: csr_array, own: np.ndarray | None = None
    ) -> dict[str, float]:
        """Figures of points by the usual vote, but for the one that is a point itself, its position being `own`."""
        usual = Scoring()
        ids, cosines = index.search(self._encoded(X), min(usual.n_neighbors + 1, len(index)), n_jobs=self.n_jobs)
        if own is not None:
            ids = np.where(ids == own[:, None], -1, ids)
        scores = vote(ids, np.exp(np.float32(usual.sharpness) * (cosines - 1)), labels, 5)
        return evaluate(Y, scores, train_Y=self.Y, ks=(1, 5))

    def _encoded(self, X: csr_array) -> np.ndarray:
        return encode_features(X.indptr, X.indices, X.data, self.network.tables["features"], self.n_jobs)


def set_numbers(Y: csr_array) -> np.ndarray:
    """A number for each row of Y, the same for equal sets of labels and (but for one chance in 2^64) for no others."""
    keys = np.random.default_rng(0).integers(1, 2**63, Y.shape[1], dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(keys[Y.indices], dtype=np.uint64)])  # wraps around
    return sums[Y.indptr[1:]] - sums[Y.indptr[:-1]]


def draw_negatives(sets: np.ndarray, n_negatives: int, rng: np.random.Generator) -> np.ndarray:
    """For each point of a batch `n_negatives` others of it, (B, h), by position.

    A point that has the same labels is no negative; it is replaced by the point itself, which the loss passes over.
    """
    n = len(sets)
    own = np.arange(n)[:, None]
    if n == 1:
        return np.zeros((1, n_negatives), np.int64)
    if n_negatives >= n - 1:  # each of the others once
        others = (own + np.arange(1, n)) % n
    else:
        others = (own + rng.integers(1, n, size=(n, n_negatives))) % n
    return np.where(sets[others] == sets[:, None], own, others)


def encode_features(
    ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, table: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Unit f_x of points for prediction, (N, d), from the three arrays of their CSR; 0 where nothing is known."""
    origin = np.zeros(table.shape[1], np.float32)
    return encode_all(ptr, idx, val, table, origin, False, True, True, n_jobs)


def by_vote(entry: dict[str, float]) -> dict[str, float]:
    """An epoch's figures with those of the vote in the place of those of the cosine."""
    plain = {key: value for key, value in entry.items() if not key.startswith("vote_")}
    return plain | {key.removeprefix("vote_"): value for key, value in entry.items() if key.startswith("vote_")}
