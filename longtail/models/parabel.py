"""Parabel: balanced binary label trees with linear classifiers (Prabhu et al., 2018).

Labels are halved again and again by two-means on the mean features of their points, until a group is small; every
node learns to tell its points from its sibling's, every label from the other labels of its group. A label's score is
the product of the chances on its path, averaged over the trees.
"""

from __future__ import annotations

from typing import ClassVar

from longtail.models.label_tree import LabelTreeRanker


class Parabel(LabelTreeRanker):
    """Balanced label trees.

    Parameters
    ----------
    n_trees : int
        Trees, each from its own random start. One trains three times as fast and loses some tenths of a point.
    arity : int
        Children of an inner node, a power of two.
    max_leaf : int
        Labels under one node at most.
    loss : {"squared_hinge", "logistic"}
        The logistic loss wants a `cost` near 10.
    cost : float
        C, the weight of the loss against the regulariser.
    tolerance : float
        Stop a solve when no dual gradient is larger.
    threshold : float
        Drop weights of smaller magnitude; larger is smaller on disk and faster.
    dtype : {"int8", "float32"}
        How weights are kept. int8, whole steps of a scale that each node has of its own, halves the model, and cost no
        accuracy on any data set tried.
    normalize : bool
        Scale points to length 1 first, so that `cost` means the same for any features.
    beam : int
        Nodes kept a level at prediction.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int
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
        cost: float = 1.0,
        tolerance: float = 0.1,
        threshold: float = 0.1,
        dtype: str = "int8",
        normalize: bool = True,
        beam: int = 10,
        n_jobs: int | None = None,
        random_state: int = 0,
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
