"""A trained GLaS for prediction: encode points, search labels, compute the log odds of any label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from longtail.index import Index, array_rules, from_arrays
from longtail.kernels.combine import FLOOR
from longtail.kernels.encode import SparseRows
from longtail.neural.encoding import activate, sum_tokens
from longtail.neural.search import KnownLabels, queries, score_listed, search_labels
from longtail.sparse import Arrays, frozen, with_prefix, without_prefix
from longtail.store.invariants import Rules, floats, indices


@dataclass
class SumEncoder:
    """The encoder of points, which are sums of token vectors.

    Attributes
    ----------
    tokens : array, (D, d)
        Token vectors.
    bias : array, (d,)
        Added to each sum.
    relu, normalize : bool
        Whether a ReLU follows the sum, and whether the result is scaled to length 1.
    scale : float
        Last coordinate of a query, which multiplies the label biases (:func:`longtail.neural.search.with_bias`).
    """

    tokens: np.ndarray
    bias: np.ndarray
    relu: bool
    normalize: bool
    scale: float

    def __post_init__(self) -> None:
        self.tokens, self.bias = frozen(self.tokens), frozen(self.bias)

    def __call__(self, points: SparseRows, n_jobs: int | None) -> np.ndarray:
        """Return points as queries, (N, d + 1)."""
        sums = sum_tokens(points, self.tokens, self.bias, n_jobs)
        return queries(activate(sums, self.relu, self.normalize)[0], self.scale)


class GlasScorer:
    """A trained network that scores pairs.

    Parameters
    ----------
    encoder : SumEncoder
        Encodes points.
    index : Index
        Index of the label vectors with their biases.
    label_ids : array, (n,)
        Numbers of the labels that the network scores.
    n_labels : int
        Number of all labels.
    slope : float
        Factor that turns raw scores into log odds, up to a constant.
    """

    def __init__(
        self, encoder: SumEncoder, index: Index, label_ids: np.ndarray, n_labels: int, slope: float = 1.0
    ) -> None:
        self.encoder, self.index, self.slope = encoder, index, np.float32(slope)
        self.labels = KnownLabels(label_ids, n_labels)

    def encode(self, points: SparseRows, n_jobs: int | None) -> np.ndarray:
        """Encode points as queries, (N, d + 1)."""
        return self.encoder(points, n_jobs)

    def shortlist(self, encoded: np.ndarray, width: int, n_jobs: int | None) -> np.ndarray:
        """Return the labels with the highest scores, (N, `width`)."""
        return self.labels.numbers(search_labels(self.index, encoded, width, n_jobs), n_jobs)

    def log_odds(self, encoded: np.ndarray, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the log odds of listed labels, (N, S)."""
        positions = self.labels.positions(labels, n_jobs)
        return self.slope * score_listed(encoded, self.index.vectors, positions, n_jobs)

    def text_log_odds(
        self, encoded: np.ndarray, rows: np.ndarray, labels: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the log odds of pairs by label text, which this network does not use: those of an unknown label."""
        return np.full(len(labels), self.slope * FLOOR, np.float32)

    def network_tables(self) -> Arrays:
        """Return the tables from which training can continue: tokens, bias, label vectors and label biases."""
        vectors = self.index.vectors
        biases = vectors[:, -1] * np.float32(self.encoder.scale)
        tokens, bias = self.encoder.tokens, self.encoder.bias
        return {"tokens": tokens, "bias": bias, "labels": vectors[:, :-1], "label_bias": biases}

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return facts and arrays to store."""
        facts, arrays = self.index.to_arrays()
        own = {"tokens": self.encoder.tokens, "bias": self.encoder.bias, "label_ids": self.labels.ids}
        encoder = {"relu": self.encoder.relu, "normalize": self.encoder.normalize, "scale": self.encoder.scale}
        return {"index": facts, "encoder": encoder, "score_slope": float(self.slope)}, own | with_prefix(
            "index_", arrays
        )

    @staticmethod
    def array_rules(facts: dict[str, Any]) -> Rules:
        """Declare the rules that the arrays of :meth:`state` must meet."""
        own = {
            "tokens": floats("D d"),
            "bias": floats("d"),
            "label_ids": indices("labels", below="L", distinct=True, dtypes="i4 i8"),
        }
        return Rules(own) | array_rules(facts["index"], "labels", "d+1").prefixed("index_")

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays, n_labels: int) -> Self:
        """Restore the scorer from what :meth:`state` returned."""
        index = from_arrays(facts["index"], without_prefix("index_", arrays))
        encoder = SumEncoder(arrays["tokens"], arrays["bias"], **facts["encoder"])
        return cls(encoder, index, np.array(arrays["label_ids"]), n_labels, facts["score_slope"])
