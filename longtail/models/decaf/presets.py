"""DECAF's presets, and the constraints of its advanced parameters.

"paper" has the values of the paper's supplement: all epochs on all points, whole shortlists, three networks. Its sizes
depend on the data (:func:`paper_sizes`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from longtail.neural.choices import SCHEDULES
from longtail.params import DROPOUT, NOT_NEGATIVE, POSITIVE, Boolean, Constraint, Integer, OneOf, PathName, optional

MOST_PER_STEP = 256  # largest batch size that is chosen by default
LISTED = 24  # labels listed per training point, from which hard negatives are drawn; some of them are correct

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {
        "dim": 256,
        "n_networks": 3,
        "shortlist": "search",
        "n_candidates": 2048,
        "n_hard": 8,
        "dropout": 0.3,
        "epochs": 8,
        "batch_size": None,
        "learning_rate": 0.1,
        "validation_fraction": 0.05,
        "init": "text",
        "lite": False,
        "shared": True,
        "correction": 0.4,
        "forget": 0.1,
        "input_dropout": 0.0,
        "prior": True,
        "spectral": False,
        "token_length": 1.0,
        "token_vectors": None,
        "centroid_length": 4.0,
        "block_rate": 0.04,
        "surrogate_epochs": 0,
        "optimizer": "row_adagrad",
        "relu": False,
        "schedule": "linear",
        "patience": 3,
        "adjust": True,
        "own_labels": "auto",
    },
    "paper": {
        "dim": None,
        "n_networks": 3,
        "shortlist": "clusters",
        "n_candidates": 8192,
        "n_hard": None,
        "dropout": 0.2,
        "epochs": 10,
        "batch_size": 255,
        "learning_rate": 0.008,
        "validation_fraction": 0.0,
        "init": "text",
        "lite": False,
        "shared": False,
        "correction": 0.0,
        "forget": 0.0,
        "input_dropout": 0.0,
        "prior": False,
        "spectral": True,
        "token_length": 1.0,
        "token_vectors": None,
        "centroid_length": 0.0,
        "block_rate": 1.0,
        "surrogate_epochs": 20,
        "optimizer": "adam",
        "relu": True,
        "schedule": "halved",
        "patience": 3,
        "adjust": False,
        "own_labels": "auto",
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
    "token_vectors": optional(PathName()),
    "centroid_length": NOT_NEGATIVE,
    "block_rate": POSITIVE,
    "surrogate_epochs": Integer(0),
    "optimizer": OneOf("adam", "row_adagrad"),
    "relu": Boolean(),
    "schedule": OneOf(*SCHEDULES),
    "patience": Integer(1),
    "adjust": Boolean(),
    "own_labels": OneOf("auto", "keep", "drop"),
}


def paper_sizes(n_labels: int) -> tuple[int, int]:
    """Return the paper's vector length and number of clusters for `n_labels` labels.

    The paper has vectors of length 300 for up to 320,000 labels and 512 for more, and 2^15 clusters for 131,000 labels
    and 2^17 for 320,000 and more. With fewer labels than any data set of the paper, a cluster has four labels, as with
    131,000.
    """
    few = 1 << max(1, int(math.log2(max(2, n_labels / 4))))
    return (300 if n_labels <= 320_000 else 512), (min(few, 1 << 15) if n_labels <= 200_000 else 1 << 17)
