"""Parabel: balanced binary label trees with linear classifiers (Prabhu et al., 2018).

Labels are split in two again and again by balanced 2-means on the mean features of their points, until a group is
small. Every node has a classifier that separates its points from its sibling's, every label one that separates it from
the other labels of its group. The score of a label is the product of the probabilities on its path, averaged over the
trees.
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
        Loss of a point on the wrong side of its margin. The logistic loss wants a `cost` near 10.
    cost : float or None
        C, the weight of the loss against the regulariser. More fits the training points more
        closely. None chooses it on held-out points.
    tolerance : float
        Stop a solve when no dual gradient is larger. Smaller values are slower and rarely more accurate.
    threshold : float
        Drop weights of smaller magnitude. A larger threshold makes the model smaller and faster, and less accurate.
    dtype : {"int8", "float32"}
        Type of the stored weights. int8, with one scale per node, halves the model and cost no accuracy on any data set
        tried.
    normalize : bool
        Scale points to length 1 first, so that `cost` means the same for any features.
    beam : int
        Number of nodes kept per level at prediction. More are slower and miss fewer labels.
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
