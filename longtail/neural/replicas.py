"""Train one network with several processes, each on its own share of the points.

Every worker has a replica of the network. In a round, each worker takes a few steps on its own batches and returns the
rows that these have changed, with the state of their optimisers. The changes of all workers are added up, as if the
steps had been taken one after the other. The new rows are sent to all workers with their next batches. Whole tables are
never sent.

Changes are summed, not averaged, so that a rare row, which only one worker changes, learns as fast as with one process.
The price is that a step does not know the steps of other workers in the same round. Rounds are therefore short
(:data:`STEPS`), and batches should be smaller than with one process, by a factor of the number of workers.

If a worker is lost, a new one is started from the network of this process and repeats its share of the round with the
same random numbers, so that the trained network is the same.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np

from longtail import engine
from longtail.engine.workers import Worker, WorkerLost
from longtail.errors import SettingsError
from longtail.neural.loop import Learner, LoopSettings, train
from longtail.sparse import Arrays

STEPS = 2  # steps of a worker per round
_MOST_LOST = 8  # workers lost in a row after which training stops with an error
_SUMMED = ("", ".v", ".age")  # parts of the state whose changes are summed; those of others (Adam's means) are averaged

_NO_CHANGES = pickle.dumps(({}, {}))

Rows = dict[str, tuple[np.ndarray, Arrays]]  # per table: numbers of rows, and the state of these by part
RoundResult = tuple[float, Rows, Arrays]  # a worker's loss, the rows that it has changed, and its buffers


def train_on_workers(
    learner: Any, n_points: int, settings: LoopSettings, identity: str, n_workers: int
) -> list[dict[str, float]]:
    """Train a learner with several processes; see :func:`longtail.neural.loop.train`.

    Parameters
    ----------
    learner : Learner
        Learner with a `network` of tables and row-sparse optimisers. It is pickled and sent to the workers.
    n_points, settings, identity
        As for :func:`longtail.neural.loop.train`.
    n_workers : int
        Number of processes.
    """
    replicas = Replicas(learner, n_workers, settings.batch_size)
    try:
        return train(replicas, n_points, replace(settings, batch_size=replicas.round_size), identity)
    finally:
        replicas.close()


class Replicas:
    """A learner for :func:`longtail.neural.loop.train` whose steps are taken by several processes.

    One step of this learner is a round of :attr:`round_size` points.

    Parameters
    ----------
    learner : Learner
        Learner with a `network` of tables and row-sparse optimisers, which holds the state of the training.
    n_workers : int
        Number of processes.
    batch_size : int
        Points per step of one worker.
    """

    def __init__(self, learner: Any, n_workers: int, batch_size: int) -> None:
        self.learner, self.n_workers, self.batch_size = learner, n_workers, batch_size
        self._workers: list[Worker] = []
        self._changed: Rows = {}

    @property
    def round_size(self) -> int:
        """Number of points per round."""
        return self.n_workers * STEPS * self.batch_size

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take the steps of a round on these training points; return the mean loss."""
        if not self._workers:
            self._workers = self._start(self.n_workers)
        batches = _shares(rng.permutation(rows), self.n_workers, self.batch_size)
        seeds = rng.integers(1 << 62, size=self.n_workers)
        calls = [(share, int(seed), rate) for share, seed in zip(batches, seeds, strict=True)]
        changed = pickle.dumps((self._changed, self.learner.network.buffers), protocol=5)  # once for all workers
        for worker, call in zip(self._workers, calls, strict=True):
            worker.send((changed, *call))
        results = [self._receive(number, call) for number, call in enumerate(calls)]
        self._changed = merge(self.learner.network, [rows for _, rows, _ in results])
        for name, array in results[0][2].items():  # buffers are estimates, so those of one worker are good enough
            self.learner.network.buffers[name][...] = array
        return sum(loss for loss, _, _ in results) / sum(map(len, batches))

    def _start(self, n: int) -> list[Worker]:
        return engine.current().workers(_Replica, (self.learner,), n, self.n_workers)

    def _receive(self, number: int, call: tuple[Any, ...]) -> RoundResult:
        """Return the result of a worker; if it is lost, start another one that repeats its work."""
        lost: WorkerLost | None = None
        for _ in range(_MOST_LOST):
            try:
                if lost is not None:
                    self._workers[number].close()
                    (self._workers[number],) = self._start(1)
                    self._workers[number].send((_NO_CHANGES, *call))  # it starts with the present network
                return self._workers[number].receive()
            except WorkerLost as error:
                lost = error
        raise SettingsError(
            f"Training lost {_MOST_LOST} worker processes in a row. {lost}. Memory may have run out: lower n_workers."
        )

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.close()
        self._workers = []

    # The learner of this process ---------------------------------------------------------------------------------

    def measure(self) -> dict[str, float]:
        """Compute metrics after an epoch."""
        return self.learner.measure()

    def arrays(self) -> Arrays:
        """Return the whole state for a checkpoint, optimisers included."""
        return self.learner.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that :meth:`arrays` returned."""
        self.close()  # workers are started again with the restored state
        self.learner.restore(arrays)

    def weights(self) -> Arrays:
        """Return the weights of the model."""
        return self.learner.weights()


class _Replica:
    """The replica of the network in a worker: it takes over changed rows, takes steps, and returns the rows changed."""

    def __init__(self, learner: Learner) -> None:
        self.learner: Any = learner

    def __call__(self, message: tuple[bytes, list[np.ndarray], int, float]) -> RoundResult:
        pickled_changes, batches, seed, rate = message
        changed, buffers = pickle.loads(pickled_changes)
        network = self.learner.network
        for name, array in buffers.items():
            network.buffers[name][...] = array
        for name, (rows, values) in changed.items():
            for part, array in _parts(network, name).items():
                array[rows] = values[part]
        ages = {name: optimizer.age.copy() for name, optimizer in network.optimizers.items()}
        rng = np.random.default_rng(seed)
        loss = sum(self.learner.step(np.sort(batch), rng, rate) for batch in batches)
        touched = {name: np.flatnonzero(network.optimizers[name].age != age) for name, age in ages.items()}
        changes = {
            name: (rows, {part: array[rows] for part, array in _parts(network, name).items()})
            for name, rows in touched.items()
            if len(rows)
        }
        return loss, changes, network.buffers


def merge(network: Any, found: list[Rows]) -> Rows:
    """Add the changes of all workers to the network; return the rows that have changed, with their new state.

    Parameters
    ----------
    network : Tables or the like
        The network as it was when the workers began; changed in place.
    found : list of Rows
        Rows that each worker has changed, with their state after its steps.
    """
    changed: Rows = {}
    for name in network.optimizers:
        of_workers = [touched[name] for touched in found if name in touched]
        if not of_workers:
            continue
        union = np.unique(np.concatenate([rows for rows, _ in of_workers]))
        changed[name] = union, {}
        for part, array in _parts(network, name).items():
            total = np.zeros((len(union), *array.shape[1:]), array.dtype)
            counts = np.zeros(len(union), array.dtype)
            for rows, values in of_workers:
                at = np.searchsorted(union, rows)
                total[at] += values[part] - array[rows]
                counts[at] += 1
            if part not in _SUMMED:
                total /= counts.reshape(-1, *[1] * (total.ndim - 1))
            array[union] += total
            changed[name][1][part] = array[union]
    return changed


def _parts(network: Any, name: str) -> Arrays:
    """Return a table, under the name "", and those arrays of its optimiser that have a row per row of the table."""
    table = network.tables[name]
    state = network.optimizers[name].arrays("")
    return {"": table} | {part: array for part, array in state.items() if len(array) == len(table)}


def _shares(rows: np.ndarray, n_workers: int, batch_size: int) -> list[list[np.ndarray]]:
    """Divide points equally among workers, and the share of each worker into batches."""
    shares = []
    for share in np.array_split(rows, n_workers):
        n_batches = max(1, round(len(share) / batch_size)) if len(share) else 0
        shares.append(np.array_split(share, n_batches) if n_batches else [])
    return shares
