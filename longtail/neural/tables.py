"""Base class of networks: tables of weights, each with a row-sparse optimiser."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from scipy.sparse import csr_array

from longtail.neural.optimizers import RowOptimizer
from longtail.sparse import Arrays, label_counts


class Tables:
    """Base of networks: tables of weights by name, and their optimisers.

    Parameters
    ----------
    tables : dict of arrays, each (rows, d)
        Initial weights; training changes them in place.
    optimizer : str or dict of str
        Kind of :class:`longtail.neural.optimizers.RowOptimizer`, for all tables or by name. A table that the dict does
        not name is not trained.
    decay : float
        Weight decay of the rows that a batch uses, in the tables named by `decayed`.
    decayed : collection of str, optional
        Names of tables with weight decay; all tables by default.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Attributes
    ----------
    tables : dict of arrays
        The weights.
    optimizers : dict of RowOptimizer
        One per table that is trained, under the same name.
    buffers : dict of arrays
        Further state that training changes in place and that a checkpoint must hold; empty by default.
    """

    tables: Arrays
    optimizers: dict[str, RowOptimizer]
    buffers: Arrays

    def __init__(
        self,
        tables: Arrays,
        optimizer: str | Mapping[str, str],
        decay: float = 0.0,
        decayed: Collection[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.tables, self.buffers = tables, {}
        kinds = dict.fromkeys(tables, optimizer) if isinstance(optimizer, str) else optimizer
        self.optimizers = {
            name: RowOptimizer(
                kind,
                (tables[name].shape[0], tables[name].shape[1]),
                decay if decayed is None or name in decayed else 0.0,
                n_jobs,
            )
            for name, kind in kinds.items()
        }

    def step_rows(self, name: str, touched: np.ndarray, grad: np.ndarray, rate: float) -> None:
        """Step the rows `touched` of one table by `grad` (len(touched), d)."""
        self.optimizers[name].step(self.tables[name], touched, grad, rate)

    def step_table(self, name: str, grad: np.ndarray, rate: float) -> None:
        """Step all rows of one small table by `grad`, which has the table's shape."""
        self.step_rows(name, np.arange(len(grad)), grad, rate)

    def arrays(self) -> Arrays:
        """Return tables, buffers and the state of the optimisers, for a checkpoint."""
        state = self.tables | self.buffers
        for name, optimizer in self.optimizers.items():
            state |= optimizer.arrays(name)
        return state

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that :meth:`arrays` returned."""
        for name, table in (self.tables | self.buffers).items():
            table[...] = arrays[name]
        for name, optimizer in self.optimizers.items():
            optimizer.restore(name, arrays)

    def adopt_tables(self, tables: Arrays) -> None:
        """Copy trained weights into the network, whose optimisers stay as they are."""
        for name, table in self.tables.items():
            table[...] = tables[name]


def prior_log_odds(Y: csr_array) -> np.ndarray:
    """Return initial label biases (L,): the log odds of each label's share of the points."""
    probability = (label_counts(Y) + 0.5) / (Y.shape[0] + 1.0)
    return np.log(probability / (1 - probability))
