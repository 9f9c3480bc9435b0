"""The training loop of all networks: seeded batches, a learning-rate schedule, early stopping, checkpoints.

A learner takes a step on a batch and computes its metrics; the loop does the rest. The random numbers of an epoch
depend on (seed, epoch) only: a run resumed from a checkpoint ends with the same network as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from longtail import progress, store
from longtail.errors import ModelError, SettingsError
from longtail.kernels.blas import single_threaded
from longtail.neural.choices import SCHEDULES
from longtail.params import POSITIVE, Constraint, Integer, OneOf
from longtail.sparse import Arrays, with_prefix, without_prefix

_SCHEDULES: dict[str, Callable[[float], float]] = {  # from the share of steps done to the share of the learning rate
    "constant": lambda done: 1.0,
    "linear": lambda done: 1 - done,
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "halved": lambda done: 1.0 if done < 0.5 else 0.5,
}
_HELD_OUT_EPOCHS = 3
_LIMITS: dict[str, Constraint] = {
    "schedule": OneOf(*SCHEDULES),
    "epochs": Integer(1),
    "batch_size": Integer(1),
    "patience": Integer(1),
    "rate": POSITIVE,
}


class Learner(Protocol):
    """The interface of what the loop trains."""

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take one step on these training points and return the loss."""

    def measure(self) -> dict[str, float]:
        """Compute metrics after an epoch. Early stopping maximises the one called ``monitor``, if there is one."""

    def arrays(self) -> Arrays:
        """Return the whole state for a checkpoint, optimisers included."""

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that :meth:`arrays` returned."""

    def weights(self) -> Arrays:
        """Return the weights of the model, of which early stopping keeps the best."""


class NetworkState:
    """Base of learners whose whole state is in their `network`, a :class:`longtail.neural.tables.Tables`."""

    network: Any

    def arrays(self) -> Arrays:
        """Return the whole state for a checkpoint, optimisers included."""
        return self.network.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that :meth:`arrays` returned."""
        self.network.restore(arrays)

    def weights(self) -> Arrays:
        """Return the tables of the network."""
        return self.network.tables


@dataclass
class LoopSettings:
    """How long and how fast to train.

    Parameters
    ----------
    epochs : int
        Number of passes over the points, at most.
    batch_size : int
        Points per step.
    rate : float
        Highest learning rate.
    schedule : {"linear", "cosine", "halved", "constant"}
        How the learning rate falls. "linear" and "cosine" fall to 0, "halved" to one half for the second half of the
        steps.
    patience : int
        Number of epochs without a better validation metric after which training stops.
    seed : int
        Seed of the batches and of the learner's random choices.
    checkpoint : str, optional
        Folder for a checkpoint after every epoch; removed when training is done.
    stop : int, optional
        Stop after this many epochs, with the learning rates that a training of all `epochs` has up to there.
    keep_checkpoint : bool
        Keep the checkpoint when training is done. Use it for one part of a longer run: if the run is interrupted
        later, this part is not trained again.
    stage : str
        Name of the work in progress reports.
    """

    epochs: int
    batch_size: int
    rate: float
    schedule: str = "linear"
    patience: int = 3
    seed: int = 0
    checkpoint: str | None = None
    stop: int | None = None
    keep_checkpoint: bool = False
    stage: str = "training"

    def check(self) -> None:
        """Raise an error for values outside their limits, and for a checkpoint folder with other content."""
        for name, limit in _LIMITS.items():
            value = getattr(self, name)
            if not limit.allows(value):
                raise SettingsError(f"{'learning_rate' if name == 'rate' else name} is {value!r}; give {limit}")
        if self.checkpoint is not None:
            store.check_checkpoint(self.checkpoint)

    def rate_at(self, done: float) -> float:
        """Return the learning rate after a share `done` of all steps."""
        return self.rate * _SCHEDULES[self.schedule](done)


@dataclass
class RunState:
    """Progress of a run: epochs done, the best epoch so far and its metric, metrics of all epochs."""

    epoch: int = 0
    best: float = -math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)


def train(learner: Learner, n_points: int, settings: LoopSettings, identity: str = "") -> list[dict[str, float]]:
    """Train a learner; it ends with the weights of its best epoch.

    Parameters
    ----------
    learner : Learner
        What is trained.
    n_points : int
        Number of training points.
    settings : LoopSettings
        How long and how fast to train.
    identity : str
        Fingerprint of data and settings (:func:`longtail.engine.checkpoints.fingerprint`). A checkpoint with another
        fingerprint is an error.

    Returns
    -------
    list of dict
        One entry per epoch: its loss, learning rate and the learner's metrics.
    """
    settings.check()
    state, best_weights = _resume(learner, settings, identity)
    n_steps = -(-n_points // settings.batch_size)
    n_epochs = settings.epochs if settings.stop is None else min(settings.stop, settings.epochs)
    with progress.stage(settings.stage) as done, single_threaded():
        done(state.epoch / n_epochs)
        while state.epoch < n_epochs and state.epoch - state.best_epoch <= settings.patience:
            rng = np.random.default_rng([settings.seed, state.epoch])
            total, rate = 0.0, 0.0
            order = rng.permutation(n_points)
            for at in range(n_steps):
                rate = settings.rate_at((state.epoch * n_steps + at + 0.5) / (settings.epochs * n_steps))
                rows = np.sort(order[at * settings.batch_size : (at + 1) * settings.batch_size])
                total += learner.step(rows, rng, rate)
                done(1 / (n_steps * n_epochs))
            if not math.isfinite(total) or not all(np.isfinite(array.sum()) for array in learner.weights().values()):
                raise SettingsError(
                    f"Training diverges: the loss is {total} in epoch {state.epoch}. Lower learning_rate."
                )
            metrics = learner.measure()
            entry = {"epoch": state.epoch, "loss": total / n_steps, "learning_rate": rate, **metrics}
            state.history.append(entry)
            if "monitor" not in metrics or metrics["monitor"] > state.best:
                state.best, state.best_epoch = metrics.get("monitor", 0.0), state.epoch
                if "monitor" in metrics:
                    best_weights = {name: array.copy() for name, array in learner.weights().items()}
            state.epoch += 1
            _save(learner, settings, identity, state, best_weights)
    if best_weights:
        for name, array in learner.weights().items():
            array[...] = best_weights[name]
    if settings.checkpoint is not None and not settings.keep_checkpoint:
        store.remove_checkpoint(settings.checkpoint)
    return state.history


def absorb(n_known: int, n_new: int, learner_of: Callable[[np.ndarray], Learner], loop: LoopSettings) -> None:
    """Train a few epochs on the held-out points, once they are no longer needed to measure anything.

    Each epoch has the held-out points and as many points that the network was trained on before, so that it does not
    forget these. The learning rate is a quarter of the training's.

    Parameters
    ----------
    n_known, n_new : int
        Number of points that the network was trained on, and of held-out points.
    learner_of : callable
        Given positions of known points, returns the learner of these and all held-out points.
    loop : LoopSettings
        Settings of the training.
    """
    known = np.random.default_rng([loop.seed, 1]).choice(n_known, min(n_new, n_known), replace=False)
    short = replace(loop, epochs=_HELD_OUT_EPOCHS, rate=loop.rate / 4, checkpoint=None)
    train(learner_of(known), len(known) + n_new, replace(short, stage="learning the held-out points"))


def _save(learner: Learner, settings: LoopSettings, identity: str, state: RunState, best: Arrays) -> None:
    """Write a checkpoint, if the settings name a folder for it."""
    if settings.checkpoint is None:
        return
    arrays = with_prefix("now.", learner.arrays()) | with_prefix("best.", best)
    meta = {"identity": identity, "epoch": state.epoch, "best_epoch": state.best_epoch, "history": state.history}
    meta["best"] = state.best if math.isfinite(state.best) else None
    with store.atomic_folder(settings.checkpoint) as folder:
        store.write(folder, store.CHECKPOINT, meta, arrays)


def _resume(learner: Learner, settings: LoopSettings, identity: str) -> tuple[RunState, Arrays]:
    """Restore an interrupted run from its checkpoint; return its progress and best weights, empty for a new run."""
    if settings.checkpoint is None or not (Path(settings.checkpoint) / "model.json").exists():
        return RunState(), {}
    stored = store.read(settings.checkpoint, mmap=False)
    if stored.kind != store.CHECKPOINT or stored.meta.get("identity") != identity:
        raise ModelError(
            f"{settings.checkpoint}: holds a checkpoint of other data or settings, so this run cannot continue from "
            "it. Remove the folder, name another, or train with the data and settings it was made from."
        )
    learner.restore(without_prefix("now.", stored.arrays))
    meta = stored.meta
    best = -math.inf if meta["best"] is None else meta["best"]
    return RunState(meta["epoch"], best, meta["best_epoch"], meta["history"]), without_prefix("best.", stored.arrays)
