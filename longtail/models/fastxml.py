"""FastXML: an ensemble of trees that part points by the rankings they agree on (Prabhu and Varma, KDD 2014).

A node's points are parted so that each half is served by one ranking of labels, as measured by nDCG; a sparse linear
separator then learns the halves, and the points go where it sends them. A point to be labelled falls into one leaf a
tree; a label's score is its share of the points there, averaged over the trees.

Choices: a node alternates between rankings and sides until no point moves, then learns its separator once; both sides
weigh the same in the loss; the bias is regularised like a feature; a node that cannot be parted is a leaf; labels that
no point of a side has are ranked there after all others. The paper's C = 1 is for counts as they come. Here all points
are multiplied by one number first, so that C means the same for any features while a long point stays long (to bring
each to length 1 was worse on held-out points of Bibtex and Delicious); the best C still differs between data sets, so a
few trees are grown for each of three values, and held-out points choose.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.errors import SettingsError
from longtail.linear.point_forest import GrowSettings, PointForest
from longtail.metrics import evaluate
from longtail.models.base import Arrays, Ranker
from longtail.models.wrapper import hold_out


class FastXML(Ranker):
    """Trees over points, parted by nDCG.

    Parameters
    ----------
    n_trees : int
        Trees, each from its own random start. Time, memory and (ever more slowly) accuracy grow with it.
    max_leaf : int
        Points of a leaf at most.
    labels_per_leaf : int
        Labels that a leaf keeps.
    cost : float, optional
        C, the weight of the logistic loss against the L1 norm of a separator; less makes sparser, smaller trees. By
        default 2, 4 or 8, whichever ranks held-out points best with a few trees.
    normalize : bool
        Multiply points by one number, so that their mean length is 1 and `cost` means the same for any features.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int

    Attributes
    ----------
    cost_ : float
        The cost that was used.
    factor_ : float
        What points are multiplied by.
    """

    kind: ClassVar[str] = "fastxml"
    _COSTS = (2.0, 4.0, 8.0)
    _TRIAL_TREES = 40  # the more trees, the higher the best cost: ten favour one that is too low
    _TRIAL_HELD = 2_000  # points to choose by, if these are no more than a third
    _TRIAL_POINTS = 20_000  # enough to tell costs apart; more would only take longer

    def __init__(
        self,
        n_trees: int = 100,
        max_leaf: int = 10,
        labels_per_leaf: int = 100,
        cost: float | None = None,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaf = max_leaf
        self.labels_per_leaf = labels_per_leaf
        self.cost = cost
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_settings(self) -> None:
        for name in ("n_trees", "max_leaf", "labels_per_leaf"):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < 1:
                raise SettingsError(f"{name} is {value!r}; give a whole number from 1")
        if self.cost is not None and not self.cost > 0:
            raise SettingsError(f"cost is {self.cost!r}; give a number above 0")

    def _fit(self, X: csr_array, Y: csr_array, Z: Any, validation: Any) -> None:
        self._check_settings()
        self.factor_ = _to_mean_length_1(X) if self.normalize else 1.0
        self.cost_ = self._choose_cost(X, Y, validation) if self.cost is None else float(self.cost)
        self.forest_ = self._grow(X, Y, self.cost_, int(self.n_trees))

    def _choose_cost(self, X: csr_array, Y: csr_array, validation: tuple[csr_array, csr_array] | None) -> float:
        """The cost under which a few trees rank held-out points best."""
        if validation is None:
            share = float(np.clip(self._TRIAL_HELD / X.shape[0], 0.1, 1 / 3))
            (X, Y), (X_held, Y_held) = hold_out(X, Y, share, self.random_state)
        else:
            X_held, Y_held = validation
        if Y_held.nnz == 0:  # no point can be spared
            return self._COSTS[1]
        if X.shape[0] > self._TRIAL_POINTS:
            rows = np.random.default_rng(self.random_state).choice(X.shape[0], self._TRIAL_POINTS, replace=False)
            X, Y = X[rows], Y[rows]
        worth: dict[float, float] = {}
        with progress.stage("choosing the cost") as done:
            for cost in self._COSTS:
                forest = self._grow(X, Y, cost, self._TRIAL_TREES)
                scores = forest.predict(X_held, Y.shape[1], 5, *self._blend(), self.n_jobs)
                worth[cost] = self._worth(Y_held, scores, Y)
                done(1 / len(self._COSTS))
        return max(worth, key=lambda cost: worth[cost])

    def _worth(self, Y_held: csr_array, scores: csr_array, Y: csr_array) -> float:
        """What held-out points are to be ranked well by."""
        return evaluate(Y_held, scores, train_Y=Y, ks=(5,))["nDCG@5"]

    def _grow(self, X: csr_array, Y: csr_array, cost: float, n_trees: int) -> PointForest:
        settings = GrowSettings(n_trees, int(self.max_leaf), int(self.labels_per_leaf), cost)
        weights = np.ones(Y.shape[1], np.float32)
        return PointForest.grow(X * np.float32(self.factor_), Y, weights, settings, self.n_jobs, self.random_state)

    def _blend(self) -> tuple[float, float, float, bool]:
        """How points meet trees and centroids, as the search has it: here, trees alone."""
        return 1.0, 0.0, self.factor_, self.normalize

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.forest_.predict(X, self.n_labels_, k, *self._blend(), self.n_jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        if len(indices) and (indices.min() < 0 or indices.max() >= self.n_features_in_):
            return None
        if not np.isfinite(values).all():
            return None
        indptr, shape = np.array([0, len(indices)], np.int32), (self.n_features_in_, self.n_labels_)
        labels, scores, counts = self.forest_.search(indptr, indices, values, 0, 1, shape, k, *self._blend())
        return labels[0, : counts[0]], scores[0, : counts[0]]

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {"cost": self.cost_, "factor": self.factor_}, self.forest_.arrays(), {}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.cost_, self.factor_ = facts["cost"], facts["factor"]
        self.forest_ = PointForest(**arrays)


def _to_mean_length_1(X: csr_array) -> float:
    """What brings the mean length of points that have features to 1."""
    squares = np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data.astype(np.float64) ** 2)
    lengths = np.sqrt(squares[squares > 0])
    return float(1 / lengths.mean()) if len(lengths) else 1.0
