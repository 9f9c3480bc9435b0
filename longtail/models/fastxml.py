"""FastXML: an ensemble of trees that split the training points into groups with similar label rankings.

Prabhu and Varma, KDD 2014. The points of a node are divided into two sides so that one ranking of labels per side gives
the highest nDCG. A sparse linear separator is then trained to predict the side of a point, and the points go to the
side that it predicts. A new point reaches one leaf per tree. The score of a label is its share of the points in that
leaf, averaged over the trees.

Choices made here. A node alternates between updating the rankings and reassigning the points until no point changes
sides; only then is the separator trained. Both sides have the same weight in its loss, and the bias is regularised like
a feature. A node that cannot be split is a leaf. Labels that no point of a side has are ranked there after all others.

The paper's C = 1 is for raw counts. Here all points are multiplied by the same number, so that one C suits all kinds of
features and the relative lengths of points are kept; scaling each point to length 1 was worse on held-out points of
Bibtex and Delicious. The best C still differs between data sets. A few trees are grown for each of three values, and
the best one on held-out points is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.data.split import split
from longtail.engine.checkpoints import NO_STEPS, Steps
from longtail.kernels.point_tree import LeafScoring
from longtail.linear.point_forest import GrowSettings, PointForest
from longtail.metrics import evaluate
from longtail.models.base import Arrays, Ranker
from longtail.params import POSITIVE, Boolean, Constraint, Integer, Jobs, Seed, optional
from longtail.sparse import Pair, entry_rows
from longtail.store import Stored
from longtail.store.facts import FINITE
from longtail.store.invariants import Rules


class FastXML(Ranker):
    """Trees that split the training points by nDCG.

    Parameters
    ----------
    n_trees : int
        Number of trees, each from its own random start. More trees take more time and memory, and each adds less
        accuracy than the one before.
    max_leaf : int
        Number of points in a leaf, at most.
    labels_per_leaf : int
        Number of labels that a leaf keeps, at most.
    cost : float, optional
        C, the weight of the logistic loss against the L1 norm of a separator. A smaller cost makes sparser, smaller
        trees. By default 2, 4 or 8, whichever ranks held-out points best with a few trees.
    normalize : bool
        Multiply all points by one number so that their mean length is 1 and the same `cost` suits all kinds of
        features.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : None, int, Generator or RandomState
        Seed of the trees.

    Attributes
    ----------
    cost_ : float
        The cost that was used.
    factor_ : float
        The number that points are multiplied by.
    """

    kind: ClassVar[str] = "fastxml"
    _constraints: ClassVar[dict[str, Constraint]] = {
        "n_trees": Integer(1),
        "max_leaf": Integer(1),
        "labels_per_leaf": Integer(1),
        "cost": optional(POSITIVE),
        "normalize": Boolean(),
        "n_jobs": Jobs(),
        "random_state": Seed(),
    }
    _COSTS = (2.0, 4.0, 8.0)
    _TRIAL_TREES = (
        40  # with more trees the best cost is higher; a trial with ten trees would choose one that is too low
    )
    _TRIAL_HELD = 2_000  # points to hold out, or a third of the points if that is less
    _TRIAL_POINTS = 20_000  # points to train on, which are enough to see a difference between costs

    def __init__(
        self,
        n_trees: int = 100,
        max_leaf: int = 10,
        labels_per_leaf: int = 100,
        cost: float | None = None,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaf = max_leaf
        self.labels_per_leaf = labels_per_leaf
        self.cost = cost
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, X: csr_array, Y: csr_array, Z: Any, validation: Any) -> None:
        self.factor_ = _to_mean_length_1(X) if self.normalize else 1.0
        given = getattr(self, "_settled", None) if self.cost is None else float(self.cost)
        self.cost_ = given or self._steps.value("cost", lambda: self._choose_cost(X, Y, validation))
        self.forest_ = self._grower(X, Y)(self.cost_, int(self.n_trees), self._steps)

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy with the cost that is best for this data."""
        copy = self.unfitted()
        if self.cost is None and "_settled" not in copy.__dict__:
            trial = self.unfitted()
            trial.factor_ = _to_mean_length_1(X) if self.normalize else 1.0
            copy._settled = self._steps.value("cost", lambda: trial._choose_cost(X, Y, None))
        return copy

    _shares_tasks: ClassVar[bool] = True
    _less_memory: ClassVar[str] = (
        "Lower n_jobs (each thread holds the points twice) or n_trees, or use fewer points or features."
    )

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: scaled points, and growing the trees."""
        return super().memory_needed(X, Y) + PointForest.bytes_needed(X, Y, int(self.n_trees), self.n_jobs)

    def _choose_cost(self, X: csr_array, Y: csr_array, validation: Pair | None) -> float:
        """Return the cost at which a few trees rank held-out points best."""
        if validation is None:
            share = float(np.clip(self._TRIAL_HELD / X.shape[0], 0.1, 1 / 3))
            rows, held_rows = split(Y, share, self._seed)
            X_held, Y_held = X[held_rows], Y[held_rows]
            X, Y = X[rows], Y[rows]
        else:
            X_held, Y_held = validation
        if Y_held.nnz == 0:  # every point is the only one of a label, so none could be held out
            return self._COSTS[1]
        if X.shape[0] > self._TRIAL_POINTS:
            rows = np.random.default_rng(self._seed).choice(X.shape[0], self._TRIAL_POINTS, replace=False)
            X, Y = X[rows], Y[rows]
        grow = self._grower(X, Y)
        scores: dict[float, float] = {}
        with progress.stage("choosing the cost") as done:
            for cost in self._COSTS:
                forest = grow(cost, self._TRIAL_TREES, NO_STEPS)
                predicted = forest.predict(X_held, Y.shape[1], 5, self._scoring(), self.n_jobs)
                scores[cost] = self._held_out_score(Y_held, predicted, Y)
                done(1 / len(self._COSTS))
        return max(scores, key=lambda cost: scores[cost])

    def _held_out_score(self, Y_held: csr_array, predicted: csr_array, Y: csr_array) -> float:
        """Return the metric by which the cost is chosen."""
        return evaluate(Y_held, predicted, train_Y=Y, ks=(5,))["nDCG@5"]

    def _grower(self, X: csr_array, Y: csr_array) -> Callable[[float, int, Steps], PointForest]:
        """Return a function that grows trees on these points, given a cost, the number of trees, and a checkpoint."""
        (weights, centres), scaled = self._label_weights(X, Y), X * np.float32(self.factor_)

        def grow(cost: float, n_trees: int, steps: Steps) -> PointForest:
            settings = GrowSettings(n_trees, int(self.max_leaf), int(self.labels_per_leaf), cost, steps)
            return PointForest.grow(scaled, Y, weights, settings, self.n_jobs, self._seed, centres)

        return grow

    def _label_weights(self, X: csr_array, Y: csr_array) -> tuple[np.ndarray, csr_array | None]:
        """Return the weight of each label in splits and leaves, and label centroids if they are used."""
        return np.ones(Y.shape[1], np.float32), None

    def _scoring(self) -> LeafScoring:
        """Return the constants by which leaves and centroids make scores; here leaves alone do."""
        return LeafScoring(1.0, 0.0, np.float32(self.factor_), bool(self.normalize))

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.forest_.predict(X, self.n_labels_, k, self._scoring(), self.n_jobs)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        shape = (self.n_features_in_, self.n_labels_)
        return self.forest_.search_point(indices, values, shape, k, self._scoring())

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {"cost": self.cost_, "factor": self.factor_}, self.forest_.arrays(), {}

    _facts: ClassVar = {"cost": optional(FINITE), "factor": POSITIVE}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return PointForest.array_rules(centroids=cls.kind == "pfastrexml")

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.cost_, self.factor_ = facts["cost"], facts["factor"]
        self.forest_ = PointForest(**arrays)


def _to_mean_length_1(X: csr_array) -> float:
    """Return the factor that scales the mean length of all points with features to 1."""
    squares = np.bincount(entry_rows(X), X.data.astype(np.float64) ** 2)
    lengths = np.sqrt(squares[squares > 0])
    return float(1 / lengths.mean()) if len(lengths) else 1.0
