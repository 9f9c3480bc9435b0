"""Bonsai: shallow label trees with many children (Khandagale et al., 2020).

Like Parabel, but a group of labels is split by plain k-means into up to a hundred clusters of unequal size, and the
tree has only two or three levels. With fewer decisions on the path to a label there are fewer errors, which cannot be
corrected further down. Clusters may have different sizes, which improves the ranking of rare labels.
"""

from __future__ import annotations

from typing import Any, ClassVar

from longtail.models.label_tree import LabelTreeRanker


class Bonsai(LabelTreeRanker):
    """Shallow, wide label trees.

    Parameters
    ----------
    n_trees : int
        Number of trees, each from its own random start. More trees are slower and slightly more accurate.
    arity : int
        Number of children of an inner node, at most. The last groups of labels are split further if one would take more
        than twice the training work of the root.
    max_leaf : int
        Number of labels up to which a group is not split further.
    max_depth : int
        Number of levels, at most, including the level of the labels.
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
        random_state: Any = 0,
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
