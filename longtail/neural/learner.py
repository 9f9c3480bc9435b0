"""What the training loop sees of a model: how it steps, how it measures itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from longtail.index.ranking import as_matrix
from longtail.kernels.rows import block
from longtail.metrics import evaluate
from longtail.neural.batch import CandidateSampler, points
from longtail.neural.loop import LoopSettings, NetworkState, train
from longtail.neural.losses import Loss
from longtail.neural.network import Network, encode_all
from longtail.neural.regularizers import Regularizer
from longtail.neural.search import top_k

_MEASURED = 2000  # training points whose P@1 is followed
_ABSORBED = 3  # passes over the held-out points in the end


class MeasuredLearner(NetworkState):
    """Training points and held-out points, and how well both are ranked; a subclass says how it searches and steps.

    Parameters
    ----------
    X : csr_array, (M, D)
        Points, used in place.
    rows : array, (N,)
        Those of them to train on.
    Y : csr_array, (N, L)
        Labels of the training points, in the order of `rows`.
    validation : tuple of csr_array, optional
        Held-out points; those without labels are of no use and should be left out.
    """

    def __init__(
        self, X: csr_array, rows: np.ndarray, Y: csr_array, validation: tuple[csr_array, csr_array] | None
    ) -> None:
        self.X, self.rows, self.Y, self.validation = X, rows, Y, validation
        stride = max(1, len(rows) // _MEASURED)
        self._sample = np.arange(0, len(rows), stride)[:_MEASURED]

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Best labels and raw scores of the points of X, (N, k) each."""
        raise AssertionError(f"{type(self).__name__} must define search")

    def measure(self) -> dict[str, float]:
        """P@1 in training; P, PSP and nDCG in validation, of which nDCG@5 decides on early stopping."""
        found = {"train_P@1": self._evaluate(*self.sample())["P@1"]}
        if self.validation is not None:
            held = self._evaluate(*self.validation)
            found |= {f"validation_{name}": held[name] for name in ("P@1", "P@5", "PSP@1", "PSP@5", "nDCG@5")}
            found["monitor"] = held["nDCG@5"]
        return found

    def sample(self) -> tuple[csr_array, csr_array]:
        """Some training points, to measure on."""
        return self.X[self.rows[self._sample]], self.Y[self._sample]

    def _evaluate(self, X: csr_array, Y: csr_array) -> dict[str, float]:
        found, _ = self.search(X, min(5, Y.shape[1]))
        falling = np.tile(np.linspace(0.9, 0.1, found.shape[1], dtype=np.float32), (len(found), 1))
        return evaluate(Y, as_matrix(found, falling, Y.shape[1]), train_Y=self.Y, ks=(1, 5))


class EmbeddingLearner(MeasuredLearner):
    """Steps a network on training points.

    Parameters
    ----------
    network : Network
    X, rows, Y, validation
        See :class:`MeasuredLearner`.
    sampler : CandidateSampler
    loss : Loss
    regularizer : Regularizer, optional
    weight : float
        λ, the weight of the regulariser.
    U : csr_array, (L, L), optional
        Affinity of labels, for the regulariser.
    keep : float
        ρ, the chance of a feature to stay in input dropout.
    unit : bool
        Scale points to length 1.
    n_regularized : int
        Labels drawn from a batch for the regulariser.
    """

    def __init__(
        self,
        network: Network,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        validation: tuple[csr_array, csr_array] | None,
        sampler: CandidateSampler,
        loss: Loss,
        regularizer: Regularizer | None = None,
        weight: float = 0.0,
        U: csr_array | None = None,
        keep: float = 1.0,
        unit: bool = True,
        n_regularized: int = 512,
    ) -> None:
        super().__init__(X, rows, Y, validation)
        self.network = network
        self.sampler, self.loss, self.regularizer = sampler, loss, regularizer
        self.weight, self.U, self.keep, self.unit = weight, U, keep, unit
        self.n_regularized = n_regularized
        self._features = np.full(X.shape[1], -1, np.int32)
        self._labels = np.full(Y.shape[1], -1, np.int32)

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        batch = points(self.X, self.rows[rows], self._features, self.unit)
        batch.drop(self.keep, rng)
        candidates = self.sampler.draw(rows, rng)
        drawn = affinities = None
        if self.regularizer is not None and self.weight > 0 and len(candidates.places):
            drawn = self._draw(candidates.ptr, candidates.places, rng)
            if self.U is None:
                affinities = np.zeros((0, 0), np.float32)
            else:
                labels = candidates.labels[drawn]
                affinities = block(self.U.indptr, self.U.indices, self.U.data, labels, self._labels)
        return self.network.step(
            batch, candidates, self.loss, rate, self.regularizer, self.weight, drawn, affinities, rng
        )

    def on(self, rows: np.ndarray, Y: csr_array) -> EmbeddingLearner:
        """The same network on other points of X, `rows`, and their labels, with nothing to validate on."""
        return EmbeddingLearner(
            self.network, self.X, rows, Y, None, self.sampler.on(Y), self.loss, self.regularizer, self.weight, self.U,
            self.keep, self.unit, self.n_regularized,
        )  # fmt: skip

    def _draw(self, ptr: np.ndarray, places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One label of each point (Alg. 2, line 12), as distinct positions among the candidates."""
        counts = np.diff(ptr)
        some = np.flatnonzero(counts)
        chosen = ptr[some] + (rng.random(len(some)) * counts[some]).astype(np.int64)
        distinct = np.unique(places[chosen])
        if len(distinct) > self.n_regularized:
            distinct = np.sort(rng.choice(distinct, self.n_regularized, replace=False))
        return distinct

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        settings, tables = self.network.settings, self.network.scorer()
        h = encode_all(
            X.indptr, X.indices, X.data, tables["tokens"], tables["bias"],
            settings.relu, settings.normalize, self.unit, settings.n_jobs,
        )  # fmt: skip
        return top_k(h, tables["labels"], tables["label_bias"], k, settings.n_jobs)


def absorb(learner: EmbeddingLearner, spare: np.ndarray, Y: csr_array, loop: LoopSettings) -> None:
    """Let a trained network learn from held-out points, too, once they are needed no more: among others seen before.

    Parameters
    ----------
    learner : EmbeddingLearner
    spare : array
        The held-out points of its X.
    Y : csr_array, (M, L)
        Labels of all points of X.
    loop : LoopSettings
        Those of the training.
    """
    rng = np.random.default_rng([loop.seed, 1])
    old = rng.choice(learner.rows, min(len(spare), len(learner.rows)), replace=False)
    rows = np.sort(np.concatenate([old, spare]))
    few = replace(loop, epochs=_ABSORBED, rate=loop.rate / 4, checkpoint=None, stage="the held-out points")
    train(learner.on(rows, Y[rows]), len(rows), few)


def calibrate(
    search: Callable[[csr_array, int], tuple[np.ndarray, np.ndarray]], X: csr_array, Y: csr_array
) -> tuple[float, float]:
    """Slope and offset that turn raw scores into chances: logistic regression on the best 50 labels of some points."""
    k = min(50, Y.shape[1])
    found, raw = search(X, k)
    rows = np.repeat(np.arange(len(found)), k)
    right = np.asarray(Y[rows, found.ravel()]).ravel().astype(np.float64)
    s = raw.ravel().astype(np.float64)
    design = np.stack([s, np.ones_like(s)], axis=1)
    beta = np.array([1.0, -s.mean()])
    ridge = np.diag([1e-3, 1e-3])
    for _ in range(30):  # Newton; the ridge keeps separable data finite
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (p - right) + ridge @ beta
        hessian = (design * (p * (1 - p) + 1e-9)[:, None]).T @ design + ridge
        change = np.linalg.solve(hessian, gradient)
        beta -= np.clip(change, -5, 5)
        if np.abs(change).max() < 1e-8:
            break
    return float(max(beta[0], 1e-3)), float(beta[1])
