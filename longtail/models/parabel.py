"""Parabel: balanced binary label trees with linear classifiers (Prabhu et al., 2018).

Labels are split into two halves by balanced 2-means on the mean features of their points, then each half is split,
until groups are small. The classifier of a node separates its points from those of its sibling, the classifier of a
label its points from those of the other labels of its group. The score of a label is the product of the probabilities
on the path from the root to the label, averaged over the trees.
"""

from __future__ import annotations

from typing import Any, ClassVar

from longtail.models.label_tree import LabelTreeRanker


class Parabel(LabelTreeRanker):
    """Balanced label trees.

    Parameters
    ----------
    n_trees : int
        Number of trees, each from its own random start. More trees are slower and more accurate by a few tenths
        of a point.
    arity : int
        Number of children of an inner node, a power of two.
    max_leaf : int
        Number of labels under one node, at most.
    loss : {"squared_hinge", "logistic"}
        Loss of the classifiers. With the logistic loss, set `cost` to about 10.
    cost : float or None
        C, the weight of the loss against the regulariser. A larger cost fits the training points more closely. None
        chooses it on held-out points.
    tolerance : float
        Dual gradient at which the solver stops. Smaller values are slower and rarely more accurate.
    threshold : float
        Magnitude below which weights are dropped. A larger threshold makes the model smaller, faster and less accurate.
    dtype : {"int8", "float32"}
        Type of the stored weights. int8, with one scale per node, halves the model and cost no accuracy on any data set
        tried.
    normalize : bool
        Scale points to length 1, so that the same `cost` suits all kinds of features.
    beam : int
        Number of nodes kept per level at prediction. More nodes are slower and miss fewer labels.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : None, int, Generator or RandomState
        Seed of the clustering.

    Attributes
    ----------
    cost_ : float
        The cost that was used.
    """

    kind: ClassVar[str] = "parabel"
    balanced = True
    max_depth = 64

    def __init__(
        self,
        n_trees: int = 3,
        arity: int = 2,
        max_leaf: int = 100,
        loss: str = "squared_hinge",
        cost: float | None = 1.0,
        tolerance: float = 0.1,
        threshold: float = 0.1,
        dtype: str = "int8",
        normalize: bool = True,
        beam: int = 10,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_trees = n_trees
        self.arity = arity
        self.max_leaf = max_leaf
        self.loss = loss
        self.cost = cost
        self.tolerance = tolerance
        self.threshold = threshold
        self.dtype = dtype
        self.normalize = normalize
        self.beam = beam
        self.n_jobs = n_jobs
        self.random_state = random_state
