"""Optimisers that step only the rows a batch has touched.

The step of a row depends on how often that row has been stepped, not on how long training has run: the first step of a
rare token is as long as the first step of a common one was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from longtail.errors import SettingsError
from longtail.kernels import pool, rows

KINDS = {"sgd": rows.SGD, "adagrad": rows.ADAGRAD, "adam": rows.ADAM, "momentum": rows.MOMENTUM}


@dataclass
class RowOptimizer:
    """State of one table's optimiser.

    Parameters
    ----------
    kind : {"adam", "adagrad", "sgd", "momentum"}
        "momentum" is SGD with momentum `beta1`.
    shape : (rows, d)
        Of the table.
    decay : float
        Weight decay, decoupled, of touched rows.
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
            raise SettingsError(f"optimizer is {self.kind!r}; choose one of {', '.join(KINDS)}")
        none = (1, self.shape[1])
        self.m = np.zeros(self.shape if self.kind in ("adam", "momentum") else none, np.float32)
        self.v = np.zeros(self.shape if self.kind in ("adam", "adagrad") else none, np.float32)
        self.age = np.zeros(self.shape[0], np.int32)

    @staticmethod
    def tables(kind: str) -> int:
        """How many arrays of the table's size the state takes."""
        return {"sgd": 0, "adagrad": 1, "momentum": 1}.get(kind, 2)

    def _settings(self, rate: float) -> tuple:
        single = np.float32
        return (
            self.m, self.v, self.age, single(rate), single(self.decay), single(self.beta1), single(self.beta2),
            single(self.eps),
        )  # fmt: skip

    def step(self, table: np.ndarray, touched: np.ndarray, grad: np.ndarray, rate: float) -> None:
        """Step ``table[touched]`` by `grad` (len(touched), d); rows are distinct."""

        def work(block: tuple[int, int]) -> None:
            rows.learn_dense(KINDS[self.kind], table, touched, grad, *self._settings(rate), *block)

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

        def work(block: tuple[int, int]) -> None:
            rows.learn_sparse(KINDS[self.kind], table, features, *columns, up, *self._settings(rate), *block)

        pool.run(work, pool.blocks(len(features), self.n_jobs, 64), self.n_jobs)

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """State to store."""
        return {f"{prefix}.{name}": getattr(self, name) for name in ("m", "v", "age")}

    def restore(self, prefix: str, arrays: dict[str, np.ndarray]) -> None:
        """State from :meth:`arrays`."""
        for name in ("m", "v", "age"):
            getattr(self, name)[...] = arrays[f"{prefix}.{name}"]
