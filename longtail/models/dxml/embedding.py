"""Map points into the space of label vectors: the forward pass of trained regression networks, for prediction."""

from __future__ import annotations

import numpy as np

from longtail.kernels import pool
from longtail.kernels.dense_knn import Layers, embed_rows
from longtail.kernels.encode import SparseRows
from longtail.sparse import Arrays, frozen


def embed_points(networks: list[Arrays], x: SparseRows, relu: bool, n_jobs: int | None) -> np.ndarray:
    """Map points into the space of one or several networks; return vectors (N, l times the networks) of length 1.

    The outputs of the networks are concatenated, so that a cosine in this space is the mean of the networks' cosines. A
    point has exactly the same vector alone and in a batch.

    Parameters
    ----------
    networks : list of dict of arrays
        W1 (D, h), b1 (1, h), W2 (h, l) and b2 (1, l) of each network.
    x : SparseRows
        The points.
    relu : bool
        Whether the hidden layer has a ReLU.
    n_jobs : int, optional
        Number of threads; all cores by default.
    """
    n, width = len(x.ptr) - 1, networks[0]["W2"].shape[1]
    out = np.empty((n, len(networks) * width), np.float32)
    x = x.frozen()
    length = np.float32(1 / np.sqrt(len(networks)))
    for at, tables in enumerate(networks):
        W1, b1, W2, b2 = map(frozen, (tables["W1"], tables["b1"][0], tables["W2"], tables["b2"][0]))
        layers = Layers(W1, b1, W2, b2, relu, length)

        def work(block: tuple[int, int], layers: Layers = layers, column: int = at * width) -> None:
            embed_rows(x, layers, column, *block, out)

        pool.spread(work, n, n_jobs)
    return out
