"""DECAF's presets, and the constraints of what a user may set beyond the constructor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail.neural.choices import SCHEDULES
from longtail.params import DROPOUT, NOT_NEGATIVE, POSITIVE, Boolean, Constraint, Integer, OneOf

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {
        "dim": 256,
        "n_networks": 1,
        "shortlist": "search",
        "n_candidates": 2048,
        "n_hard": 4,
        "dropout": 0.1,
        "epochs": 10,
        "batch_size": None,
        "learning_rate": 0.03,
        "validation_fraction": 0.05,
        "init": "text",
        "lite": False,
        "shared": True,
        "correction": 0.1,
        "forget": 0.1,
        "input_dropout": 0.0,
        "prior": True,
        "spectral": False,
        "token_length": 0.3,
        "block_rate": 0.2,
        "surrogate_epochs": 0,
        "schedule": "linear",
        "patience": 3,
    },
    "paper": {
        "dim": 300,
        "n_networks": 3,
        "shortlist": "clusters",
        "n_candidates": 8192,
        "n_hard": 100,
        "dropout": 0.2,
        "epochs": 10,
        "batch_size": 255,
        "learning_rate": 0.008,
        "validation_fraction": 0.05,
        "init": "text",
        "lite": False,
        "shared": False,
        "correction": 0.0,
        "forget": 0.0,
        "input_dropout": 0.0,
        "prior": False,
        "spectral": True,
        "token_length": 1.0,
        "block_rate": 1.0,
        "surrogate_epochs": 20,
        "schedule": "halved",
        "patience": 3,
    },
}
ADVANCED: Mapping[str, Constraint] = {
    "init": OneOf("text", "random"),
    "lite": Boolean(),
    "shared": Boolean(),
    "correction": NOT_NEGATIVE,
    "forget": DROPOUT,
    "input_dropout": DROPOUT,
    "prior": Boolean(),
    "spectral": Boolean(),
    "token_length": POSITIVE,
    "block_rate": POSITIVE,
    "surrogate_epochs": Integer(0),
    "schedule": OneOf(*SCHEDULES),
    "patience": Integer(1),
}
