"""The peer of the training throughput: the loop that one writes first in torch.

An EmbeddingBag for tokens, an embedding for labels, automatic differentiation, and Adam over all parameters; or, with
`sparse`, gradients and Adam of the rows in a batch only, as longtail has them. It gets the same batches and candidates
as longtail and computes the same loss and regulariser.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array

from longtail.neural.batch import Candidates


class TorchLoop:
    """A GLaS network in torch.

    Parameters
    ----------
    n_features, n_labels, dim : int
    rate : float
        Of Adam.
    weight : float
        λ of the regulariser.
    sparse : bool
        Row-sparse gradients and torch's SparseAdam for the tables.
    """

    def __init__(
        self, n_features: int, n_labels: int, dim: int, rate: float, weight: float, sparse: bool = False
    ) -> None:
        self.tokens = torch.nn.EmbeddingBag(n_features, dim, mode="sum", sparse=sparse)
        self.bias = torch.nn.Parameter(torch.zeros(dim))
        self.labels = torch.nn.Embedding(n_labels, dim, sparse=sparse)
        self.label_bias = torch.nn.Embedding(n_labels, 1, sparse=sparse)
        self.weight = weight
        tables = [*self.tokens.parameters(), *self.labels.parameters(), *self.label_bias.parameters()]
        self.optimizers: list[torch.optim.Optimizer]
        if sparse:
            self.optimizers = [torch.optim.SparseAdam(tables, lr=rate), torch.optim.Adam([self.bias], lr=rate)]
        else:
            self.optimizers = [torch.optim.Adam([*tables, self.bias], lr=rate)]

    def step(
        self, X: csr_array, candidates: Candidates, keep: float, correction: float, drawn: np.ndarray, U: np.ndarray
    ) -> float:
        """One step on the points of X, their candidates, and the labels drawn for the regulariser."""
        values = torch.nn.functional.dropout(torch.from_numpy(X.data), 1 - keep)
        indices, offsets = (
            torch.from_numpy(X.indices.astype(np.int64)),
            torch.from_numpy(X.indptr[:-1].astype(np.int64)),
        )
        points = torch.relu(self.tokens(indices, offsets, per_sample_weights=values) + self.bias)
        chosen = torch.from_numpy(candidates.labels.astype(np.int64))
        vectors = self.labels(chosen)
        scores = points @ vectors.T + self.label_bias(chosen)[:, 0]
        truth = torch.zeros_like(scores)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(candidates.ptr))
        truth[torch.from_numpy(rows), torch.from_numpy(candidates.places.astype(np.int64))] = 1
        weights = torch.ones_like(scores)
        if candidates.rates is not None:
            weights = torch.where(truth > 0, 1.0, torch.from_numpy(candidates.rates) ** -correction)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, truth, weights, reduction="sum")
        unit = torch.nn.functional.normalize(vectors[torch.from_numpy(drawn)])
        loss = loss / len(truth) + self.weight * (unit @ unit.T - torch.from_numpy(U)).square().mean()
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.detach())
