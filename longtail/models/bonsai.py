"""Bonsai: shallow label trees with many children (Khandagale et al., 2020).

As Parabel, but a group of labels is cut by plain k-means into up to a hundred parts of unequal size, and the tree
stays two or three levels deep. Fewer decisions on the way to a label mean fewer mistakes that nothing below can mend,
and small clusters of rare labels are not forced together: better on the tail.
"""

from __future__ import annotations

from typing import ClassVar

from longtail.models.label_tree import LabelTreeRanker


class Bonsai(LabelTreeRanker):
    """Shallow, wide label trees.

    Parameters
    ----------
    n_trees : int
        Trees, each from its own random start.
    arity : int
        Children of an inner node at most.
    max_leaf : int
        A group of labels no larger than this is not cut further.
    max_depth : int
        Levels at most, the labels' own included.
    loss : {"squared_hinge", "logistic"}
        What is lost by a point on the wrong side of its margin.
    cost : float, optional
        C, the weight of the loss against the regulariser. By default 1; for fewer than 20,000 points 0.25, 0.5 or 1,
        the smallest that ranks held-out points as well as the best. Ten times as much for the logistic loss.
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

    Attributes
    ----------
    cost_ : float
        The cost that was used.
    """

    kind: ClassVar[str] = "bonsai"
    balanced = False

    def __init__(
        self,
        n_trees: int = 3,
        arity: int = 100,
        max_leaf: int = 100,
        max_depth: int = 3,
        loss: str = "squared_hinge",
        cost: float | None = None,
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
        self.max_depth = max_depth
        self.loss = loss
        self.cost = cost
        self.tolerance = tolerance
        self.threshold = threshold
        self.dtype = dtype
        self.normalize = normalize
        self.beam = beam
        self.n_jobs = n_jobs
        self.random_state = random_state
