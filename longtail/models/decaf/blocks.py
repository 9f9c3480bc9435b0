"""The two blocks that DECAF is made of, forwards and backwards.

A residual block (paper, Fig. 2) changes the vector of a text from the token table:

    out = σ(a) ∘ (dropout(ReLU(v)) R) + σ(b) ∘ v          R (d, d) the identity at the start, a and b (d,) zero

A combination block weighs two vectors of a label, number by number:

    w = σ(a) ∘ p + σ(b) ∘ q

Both keep their parameters in a dict of tables shared with the network they are part of, under a name of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from longtail.sparse import Arrays

Learn = Callable[[str, np.ndarray], None]  # name of a table, its gradient

_POWER_STEPS = 100  # at most; the direction of the last call is nearly right, and a few are enough
_NEAR = 1e-6  # relative change of the norm at which the power method has converged


def sigmoid(a: np.ndarray) -> np.ndarray:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-a))


def dropout_mask(shape: tuple[int, ...], drop: float, rng: np.random.Generator | None) -> np.ndarray | None:
    """Return a mask that zeroes each number with probability `drop` (in steps of 1/256); None where nothing is zeroed.

    What stays makes up for what goes. Bytes are drawn, not floats: a mask is as large as a batch's labels times d.
    """
    if rng is None or drop <= 0:
        return None
    stays = round(256 * (1 - drop))
    drawn = np.frombuffer(rng.bytes(int(np.prod(shape))), np.uint8).reshape(shape)
    return (drawn < stays) * np.float32(256 / stays)


@dataclass
class Trace:
    """What the way back needs of the way there."""

    v: np.ndarray  # (n, d) what went in
    r: np.ndarray  # (n, d) after ReLU and dropout
    mask: np.ndarray | None


@dataclass(frozen=True)
class ResidualBlock:
    """The embedding block of documents, or of labels."""

    tables: Arrays
    name: str

    @staticmethod
    def fresh(name: str, dim: int) -> Arrays:
        """Return parameters to start from."""
        return {
            f"{name}.R": np.eye(dim, dtype=np.float32),
            f"{name}.a": np.zeros((1, dim), np.float32),
            f"{name}.b": np.zeros((1, dim), np.float32),
        }

    def _all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return tuple(self.tables[f"{self.name}.{part}"] for part in "Rab")  # type: ignore[return-value]

    def forward(self, v: np.ndarray, drop: float, rng: np.random.Generator | None) -> tuple[np.ndarray, Trace]:
        """Pass vectors (n, d) through the block, with dropout where there is an `rng`."""
        R, a, b = self._all()
        r = np.maximum(v, 0)
        mask = dropout_mask(v.shape, drop, rng)
        if mask is not None:
            r *= mask
        out = r @ (R * sigmoid(a))  # the gate on the smaller matrix: σ(a) ∘ (r R)
        out += sigmoid(b) * v
        return out, Trace(v, r, mask)

    def backward(self, d_out: np.ndarray, trace: Trace, learn: Learn | None) -> np.ndarray:
        """Return the gradient of the input; step the parameters by `learn`, unless it is None."""
        R, a, b = self._all()
        gate_a, gate_b = sigmoid(a), sigmoid(b)
        d_v = d_out @ (R * gate_a).T
        if trace.mask is not None:
            d_v *= trace.mask
        d_v *= trace.v > 0
        d_v += d_out * gate_b
        if learn is not None:
            product = trace.r.T @ d_out  # (d, d); its columns times those of R are the gradient of σ(a)
            d_a = np.einsum("ij,ij->j", R, product)[None] * gate_a * (1 - gate_a)
            d_b = np.einsum("ij,ij->j", d_out, trace.v)[None] * gate_b * (1 - gate_b)
            learn(f"{self.name}.R", product * gate_a)
            learn(f"{self.name}.a", d_a)
            learn(f"{self.name}.b", d_b)
        return d_v


@dataclass(frozen=True)
class CombinationBlock:
    """How a label's text and its refinement vector become one classifier."""

    tables: Arrays
    name: str

    @staticmethod
    def fresh(name: str, dim: int) -> Arrays:
        """Return parameters to start from: equal parts."""
        return {f"{name}.a": np.zeros((1, dim), np.float32), f"{name}.b": np.zeros((1, dim), np.float32)}

    def gates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return σ(a) and σ(b), (1, d) each."""
        return sigmoid(self.tables[f"{self.name}.a"]), sigmoid(self.tables[f"{self.name}.b"])

    def forward(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Combine both inputs, (n, d) each, into one."""
        gate_a, gate_b = self.gates()
        out = gate_a * p
        out += gate_b * q
        return out

    def backward(self, d_out: np.ndarray, p: np.ndarray, q: np.ndarray, learn: Learn) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients of p and q."""
        gate_a, gate_b = self.gates()
        learn(f"{self.name}.a", np.einsum("ij,ij->j", d_out, p)[None] * gate_a * (1 - gate_a))
        learn(f"{self.name}.b", np.einsum("ij,ij->j", d_out, q)[None] * gate_b * (1 - gate_b))
        return d_out * gate_a, d_out * gate_b


def normalize_spectrum(R: np.ndarray, u: np.ndarray) -> None:
    """Divide R by its spectral norm, in place (Miyato et al., 2018).

    `u` (d,) is the direction that R makes longest, as found last time; the power method goes on from it until the norm
    has converged.
    """
    norm = 0.0
    for _ in range(_POWER_STEPS):
        v = R @ u
        v /= np.linalg.norm(v) + 1e-12
        back = R.T @ v
        last, norm = norm, float(np.linalg.norm(back))
        u[:] = back / (norm + 1e-12)
        if abs(norm - last) <= _NEAR * norm:
            break
    R /= np.float32(norm + 1e-12)


def through_spectrum(gradient: np.ndarray, R: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the gradient before R was divided by its spectral norm, now 1, from the gradient after it."""
    return gradient - np.vdot(gradient, R) * np.outer(R @ u, u)
