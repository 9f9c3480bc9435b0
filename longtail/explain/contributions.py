"""The contribution of each feature to the score of a label, for models in which features add up.

A label tree without inner nodes, such as DiSMEC's, has one linear classifier per label: its log odds are a bias plus
one term per feature. In a tree with inner nodes the score is a product over the path, and features do not add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail.linear.forest import SLOPES
from longtail.models.base import Ranker
from longtail.models.label_tree import LabelTreeRanker
from longtail.sparse import logistic, unit_rows


@dataclass(frozen=True)
class Contributions:
    """The log odds of one label as a sum: `bias` plus one effect per feature of the point."""

    columns: np.ndarray  # numbers of the point's features
    effects: np.ndarray  # (len(columns),) what each of them adds
    bias: float
    n_features: int

    @property
    def log_odds(self) -> float:
        """The log odds of the label."""
        return self.bias + float(self.effects.sum())

    @property
    def score(self) -> float:
        """The probability of the label."""
        return float(logistic(self.log_odds))


def is_additive(ranker: Ranker) -> bool:
    """Return whether the log odds of a label are a sum over features: one label tree without inner nodes."""
    return isinstance(ranker, LabelTreeRanker) and len(ranker.forest_.ptr) == 1 and len(ranker.forest_.level_ptr) == 2


def contributions(ranker: Ranker, point: csr_array, label: int) -> Contributions | None:
    """Return the contribution of each feature of a point to a label; None if the label has no classifier.

    Parameters
    ----------
    ranker : Ranker
        A fitted ranker for which :func:`is_additive` holds.
    point : csr_array, (1, D)
        One point.
    label : int
        A label.
    """
    assert isinstance(ranker, LabelTreeRanker)
    forest, slope = ranker.forest_, SLOPES[ranker.loss]
    node = np.flatnonzero(forest.labels == label)  # without inner nodes, the position of a label is its node
    if not len(node):
        return None
    point = unit_rows(point) if ranker.normalize else point
    weights = np.zeros(len(point.indices))
    for at, feature in enumerate(point.indices.tolist()):
        row = slice(forest.ptr[0, 2 * feature + 1], forest.ptr[0, 2 * feature + 2])
        weights[at] = forest.values[row][forest.nodes[row] == node[0]].sum()
    effects = slope * float(forest.scale[node[0]]) * weights * point.data
    return Contributions(point.indices, effects, slope * float(forest.bias[node[0]]), point.shape[1])
