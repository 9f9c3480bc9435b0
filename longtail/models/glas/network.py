"""The embedding classifier: a point is a sum of token vectors, a label is a vector, a score is their inner product.

    h = x E + b          (B, d)   rows of the token table E (D, d) are gathered and summed
    φ = ReLU(h)                   or h itself; scaled to length 1 if normalised
    s = g φ Vᵀ + c       (B, C)   label vectors V (L, d), and biases c unless they are switched off

A normalised network has the paper's weight normalisation in both layers (§3.1): the weight vector of each output has
length 1, times one trainable length per layer. The outputs of the second layer are the labels, whose weights are the
rows of V. The outputs of the first layer are the d coordinates, whose weights are the columns of E. A column is
multiplied by e / |column|. The lengths of the columns are updated from the rows of E that a step changes.

Gradients are written out below. Each table has its own row-sparse optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import pool
from longtail.kernels import rows as kernels
from longtail.kernels.blas import product
from longtail.kernels.encode import SparseRows
from longtail.models.glas.regularizers import Regularizer
from longtail.neural.batch import Candidates, Points
from longtail.neural.encoding import activate, sum_tokens, through_length
from longtail.neural.losses import Loss
from longtail.neural.optimizers import RowOptimizer
from longtail.neural.scratch import Scratch
from longtail.neural.tables import Tables

_TINY = np.float32(1e-12)
_POINTS_AT_ONCE = 4096


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of the network and of its optimisers."""

    dim: int
    relu: bool
    normalize: bool
    optimizer: str
    decay: float
    scale: float  # g at the start
    n_jobs: int | None = None
    dropout: float = 0.0  # probability of setting a coordinate of an encoded point to 0 in a step
    tokens: float = 0.1  # length of token vectors at the start; short, so that untrained rare tokens add little noise
    label_bias: bool = True


class RegularizedLabels(NamedTuple):
    """The labels of a batch whose vectors are regularised."""

    regularizer: Regularizer
    weight: float  # λ
    drawn: np.ndarray  # positions of these labels among the candidates
    U: np.ndarray  # affinities of these labels, or (0, 0) for a regulariser that needs none


class Network(Tables):
    """The network: its tables, the forward pass and the training step.

    Parameters
    ----------
    n_features, n_labels : int
        D and L.
    settings : NetworkSettings
        Settings of the network.
    prior : array, (L,)
        Label biases at the start, such as the log odds of each label.
    rng : Generator
        Draws the initial weights.
    """

    def __init__(
        self, n_features: int, n_labels: int, settings: NetworkSettings, prior: np.ndarray, rng: np.random.Generator
    ) -> None:
        self.settings = settings
        d = settings.dim
        spread = np.float32(1 / np.sqrt(d))
        self.tables = {
            "E": rng.standard_normal((n_features, d), np.float32) * (np.float32(settings.tokens) * spread),
            "b": np.zeros((1, d), np.float32),
            "V": rng.standard_normal((n_labels, d), np.float32) * spread,
            "c": prior.astype(np.float32)[:, None].copy(),
            "g": np.full((1, 1), settings.scale if settings.normalize else 1.0, np.float32),
        }
        if settings.normalize:
            self.tables["squares"] = np.zeros((1, d), np.float64)  # of the columns' lengths; not learnt
            self._measure_columns()
            self.tables["e"] = np.full((1, 1), self._column_lengths().mean(), np.float32)
        optimizers = {name: settings.optimizer for name in self.tables if name != "squares"}
        super().__init__(self.tables, optimizers, settings.decay, ("E", "V"), settings.n_jobs)
        self.scratch = Scratch()

    def start_at_centroids(self, X: csr_array, rows: np.ndarray, Y: csr_array, length: float) -> None:
        """Initialise each label vector with the mean of its encoded points, scaled to `length`.

        It works with random token vectors, because random projections preserve similarities.

        Parameters
        ----------
        X : csr_array, (M, D)
            Points.
        rows : array, (N,)
            Rows of X to use.
        Y : csr_array, (N, L)
            Labels of these rows.
        length : float
            Length of the label vectors.
        """
        settings = self.settings
        sums = np.zeros_like(self.tables["V"])
        for start in range(0, len(rows), _POINTS_AT_ONCE):
            part = X[rows[start : start + _POINTS_AT_ONCE]]
            h = sum_tokens(SparseRows.of(part), self.tables["E"], self.tables["b"][0], settings.n_jobs)
            h, _ = activate(h, settings.relu, normalize=True)
            sums += Y[start : start + _POINTS_AT_ONCE].T @ h
        lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))[:, None]
        nonzero = lengths[:, 0] > 0
        self.tables["V"][nonzero] = sums[nonzero] * (np.float32(length) / lengths[nonzero])

    # Weight normalisation of the token table ---------------------------------------------------------------------

    def _measure_columns(self) -> None:
        self.tables["squares"][0] = self._squares(slice(None))

    def _squares(self, tokens: np.ndarray | slice) -> np.ndarray:
        """Return the sum of squares of these token vectors per coordinate, (d,)."""
        rows = self.tables["E"][tokens]
        return np.einsum("ij,ij->j", rows, rows, dtype=np.float64)

    def _column_lengths(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.tables["squares"][0], _TINY)).astype(np.float32)

    def _column_scale(self) -> np.ndarray:
        """Return the factors of the columns of the token table, (d,)."""
        return self.tables["e"][0, 0] / self._column_lengths()

    def _learn_tokens(self, batch: Points, dh: np.ndarray, sums: np.ndarray, rate: float) -> None:
        """Step the token table and the common length of its columns by the gradient dh (B, d).

        The exact gradient of a column also has a part along the column itself. It would change the vectors of all
        tokens, but only the length of the column, which the scale makes up for. That part is left out.
        """
        touched, lengths = batch.features, self._column_lengths()
        slope = np.full((1, 1), np.einsum("ij,ij->j", dh, sums) @ (1 / lengths), np.float32)
        before = self._squares(touched)
        dh = dh * self._column_scale()
        self.optimizers["E"].step_sparse(self.tables["E"], touched, batch.columns(), dh, rate)
        self.tables["squares"][0] += self._squares(touched) - before
        self.step_table("e", slope, rate)

    # Forwards ----------------------------------------------------------------------------------------------------

    def encode(self, batch: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return encoded points (B, d), their lengths before scaling (B, 1), and the sums of their token vectors."""
        normal, E, b = self.settings.normalize, self.tables["E"], self.tables["b"][0]
        sums = self.scratch.empty("sums", len(batch.ptr) - 1, self.settings.dim)
        start = np.zeros_like(b) if normal else b

        def work(block: tuple[int, int]) -> None:
            kernels.encode(batch.ptr, batch.idx, batch.val, batch.features, E, start, *block, sums)

        pool.run(work, pool.blocks(len(sums), self.settings.n_jobs), self.settings.n_jobs)
        h = sums * self._column_scale() + b if normal else sums
        return *activate(h, self.settings.relu, normal), sums

    def label_vectors(self, labels: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return label vectors (C, d), and their lengths before scaling (C, 1)."""
        V = self.tables["V"][labels]
        length = np.sqrt(np.einsum("ij,ij->i", V, V))[:, None] + _TINY
        return (V / length if self.settings.normalize else V), length

    # Backwards ---------------------------------------------------------------------------------------------------

    def step(
        self,
        batch: Points,
        candidates: Candidates,
        loss: Loss,
        rate: float,
        regularized: RegularizedLabels | None = None,
        rng: np.random.Generator | None = None,
    ) -> float:
        """Take one step on a batch and return the loss."""
        normal, g, labels = self.settings.normalize, self.tables["g"][0, 0], candidates.labels
        has_all_labels = len(labels) == len(self.tables["V"])
        phi, phi_length, sums = self.encode(batch)  # (B, d)
        hidden, mask = phi, None
        if rng is not None and self.settings.dropout > 0:
            kept = rng.random(phi.shape, dtype=np.float32) >= self.settings.dropout
            mask = kept * np.float32(1 / (1 - self.settings.dropout))
            hidden = phi * mask
        V, V_length = self.label_vectors(slice(None) if has_all_labels else labels)  # (C, d)

        n_jobs, empty = self.settings.n_jobs, self.scratch.empty
        scores = product(hidden, V.T, n_jobs, empty("scores", len(hidden), len(V)))  # (B, C)
        scores *= g
        scores += self.tables["c"][labels, 0]
        value = loss(scores, candidates.ptr, candidates.places, candidates.rates)  # scores is now its gradient

        dV = product(scores.T, hidden, n_jobs, empty("dV", *V.shape))  # (C, d)
        dphi = product(scores, V, n_jobs, empty("dphi", *hidden.shape))  # (B, d)
        dg = np.vdot(dV, V)
        dc = scores.sum(axis=0)[:, None]
        dV *= g
        dphi *= g
        if regularized is not None:
            value += self._regularize(regularized, V, V_length, hidden, dV, dphi)
        if mask is not None:
            dphi *= mask
        if normal:
            dV = through_length(dV, V, V_length)
            dphi = through_length(dphi, phi, phi_length)
            self.step_table("g", np.full((1, 1), dg, np.float32), rate)
        if self.settings.relu:
            dphi *= phi > 0
        self.step_rows("V", labels, dV, rate)
        if self.settings.label_bias:
            self.step_rows("c", labels, dc, rate)
        self.step_table("b", dphi.sum(axis=0)[None], rate)
        if normal:
            self._learn_tokens(batch, dphi, sums, rate)
        else:
            self.optimizers["E"].step_sparse(self.tables["E"], batch.features, batch.columns(), dphi, rate)
        return value

    def _regularize(
        self,
        regularized: RegularizedLabels,
        V: np.ndarray,
        V_length: np.ndarray,
        hidden: np.ndarray,
        dV: np.ndarray,
        dphi: np.ndarray,
    ) -> float:
        """Add the gradients of the regulariser to `dV` and `dphi`; return its weighted value."""
        normal, drawn = self.settings.normalize, regularized.drawn
        unit = V[drawn] if normal else V[drawn] / V_length[drawn]
        value, d_unit, d_points = regularized.regularizer(unit, hidden, regularized.U)
        d_unit *= np.float32(regularized.weight)
        if not normal:  # in a normalised network, `step` propagates all of dV back through the scaling
            d_unit = through_length(d_unit, unit, V_length[drawn])
        dV[drawn] += d_unit
        if d_points is not None:
            dphi += np.float32(regularized.weight) * d_points
        return regularized.weight * value

    # State -------------------------------------------------------------------------------------------------------

    def scorer(self) -> dict[str, np.ndarray]:
        """Return the tables for prediction: token and label vectors with their scales multiplied in, and biases."""
        V, _ = self.label_vectors(slice(None))
        E = self.tables["E"]
        return {
            "tokens": E * self._column_scale() if self.settings.normalize else E,
            "bias": self.tables["b"][0],
            "labels": np.ascontiguousarray(V * self.tables["g"][0, 0]),
            "label_bias": self.tables["c"][:, 0],
        }

    def adopt(self, scorer: dict[str, np.ndarray], labels: np.ndarray) -> None:
        """Copy tables that :meth:`scorer` returned, whose labels are `labels` here; other labels do not change."""
        self.tables["E"][:] = scorer["tokens"]
        self.tables["b"][0] = scorer["bias"]
        self.tables["V"][labels] = scorer["labels"]
        self.tables["c"][labels, 0] = scorer["label_bias"]
        if self.settings.normalize:
            self._measure_columns()
            self.tables["e"][0, 0] = self._column_lengths().mean()
            if len(labels):
                self.tables["g"][0, 0] = np.linalg.norm(scorer["labels"][0])

    @staticmethod
    def bytes_needed(n_features: int, n_labels: int, settings: NetworkSettings, batch: int, candidates: int) -> int:
        """Estimate the bytes of training: tables, optimisers, the best tables so far, the largest arrays of a step."""
        copies = 2 + RowOptimizer.tables(settings.optimizer)
        step = 3 * batch * candidates + 4 * (batch + candidates) * settings.dim
        return 4 * ((n_features + n_labels) * settings.dim * copies + step)
