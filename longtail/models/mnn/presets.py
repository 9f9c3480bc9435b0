"""MNN's presets and the constraints of its advanced parameters.

The paper gives equations but no values: neither the number of negatives nor dropout, learning rate or epochs. Its
preset therefore follows the equations (several negatives of which the nearest one counts, labels ranked by the cosine,
one training on all points but the held-out ones) with usual values. With one negative the maximum of eq. 11 has no
effect, but on some data one negative is better. The fast preset trains with each number in `NEGATIVES` and keeps the
network that ranks held-out points best.
"""

from __future__ import annotations

from typing import Any

from longtail.models.epoch_ranker import EPOCH_ADVANCED
from longtail.params import Constraint, Number

NEGATIVES = (1, 5)
"""Numbers of negatives to try."""

_MNN_FAST: dict[str, Any] = {
    "dim": 256,
    "n_negatives": None,
    "margin": 0.0,
    "input_dropout": 0.3,
    "scoring": "auto",
    "n_neighbors": None,
    "epochs": 30,
    "batch_size": 256,
    "learning_rate": 0.005,
    "schedule": "linear",
    "patience": 10,
    "optimizer": "adam",
    "decay": 0.0,
    "refit": None,
}
_MNN_PAPER: dict[str, Any] = {
    "n_negatives": 10,
    "input_dropout": 0.5,
    "scoring": "cosine",
    "learning_rate": 0.001,
    "schedule": "constant",
    "refit": False,
}
MNN_PRESETS = {"fast": _MNN_FAST, "paper": _MNN_FAST | _MNN_PAPER}
MNN_ADVANCED: dict[str, Constraint] = {**EPOCH_ADVANCED, "margin": Number(-1, 1, below=True)}
