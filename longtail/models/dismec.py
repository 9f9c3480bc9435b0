"""DiSMEC: one linear classifier a label, against all points (Babbar and Schölkopf, 2017).

The label tree without inner nodes. Every label meets every point, so nothing is lost on a path; the price is training
time that grows with points times labels. Small weights are dropped, which is what makes the model fit.

Choice made here. The paper's C = 1 suits many points; with few, a stronger regulariser is often better, and there some
costs are tried first and held-out points choose.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scipy.sparse import csr_array

from longtail.metrics import evaluate
from longtail.models.label_tree import LabelTreeRanker
from longtail.models.wrapper import hold_out
from longtail.neural.held_out import FEW

_SHARES = (1.0, 0.5, 0.25)  # of the usual cost


class DiSMEC(LabelTreeRanker):
    """One classifier a label against all other points.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic"}
        What is lost by a point on the wrong side of its margin.
    cost : float, optional
        C, the weight of the loss against the regulariser. By default 1; for fewer than 20,000 points 0.25, 0.5 or 1,
        whichever ranks held-out points best. Ten times as much for the logistic loss.
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

    def _choose_cost(self, X: csr_array, Y: csr_array, validation: Any) -> float:
        if self.cost is not None:
            return float(self.cost)
        usual = 10.0 if self.loss == "logistic" else 1.0
        if X.shape[0] >= FEW:
            return usual
        (X, Y), held = hold_out(X, Y, 1 / 3, self.random_state) if validation is None else ((X, Y), validation)
        if held[1].nnz == 0:  # no point can be spared
            return usual
        worth = {}
        for share in _SHARES:
            model = self.unfitted().set_params(cost=share * usual).fit(X, Y)
            worth[share] = evaluate(held[1], model.predict(held[0], 5), train_Y=Y, ks=(5,))["nDCG@5"]
        return usual * max(worth, key=lambda share: worth[share])
