"""Linear classifiers on label trees: the common ranker of Parabel, Bonsai and DiSMEC.

The papers' cost C = 1 is good if points are many. With few points, a stronger regulariser is better on some data sets
and worse on others. If no cost is given, several are tried and the choice is made on held-out points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.combine.candidates import CandidateList
from longtail.data.split import FEW, split
from longtail.engine import memory
from longtail.engine.checkpoints import NO_STEPS, Steps
from longtail.errors import SettingsError
from longtail.kernels import pool, solve
from longtail.kernels.beam import Options
from longtail.kernels.csr import Csr
from longtail.kernels.encode import SparseRows
from longtail.linear.forest import SLOPES, Forest, search_options
from longtail.linear.train import SPILLED, WEIGHT_BYTES, SolverSettings, node_type, train_nodes
from longtail.linear.tree import LabelTree, balanced_cuts, bounded_cut, build_tree, k_means_cut, mean_label_vectors
from longtail.metrics import evaluate, inverse_propensity
from longtail.models.base import Arrays, Ranker, data_bytes
from longtail.params import (
    NOT_NEGATIVE,
    POSITIVE,
    Boolean,
    Constraint,
    Integer,
    Jobs,
    OneOf,
    Seed,
    optional,
)
from longtail.sparse import Pair, label_counts, labelled_rows, unit_rows, with_prefix, without_prefix
from longtail.store import Stored
from longtail.store.facts import FINITE
from longtail.store.invariants import Rules

_TRIED_SHARES = (0.25, 0.5, 1.0)  # costs to try, as shares of the usual one
# The trial that chooses the cost uses _TRIAL_POINTS points, or more as long as points times labels stay below
# _TRIAL_PAIRS. On 15,000 points of three data sets with many labels it chose the same cost as a trial on all points, in
# less than half of the time.
_TRIAL_POINTS, _TRIAL_PAIRS = 5_000, 10_000_000
# Constants of the memory estimate, measured by benchmarks/scale/run.py.
_SCRATCH, _UNCOUNTED = 2.0**23, 1.2
_KEPT, _KEPT_POWER, _KEPT_AGAINST_ALL, _INNER_LEVEL = 1.2, 0.3, 1.1, 0.12
_VALUE_BYTES = 1  # of a weight in the finished forest, without the number of its node
_MOST_WORK = 2  # largest labels times points of a last group, relative to a root with `arity` children
_FOLDS = 10  # of the held-out points, to estimate the standard error of the difference between two costs


class LabelTreeRanker(Ranker):
    """Base of the rankers with label trees. The subclasses document the parameters."""

    _constraints: ClassVar[dict[str, Constraint]] = {
        "n_trees": Integer(1),
        "arity": Integer(2),
        "max_leaf": Integer(1),
        "max_depth": Integer(1),
        "loss": OneOf(*SLOPES),
        "cost": optional(POSITIVE),
        "tolerance": POSITIVE,
        "threshold": NOT_NEGATIVE,
        "dtype": OneOf("int8", "float32"),
        "normalize": Boolean(),
        "beam": Integer(1),
        "n_jobs": Jobs(),
        "random_state": Seed(),
    }

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
    random_state: Any

    _WIDTH = 256  # strongest features kept of a label's mean vector, by which labels are clustered

    def check_params(self) -> None:
        """Compare every parameter with its constraint. The arity of a balanced tree must also be a power of two."""
        super().check_params()
        if self.balanced and self.arity is not None and self.arity & (self.arity - 1):
            raise SettingsError(f"arity is {self.arity}; a balanced tree splits groups in two, so give a power of two")

    def _fit(self, X: csr_array, Y: csr_array, Z: Any, validation: Any) -> None:
        if self.normalize:
            X = unit_rows(X)
        self.cost_ = self._steps.value("cost", lambda: self._choose_cost(X, Y, validation))
        with progress.stage("grouping labels"):
            trees = self._planted(X, Y)
        (self.forest_,) = self._grow(trees, X, Y, [self.cost_], steps=self._steps)

    _shares_tasks: ClassVar[bool] = True
    _less_memory: ClassVar[str] = (
        "Lower n_jobs (a thread holds the points of one group of labels) or n_trees, or use fewer points or features."
    )

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: scaled points, the points of the root once per thread, and the weights."""
        threads, width = pool.cores(self.n_jobs), X.nnz / max(1, X.shape[0])
        tries_costs = self.cost is None and "_settled" not in self.__dict__ and X.shape[0] < FEW
        columns = (2 + (len(_TRIED_SHARES) if tries_costs else 1)) * solve.LANES + 2
        group = 8.0 * X.nnz + X.shape[0] * (8 * solve.LANES + 32) + 4.0 * min(X.shape[1], X.nnz) * columns
        n_weights = self._share_of_weights(Y) * min(width * Y.nnz, float(X.shape[1]) * Y.shape[1])
        unjoined = WEIGHT_BYTES * n_weights * (2 if tries_costs else 1)  # three costs, each with 2/3 of the points
        if memory.spill_folder() is not None:
            unjoined = min(unjoined, 2 * SPILLED)
        joined = (_VALUE_BYTES + np.dtype(node_type(Y.shape[1])).itemsize) * n_weights * self.n_trees
        # The largest groups are trained first, before there are many weights. Without groups, all tasks are as large.
        at_once = threads * group + unjoined if self.arity is None else max(threads * group, unjoined)
        counted = data_bytes(X) + 3 * data_bytes(Y) + joined + at_once
        return _SCRATCH + _UNCOUNTED * counted

    def _share_of_weights(self, Y: csr_array) -> float:
        """Estimate the number of weights of all nodes, relative to the features of the points of all labels.

        The more points a label has, the more of their features have a weight that is too small to keep.
        """
        if self.arity is None:  # a classifier against the points of all labels keeps more features
            return _KEPT_AGAINST_ALL
        counts = label_counts(Y)
        points_per_label = Y.nnz / max(1, np.count_nonzero(counts))
        inner = _INNER_LEVEL * max(0.0, math.log(max(1, Y.shape[1] / self.max_leaf), self.arity))
        return _KEPT * max(1.0, points_per_label) ** -_KEPT_POWER * (1 + inner)

    def _choose_cost(self, X: csr_array, Y: csr_array, validation: Any) -> float:
        """Return the cost of a fit.

        It is the cost that was given, or else the usual one. With fewer than 20,000 points it is the one with which a
        single tree ranks held-out points best.
        """
        if self.cost is not None:
            return float(self.cost)
        if "_settled" in self.__dict__:
            return self._settled
        usual = 10.0 if self.loss == "logistic" else 1.0
        if X.shape[0] >= FEW:
            return usual
        held = validation
        if held is None:
            rows, held_rows = split(Y, 1 / 3, self._seed)
            held = X[held_rows], Y[held_rows]
            X, Y = X[rows], Y[rows]
        most = max(_TRIAL_POINTS, _TRIAL_PAIRS // Y.shape[1])
        (X, Y), held = self._sampled(X, Y, most), self._sampled(held[0], held[1], most // 2)
        if held[1].nnz == 0 or Y.nnz == 0:  # every point is the only one of a label, so none could be held out
            return usual
        with progress.stage("choosing the cost"):
            costs = [share * usual for share in _TRIED_SHARES]
            forests = self._grow(self._plant(X, Y, 1), X, Y, costs, tolerance_factor=2)
            return costs[_smallest_near_best(np.array([self._held_out_scores(f, Y, held) for f in forests]))]

    def _sampled(self, X: csr_array, Y: csr_array, most: int) -> Pair:
        """Draw at most `most` points at random."""
        if X.shape[0] <= most:
            return X, Y
        rows = np.sort(np.random.default_rng(self._seed).choice(X.shape[0], most, replace=False))
        return X[rows], Y[rows]

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy with the cost that is best for this data."""
        rows = unit_rows(X) if self.normalize else X
        copy = self.unfitted()
        copy._settled = self._steps.value("cost", lambda: self._choose_cost(rows, Y, None))
        return copy

    def _held_out_scores(self, forest: Forest, Y: csr_array, held: Pair) -> list[float]:
        """Compute nDCG@5 + PSnDCG@5 on each of up to ten folds of the held-out points.

        PSnDCG is included so that a cost that ranks only frequent labels well is not chosen.
        """
        predicted = forest.predict(held[0], Y.shape[1], self._options(5, forest), self.n_jobs)
        labelled = labelled_rows(held[1])
        folds = [labelled[first::_FOLDS] for first in range(min(_FOLDS, len(labelled)))]
        inverse = inverse_propensity(Y)
        measured = [evaluate(held[1][fold], predicted[fold], inv_propensity=inverse, ks=(5,)) for fold in folds]
        return [metrics["nDCG@5"] + metrics["PSnDCG@5"] for metrics in measured]

    def _planted(self, X: csr_array, Y: csr_array) -> list[LabelTree]:
        """Return the label trees of this fit, from a checkpoint if there is one."""

        def compute() -> tuple[dict[str, Any], Arrays]:
            trees = self._plant(X, Y, self.n_trees)
            parts = [with_prefix(f"{i}.", vars(tree)) for i, tree in enumerate(trees)]
            return {"n_trees": len(trees)}, {name: array for part in parts for name, array in part.items()}

        facts, arrays = self._steps.stored("groups", compute)
        return [LabelTree(**without_prefix(f"{i}.", arrays)) for i in range(facts["n_trees"])]

    def _plant(self, X: csr_array, Y: csr_array, n_trees: int) -> list[LabelTree]:
        """Build label trees, without weights."""
        counts = label_counts(Y)
        labels = np.flatnonzero(counts).astype(np.int32)
        if self.arity is None or len(labels) <= self.max_leaf:
            return [build_tree(labels, [], self.max_leaf, 0, 1)]
        vectors = mean_label_vectors(X, Y, self._WIDTH, self.n_jobs)
        if self.balanced:
            cuts = balanced_cuts(vectors, self.arity, self.max_leaf)
        else:
            cut = k_means_cut(vectors, self.arity, n_jobs=self.n_jobs)
            most = _MOST_WORK * self.arity * X.shape[0]
            last = bounded_cut(cut, vectors, counts, X.shape[0], most)
            cuts = [cut] * (self.max_depth - 2) + [last] * (self.max_depth > 1)
        seeds = np.random.default_rng(self._seed).integers(1 << 30, size=n_trees)
        return [build_tree(labels, cuts, self.max_leaf, int(seed), self.n_jobs) for seed in seeds]

    def _grow(
        self,
        trees: list[LabelTree],
        X: csr_array,
        Y: csr_array,
        costs: Sequence[float],
        tolerance_factor: int = 1,
        steps: Steps = NO_STEPS,
    ) -> list[Forest]:
        """Train the classifiers of all nodes; return one forest per cost, in the order of `costs` (ascending).

        `tolerance_factor` multiplies the tolerance of the solver. To choose a cost, 2 is up to a third faster than 1
        and chose the same cost in 21 of 24 trials, and a neighbouring one in the others.
        """
        settings = SolverSettings(
            self.loss, tuple(costs), tolerance_factor * self.tolerance, threshold=self.threshold, dtype=self.dtype
        )
        per_cost = train_nodes(trees, X, Y, settings, self.n_jobs, self._seed, steps)
        return [Forest.join(trees, weights) for weights in per_cost]

    def _options(self, k: int, forest: Forest) -> Options:
        width = self.beam if self.beam <= forest.widest_level else forest.widest_level  # buffers are in proportion
        return search_options(width, self.loss, self.normalize, k)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.forest_.predict(X, self.n_labels_, self._options(k, self.forest_), self.n_jobs)

    def _candidates(self, points: SparseRows, k: int, n_jobs: int | None) -> CandidateList:
        if len(points.ptr) == 2:
            return super()._candidates(points, k, n_jobs)
        options = self._options(min(k, self.n_labels_), self.forest_)
        labels, scores, counts = self.forest_.search_rows(Csr(*points), self.n_labels_, options, n_jobs)
        return CandidateList.of_top_k(labels, scores, counts, np.where(counts > 0, scores[:, 0], np.float32(0)))

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return self.forest_.search_point(indices, values, self.n_labels_, self._options(k, self.forest_))

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {"cost": self.cost_}, self.forest_.arrays(), {}

    _facts: ClassVar = {"cost": optional(FINITE)}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return Forest.array_rules()

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.forest_, self.cost_ = Forest(**arrays), facts["cost"]


def _smallest_near_best(scores: np.ndarray) -> int:
    """Return the position of the smallest cost whose mean score is within one standard error and 1 % of the best.

    `scores` is (costs, folds), the smallest cost first. A small cost is preferred because the final model is trained on
    more points than the trial, and with more points the best cost is smaller.
    """
    means = scores.mean(axis=1)
    behind = scores[means.argmax()] - scores
    error = behind.std(axis=1, ddof=1) / np.sqrt(scores.shape[1]) if scores.shape[1] > 1 else np.zeros(len(scores))
    return int(np.argmax(behind.mean(axis=1) <= np.minimum(error, 0.01 * means.max())))
