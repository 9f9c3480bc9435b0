"""Popular: the most frequent labels, the same for every point. The floor that any model must clear.

It shows how much of a measure is bought by frequency alone: on skewed labels its P@1 can look respectable while its
propensity-scored figures and its coverage are close to nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail.models.base import Arrays, Ranker

_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


class Popular(Ranker):
    """The most frequent labels, the same for every point: the baseline.

    A label's score is its share of the training points.
    """

    kind: ClassVar[str] = "popular"

    def __init__(self) -> None:
        pass

    def _fit(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: tuple[csr_array, csr_array] | None
    ) -> None:
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        order = np.argsort(-counts, kind="stable")  # equal counts by smaller index
        self.labels_ = order[: np.count_nonzero(counts)].astype(np.int32)
        share = counts[self.labels_] / (Y.shape[0] + 1)
        self.share_ = np.minimum(share.astype(np.float32), _BELOW_ONE)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        n, k = X.shape[0], min(k, self.labels_.size)
        indptr = np.arange(n + 1, dtype=np.int64 if n * k >= 2**31 else np.int32) * k
        labels, scores = np.tile(self.labels_[:k], n), np.tile(self.share_[:k], n)
        return csr_array((scores, labels, indptr), shape=(n, self.n_labels_))

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {}, {"labels": self.labels_, "share": self.share_}, {}

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.labels_, self.share_ = arrays["labels"], arrays["share"]
