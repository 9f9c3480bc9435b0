"""The norm of each label's weights: the observation that TAug starts from (paper, Fig. 1 and 2).

The norm of a label's weight vector grows with the label's frequency, so that rare labels are scored too low. In label
trees the weights are those of the labels' own nodes, without the inner nodes (§3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.errors import ModelError
from longtail.linear.forest import Forest
from longtail.models.base import Ranker, inner_rankers


def label_norms(ranker: Ranker) -> np.ndarray:
    """Return the norm of each label's weights, (L,); NaN for labels without a classifier.

    A ranker with classifiers of its own defines ``_label_norms()``. Of several rankers within a ranker the first with a
    classifier for a label counts, so that TAug has the norms of its head labels from one side and those of its tail
    labels from the other.
    """
    norms = np.full(ranker.n_labels_, np.nan)
    parts = _norms(ranker)
    if not parts:
        raise ModelError(
            f"A {type(ranker).__name__} has no classifier per label whose norm could be shown. "
            "Models that have: bonsai, parabel, dismec, glas, and rankers that wrap them."
        )
    for part in parts:
        norms = np.where(np.isnan(norms), part[: len(norms)], norms)  # TAug's sides have one label more
    return norms


def _norms(ranker: Ranker) -> list[np.ndarray]:
    """Return the norms of a ranker and of the rankers in it, one array each."""
    own: Any = getattr(ranker, "_label_norms", None)
    if own is not None:
        return [own()]
    forest = getattr(ranker, "forest_", None)
    if isinstance(forest, Forest):
        return [_forest_norms(forest, ranker.n_labels_)]
    return [norms for one in inner_rankers(ranker) for norms in _norms(one)]


def _forest_norms(forest: Forest, n_labels: int) -> np.ndarray:
    """Return the mean over trees of the norm of each label's node."""
    total, times = np.zeros(n_labels), np.zeros(n_labels)
    for t in range(len(forest.ptr)):
        span = slice(forest.ptr[t, 0], forest.ptr[t, -1])
        nodes = forest.nodes[span].astype(np.int64)
        n_nodes = int(forest.node_at[t + 1] - forest.node_at[t])
        scale = forest.scale[forest.node_at[t] : forest.node_at[t + 1]].astype(np.float64)
        squares = np.bincount(nodes, forest.values[span].astype(np.float64) ** 2, minlength=n_nodes) * scale**2
        labels = forest.labels[forest.label_at[t] : forest.label_at[t + 1]]
        total[labels] += np.sqrt(squares[n_nodes - len(labels) :])
        times[labels] += 1
    return np.where(times > 0, total / np.maximum(times, 1), np.nan)
