"""The one training loop: seeded batches, a learning-rate schedule, validation, early stopping, checkpoints.

A learner takes one step and measures itself; the loop does the rest. Every epoch draws its random numbers from
(seed, epoch), so that a run resumed from a checkpoint continues exactly as the interrupted one would have.
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

_SHAPES: dict[str, Callable[[float], float]] = {  # share of the learning rate, by the share of all steps done
    "constant": lambda done: 1.0,
    "linear": lambda done: 1 - done,
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "halved": lambda done: 1.0 if done < 0.5 else 0.5,
}
_HELD_OUT_PASSES = 3
_LIMITS: dict[str, Constraint] = {
    "schedule": OneOf(*SCHEDULES),
    "epochs": Integer(1),
    "batch_size": Integer(1),
    "patience": Integer(1),
    "rate": POSITIVE,
}


class Learner(Protocol):
    """What the loop trains."""

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take one step on these training points and return the loss."""

    def measure(self) -> dict[str, float]:
        """Return metrics after an epoch; early stopping maximises the one called ``monitor``, if there is one."""

    def arrays(self) -> Arrays:
        """Return all state, optimisers included."""

    def restore(self, arrays: Arrays) -> None:
        """Take over the state that :meth:`arrays` returned."""

    def weights(self) -> Arrays:
        """Return the part of the state that is the model; early stopping keeps the best of it."""


class NetworkState:
    """Base of learners whose state is all in their `network`, a :class:`longtail.neural.tables.Tables`."""

    network: Any

    def arrays(self) -> Arrays:
        """Return all state, optimisers included."""
        return self.network.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Take over the state that :meth:`arrays` returned."""
        self.network.restore(arrays)

    def weights(self) -> Arrays:
        """Return the tables that are the model."""
        return self.network.tables


@dataclass
class LoopSettings:
    """How long and how fast to train.

    Parameters
    ----------
    epochs : int
        Largest number of passes over the points.
    batch_size : int
        Points per step.
    rate : float
        Learning rate at its highest.
    schedule : {"linear", "cosine", "halved", "constant"}
        How the learning rate falls to the end; "halved" is one half from the middle on.
    patience : int
        Stop after so many epochs without a better validation metric.
    seed : int
        Seed of batches and of what a learner draws.
    checkpoint : str, optional
        Folder for a checkpoint after every epoch; removed when training is done.
    stop : int, optional
        End after so many epochs, with the schedule of all `epochs`.
    keep_checkpoint : bool
        Do not remove the checkpoint. For runs of several parts: a part that is done is not trained again.
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
        """Refuse values outside their limits, and a checkpoint folder that holds something else."""
        for name, limit in _LIMITS.items():
            value = getattr(self, name)
            if not limit.allows(value):
                raise SettingsError(f"{'learning_rate' if name == 'rate' else name} is {value!r}; give {limit}")
        if self.checkpoint is not None:
            store.check_checkpoint(self.checkpoint)

    def rate_at(self, done: float) -> float:
        """Return the learning rate when this share of all steps is done."""
        return self.rate * _SHAPES[self.schedule](done)


@dataclass
class RunState:
    """How far a run has come."""

    epoch: int = 0
    best: float = -math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)


def train(learner: Learner, n_points: int, settings: LoopSettings, identity: str = "") -> list[dict[str, float]]:
    """Train a learner and leave it with its best weights.

    Parameters
    ----------
    learner : Learner
        What takes steps and measures itself.
    n_points : int
        Number of training points.
    settings : LoopSettings
        How long and how fast to train.
    identity : str
        What the run is made from (:func:`longtail.engine.checkpoints.fingerprint`); a checkpoint with another identity
        is refused.

    Returns
    -------
    list of dict
        One entry per epoch: its loss, learning rate and the learner's metrics.
    """
    settings.check()
    state, best = _resume(learner, settings, identity)
    n_steps = -(-n_points // settings.batch_size)
    last = settings.epochs if settings.stop is None else min(settings.stop, settings.epochs)
    with progress.stage(settings.stage) as done, single_threaded():
        done(state.epoch / last)
        while state.epoch < last and state.epoch - state.best_epoch <= settings.patience:
            rng = np.random.default_rng([settings.seed, state.epoch])
            total, rate = 0.0, 0.0
            order = rng.permutation(n_points)
            for at in range(n_steps):
                rate = settings.rate_at((state.epoch * n_steps + at + 0.5) / (settings.epochs * n_steps))
                rows = np.sort(order[at * settings.batch_size : (at + 1) * settings.batch_size])
                total += learner.step(rows, rng, rate)
                done(1 / (n_steps * last))
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
                    best = {name: array.copy() for name, array in learner.weights().items()}
            state.epoch += 1
            _save(learner, settings, identity, state, best)
    if best:
        for name, array in learner.weights().items():
            array[...] = best[name]
    if settings.checkpoint is not None and not settings.keep_checkpoint:
        store.remove_checkpoint(settings.checkpoint)
    return state.history


def absorb(n_known: int, n_new: int, learner_of: Callable[[np.ndarray], Learner], loop: LoopSettings) -> None:
    """Train on the held-out points too, once nothing is measured on them, among as many points seen before.

    It takes a few passes at a quarter of the learning rate.

    Parameters
    ----------
    n_known, n_new : int
        Number of points that the network was trained on, and of those that were held out.
    learner_of : callable
        Returns the learner of the held-out points and of some known ones, given the positions of these.
    loop : LoopSettings
        Those of the training.
    """
    known = np.random.default_rng([loop.seed, 1]).choice(n_known, min(n_new, n_known), replace=False)
    few = replace(loop, epochs=_HELD_OUT_PASSES, rate=loop.rate / 4, checkpoint=None)
    train(learner_of(known), len(known) + n_new, replace(few, stage="learning the held-out points"))


def _save(learner: Learner, settings: LoopSettings, identity: str, state: RunState, best: Arrays) -> None:
    """Write a checkpoint, if one is wanted."""
    if settings.checkpoint is None:
        return
    arrays = with_prefix("now.", learner.arrays()) | with_prefix("best.", best)
    meta = {"identity": identity, "epoch": state.epoch, "best_epoch": state.best_epoch, "history": state.history}
    meta["best"] = state.best if math.isfinite(state.best) else None
    with store.atomic_folder(settings.checkpoint) as fresh:
        store.write(fresh, store.CHECKPOINT, meta, arrays)


def _resume(learner: Learner, settings: LoopSettings, identity: str) -> tuple[RunState, Arrays]:
    """Return the state of an interrupted run and its best weights, or those of a new run."""
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
    value = -math.inf if meta["best"] is None else meta["best"]
    return RunState(meta["epoch"], value, meta["best_epoch"], meta["history"]), without_prefix("best.", stored.arrays)
