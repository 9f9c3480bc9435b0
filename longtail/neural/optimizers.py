"""Optimisers that step only the rows a batch has touched.

The step of a row depends on how often that row has been stepped, not on how long training has run: the first step of a
rare token is as long as the first step of a common one was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from longtail.errors import SettingsError
from longtail.kernels import pool, rows
from longtail.neural.choices import OPTIMIZERS

KINDS = dict(zip(OPTIMIZERS, (rows.SGD, rows.ADAGRAD, rows.ADAM, rows.MOMENTUM, rows.ROW_ADAGRAD), strict=True))
_STATE = ("m", "v", "age")


@dataclass
class RowOptimizer:
    """State of one table's optimiser.

    Parameters
    ----------
    kind : {"adam", "row_adagrad", "adagrad", "sgd", "momentum"}
        "momentum" is SGD with momentum `beta1`. "row_adagrad" is Adagrad with one sum per row, of the mean squared
        gradient over its coordinates. The step keeps the direction of the gradient, which the others turn towards its
        signs as long as a row has been stepped only a few times, and frequent rows settle while rare ones still move.
    shape : (rows, d)
        Of the table.
    decay : float
        Weight decay, decoupled, of the rows touched.
    n_jobs : int, optional
        Threads.
    beta1, beta2, eps : float
        Of Adam.
    """

    kind: str
    shape: tuple[int, int]
    decay: float = 0.0
    n_jobs: int | None = None
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    m: np.ndarray = field(init=False)
    v: np.ndarray = field(init=False)
    age: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingsError(f"optimizer is {self.kind!r}; give one of {', '.join(KINDS)}")
        none = (1, self.shape[1])
        by_row = (self.shape[0], 1) if self.kind == "row_adagrad" else none
        self.m = np.zeros(self.shape if self.kind in ("adam", "momentum") else none, np.float32)
        self.v = np.zeros(self.shape if self.kind in ("adam", "adagrad") else by_row, np.float32)
        self.age = np.zeros(self.shape[0], np.int32)

    @staticmethod
    def tables(kind: str) -> int:
        """Return how many arrays of the table's size the state takes."""
        return {"sgd": 0, "adagrad": 1, "momentum": 1, "row_adagrad": 0}.get(kind, 2)

    def _steps(self, rate: float) -> rows.RowSteps:
        """Return what the kernels take, at this learning rate."""
        settings = (np.float32(value) for value in (rate, self.decay, self.beta1, self.beta2, self.eps))
        return rows.RowSteps(KINDS[self.kind], self.m, self.v, self.age, *settings)

    def step(self, table: np.ndarray, touched: np.ndarray, grad: np.ndarray, rate: float) -> None:
        """Step ``table[touched]`` by `grad` (len(touched), d); rows are distinct."""
        steps = self._steps(rate)

        def work(block: tuple[int, int]) -> None:
            rows.learn_dense(table, touched, grad, steps, *block)

        pool.run(work, pool.blocks(len(touched), self.n_jobs, 64), self.n_jobs)

    def step_sparse(
        self,
        table: np.ndarray,
        features: np.ndarray,
        columns: tuple[np.ndarray, np.ndarray, np.ndarray],
        up: np.ndarray,
        rate: float,
    ) -> None:
        """Step ``table[features]`` by Xᵀ up, X the batch by its columns (ptr, row, value) and `up` (B, d)."""
        steps, batch = self._steps(rate), rows.BatchColumns(features, *columns)

        def work(block: tuple[int, int]) -> None:
            rows.learn_sparse(table, batch, up, steps, *block)

        pool.run(work, pool.blocks(len(features), self.n_jobs, 64), self.n_jobs)

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the state, to store."""
        return {f"{prefix}.{name}": getattr(self, name) for name in _STATE}

    def restore(self, prefix: str, arrays: dict[str, np.ndarray]) -> None:
        """Take over the state that :meth:`arrays` returned."""
        for name in _STATE:
            getattr(self, name)[...] = arrays[f"{prefix}.{name}"]
