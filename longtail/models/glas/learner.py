"""The learner of GLaS for the training loop: its step, and the search by which it is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels.encode import SparseRows
from longtail.kernels.rows import block
from longtail.models.glas.network import Network, RegularizedLabels
from longtail.models.glas.regularizers import Regularizer
from longtail.neural.batch import CandidateSampler, points
from longtail.neural.encoding import activate, sum_tokens
from longtail.neural.losses import Loss
from longtail.neural.measured_learner import MeasuredLearner
from longtail.neural.search import top_labels
from longtail.sparse import Pair


@dataclass(frozen=True)
class Recipe:
    """Loss, regulariser and input dropout of a training.

    Attributes
    ----------
    loss : Loss
        Loss of the scores.
    regularizer : Regularizer, optional
        Regulariser of the label vectors.
    weight : float
        λ, the weight of the regulariser.
    U : csr_array, (L, L), optional
        Affinity of labels, for the regulariser.
    n_regularized : int
        Number of labels of a batch to regularise, at most.
    keep : float
        ρ, the probability that input dropout keeps a feature.
    """

    loss: Loss
    regularizer: Regularizer | None = None
    weight: float = 0.0
    U: csr_array | None = None
    n_regularized: int = 512
    keep: float = 1.0


class EmbeddingLearner(MeasuredLearner):
    """Trains a network on points and their labels.

    Parameters
    ----------
    network : Network
        The network to train.
    X, rows, Y, validation
        See :class:`MeasuredLearner`.
    sampler : CandidateSampler
        Draws the candidates of a batch.
    recipe : Recipe
        Loss, regulariser and input dropout.
    """

    def __init__(
        self,
        network: Network,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        validation: Pair | None,
        sampler: CandidateSampler,
        recipe: Recipe,
    ) -> None:
        super().__init__(X, rows, Y, validation)
        self.network, self.sampler, self.recipe = network, sampler, recipe
        self._features = np.full(X.shape[1], -1, np.int32)
        self._labels = np.full(Y.shape[1], -1, np.int32)

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take one step on these training points and return the loss."""
        recipe = self.recipe
        batch = points(self.X, self.rows[rows], self._features, unit=True)
        batch.drop(recipe.keep, rng)
        candidates = self.sampler.draw(rows, rng)
        regularized = None
        if recipe.regularizer is not None and recipe.weight > 0 and len(candidates.places):
            drawn = self._draw(candidates.ptr, candidates.places, rng)
            affinities = np.zeros((0, 0), np.float32)
            if recipe.U is not None:
                labels = candidates.labels[drawn]
                affinities = block(recipe.U.indptr, recipe.U.indices, recipe.U.data, labels, self._labels)
            regularized = RegularizedLabels(recipe.regularizer, recipe.weight, drawn, affinities)
        return self.network.step(batch, candidates, recipe.loss, rate, regularized, rng)

    def on(self, rows: np.ndarray, Y: csr_array) -> EmbeddingLearner:
        """Return a learner of the same network on other rows of X and their labels Y, without validation."""
        return EmbeddingLearner(self.network, self.X, rows, Y, None, self.sampler.on(Y), self.recipe)

    def _draw(self, ptr: np.ndarray, places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw one label per point (Alg. 2, line 12); return their distinct positions among the candidates."""
        counts = np.diff(ptr)
        labelled = np.flatnonzero(counts)
        chosen = ptr[labelled] + (rng.random(len(labelled)) * counts[labelled]).astype(np.int64)
        distinct = np.unique(places[chosen])
        if len(distinct) > self.recipe.n_regularized:
            distinct = np.sort(rng.choice(distinct, self.recipe.n_regularized, replace=False))
        return distinct

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labels and raw scores of the points of X, (N, k) each."""
        settings, tables = self.network.settings, self.network.scorer()
        sums = sum_tokens(SparseRows.of(X), tables["tokens"], tables["bias"], settings.n_jobs)
        h, _ = activate(sums, settings.relu, settings.normalize)
        return top_labels(h, tables["labels"], tables["label_bias"], k, settings.n_jobs)
