"""Base of learners that rank labels: metrics on training and held-out points after each epoch."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from longtail.metrics import evaluate
from longtail.neural.loop import NetworkState
from longtail.sparse import Pair, from_top_k

_MOST_MEASURED = 2000  # training points whose P@1 is measured after each epoch


class MeasuredLearner(NetworkState):
    """Base of learners that rank labels; a subclass defines :meth:`search` and ``step``.

    Parameters
    ----------
    X : csr_array, (M, D)
        Points, used without a copy.
    rows : array, (N,)
        Rows of X to train on.
    Y : csr_array, (N, L)
        Labels of the training points, in the order of `rows`.
    validation : tuple of csr_array, optional
        Held-out points and their labels. Leave out points without labels, which metrics cannot use.
    """

    def __init__(self, X: csr_array, rows: np.ndarray, Y: csr_array, validation: Pair | None) -> None:
        self.X, self.rows, self.Y, self.validation = X, rows, Y, validation
        stride = max(1, len(rows) // _MOST_MEASURED)
        self._sample = np.arange(0, len(rows), stride)[:_MOST_MEASURED]

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labels and raw scores of the points of X, (N, k) each."""
        raise AssertionError(f"{type(self).__name__} must define search")

    def measure(self) -> dict[str, float]:
        """Compute P@1 of training points, and P, PSP and nDCG of held-out points; nDCG@5 decides on early stopping."""
        return {"train_P@1": self._evaluate(*self.sample())["P@1"]} | self.measure_validation()

    def measure_validation(self) -> dict[str, float]:
        """Compute P, PSP and nDCG of the held-out points; return an empty dict if there are none."""
        if self.validation is None:
            return {}
        return validation_entry(self._evaluate(*self.validation))

    def sample(self) -> Pair:
        """Return a sample of the training points and their labels, to compute metrics on."""
        return self.X[self.rows[self._sample]], self.Y[self._sample]

    def _evaluate(self, X: csr_array, Y: csr_array) -> dict[str, float]:
        labels, _ = self.search(X, min(5, Y.shape[1]))
        falling = np.tile(np.linspace(0.9, 0.1, labels.shape[1], dtype=np.float32), (len(labels), 1))
        return evaluate(Y, from_top_k(labels, falling, None, Y.shape[1]), train_Y=self.Y, ks=(1, 5))


def validation_entry(metrics: dict[str, float]) -> dict[str, float]:
    """Return the metrics of held-out points as entries of the history, with nDCG@5 for early stopping."""
    shown = {f"validation_{name}": metrics[name] for name in ("P@1", "P@5", "PSP@1", "PSP@5", "nDCG@5")}
    return shown | {"monitor": metrics["nDCG@5"]}
