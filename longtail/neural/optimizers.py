"""Row-sparse optimisers: they step only the table rows that a batch uses.

Each row counts its own steps. A rare token that is first used late in training therefore takes a first step of the same
length as a common token did at the start.
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
    """The optimiser of one table.

    Parameters
    ----------
    kind : {"adam", "row_adagrad", "adagrad", "sgd", "momentum"}
        "momentum" is SGD with momentum `beta1`. "row_adagrad" is Adagrad with one sum per row: of the mean squared
        gradient over its coordinates. Its steps have the direction of the gradient; the first steps of "adam" and
        "adagrad" rather have the direction of the gradient's signs. Frequent rows take ever smaller steps, while rare
        rows still take large ones.
    shape : (rows, d)
        Shape of the table.
    decay : float
        Decoupled weight decay of the rows that a batch uses.
    n_jobs : int, optional
        Number of threads; all cores by default.
    beta1, beta2, eps : float
        Constants of Adam.
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
        unused = (1, self.shape[1])
        per_row = (self.shape[0], 1) if self.kind == "row_adagrad" else unused
        self.m = np.zeros(self.shape if self.kind in ("adam", "momentum") else unused, np.float32)
        self.v = np.zeros(self.shape if self.kind in ("adam", "adagrad") else per_row, np.float32)
        self.age = np.zeros(self.shape[0], np.int32)  # steps that each row has taken

    @staticmethod
    def tables(kind: str) -> int:
        """Return the number of arrays of the table's size that the state of this kind needs."""
        return {"sgd": 0, "adagrad": 1, "momentum": 1, "row_adagrad": 0}.get(kind, 2)

    def _steps(self, rate: float) -> rows.RowSteps:
        """Return state and constants as kernels take them, for this learning rate."""
        settings = (np.float32(value) for value in (rate, self.decay, self.beta1, self.beta2, self.eps))
        return rows.RowSteps(KINDS[self.kind], self.m, self.v, self.age, *settings)

    def step(self, table: np.ndarray, touched: np.ndarray, grad: np.ndarray, rate: float) -> None:
        """Step the distinct rows ``table[touched]`` by their gradient, (len(touched), d)."""
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
        """Step ``table[features]`` by the gradient Xᵀ up.

        Parameters
        ----------
        table : array, (rows, d)
            The table; changed in place.
        features : array, (F,)
            Rows of the table that the columns of X belong to.
        columns : tuple of (ptr, row, value)
            The batch X (B, F) by columns.
        up : array, (B, d)
            Gradient of the sums of table rows.
        rate : float
            Learning rate.
        """
        steps, batch = self._steps(rate), rows.BatchColumns(features, *columns)

        def work(block: tuple[int, int]) -> None:
            rows.learn_sparse(table, batch, up, steps, *block)

        pool.run(work, pool.blocks(len(features), self.n_jobs, 64), self.n_jobs)

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the state for a checkpoint."""
        return {f"{prefix}.{name}": getattr(self, name) for name in _STATE}

    def restore(self, prefix: str, arrays: dict[str, np.ndarray]) -> None:
        """Restore the state that :meth:`arrays` returned."""
        for name in _STATE:
            getattr(self, name)[...] = arrays[f"{prefix}.{name}"]
