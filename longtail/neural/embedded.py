"""A trained embedding network (:mod:`longtail.neural.network`) as what answers: points to vectors, labels under search.

Apart from its encoder it is what DECAF's instances are, so that both are searched, mixed and asked in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.index import from_arrays, make_index
from longtail.neural.instance import ONE_BY_ONE, Arrays, Instance
from longtail.neural.network import Network, encode_all
from longtail.neural.search import queries, with_bias

_DEPTH = 20  # labels of which an approximate index is to find all but a few


@dataclass
class SumEncoder:
    """Points as sums of their tokens' vectors, ready to be searched with.

    Attributes
    ----------
    tokens : array, (D, d)
    bias : array, (d,)
    relu, normalize : bool
        See :class:`longtail.neural.network.NetworkSettings`.
    scale : float
        That of :func:`longtail.neural.search.with_bias`.
    slope : float
        What inner products are multiplied with, to be log odds.
    """

    tokens: np.ndarray
    bias: np.ndarray
    relu: bool
    normalize: bool
    scale: float
    slope: float

    def __call__(self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Points given by the three arrays of their CSR as queries, (N, d + 1)."""
        h = encode_all(ptr, idx, val, self.tokens, self.bias, self.relu, self.normalize, True, n_jobs)
        found = queries(h, self.scale)
        if self.slope != 1:
            found *= np.float32(self.slope)
        return found


def answering(network: Network, slope: float, sample: csr_array | None, seed: int, mixed: bool = False) -> Instance:
    """A trained network as what answers.

    Parameters
    ----------
    network : Network
    slope : float
        What its scores are multiplied with, to be log odds.
    sample : csr_array, (n, D), optional
        Points that an index of many labels is tuned on; without, it looks at all labels.
    seed : int
        Of that index.
    mixed : bool
        Whether other views list labels, too: then the search may miss some of them, and so be faster.
    """
    tables, settings = network.scorer(), network.settings
    vectors, scale = with_bias(tables["labels"], tables["label_bias"])
    encoder = SumEncoder(tables["tokens"], tables["bias"], settings.relu, settings.normalize, scale, slope)
    if sample is None or (mixed and len(vectors) <= ONE_BY_ONE):
        index = make_index(vectors, "ip", "exact")
    else:
        kind = "auto"
        tuned: dict[str, Any] = {"recall_k": _DEPTH}
        if mixed:  # small partitions: most of a point's time goes into this
            kind, tuned = "ivf", {"recall_k": 10, "recall": 0.9, "n_partitions": round(3 * len(vectors) ** 0.5)}
        asked = encoder(sample.indptr, sample.indices, sample.data, settings.n_jobs)
        index = make_index(vectors, "ip", kind, queries=asked, random_state=seed, n_jobs=settings.n_jobs, **tuned)
    return Instance(encoder, None, index.vectors, index)


def scorer(instance: Instance) -> Arrays:
    """What :meth:`Network.scorer` gave, to go on from."""
    encoder, labels = instance.encoder, instance.labels
    assert isinstance(encoder, SumEncoder)
    biases = labels[:, -1] * np.float32(encoder.scale)
    return {"tokens": encoder.tokens, "bias": encoder.bias, "labels": labels[:, :-1], "label_bias": biases}


def state(instance: Instance) -> tuple[dict[str, Any], Arrays]:
    """Facts and arrays to store."""
    encoder, index = instance.encoder, instance.index
    assert isinstance(encoder, SumEncoder)
    assert index is not None
    facts, arrays = index.to_arrays()
    held = {f"index_{name}": array for name, array in arrays.items()}
    held |= {"tokens": encoder.tokens, "bias": encoder.bias}
    return {"index": facts, "bias_scale": encoder.scale}, held


def restored(facts: dict[str, Any], arrays: Arrays, relu: bool, normalize: bool, slope: float) -> Instance:
    """What :func:`state` took apart, among other facts and arrays."""
    held = {name.removeprefix("index_"): array for name, array in arrays.items() if name.startswith("index_")}
    index = from_arrays(facts["index"], held)
    encoder = SumEncoder(arrays["tokens"], arrays["bias"], relu, normalize, facts["bias_scale"], slope)
    return Instance(encoder, None, index.vectors, index)
