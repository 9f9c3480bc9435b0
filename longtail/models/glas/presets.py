"""GLaS's presets, and the constraints of its advanced parameters.

"paper" is the base setting of Table 1 and Algorithm 2: λ = 10, ρ = 0.8, d = 1024, ReLU, the margin loss, normalised
embeddings, at most 10 epochs with early stopping. The paper's batch of 4096 is for half a million points. With fewer
points, batches have a hundredth of them; otherwise ten epochs would be only a dozen steps. The paper gives neither c
nor the learning rate. In its Table 3 the loss is "softmax" for data with many labels per point (Delicious-200K).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail.labels.cooccurrence import HOWS
from longtail.models.epoch_ranker import EPOCH_ADVANCED
from longtail.params import NOT_NEGATIVE, POSITIVE, Boolean, Constraint, Integer, OneOf

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {
        "dim": 512,
        "loss": "bce",
        "regularizer": "glas",
        "regularization": 100.0,
        "n_candidates": 4096,
        "dropout": 0.4,
        "input_dropout": 0.1,
        "epochs": 12,
        "batch_size": None,
        "learning_rate": None,
        "validation_fraction": 0.05,
        "refit": None,
        "affinity": "arithmetic",
        "relu": False,
        "start": 4.0,
        "label_bias": True,
        "normalize": False,
        "scale": 16.0,
        "correction": 0.4,
        "margin": 0.3,
        "n_hard": 10,
        "n_regularized": 512,
        "schedule": "linear",
        "patience": 5,
        "optimizer": "adam",
        "decay": 0.0,
    },
    "paper": {
        "dim": 1024,
        "loss": "margin",
        "regularizer": "glas",
        "regularization": 10.0,
        "n_candidates": 4096,
        "dropout": 0.0,
        "input_dropout": 0.2,
        "epochs": 10,
        "batch_size": None,
        "learning_rate": None,
        "validation_fraction": 0.05,
        "refit": False,
        "affinity": "arithmetic",
        "relu": True,
        "start": 0.0,
        "label_bias": False,
        "normalize": True,
        "scale": 1.0,
        "correction": 1.0,
        "margin": 0.3,
        "n_hard": 10,
        "n_regularized": 4096,
        "schedule": "linear",
        "patience": 5,
        "optimizer": "adam",
        "decay": 0.0,
    },
}
ADVANCED: Mapping[str, Constraint] = EPOCH_ADVANCED | {
    "affinity": OneOf(*HOWS),
    "relu": Boolean(),
    "start": NOT_NEGATIVE,
    "label_bias": Boolean(),
    "normalize": Boolean(),
    "scale": POSITIVE,
    "correction": NOT_NEGATIVE,
    "margin": NOT_NEGATIVE,
    "n_hard": Integer(1),
    "n_regularized": Integer(1),
}
