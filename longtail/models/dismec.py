"""DiSMEC: one linear classifier a label, against all points (Babbar and Schölkopf, 2017).

The label tree without inner nodes. Every label meets every point, so nothing is lost on a path; the price is training
time that grows with points times labels. Small weights are dropped, which is what makes the model fit.
"""

from __future__ import annotations

from typing import ClassVar

from longtail.models.label_tree import LabelTreeRanker


class DiSMEC(LabelTreeRanker):
    """One classifier a label against all other points.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic"}
        What is lost by a point on the wrong side of its margin.
    cost : float, optional
        C, the weight of the loss against the regulariser. By default 1; for fewer than 20,000 points 0.25, 0.5 or 1,
        the smallest that ranks held-out points as well as the best. Ten times as much for the logistic loss.
    tolerance : float
        Stop a solve when no dual gradient is larger.
    threshold : float
        Drop weights of smaller magnitude.
    dtype : {"int8", "float32"}
        How weights are kept. int8, whole steps of a scale that each node has of its own, halves the model, and cost no
        accuracy on any data set tried.
    normalize : bool
        Scale points to length 1 first, so that `cost` means the same for any features.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int

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
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.cost = cost
        self.tolerance = tolerance
        self.threshold = threshold
        self.dtype = dtype
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
