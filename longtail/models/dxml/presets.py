"""DXML's presets and the constraints of its advanced parameters.

"paper" has the values of §4.1. The paper does not give walks and epochs; these are taken from re-implementations. Its
sizes depend on the data: vectors of 100 and a hidden layer of 256 for small data sets (up to 983 labels), 300 and 512
for large ones (from 30,938 labels on). Here data sets are large from 10,000 labels on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from longtail.models.epoch_ranker import EPOCH_ADVANCED
from longtail.params import DROPOUT, KEEP, SHARPNESS, Allowed, Boolean, Constraint, Integer, PathName, optional


def _are_edges(value: Any) -> bool:
    pairs = list | tuple | np.ndarray
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return False
    listed = isinstance(value, pairs) and len(value) > 0 and all(isinstance(edge, pairs) for edge in value)
    return listed or PathName().allows(value)


EDGES = Allowed(_are_edges, "a path, or a list of pairs of label numbers")
"""Constraint of a list of edges between labels."""

_DXML_FAST: dict[str, Any] = {  # None means chosen by the data
    "dim": 100,
    "hidden": None,
    "relu": True,
    "weighted": True,
    "n_walks": None,
    "walk_length": 30,
    "window": 2,
    "hierarchical": False,
    "whiten": True,
    "unit_targets": True,
    "summed": False,
    "n_networks": None,
    "epochs": 15,
    "batch_size": None,
    "learning_rate": None,
    "schedule": "linear",
    "patience": 5,
    "optimizer": "adam",
    "decay": 0.0,
    "dropout": 0.0,
    "input_dropout": 0.35,
    "idf": None,
    "n_neighbors": None,
    "sharpness": None,
    "feature_weight": None,
    "label_weight": None,
    "n_partitions": None,
    "n_probe": None,
    "recall": 0.98,
    "refit": None,
}
_DXML_PAPER: dict[str, Any] = {
    "dim": None,
    "weighted": False,
    "n_walks": 80,
    "window": 5,
    "hierarchical": True,
    "whiten": False,
    "unit_targets": False,
    "summed": True,
    "n_networks": 1,
    "epochs": 70,
    "learning_rate": 0.015,
    "schedule": "constant",
    "optimizer": "momentum",
    "decay": 5e-4,
    "dropout": 0.5,
    "input_dropout": 0.0,
    "idf": False,
    "sharpness": 0.0,
    "feature_weight": 0.0,
    "label_weight": 0.0,
    "n_probe": 1,
}
DXML_PRESETS = {"fast": _DXML_FAST, "paper": _DXML_FAST | _DXML_PAPER}
DXML_ADVANCED: dict[str, Constraint] = {
    **EPOCH_ADVANCED,
    "hidden": optional(Integer(1)),
    "relu": Boolean(),
    "weighted": Boolean(),
    "n_walks": optional(Integer(1)),
    "walk_length": Integer(1),
    "window": Integer(1),
    "hierarchical": Boolean(),
    "whiten": Boolean(),
    "unit_targets": Boolean(),
    "summed": Boolean(),
    "dropout": DROPOUT,
    "input_dropout": DROPOUT,
    "idf": optional(Boolean()),
    "sharpness": optional(SHARPNESS),
    "feature_weight": optional(SHARPNESS),
    "label_weight": optional(SHARPNESS),
    "n_partitions": optional(Integer(1)),
    "n_probe": optional(Integer(1)),
    "recall": KEEP,
}
_LARGE_DATA = 10_000


def default_batch_size(n_points: int) -> int:
    """Return a batch size of about a fortieth of the points, from 32 to 256."""
    return int(2 ** min(8, max(5, round(math.log2(max(1, n_points) / 40)))))


def default_rate(batch_size: int) -> float:
    """Return the learning rate of the fast preset for batches of this size."""
    return 0.006 * (batch_size / 256) ** 0.5


def paper_widths(n_labels: int) -> dict[str, int]:
    """Return the paper's length of label vectors and width of the hidden layer for `n_labels` labels."""
    return {"dim": 100, "hidden": 256} if n_labels < _LARGE_DATA else {"dim": 300, "hidden": 512}
