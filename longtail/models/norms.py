"""How long the classifier of each label is: what TAug is about (paper, Fig. 1 and 2).

The norm of a label's weights follows the label's frequency, so that rare labels are scored too low. In trees the
weights are those of the labels' own nodes, without the inner nodes (§3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.errors import ModelError
from longtail.linear.forest import Forest
from longtail.models.base import Ranker

_INSIDE = ("base_", "tail_", "members_", "ranker_")  # where rankers keep the rankers in them


def label_norms(ranker: Ranker) -> np.ndarray:
    """Norm of the weights of each label, (L,); NaN for labels without a classifier.

    Of rankers within a ranker the first that knows a label counts, so that TAug has its head labels' norms from one
    side and its tail labels' from the other.
    """
    norms = np.full(ranker.n_labels_, np.nan)
    found = _norms(ranker)
    if not found:
        raise ModelError(
            f"A {type(ranker).__name__} has no classifier a label whose norm could be shown. "
            "Models that have: bonsai, parabel, dismec, glas, and what wraps them."
        )
    for some in found:
        norms = np.where(np.isnan(norms), some[: len(norms)], norms)  # TAug's sides have one label more
    return norms


def _norms(ranker: Ranker) -> list[np.ndarray]:
    loose: Any = ranker
    forest = getattr(ranker, "forest_", None)
    if isinstance(forest, Forest):
        return [_of_trees(forest, ranker.n_labels_)]
    if ranker.kind == "glas":
        norms = np.full(ranker.n_labels_, np.nan)
        norms[loose.label_ids_] = np.linalg.norm(loose.instance_.labels[:, :-1], axis=1)  # the last number is the bias
        return [norms]
    inside = [getattr(ranker, name, None) for name in _INSIDE]
    flat = [one for part in inside for one in (part if isinstance(part, list) else [part])]
    return [norms for one in flat if isinstance(one, Ranker) for norms in _norms(one)]


def _of_trees(forest: Forest, n_labels: int) -> np.ndarray:
    """The mean over trees of the norm of each label's node."""
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
