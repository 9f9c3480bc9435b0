"""DECAF's network as the training loop sees it, and its encoder as prediction does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.pool import spread
from longtail.kernels.shortlist import encode
from longtail.metrics import evaluate
from longtail.neural.batch import Candidates, points
from longtail.neural.loop import NetworkState
from longtail.neural.losses import bce
from longtail.neural.search import top_k
from longtail.neural.shortlists import ShortlistSampler
from longtail.neural.text_network import TextNetwork

_MEASURED = 500  # held-out points whose ranking is followed from epoch to epoch
_NEVER = np.float32(-80.0)  # a score whose loss and gradient are nothing


@dataclass
class Encoder:
    """What turns points into vectors: the token table, and the document block with its gates folded in."""

    tokens: np.ndarray  # (D, d)
    R: np.ndarray  # (d, d)
    gate: np.ndarray  # (d,)

    @classmethod
    def of(cls, network: TextNetwork) -> Encoder:
        """The encoder of a network as it is now."""
        gate_a, gate_b = (1 / (1 + np.exp(-network.tables[f"doc.{part}"])) for part in "ab")
        return cls(network.tables["E"], network.tables["doc.R"] * gate_a, gate_b[0])

    def __call__(self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Points given by the three arrays of their CSR as (N, d + 1); the last number is 1, for biases."""
        out = np.empty((len(ptr) - 1, self.tokens.shape[1] + 1), np.float32)
        spread(lambda block: encode(ptr, idx, val, self.tokens, self.R, self.gate, *block, out), len(out), n_jobs)
        return out


class TextLearner(NetworkState):
    """Steps a network on training points.

    Parameters
    ----------
    network : TextNetwork
    X : csr_array, (M, D)
        Points, used in place.
    rows : array, (N,)
        Those of them to train on.
    Y : csr_array, (N, n)
        Targets of the training points, in the order of `rows`.
    held : tuple of csr_array, optional
        Held-out points and their targets.
    sampler : ShortlistSampler
    correction : float
        How far negatives are weighted by one over their chance of being a candidate.
    keep : float
        Chance of a feature of a point to stay in input dropout.
    listed : bool
        Each point learns from its own shortlist and positives alone (the paper), not from all candidates of its batch.
    """

    def __init__(
        self,
        network: TextNetwork,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        held: tuple[csr_array, csr_array] | None,
        sampler: ShortlistSampler,
        correction: float = 0.0,
        keep: float = 1.0,
        listed: bool = False,
    ) -> None:
        self.network, self.X, self.rows, self.Y = network, X, rows, Y
        self.held = None if held is None else (held[0][:_MEASURED], held[1][:_MEASURED])
        self.sampler, self.correction, self.keep = sampler, correction, keep
        self.listed = listed and sampler.shortlist is not None
        self._place = np.full(X.shape[1], -1, np.int32)

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        docs = points(self.X, self.rows[rows], self._place, unit=True)
        docs.drop(self.keep, rng)
        candidates = self.sampler.draw(rows, rng)
        loss = partial(bce, correction=self.correction, n_jobs=self.network.settings.n_jobs)
        if self.listed:
            loss = partial(_listed, self._listed(rows, candidates))
        return self.network.step(docs, candidates, loss, rate, rng)

    def _listed(self, rows: np.ndarray, candidates: Candidates) -> np.ndarray:
        """Whether each candidate (B, C) is in the point's shortlist or among its positives."""
        assert self.sampler.shortlist is not None
        own = self.sampler.shortlist[rows]
        at = np.searchsorted(candidates.labels, own).clip(max=len(candidates.labels) - 1)
        point, place = np.nonzero((candidates.labels[at] == own) & (own >= 0))
        mask = np.zeros((len(rows), len(candidates.labels)), bool)
        mask[point, at[point, place]] = True
        mask[np.repeat(np.arange(len(rows)), np.diff(candidates.ptr)), candidates.places] = True
        return mask

    def measure(self) -> dict[str, float]:
        if self.held is None or self.listed:  # what was learnt from shortlists says nothing of labels outside them
            return {}
        X, Y = self.held
        found, _ = self.search(X, min(5, Y.shape[1]))
        n, k = found.shape
        falling = np.tile(np.linspace(0.9, 0.1, k, dtype=np.float32), n)
        scores = csr_array((falling, found.ravel(), np.arange(0, n * k + 1, k)), shape=Y.shape)
        figures = evaluate(Y, scores, train_Y=self.Y, ks=(1, 5))
        names = ("P@1", "P@5", "PSP@1", "PSP@5", "nDCG@5")
        return {f"validation_{name}": figures[name] for name in names} | {"monitor": figures["nDCG@5"]}

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The best targets of points among all of them, and their scores, (N, k) each."""
        jobs = self.network.settings.n_jobs
        x = Encoder.of(self.network)(X.indptr, X.indices, X.data, jobs)[:, :-1]
        return top_k(x, self.network.classifiers(), self.network.tables["c"][:, 0], k, jobs)


def _listed(
    mask: np.ndarray, scores: np.ndarray, ptr: np.ndarray, places: np.ndarray, rates: np.ndarray | None
) -> float:
    """The logistic loss where the mask is set."""
    scores[~mask] = _NEVER
    return bce(scores, ptr, places)
