"""Compute the norm of each label's weights: the observation that motivates TAug (paper, Fig. 1 and 2).

The norm of a label's weight vector grows with the label's frequency, so that rare labels get scores that are too low.
In label trees, the weights are those of the labels' own nodes, without the inner nodes (§3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.errors import ModelError
from longtail.linear.forest import Forest
from longtail.models.base import Ranker, inner_rankers


def label_norms(ranker: Ranker) -> np.ndarray:
    """Return the norm of each label's weights, (L,), with NaN for labels without a classifier.

    A ranker that has classifiers itself defines ``_label_norms()``. If a ranker contains several rankers, the first one
    with a classifier for a label is used. For TAug, the norms of head labels thus come from the ranker of the head, and
    those of tail labels from the ranker of the tail.
    """
    norms = np.full(ranker.n_labels_, np.nan)
    parts = _norms(ranker)
    if not parts:
        raise ModelError(
            f"A {type(ranker).__name__} has no classifier per label whose norm could be shown. "
            "Models that have: bonsai, parabel, dismec, glas, and rankers that wrap them."
        )
    for part in parts:
        norms = np.where(np.isnan(norms), part[: len(norms)], norms)  # each part of TAug has one additional label
    return norms


def _norms(ranker: Ranker) -> list[np.ndarray]:
    """Return the norms of a ranker, or of the rankers inside it, as one array per ranker with classifiers."""
    own_norms: Any = getattr(ranker, "_label_norms", None)
    if own_norms is not None:
        return [own_norms()]
    forest = getattr(ranker, "forest_", None)
    if isinstance(forest, Forest):
        return [_forest_norms(forest, ranker.n_labels_)]
    return [norms for inner in inner_rankers(ranker) for norms in _norms(inner)]


def _forest_norms(forest: Forest, n_labels: int) -> np.ndarray:
    """Return the mean over trees of the norm of each label's node."""
    total, n_trees = np.zeros(n_labels), np.zeros(n_labels)
    for t in range(len(forest.ptr)):
        span = slice(forest.ptr[t, 0], forest.ptr[t, -1])
        nodes = forest.nodes[span].astype(np.int64)
        n_nodes = int(forest.node_at[t + 1] - forest.node_at[t])
        scale = forest.scale[forest.node_at[t] : forest.node_at[t + 1]].astype(np.float64)
        squares = np.bincount(nodes, forest.values[span].astype(np.float64) ** 2, minlength=n_nodes) * scale**2
        labels = forest.labels[forest.label_at[t] : forest.label_at[t + 1]]
        total[labels] += np.sqrt(squares[n_nodes - len(labels) :])
        n_trees[labels] += 1
    return np.where(n_trees > 0, total / np.maximum(n_trees, 1), np.nan)
