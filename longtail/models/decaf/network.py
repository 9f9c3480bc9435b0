"""DECAF's network: documents and label texts share a token table, and a label's classifier is made of its text.

    v = x E, t = z E                       token table E (D, d), shared by documents x and label texts z
    x̂ = dropout(ReLU(block_D(v)))          (B, d) documents
    z¹ = block_L(t)                        (C, d) label text, of the candidates of a batch only
    w = σ(α) ∘ z² + σ(β) ∘ z¹              (C, d) classifiers; z² (L, d) are refinement vectors, one per label
    s = x̂ wᵀ + c                           (B, C) scores, with one bias per label

The targets are labels, or clusters of labels (the paper's meta-labels). The text of a cluster is the sum of z¹ over its
labels. Gradients are written out below. Every table has its own row-sparse optimiser, so that a step touches only the
tokens, refinement vectors and biases of its batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import pool
from longtail.kernels import rows as kernels
from longtail.kernels.blas import product, single_threaded
from longtail.models.decaf.blocks import (
    CombinationBlock,
    ResidualBlock,
    dropout_mask,
    normalize_spectrum,
    sigmoid,
    through_spectrum,
)
from longtail.models.decaf.trained import DocumentEncoder, TextEncoder
from longtail.neural.batch import Candidates, Points, points
from longtail.neural.losses import Loss
from longtail.neural.optimizers import RowOptimizer
from longtail.neural.scratch import Scratch
from longtail.neural.tables import Tables

CHUNK = 8192  # label texts encoded at once outside training


@dataclass(frozen=True)
class TextNetworkSettings:
    """Settings of the network.

    Parameters
    ----------
    dim : int
        d, the length of all vectors.
    form : {"both", "text", "refinement"}
        Parts of a classifier: w as above, z¹ alone, or z² alone.
    drop : float
        Dropout after each ReLU.
    forget : float
        Probability that a candidate with text is scored in a batch by its text alone, with a bias that all labels
        share. Labels without training points are scored like this in prediction.
    spread : float
        Length of a token's vector at the start.
    block_rate : float
        Learning rate of the blocks relative to that of the tables. A low value makes up for the fact that every step
        changes all weights of a block.
    spectral : bool
        Divide the blocks' matrices by their spectral norm after each step.
    freeze : bool
        Do not train the token table.
    optimizer : {"adam", "row_adagrad"}
        Optimiser of the token table, the refinement vectors and the biases.
    relu : bool
        Whether a ReLU follows the block of documents, as in the paper.
    n_jobs : int, optional
        Number of threads; all cores by default.
    """

    dim: int
    form: str = "both"
    drop: float = 0.2
    forget: float = 0.0
    spread: float = 0.1
    block_rate: float = 1.0
    spectral: bool = False
    freeze: bool = False
    optimizer: str = "adam"
    relu: bool = True
    n_jobs: int | None = None


@dataclass
class Targets:
    """The targets of a network: labels, or clusters of labels.

    Attributes
    ----------
    n : int
        Number of targets.
    text : csr_array, (T, D), optional
        Texts, rows of length 1 or 0. Without `members`, row i is the text of target i.
    members : tuple of arrays, optional
        (ptr, rows): the rows of `text` that belong to each target.
    """

    n: int
    text: csr_array | None = None
    members: tuple[np.ndarray, np.ndarray] | None = None

    def rows(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows of `text` of some targets, and where those of each begin (None if each has one row)."""
        if self.members is None:
            return targets, None
        ptr, rows = self.members
        counts = (ptr[targets + 1] - ptr[targets]).astype(np.int64)
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        return rows[np.repeat(ptr[targets], counts) + within], ends - counts


class TextNetwork(Tables):
    """The network: its tables, the forward pass and the training step.

    Parameters
    ----------
    n_features : int
        D, the number of tokens.
    targets : Targets
        Labels, or clusters of labels.
    settings : TextNetworkSettings
        Settings of the network.
    prior : array, (n,)
        Biases at the start.
    rng : Generator
        Draws the initial weights.
    """

    def __init__(
        self,
        n_features: int,
        targets: Targets,
        settings: TextNetworkSettings,
        prior: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self.settings, self.targets = settings, targets
        d = settings.dim
        self.has_text = targets.text is not None and settings.form != "refinement"
        self.has_refinement = targets.text is None or settings.form != "text"
        spread = np.float32(settings.spread / np.sqrt(d))
        tables = {
            "E": rng.standard_normal((n_features, d), np.float32) * spread,
            "c": prior.astype(np.float32)[:, None].copy(),
            "c0": np.full((1, 1), prior.min(initial=0), np.float32),
            **ResidualBlock.fresh("doc", d),
        }
        if self.has_text:
            tables |= ResidualBlock.fresh("label", d)
        if self.has_refinement:
            tables["V"] = rng.standard_normal((targets.n, d), np.float32) * spread
        if self.has_text and self.has_refinement:
            tables |= CombinationBlock.fresh("both", d)
        self.scratch = Scratch()
        shared = self.scratch, settings.n_jobs
        self.doc, self.label = (ResidualBlock(tables, name, *shared) for name in ("doc", "label"))
        self.both = CombinationBlock(tables, "both", *shared)
        optimizers = {name: settings.optimizer if name in ("E", "V", "c", "c0") else "adam" for name in tables}
        if settings.freeze:
            del optimizers["E"]
        super().__init__(tables, optimizers, n_jobs=settings.n_jobs)
        self._has_own_text = np.ones(targets.n, bool)  # whether a target has any text; clusters always count as such
        if targets.text is not None and targets.members is None:
            self._has_own_text = np.diff(targets.text.indptr) > 0
        self.buffers = {f"direction.{name}": np.full(d, d**-0.5, np.float32) for name in ("doc", "label")}
        self._place = np.full(n_features, -1, np.int32)

    def texts(self, targets: np.ndarray) -> tuple[Points, np.ndarray | None]:
        """Return the texts of some targets as a batch, and where the rows of each target begin (None for one each)."""
        assert self.targets.text is not None
        rows, starts = self.targets.rows(targets)
        return points(self.targets.text, rows, self._place, unit=False), starts

    # Forwards ----------------------------------------------------------------------------------------------------

    def embed(self, batch: Points) -> np.ndarray:
        """Return the sums of token vectors, (n, d). The result is valid until the next call."""
        out = self.scratch.empty("sums", len(batch.ptr) - 1, self.settings.dim)
        no_bias = np.zeros(self.settings.dim, np.float32)

        def work(block: tuple[int, int]) -> None:
            kernels.encode(batch.ptr, batch.idx, batch.val, batch.features, self.tables["E"], no_bias, *block, out)

        pool.run(work, pool.blocks(len(out), self.settings.n_jobs, 256), self.settings.n_jobs)
        return out

    def text_vectors(self) -> np.ndarray:
        """Return z¹ of all targets, (n, d), without dropout."""
        out = np.empty((self.targets.n, self.settings.dim), np.float32)
        with single_threaded():
            for start in range(0, self.targets.n, CHUNK):
                targets = np.arange(start, min(start + CHUNK, self.targets.n))
                batch, starts = self.texts(targets)
                z, _ = self.label.forward(self.embed(batch), 0.0, None)
                out[targets] = summed(z, starts)
        return out

    def classifiers(self) -> np.ndarray:
        """Return w of all targets, (n, d)."""
        if not self.has_text:
            return self.tables["V"]
        z = self.text_vectors()
        return self.both.forward(self.tables["V"], z, np.empty_like(z)) if self.has_refinement else z

    def document_encoder(self) -> DocumentEncoder:
        """Return the encoder of points for prediction, with the present weights."""
        gate_a, gate_b = (sigmoid(self.tables[f"doc.{part}"]) for part in "ab")
        return DocumentEncoder(self.tables["E"], self.tables["doc.R"] * gate_a, gate_b[0], self.settings.relu)

    def text_encoder(self) -> TextEncoder | None:
        """Return the encoder of labels that have text only; None if the network does not use text."""
        if not self.has_text:
            return None
        gate_a, gate_b = (sigmoid(self.tables[f"label.{part}"]) for part in "ab")
        weight = self.both.gates()[1][0] if self.has_refinement else np.ones_like(gate_b[0])
        return TextEncoder(self.tables["label.R"] * gate_a, gate_b[0], weight, self.tables["c0"][0])

    # Backwards ---------------------------------------------------------------------------------------------------

    def step(self, docs: Points, candidates: Candidates, loss: Loss, rate: float, rng: np.random.Generator) -> float:
        """Take one step on a batch and return the loss. `loss` overwrites the scores with their gradient."""
        settings, labels, n = self.settings, candidates.labels, len(docs.ptr) - 1

        def learn(name: str, gradient: np.ndarray) -> None:
            step = rate * settings.block_rate
            if settings.spectral and name.endswith(".R"):
                direction = self.buffers[f"direction.{name.partition('.')[0]}"]
                gradient = through_spectrum(gradient, self.tables[name], direction)
            self.step_table(name, gradient, step)

        def shaped(name: str, like: np.ndarray) -> np.ndarray:
            return self.scratch.empty(name, *like.shape)

        batch, starts = docs, None
        if self.has_text:
            texts, starts = self.texts(labels)
            batch = joined(docs, texts, self._place)
        sums = self.embed(batch)  # (B + texts, d)

        x, doc_trace = self.doc.forward(sums[:n], settings.drop, rng)  # (B, d)
        if settings.relu:
            np.maximum(x, 0, out=x)
        mask = dropout_mask(x.shape, settings.drop, rng)
        if mask is not None:
            x *= mask
        kept, bias = None, self.tables["c"][labels, 0]
        if self.has_text:
            z, label_trace = self.label.forward(sums[n:], settings.drop, rng)
            z1 = summed(z, starts)  # (C, d)
            w = z1
            if self.has_refinement:
                z2 = self._rows("V", labels)
                if settings.forget > 0:
                    kept, bias = self._forget(labels, z2, bias, rng)
                w = self.both.forward(z2, z1, shaped("w", z1))
        else:
            w = self._rows("V", labels)

        scores = self.scratch.empty("scores", len(x), len(w))  # (B, C)
        product(x, w.T, settings.n_jobs, scores)
        scores += bias
        value = loss(scores, candidates.ptr, candidates.places, candidates.rates)  # scores is now its gradient

        d_w = product(scores.T, x, settings.n_jobs, shaped("d_w", w))  # (C, d)
        d_x = product(scores, w, settings.n_jobs, shaped("d_x", x))  # (B, d)
        d_c = scores.sum(axis=0)[:, None]
        if mask is not None:
            d_x *= mask
        if settings.relu:
            d_x *= x > 0
        up = shaped("up", sums)
        self.doc.backward(d_x, doc_trace, learn, up[:n])
        d_z2: np.ndarray | None = d_w
        if self.has_text:
            d_z1 = d_w
            d_z2 = None
            if self.has_refinement:
                d_z2, d_z1 = self.both.backward(d_w, z2, z1, learn)
            self.label.backward(repeated(d_z1, starts, len(sums) - n), label_trace, learn, up[n:])
        self._learn_targets(labels, d_z2, d_c, kept, rate)
        if not settings.freeze:
            self.optimizers["E"].step_sparse(self.tables["E"], batch.features, batch.columns(), up, rate)
        if settings.spectral:
            for name in ("doc", "label"):
                if f"{name}.R" in self.tables:
                    normalize_spectrum(self.tables[f"{name}.R"], self.buffers[f"direction.{name}"])
        return value

    def _forget(
        self, labels: np.ndarray, z2: np.ndarray, bias: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose labels with text to be scored by their text alone, and set their refinement vectors `z2` to 0.

        Returns
        -------
        kept, bias : arrays, (C,) each
            1 for labels that keep their refinement vector, else 0; biases, the shared one for the others.
        """
        forgotten = (rng.random(len(labels), np.float32) < self.settings.forget) & self._has_own_text[labels]
        kept = (~forgotten).astype(np.float32)
        z2 *= kept[:, None]
        return kept, np.where(kept > 0, bias, self.tables["c0"][0, 0])

    def _rows(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Copy some rows of a table."""
        out = self.scratch.empty(f"{name}.rows", len(rows), self.settings.dim)
        return np.take(self.tables[name], rows, axis=0, out=out, mode="clip")  # other modes write to a temporary array

    def _learn_targets(
        self, labels: np.ndarray, d_z2: np.ndarray | None, d_c: np.ndarray, kept: np.ndarray | None, rate: float
    ) -> None:
        """Step refinement vectors and biases, and the shared bias by the labels that were scored by text alone."""
        own: Any = slice(None)
        if kept is not None:
            own = np.flatnonzero(kept)
            shared = np.full((1, 1), d_c[kept == 0].sum(), np.float32)
            self.step_table("c0", shared, rate)
        if d_z2 is not None:
            self.step_rows("V", labels[own], d_z2[own], rate)
        self.step_rows("c", labels[own], d_c[own], rate)

    def adopt(self, other: TextNetwork, blocks: bool = True) -> None:
        """Copy the token table of another network and, with `blocks`, its residual blocks."""
        names = ["E"]
        if blocks:
            names += [name for name in self.tables if name.startswith(("doc.", "label.")) and name in other.tables]
        for name in names:
            self.tables[name][...] = other.tables[name]

    @staticmethod
    def bytes_needed(n_features: int, n_targets: int, dim: int, optimizer: str, batch: int, candidates: int) -> int:
        """Estimate the bytes of training: tables, optimisers, the best tables so far, and the arrays of a step."""
        step = 2 * batch * candidates + 12 * (batch + candidates) * dim  # the arrays in Scratch, and some others
        copies = 2 + RowOptimizer.tables(optimizer)
        return 4 * (copies * (n_features + n_targets + 2 * dim) * dim + step)


def joined(one: Points, two: Points, place: np.ndarray) -> Points:
    """Join two batches into one; `place` is scratch memory of D entries, all -1 before and after."""
    place[one.features] = np.arange(len(one.features), dtype=np.int32)
    where = place[two.features]
    place[one.features] = -1
    is_new = where < 0
    where[is_new] = len(one.features) + np.arange(np.count_nonzero(is_new), dtype=np.int32)
    return Points(
        np.concatenate([one.ptr, one.ptr[-1] + two.ptr[1:]]),
        np.concatenate([one.idx, where[two.idx]]),
        np.concatenate([one.val, two.val]),
        np.concatenate([one.features, two.features[is_new]]),
    )


def summed(rows: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
    """Sum the rows from each of `starts` up to the next; without starts, return the rows themselves."""
    return rows if starts is None else np.add.reduceat(rows, starts, axis=0)


def repeated(sums: np.ndarray, starts: np.ndarray | None, n: int) -> np.ndarray:
    """Propagate a gradient back through :func:`summed`, to n rows."""
    return sums if starts is None else np.repeat(sums, np.diff(np.append(starts, n)), axis=0)
