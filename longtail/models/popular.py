"""Popular: the most frequent labels, the same for every point. It is the baseline that any model must beat.

It shows how much of a metric is due to label frequency alone. If a few labels are very frequent, its P@1 may be high,
while its propensity-scored metrics and its coverage are close to 0.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail.models.base import Arrays, Ranker
from longtail.sparse import Pair, bounded_scores, from_top_k, label_counts
from longtail.store import Stored
from longtail.store.invariants import Rules, floats, indices


class Popular(Ranker):
    """The most frequent labels, the same for every point: the baseline.

    The score of a label is its share of the training points.
    """

    kind: ClassVar[str] = "popular"
    _data_copies: ClassVar[float] = 0.3

    def __init__(self) -> None:
        pass

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        counts = label_counts(Y)
        order = np.argsort(-counts, kind="stable")  # equal counts by smaller index
        self.labels_ = order[: np.count_nonzero(counts)].astype(np.int32)
        share = counts[self.labels_] / (Y.shape[0] + 1)
        self.share_ = bounded_scores(share)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        n, k = X.shape[0], min(k, self.labels_.size)
        labels, scores = np.tile(self.labels_[:k], (n, 1)), np.tile(self.share_[:k], (n, 1))
        return from_top_k(labels, scores, None, self.n_labels_)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {}, {"labels": self.labels_, "share": self.share_}, {}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return Rules({"labels": indices("n", below="L", distinct=True), "share": floats("n", least=0, most=1)})

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.labels_, self.share_ = arrays["labels"], arrays["share"]
