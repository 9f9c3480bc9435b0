"""Linear classifiers on label trees: the ranker of which Parabel, Bonsai and DiSMEC are settings.

The papers' C = 1 suits many points. With few, a stronger regulariser is better on some data and worse on other, so
where no cost is given, some are tried and held-out points choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.data.split import FEW
from longtail.errors import SettingsError
from longtail.linear import tree as label_tree
from longtail.linear.forest import SLOPES, Forest
from longtail.linear.train import SolverSettings, train
from longtail.metrics import evaluate, inverse_propensity
from longtail.models.base import Arrays, Ranker
from longtail.models.wrapper import hold_out

_SHARES = (0.25, 0.5, 1.0)  # of the usual cost, to be tried
_PARTS = 10  # of the held-out points, to see by how much a cost is better


class LabelTreeRanker(Ranker):
    """Base of the linear tree rankers; see a subclass for what its constructor takes."""

    n_trees: int
    arity: int | None
    balanced: bool
    max_leaf: int
    max_depth: int
    loss: str
    cost: float | None
    tolerance: float
    threshold: float
    dtype: str
    normalize: bool
    beam: int
    n_jobs: int | None
    random_state: int

    _WIDTH = 256  # strongest features kept of a label's vector for clustering

    def _check_settings(self) -> None:
        if self.loss not in SLOPES:
            raise SettingsError(f"loss is {self.loss!r}; choose one of {', '.join(SLOPES)}")
        for name in ("n_trees", "beam", "max_leaf", "max_depth"):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < 1:
                raise SettingsError(f"{name} is {value!r}; give a whole number from 1")
        for name in ("cost", "tolerance"):
            value = getattr(self, name)
            if not (value is None and name == "cost") and not value > 0:
                raise SettingsError(f"{name} is {value!r}; give a number above 0")
        if self.threshold < 0:
            raise SettingsError(f"threshold is {self.threshold!r}; give 0 or a number above it")
        if self.dtype not in ("int8", "float32"):
            raise SettingsError(f"dtype is {self.dtype!r}; choose int8 or float32")
        if self.arity is not None and self.arity < 2:
            raise SettingsError(f"arity is {self.arity!r}; give a whole number from 2")
        if self.balanced and self.arity is not None and self.arity & (self.arity - 1):
            raise SettingsError(f"arity is {self.arity!r}; a balanced tree halves, so give a power of two")

    def _fit(self, X: csr_array, Y: csr_array, Z: Any, validation: Any) -> None:
        self._check_settings()
        if self.normalize:
            X = unit_rows(X)
        self.cost_ = self._choose_cost(X, Y, validation)
        with progress.stage("grouping labels"):
            trees = self._plant(X, Y, self.n_trees)
        (self.forest_,) = self._grow(trees, X, Y, [self.cost_])

    def _choose_cost(self, X: csr_array, Y: csr_array, validation: Any) -> float:
        """The cost to train with: as given, or the usual one, or for few points what a tree and held-out ones like."""
        if self.cost is not None:
            return float(self.cost)
        usual = 10.0 if self.loss == "logistic" else 1.0
        if X.shape[0] >= FEW:
            return usual
        (X, Y), held = hold_out(X, Y, 1 / 3, self.random_state) if validation is None else ((X, Y), validation)
        if held[1].nnz == 0:  # no point can be spared
            return usual
        with progress.stage("choosing the cost"):
            costs = [share * usual for share in _SHARES]
            forests = self._grow(self._plant(X, Y, 1), X, Y, costs, haste=2)
            return costs[_smallest_near_best(np.array([self._worths(forest, Y, held) for forest in forests]))]

    def _worths(self, forest: Forest, Y: csr_array, held: tuple[csr_array, csr_array]) -> list[float]:
        """How well a forest ranks some parts of the held-out points, without rare labels paying for frequent ones."""
        slope = SLOPES[self.loss]
        found = forest.predict(held[0], Y.shape[1], 5, self.beam, slope, self.normalize, self.n_jobs)
        labelled = np.flatnonzero(np.diff(held[1].indptr))
        parts = [labelled[first::_PARTS] for first in range(min(_PARTS, len(labelled)))]
        inverse = inverse_propensity(Y)
        figures = [evaluate(held[1][part], found[part], inv_propensity=inverse, ks=(5,)) for part in parts]
        return [part["nDCG@5"] + part["PSnDCG@5"] for part in figures]

    def _plant(self, X: csr_array, Y: csr_array, n_trees: int) -> list[label_tree.LabelTree]:
        """Trees of labels, without weights."""
        labels = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1])).astype(np.int32)
        if self.arity is None or len(labels) <= self.max_leaf:
            return [label_tree.build(labels, [], self.max_leaf, 0, 1)]
        vectors = label_tree.label_vectors(X, Y, self._WIDTH, self.n_jobs)
        if self.balanced:
            cuts = label_tree.balanced(vectors, self.arity, self.max_leaf)
        else:
            cuts = [label_tree.k_means(vectors, self.arity)] * (self.max_depth - 1)
        seeds = np.random.default_rng(self.random_state).integers(1 << 30, size=n_trees)
        return [label_tree.build(labels, cuts, self.max_leaf, int(seed), self.n_jobs) for seed in seeds]

    def _grow(
        self, trees: list[label_tree.LabelTree], X: csr_array, Y: csr_array, costs: Sequence[float], haste: int = 1
    ) -> list[Forest]:
        """Classifiers for the nodes of trees: a forest for each cost, of which the smallest comes first.

        haste : 2 takes up to a third less time; 21 of 24 costs it chose were those of 1, the others next to them.
        """
        settings = SolverSettings(
            self.loss, tuple(costs), haste * self.tolerance, threshold=self.threshold, dtype=self.dtype
        )
        return [Forest.join(trees, weights) for weights in train(trees, X, Y, settings, self.n_jobs, self.random_state)]

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.forest_.predict(X, self.n_labels_, k, self.beam, SLOPES[self.loss], self.normalize, self.n_jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        return self.forest_.search_point(
            indices, values, self.n_labels_, k, self.beam, SLOPES[self.loss], self.normalize
        )

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {"cost": self.cost_}, self.forest_.arrays(), {}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.forest_, self.cost_ = Forest(**arrays), facts["cost"]


def _smallest_near_best(worths: np.ndarray) -> int:
    """The first of some costs, ascending, that is as good as the best: within its standard error, and a hundredth.

    worths : (costs, parts). The held-out points are missing when the cost is chosen, and the more points, the smaller
    the cost that suits them; a choice that is nearly a draw therefore goes to the smaller one.
    """
    means = worths.mean(axis=1)
    behind = worths[means.argmax()] - worths
    error = behind.std(axis=1, ddof=1) / np.sqrt(worths.shape[1]) if worths.shape[1] > 1 else np.zeros(len(worths))
    return int(np.argmax(behind.mean(axis=1) <= np.minimum(error, 0.01 * means.max())))


def unit_rows(X: csr_array) -> csr_array:
    """Rows scaled to length 1; the matrix itself where they are so already, as TF-IDF is."""
    lengths = np.sqrt(np.add.reduceat(np.append(X.data * X.data, 0), X.indptr[:-1])) if X.nnz else np.ones(X.shape[0])
    counts = np.diff(X.indptr)
    lengths = np.where((counts > 0) & (lengths > 0), lengths, 1.0)
    if np.abs(lengths - 1).max() < 1e-4:
        return X
    return csr_array((X.data / np.repeat(lengths, counts).astype(np.float32), X.indices, X.indptr), shape=X.shape)
