"""What rankers that learn vectors share: what they train on, what they hold out, and how they take in more."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.models.base import Ranker, check_features, check_labels
from longtail.neural.held_out import Pair, hold_out, measurable, seen, trains_again
from longtail.neural.loop import LoopSettings, fingerprint

BELOW_ONE = np.float32(1 - 2**-23)
ABOVE_ZERO = np.float32(1e-30)


def chances(raw: np.ndarray, loss: str, slope: float, offset: float) -> np.ndarray:
    """Raw scores (N, k), the best first, of a network trained with this loss as scores in (0, 1)."""
    if loss == "softmax":  # as softmax, but for the sum over all labels, which a search does not know
        best = raw[:, :1]
        found = np.exp(raw - best) / (1 + np.exp(-np.clip(best, -30, 30)))
    else:
        found = 1 / (1 + np.exp(-np.clip(slope * raw + offset, -60, 60)))
    return np.clip(found, ABOVE_ZERO, BELOW_ONE, dtype=np.float32)


class EmbeddingRanker(Ranker):
    """Base of rankers that are trained in epochs.

    Attributes
    ----------
    history_ : list of dict
        Loss and precision in training and validation after each epoch.
    label_ids_ : array
        Labels with training points; the others are never suggested.
    """

    history_: list[dict[str, float]]
    label_ids_: np.ndarray

    epochs: int
    schedule: str
    patience: int
    validation_fraction: float
    refit: bool | None
    checkpoint: str | None
    random_state: int

    def _check_choices(
        self,
        choices: dict[str, tuple[str | None, ...]],
        whole: tuple[str, ...],
        whole_or_none: tuple[str, ...] = (),
    ) -> None:
        """Refuse parameters that are not among their choices, or no whole numbers from 1, or from 0."""
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(map(str, known))}")
        for names, least in ((whole, 1), (whole_or_none, 0)):
            for name in names:
                if not isinstance(value := getattr(self, name), int | np.integer) or value < least:
                    raise SettingsError(f"{name} is {value!r}; give a whole number from {least}")
        if not 0 <= self.validation_fraction < 1:
            raise SettingsError(f"validation_fraction is {self.validation_fraction!r}; give 0, or a number below 1")

    def _identity(self, X: csr_array, Y: csr_array, validation: Pair | None) -> str:
        """What a checkpoint must have been made from, to go on from it."""
        if self.checkpoint is None:
            return ""
        params = {name: value for name, value in self.get_params().items() if name not in ("checkpoint", "n_jobs")}
        return fingerprint(params, X, Y, *(validation or ()))

    def _parts(self, X: csr_array, Y: csr_array, validation: Pair | None) -> tuple[np.ndarray, csr_array, Pair | None]:
        """Rows to train on, Y of all points over the labels that these have, and the part to validate on, if any."""
        rows, held = hold_out(X, Y, validation, self.validation_fraction, self.random_state)
        self.label_ids_ = np.unique(Y[rows].indices).astype(np.int32)
        return rows, seen(Y, self.label_ids_), measurable(held, self.label_ids_)

    def _trains_again(self, rows: np.ndarray, held: Pair | None, validation: Pair | None) -> bool:
        """Whether to train once more, on what was held out, too."""
        return validation is None and held is not None and trains_again(self.refit, len(rows))

    def _best_length(self) -> int:
        """Epochs to the best one."""
        return 1 + int(np.argmax([entry["monitor"] for entry in self.history_]))

    def _loop(self, epochs: int, batch_size: int, rate: float) -> LoopSettings:
        settings = LoopSettings(
            epochs, batch_size, rate, self.schedule, 0.0, self.patience, self.random_state, self.checkpoint
        )
        settings.check()
        return settings

    def _more(self, X: Any, Y: Any) -> tuple[csr_array, csr_array]:
        """Points to learn on from, checked: labels may have been appended, none may be missing."""
        X = check_features(X, self.n_features_in_)
        Y = check_labels(Y, X.shape[0])
        if Y.shape[1] < self.n_labels_:
            raise DataError(
                f"Y has {Y.shape[1]} labels, but the model knows {self.n_labels_}",
                remedy="Keep the old columns in their places and append new ones",
            )
        return X, Y
