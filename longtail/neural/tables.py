"""Networks whose state is some tables, each with a row-sparse optimiser."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from scipy.sparse import csr_array

from longtail.neural.optimizers import RowOptimizer
from longtail.sparse import Arrays, label_counts


class Tables:
    """Base of networks: tables by name, their optimisers, and both as arrays for checkpoints.

    Parameters
    ----------
    tables : dict of arrays, each (rows, d)
        Values at the start; stepped in place.
    optimizer : str or dict of str
        Kind of :class:`longtail.neural.optimizers.RowOptimizer`: one for all tables, or by name for those that are
        stepped.
    decay : float
        Weight decay of the rows a batch touches, in the tables named by `decayed`.
    decayed : collection of str, optional
        All tables, if not given.
    n_jobs : int, optional

    Attributes
    ----------
    tables : dict of arrays
        What is learnt.
    optimizers : dict of RowOptimizer
        One per table that is stepped, under the same name.
    buffers : dict of arrays
        Further state that training changes in place and a checkpoint must hold; none by default.
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
        """Step all rows of one small table by `grad`, of the table's shape."""
        self.step_rows(name, np.arange(len(grad)), grad, rate)

    def arrays(self) -> Arrays:
        """Return tables, buffers and the state of the optimisers, to store."""
        state = self.tables | self.buffers
        for name, optimizer in self.optimizers.items():
            state |= optimizer.arrays(name)
        return state

    def restore(self, arrays: Arrays) -> None:
        """Take over the state that :meth:`arrays` returned."""
        for name, table in (self.tables | self.buffers).items():
            table[...] = arrays[name]
        for name, optimizer in self.optimizers.items():
            optimizer.restore(name, arrays)

    def adopt_tables(self, tables: Arrays) -> None:
        """Go on from these tables, with optimisers that start anew."""
        for name, table in self.tables.items():
            table[...] = tables[name]


def prior_log_odds(Y: csr_array) -> np.ndarray:
    """Return label biases (L,) to start from: the log odds of each label, which then need not be learnt."""
    probability = (label_counts(Y) + 0.5) / (Y.shape[0] + 1.0)
    return np.log(probability / (1 - probability))
