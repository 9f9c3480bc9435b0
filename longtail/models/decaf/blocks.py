"""The two blocks of DECAF's network, with their gradients.

A residual block (paper, Fig. 2) transforms the vector of a text, which is a sum of token vectors:

    out = σ(a) ∘ (dropout(ReLU(v)) R) + σ(b) ∘ v          at the start R (d, d) is the identity, a and b (d,) are zero

A combination block weighs two vectors of a label, coordinate by coordinate:

    w = σ(a) ∘ p + σ(b) ∘ q

Both keep their parameters in the network's dict of tables, under names that begin with the name of the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from longtail.kernels import pool
from longtail.neural.scratch import Scratch
from longtail.sparse import Arrays

Learn = Callable[[str, np.ndarray], None]  # name of a table, its gradient

_MOST_POWER_STEPS = 100  # a few suffice, because the power method starts from its last result
_ROWS_AT_ONCE = 256  # rows of a batch: few enough to stay in a core's cache from one line to the next
_CONVERGED = 1e-6  # relative change of the norm at which the power method has converged


def sigmoid(a: np.ndarray) -> np.ndarray:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-a))


def dropout_mask(shape: tuple[int, ...], drop: float, rng: np.random.Generator | None) -> np.ndarray | None:
    """Return a mask that drops each number with probability `drop` (in steps of 1/256); None if nothing is dropped.

    Numbers that are kept are scaled up, so that the expectation stays the same. The mask is as large as the labels of a
    batch times d; to save time, it is drawn as bytes, not as floats.
    """
    drawn = _draw_bytes(shape, drop, rng)
    return None if drawn is None else (drawn < _n_kept(drop)) * np.float32(256 / _n_kept(drop))


def _draw_bytes(shape: tuple[int, ...], drop: float, rng: np.random.Generator | None) -> np.ndarray | None:
    if rng is None or drop <= 0:
        return None
    return np.frombuffer(rng.bytes(int(np.prod(shape))), np.uint8).reshape(shape)


def _n_kept(drop: float) -> int:
    """Return the number of bytes, out of 256, that keep a number."""
    return round(256 * (1 - drop))


@dataclass
class Trace:
    """Values of the forward pass that the backward pass needs."""

    v: np.ndarray  # (n, d) the input
    r: np.ndarray  # (n, d) after ReLU and dropout
    scale: np.float32  # of the numbers that dropout kept


@dataclass(frozen=True)
class ResidualBlock:
    """The residual block of documents, or of label texts."""

    tables: Arrays
    name: str
    scratch: Scratch = field(default_factory=Scratch)
    n_jobs: int | None = None

    @staticmethod
    def fresh(name: str, dim: int) -> Arrays:
        """Return the initial parameters."""
        return {
            f"{name}.R": np.eye(dim, dtype=np.float32),
            f"{name}.a": np.zeros((1, dim), np.float32),
            f"{name}.b": np.zeros((1, dim), np.float32),
        }

    def _parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return tuple(self.tables[f"{self.name}.{part}"] for part in "Rab")  # type: ignore[return-value]

    def forward(self, v: np.ndarray, drop: float, rng: np.random.Generator | None) -> tuple[np.ndarray, Trace]:
        """Pass vectors (n, d) through the block; without `rng` there is no dropout."""
        R, a, b = self._parameters()
        weights, gate_b = R * sigmoid(a), sigmoid(b)  # σ(a) ∘ (r R) = r (R ∘ σ(a)), which scales the smaller matrix
        drawn, n_kept = _draw_bytes(v.shape, drop, rng), _n_kept(drop)
        scale = np.float32(1.0 if drawn is None else 256 / n_kept)
        r, out = (self.scratch.empty(f"{self.name}.{part}", *v.shape) for part in ("r", "out"))

        def work(rows: slice) -> None:
            np.maximum(v[rows], 0, out=r[rows])
            if drawn is not None:
                r[rows] *= (drawn[rows] < n_kept) * scale
            np.matmul(r[rows], weights, out=out[rows])
            out[rows] += gate_b * v[rows]

        pool.run(work, _row_blocks(len(v)), self.n_jobs)
        return out, Trace(v, r, scale)

    def backward(self, d_out: np.ndarray, trace: Trace, learn: Learn, d_v: np.ndarray) -> None:
        """Write the gradient of the input to `d_v`, and step the parameters by `learn(name, gradient)`."""
        R, a, b = self._parameters()
        gate_a, gate_b = sigmoid(a), sigmoid(b)
        back = (R * gate_a).T

        def work(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            np.matmul(d_out[rows], back, out=d_v[rows])
            d_v[rows] *= (trace.r[rows] > 0) * trace.scale  # 0 if the ReLU or dropout set the number to 0
            d_v[rows] += d_out[rows] * gate_b
            return trace.r[rows].T @ d_out[rows], np.einsum("ij,ij->j", d_out[rows], trace.v[rows])

        products, overlaps = zip(*pool.run(work, _row_blocks(len(d_out)), self.n_jobs), strict=True)
        product = sum(products[1:], products[0])  # (d, d); its columns times those of R are the gradient of σ(a)
        d_a = np.einsum("ij,ij->j", R, product)[None] * gate_a * (1 - gate_a)
        d_b = sum(overlaps[1:], overlaps[0])[None] * gate_b * (1 - gate_b)
        learn(f"{self.name}.R", product * gate_a)
        learn(f"{self.name}.a", d_a)
        learn(f"{self.name}.b", d_b)


@dataclass(frozen=True)
class CombinationBlock:
    """The block that combines a label's text vector and refinement vector into one classifier."""

    tables: Arrays
    name: str
    scratch: Scratch = field(default_factory=Scratch)
    n_jobs: int | None = None

    @staticmethod
    def fresh(name: str, dim: int) -> Arrays:
        """Return the initial parameters: both vectors have the same weight."""
        return {f"{name}.a": np.zeros((1, dim), np.float32), f"{name}.b": np.zeros((1, dim), np.float32)}

    def gates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return σ(a) and σ(b), (1, d) each."""
        return sigmoid(self.tables[f"{self.name}.a"]), sigmoid(self.tables[f"{self.name}.b"])

    def forward(self, p: np.ndarray, q: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Combine both inputs, (n, d) each, into `out` and return it."""
        gate_a, gate_b = self.gates()

        def work(rows: slice) -> None:
            np.multiply(p[rows], gate_a, out=out[rows])
            out[rows] += gate_b * q[rows]

        pool.run(work, _row_blocks(len(p)), self.n_jobs)
        return out

    def backward(self, d_out: np.ndarray, p: np.ndarray, q: np.ndarray, learn: Learn) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients of p and q, and step the parameters by `learn(name, gradient)`."""
        gate_a, gate_b = self.gates()
        d_p, d_q = (self.scratch.empty(f"{self.name}.{part}", *d_out.shape) for part in ("d_p", "d_q"))

        def work(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            np.multiply(d_out[rows], gate_a, out=d_p[rows])
            np.multiply(d_out[rows], gate_b, out=d_q[rows])
            return np.einsum("ij,ij->j", d_out[rows], p[rows]), np.einsum("ij,ij->j", d_out[rows], q[rows])

        with_p, with_q = zip(*pool.run(work, _row_blocks(len(d_out)), self.n_jobs), strict=True)
        learn(f"{self.name}.a", sum(with_p[1:], with_p[0])[None] * gate_a * (1 - gate_a))
        learn(f"{self.name}.b", sum(with_q[1:], with_q[0])[None] * gate_b * (1 - gate_b))
        return d_p, d_q


def _row_blocks(n: int) -> list[slice]:
    """Divide rows into blocks. They do not depend on the number of threads, so that sums over them do not either."""
    return [slice(start, min(n, start + _ROWS_AT_ONCE)) for start in range(0, max(1, n), _ROWS_AT_ONCE)]


def normalize_spectrum(R: np.ndarray, u: np.ndarray) -> None:
    """Divide R by its spectral norm in place (Miyato et al., 2018).

    `u` (d,) is the direction that R stretches most, from the last call. The power method starts from it, runs until the
    norm has converged, and updates it.
    """
    norm = 0.0
    for _ in range(_MOST_POWER_STEPS):
        v = R @ u
        v /= np.linalg.norm(v) + 1e-12
        back = R.T @ v
        last, norm = norm, float(np.linalg.norm(back))
        u[:] = back / (norm + 1e-12)
        if abs(norm - last) <= _CONVERGED * norm:
            break
    R /= np.float32(norm + 1e-12)


def through_spectrum(gradient: np.ndarray, R: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Propagate a gradient back through the division of R by its spectral norm; R has the norm 1 already."""
    return gradient - np.vdot(gradient, R) * np.outer(R @ u, u)
