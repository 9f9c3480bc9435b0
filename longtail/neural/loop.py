"""The one training loop: seeded batches, a learning-rate schedule, validation, early stopping, checkpoints.

A learner says how to take one step and how to measure itself; the loop does the rest. Every epoch draws its random
numbers from (seed, epoch), so a run resumed from a checkpoint goes on exactly as the one that was interrupted.
"""

from __future__ import annotations

import json
import math
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from longtail import progress, store
from longtail.errors import ModelError, SettingsError

Arrays = dict[str, np.ndarray]
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1 - done,
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "halved": lambda done: 1.0 if done < 0.5 else 0.5,
}


class Learner(Protocol):
    """What the loop trains."""

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """One step on these training points; returns the loss."""

    def measure(self) -> dict[str, float]:
        """Figures after an epoch; ``monitor`` among them is what early stopping maximises, if there."""

    def arrays(self) -> Arrays:
        """All state, optimisers included."""

    def restore(self, arrays: Arrays) -> None:
        """State from :meth:`arrays`."""

    def weights(self) -> Arrays:
        """The part of the state that is the model, which early stopping keeps the best of."""


class NetworkState:
    """The state of a learner that is all in its `network`: what :class:`Learner` asks for, handed on."""

    network: Any

    def arrays(self) -> Arrays:
        return self.network.arrays()

    def restore(self, arrays: Arrays) -> None:
        self.network.restore(arrays)

    def weights(self) -> Arrays:
        return self.network.tables


@dataclass
class LoopSettings:
    """How long and how fast.

    Parameters
    ----------
    epochs : int
        Passes over the points at most.
    batch_size : int
    rate : float
        Learning rate at its highest.
    schedule : {"linear", "cosine", "halved", "constant"}
        How it falls to the end; "halved" is one half from the middle on.
    warmup : float
        Share of all steps over which it rises from 0.
    patience : int
        Stop after so many epochs without a better validation figure.
    seed : int
    checkpoint : str, optional
        Folder for a checkpoint after every epoch; removed when training is done.
    stop : int, optional
        End after so many epochs, the schedule being that of all `epochs`.
    keep_checkpoint : bool
        Leave it there instead, for a run of several parts: a part that is done is not trained again.
    stage : str
        What progress calls the work.
    """

    epochs: int
    batch_size: int
    rate: float
    schedule: str = "linear"
    warmup: float = 0.0
    patience: int = 3
    seed: int = 0
    checkpoint: str | None = None
    stop: int | None = None
    keep_checkpoint: bool = False
    stage: str = "training"

    def check(self) -> None:
        """Refuse what cannot be."""
        if self.schedule not in SCHEDULES:
            raise SettingsError(f"schedule is {self.schedule!r}; choose one of {', '.join(SCHEDULES)}")
        for name in ("epochs", "batch_size", "patience"):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < 1:
                raise SettingsError(f"{name} is {value!r}; give a whole number from 1")
        if not self.rate > 0:
            raise SettingsError(f"learning_rate is {self.rate!r}; give a number above 0")

    def rate_at(self, done: float) -> float:
        """Learning rate when this share of all steps is done."""
        if done < self.warmup:
            return self.rate * done / self.warmup
        return self.rate * SCHEDULES[self.schedule]((done - self.warmup) / (1 - self.warmup))


@dataclass
class Progress:
    """Where a run stands."""

    epoch: int = 0
    best: float = -math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)


def train(learner: Learner, n_points: int, settings: LoopSettings, identity: str = "") -> list[dict[str, float]]:
    """Train, leaving the learner with its best weights.

    Parameters
    ----------
    learner : Learner
    n_points : int
        Training points.
    settings : LoopSettings
    identity : str
        What the run is made of (:func:`fingerprint`); a checkpoint of another identity is refused.

    Returns
    -------
    list of dict
        One entry an epoch: its loss, learning rate and the learner's figures.
    """
    settings.check()
    state, best = _resume(learner, settings, identity)
    n_steps = -(-n_points // settings.batch_size)
    last = settings.epochs if settings.stop is None else min(settings.stop, settings.epochs)
    with progress.stage(settings.stage) as done:
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
            figures = learner.measure()
            entry = {"epoch": state.epoch, "loss": total / n_steps, "learning_rate": rate, **figures}
            state.history.append(entry)
            if "monitor" not in figures or figures["monitor"] > state.best:
                state.best, state.best_epoch = figures.get("monitor", 0.0), state.epoch
                if "monitor" in figures:
                    best = {name: array.copy() for name, array in learner.weights().items()}
            state.epoch += 1
            _save(learner, settings, identity, state, best)
    if best:
        for name, array in learner.weights().items():
            array[...] = best[name]
    if settings.checkpoint is not None and not settings.keep_checkpoint:
        shutil.rmtree(settings.checkpoint, ignore_errors=True)
    return state.history


def fingerprint(params: dict[str, Any], *matrices: csr_array | None) -> str:
    """A short text that two runs share only if their settings and data are the same."""
    crc = zlib.crc32(json.dumps(params, sort_keys=True, default=repr).encode())
    for matrix in matrices:
        if matrix is not None:
            crc = zlib.crc32(repr(matrix.shape).encode(), crc)
            for part in (matrix.indptr, matrix.indices, matrix.data):
                crc = zlib.crc32(np.ascontiguousarray(part).data, crc)
    return f"{crc:08x}"


def _save(learner: Learner, settings: LoopSettings, identity: str, state: Progress, best: Arrays) -> None:
    if settings.checkpoint is None:
        return
    arrays = {f"now.{name}": array for name, array in learner.arrays().items()}
    arrays |= {f"best.{name}": array for name, array in best.items()}
    meta = {"identity": identity, "epoch": state.epoch, "best_epoch": state.best_epoch, "history": state.history}
    meta["best"] = state.best if math.isfinite(state.best) else None
    with store.atomic_folder(settings.checkpoint) as fresh:
        store.write(fresh, "checkpoint", meta, arrays)


def _resume(learner: Learner, settings: LoopSettings, identity: str) -> tuple[Progress, Arrays]:
    """The state of a run that was interrupted, or a new one."""
    if settings.checkpoint is None or not (Path(settings.checkpoint) / "model.json").exists():
        return Progress(), {}
    stored = store.read(settings.checkpoint, mmap=False)
    if stored.kind != "checkpoint" or stored.meta.get("identity") != identity:
        raise ModelError(
            f"{settings.checkpoint}: holds a checkpoint of other data or settings, so this run cannot go on from it. "
            "Remove the folder, name another, or train with what it was made from."
        )
    learner.restore({name[4:]: array for name, array in stored.arrays.items() if name.startswith("now.")})
    best = {name[5:]: array for name, array in stored.arrays.items() if name.startswith("best.")}
    meta = stored.meta
    value = -math.inf if meta["best"] is None else meta["best"]
    return Progress(meta["epoch"], value, meta["best_epoch"], meta["history"]), best
