"""DiSMEC: one linear classifier per label, trained on all points (Babbar and Schölkopf, 2017).

A label tree without inner nodes. Every classifier is trained on and applied to every point, so no label is lost because
of a wrong decision higher up in a tree. The price is that training time grows with points times labels. Small weights
are dropped, so that the model fits into memory.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from longtail.linear.tree import build_tree
from longtail.models.label_tree import LabelTreeRanker
from longtail.models.training_part import TrainingPart
from longtail.sparse import label_counts, unit_rows


class DiSMEC(LabelTreeRanker):
    """One linear classifier per label, against all other points.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic"}
        Loss of the classifiers. With the logistic loss, set `cost` to about 10.
    cost : float, optional
        C, the weight of the loss against the regulariser. A larger cost fits the training points more closely. By
        default 1; with fewer than 20,000 points the smallest of 0.25, 0.5 and 1 whose held-out score is within one
        standard error of the best. For the logistic loss these values are ten times as large.
    tolerance : float
        Dual gradient at which the solver stops. Smaller values are slower and rarely more accurate.
    threshold : float
        Magnitude below which weights are dropped. A larger threshold makes the model smaller, faster and less accurate.
    dtype : {"int8", "float32"}
        Type of the stored weights. int8, with one scale per node, halves the model and cost no accuracy on any data set
        tried.
    normalize : bool
        Scale points to length 1, so that the same `cost` suits all kinds of features.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : None, int, Generator or RandomState
        Seed of the solver.

    Attributes
    ----------
    cost_ : float
        The cost that was used.
    """

    kind: ClassVar[str] = "dismec"
    n_trees, arity, balanced, max_leaf, max_depth, beam = 1, None, False, 1, 1, 1

    def __init__(
        self,
        loss: str = "squared_hinge",
        cost: float | None = None,
        tolerance: float = 0.1,
        threshold: float = 0.01,
        dtype: str = "int8",
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.loss = loss
        self.cost = cost
        self.tolerance = tolerance
        self.threshold = threshold
        self.dtype = dtype
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rest(self, part: TrainingPart) -> None:
        """Train the classifiers of the labels of the held-out points again, on all points.

        For all other labels the held-out points are only a few more negatives, which hardly change their classifiers.
        Negatives are all points with labels, also those that share no label with a held-out point. Otherwise scores
        become too high: a blend of 6,000 Debian packages gave its first labels a probability of 84 % on average, but
        75 % were correct.
        """
        X = unit_rows(part.X) if self.normalize else part.X
        labels = np.flatnonzero(label_counts(part.Y[part.rest])).astype(np.int32)
        tree = build_tree(labels, [], self.max_leaf, 0, 1)
        (again,) = self._grow([tree], X, part.Y, [self.cost_], steps=self._steps)
        self.forest_ = self.forest_.with_labels_of(again)

    def _rest_share(self, n_points: int) -> float:
        return 0.5
