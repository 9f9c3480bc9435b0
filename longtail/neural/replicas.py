"""One network trained by several processes, each on its own share of the points.

Every worker has a replica of the network. In a round each takes a few steps on batches of its own and returns the rows
that these have touched, with the state of their optimisers. The changes of all workers are added up, as if the steps
had been taken one after the other, and the resulting rows are sent to all workers with their next batches: rows travel,
tables do not.

Sums of changes keep the pace of one process: a rare row, which one worker alone has touched, moves as far as it would
have. The price is that a step does not see those that other workers take in the same round. Rounds are therefore short
(:data:`STEPS`), and batches should be smaller than those of one process by the number of workers.

A worker is rebuilt from the network of this process when it is lost, and its share of the round is done again with the
same random numbers: the network does not depend on it.
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

STEPS = 2  # that a worker takes in a round
_LOSSES = 8  # of workers in one round, after which training gives up
_ADDED = ("", ".v", ".age")  # state whose changes are added up; others, the means of Adam, are averaged

_UNCHANGED = pickle.dumps(({}, {}))

Rows = dict[str, tuple[np.ndarray, Arrays]]  # for each table: numbers of rows, and their state by the part's name
Found = tuple[float, Rows, Arrays]  # loss, touched rows and buffers of a worker


def train_on_workers(
    learner: Any, n_points: int, settings: LoopSettings, identity: str, n_workers: int
) -> list[dict[str, float]]:
    """Train a learner with several processes; see :func:`longtail.neural.loop.train`.

    Parameters
    ----------
    learner : Learner
        With a `network` of tables and row-sparse optimisers. Another process must be able to unpickle it.
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
    """A learner whose steps are taken by several processes; for :func:`longtail.neural.loop.train`.

    One step of this learner is a round: it takes as many points as :attr:`round_size` says.

    Parameters
    ----------
    learner : Learner
        With a `network` of tables and row-sparse optimisers. It holds the state of the training.
    n_workers : int
        Number of processes.
    batch_size : int
        Points of a step of one worker.
    """

    def __init__(self, learner: Any, n_workers: int, batch_size: int) -> None:
        self.learner, self.n_workers, self.batch_size = learner, n_workers, batch_size
        self._workers: list[Worker] = []
        self._changed: Rows = {}

    @property
    def round_size(self) -> int:
        """Number of points in a round."""
        return self.n_workers * STEPS * self.batch_size

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take the steps of a round on these training points; return the mean loss."""
        if not self._workers:
            self._workers = self._start(self.n_workers)
        batches = _shares(rng.permutation(rows), self.n_workers, self.batch_size)
        seeds = rng.integers(1 << 62, size=self.n_workers)
        calls = [(share, int(seed), rate) for share, seed in zip(batches, seeds, strict=True)]
        changed = pickle.dumps((self._changed, self.learner.network.buffers), protocol=5)  # once, not for each worker
        for worker, call in zip(self._workers, calls, strict=True):
            worker.send((changed, *call))
        results = [self._result(number, call) for number, call in enumerate(calls)]
        self._changed = merge(self.learner.network, [touched for _, touched, _ in results])
        for name, array in results[0][2].items():  # buffers are estimates: those of one worker do for all
            self.learner.network.buffers[name][...] = array
        return sum(loss for loss, _, _ in results) / sum(map(len, batches))

    def _start(self, n: int) -> list[Worker]:
        return engine.current().workers(_Replica, (self.learner,), n, self.n_workers)

    def _result(self, number: int, call: tuple[Any, ...]) -> Found:
        """Return what a worker has found; where it is lost, what another has."""
        lost: WorkerLost | None = None
        for _ in range(_LOSSES):
            try:
                if lost is not None:
                    self._workers[number].close()
                    (self._workers[number],) = self._start(1)
                    self._workers[number].send((_UNCHANGED, *call))  # it is built from the network as it is
                return self._workers[number].receive()
            except WorkerLost as error:
                lost = error
        raise SettingsError(
            f"Training lost {_LOSSES} worker processes in a row. {lost}. Memory may have run out: lower n_workers."
        )

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.close()
        self._workers = []

    # The learner of this process ---------------------------------------------------------------------------------

    def measure(self) -> dict[str, float]:
        """Return metrics after an epoch."""
        return self.learner.measure()

    def arrays(self) -> Arrays:
        """Return all state, optimisers included."""
        return self.learner.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Take over the state that :meth:`arrays` returned."""
        self.close()  # replicas are built from the restored state
        self.learner.restore(arrays)

    def weights(self) -> Arrays:
        """Return the part of the state that is the model."""
        return self.learner.weights()


class _Replica:
    """The replica of a worker: takes over rows, takes steps, and returns the rows that these have touched."""

    def __init__(self, learner: Learner) -> None:
        self.learner: Any = learner

    def __call__(self, message: tuple[bytes, list[np.ndarray], int, float]) -> Found:
        news, batches, seed, rate = message
        changed, buffers = pickle.loads(news)
        network = self.learner.network
        for name, array in buffers.items():
            network.buffers[name][...] = array
        for name, (rows, values) in changed.items():
            for part, array in _parts(network, name).items():
                array[rows] = values[part]
        before = {name: optimizer.age.copy() for name, optimizer in network.optimizers.items()}
        rng = np.random.default_rng(seed)
        loss = sum(self.learner.step(np.sort(batch), rng, rate) for batch in batches)
        touched = {name: np.flatnonzero(network.optimizers[name].age != age) for name, age in before.items()}
        changes = {
            name: (rows, {part: array[rows] for part, array in _parts(network, name).items()})
            for name, rows in touched.items()
            if len(rows)
        }
        return loss, changes, network.buffers


def merge(network: Any, found: list[Rows]) -> Rows:
    """Add the changes that workers have made to the rows of a network; return the rows as they are now.

    Parameters
    ----------
    network : Tables or the like
        As it was when the workers began; changed in place.
    found : list of Rows
        Rows that each worker has touched, as it has left them.
    """
    changed: Rows = {}
    for name in network.optimizers:
        own = [touched[name] for touched in found if name in touched]
        if not own:
            continue
        union = np.unique(np.concatenate([rows for rows, _ in own]))
        changed[name] = union, {}
        for part, array in _parts(network, name).items():
            total = np.zeros((len(union), *array.shape[1:]), array.dtype)
            times = np.zeros(len(union), array.dtype)
            for rows, values in own:
                at = np.searchsorted(union, rows)
                total[at] += values[part] - array[rows]
                times[at] += 1
            if part not in _ADDED:
                total /= times.reshape(-1, *[1] * (total.ndim - 1))
            array[union] += total
            changed[name][1][part] = array[union]
    return changed


def _parts(network: Any, name: str) -> Arrays:
    """Return a table and the state of its optimiser that has one row per row of the table."""
    table = network.tables[name]
    state = network.optimizers[name].arrays("")
    return {"": table} | {part: array for part, array in state.items() if len(array) == len(table)}


def _shares(rows: np.ndarray, n_workers: int, batch_size: int) -> list[list[np.ndarray]]:
    """Return batches for each worker, equally many points for each."""
    shares = []
    for share in np.array_split(rows, n_workers):
        n_batches = max(1, round(len(share) / batch_size)) if len(share) else 0
        shares.append(np.array_split(share, n_batches) if n_batches else [])
    return shares
