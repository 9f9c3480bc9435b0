"""What rankers trained in epochs share: settings, held-out points, checkpoints, and training again on all points.

The training loop is imported only when a ranker is trained: prediction does not need it.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import store
from longtail.data.split import FEW
from longtail.engine.checkpoints import EPOCHS, fingerprint
from longtail.models.presets import PresetRanker
from longtail.models.training_part import TrainingPart
from longtail.neural.choices import OPTIMIZERS, SCHEDULES
from longtail.params import (
    DROPOUT,
    NOT_NEGATIVE,
    POSITIVE,
    Boolean,
    Constraint,
    Integer,
    Jobs,
    OneOf,
    PathName,
    Seed,
    optional,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtail.neural.loop import LoopSettings
    from longtail.sparse import Pair

MOST_HELD_OUT = 2000  # points to hold out for early stopping; more hardly make its metrics more precise
# These parameters do not change what is trained. The seed does, and is part of the identity.
_NOT_IN_IDENTITY = ("checkpoint", "cache", "n_jobs", "random_state")

EPOCH_ADVANCED: dict[str, Constraint] = {
    "schedule": OneOf(*SCHEDULES),
    "patience": Integer(1),
    "optimizer": OneOf(*OPTIMIZERS),
    "decay": NOT_NEGATIVE,
}
"""Advanced parameters of every ranker trained in epochs; see :class:`longtail.neural.loop.LoopSettings`."""


class EpochRanker(PresetRanker):
    """Base of rankers that are trained in epochs.

    Attributes
    ----------
    history_ : list of dict
        Loss, and metrics in training and validation, after each epoch.
    """

    history_: list[dict[str, float]]
    checkpoint: str | None
    n_jobs: int | None

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "dim": Integer(1),
        "epochs": Integer(1),
        "batch_size": Integer(1),
        "learning_rate": POSITIVE,
        "input_dropout": DROPOUT,
        "dropout": DROPOUT,
        "n_networks": Integer(1),
        "n_neighbors": Integer(1),
        "validation_fraction": DROPOUT,
        "refit": optional(Boolean()),
        "checkpoint": optional(PathName()),
        "n_jobs": Jobs(),
        "random_state": Seed(),
    }

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        part = self._divide(X, Y, Z, validation)
        self._fit_part(part)
        self._fit_rest(part)

    def _divide(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None, **how: bool
    ) -> TrainingPart:
        """Hold out points for early stopping, unless `validation` is given. `how` goes to `TrainingPart.divide`."""
        fraction = self.settings().validation_fraction
        return TrainingPart.divide(X, Y, Z, validation, fraction, self._seed, MOST_HELD_OUT, **how)

    def _trains_again(self, n_points: int) -> bool:
        """Return whether to train again on all points: the parameter `refit` or, if it is None, if points are few."""
        refit = self.settings().refit
        return n_points < FEW if refit is None else refit

    def _trainings_per_fit(self, n_points: int, validation: bool = False) -> int:
        """Return how often a fit to `n_points` trains; `validation` says whether held-out points are given to it."""
        holds_out = self.settings().validation_fraction > 0 and not validation
        return 2 if holds_out and self._expects_to_train_again(n_points) else 1

    def _expects_to_train_again(self, n_points: int) -> bool:
        """Return whether a fit to `n_points`, of which it holds some out, will train again on all of them."""
        held = min(MOST_HELD_OUT, int(n_points * self.settings().validation_fraction))
        return self._trains_again(n_points - held)

    def _batch_size(self, n_points: int) -> int:
        """Return the number of points per step when training on `n_points`."""
        return self.settings().batch_size or usual_batch_size(n_points)

    def _with_usual_choices(self) -> Self:
        """Return an unfitted copy with usual values for all that is chosen on held-out points: its fit trains once."""
        return self.unfitted()

    def _loop(self, settings: Any, batch_size: int, rate: float, epochs: int | None = None) -> LoopSettings:
        """Return the settings of the training loop after checking them."""
        from longtail.neural.loop import LoopSettings

        loop = LoopSettings(
            settings.epochs if epochs is None else epochs,
            batch_size,
            rate,
            settings.schedule,
            settings.patience,
            self._seed,
            self._epoch_folder(),
        )
        loop.check()
        return loop

    def _epoch_folder(self) -> str | None:
        """Return the folder for checkpoints of epochs: the parameter `checkpoint`, or a folder of the resumable fit."""
        folder = self.checkpoint or self._steps.path(EPOCHS)
        return None if folder is None else os.fspath(folder)

    def _stage_loop(self, loop: LoopSettings, name: str) -> LoopSettings:
        """Return the loop settings of one part of a training, whose checkpoint is kept until all parts are done."""
        folder = None if loop.checkpoint is None else os.fspath(Path(loop.checkpoint) / name)
        return replace(loop, checkpoint=folder, keep_checkpoint=True)

    def _remove_checkpoint(self) -> None:
        """Remove the checkpoints of all parts after the training."""
        if self.checkpoint is not None:
            store.remove_checkpoint(self.checkpoint)

    def _identity(self, *matrices: csr_array | None) -> str:
        """Return a fingerprint of settings, seed and data; only a checkpoint with the same one can be resumed."""
        if self.checkpoint is None:
            return ""
        params = {name: value for name, value in vars(self.settings()).items() if name not in _NOT_IN_IDENTITY}
        return fingerprint(params | {"seed": self._seed}, *matrices)

    def _best_length(self) -> int:
        """Return the number of epochs up to the best one."""
        return 1 + int(np.argmax([entry["monitor"] for entry in self.history_]))


def usual_batch_size(n_points: int, most: int = 512) -> int:
    """Return about a hundredth of the points, a power of two from 32 to `most`: rare tokens need many steps."""
    return int(min(max(2 ** round(math.log2(max(1.0, n_points / 100))), 32), most))
