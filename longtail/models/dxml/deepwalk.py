"""Label vectors from a label graph by DeepWalk (Perozzi et al., 2014): random walks, then skip-gram on them.

Skip-gram runs on one thread, so that a seed always gives the same vectors. Vectors are centred and scaled to length 1.
A label without edges keeps its random initial direction, which is nearly orthogonal to all other vectors, so that even
a graph without edges gives usable vectors.

Vectors are cached. A second model on the same graph with the same settings takes them from :data:`vector_cache` in the
same process or, if a folder is given, in any other process.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zipfile
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from longtail import progress, store
from longtail.errors import BROKEN_ARRAY, DataError, SettingsError
from longtail.kernels import pool
from longtail.kernels import walks as kernels
from longtail.params import Integer
from longtail.sparse import labelled_rows

_WALKS_AT_ONCE = 1 << 18
_NEGATIVE_TABLE = 1 << 20  # entries of the table from which negatives are drawn
_WALK_LIMITS = {name: Integer(1) for name in ("dim", "n_walks", "length", "window", "n_negative", "epochs")}


class VectorCache:
    """A cache of label vectors in this process; the least recently used ones are dropped first.

    Parameters
    ----------
    n_bytes : int
        Bytes of vectors to keep, at most. The newest ones are always kept.
    """

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> np.ndarray | None:
        """Return the vectors stored under a key, or None."""
        with self._lock:
            if key in self._vectors:
                self._vectors.move_to_end(key)
            return self._vectors.get(key)

    def put(self, key: str, vectors: np.ndarray) -> None:
        """Store vectors under a key."""
        with self._lock:
            self._vectors[key] = vectors
            while len(self._vectors) > 1 and sum(kept.nbytes for kept in self._vectors.values()) > self.n_bytes:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        """Remove all vectors."""
        with self._lock:
            self._vectors.clear()


vector_cache = VectorCache(1 << 28)
"""The cache of this process; ``vector_cache.clear()`` frees its memory."""


@dataclass(frozen=True)
class WalkSettings:
    """How label vectors are learnt.

    Parameters
    ----------
    dim : int
        ℓ, the number of coordinates of a vector.
    n_walks : int
        Number of walks from each label.
    length : int
        Number of labels per walk.
    window : int
        Largest distance in a walk between a label and its context.
    n_negative : int
        Number of negative labels drawn per pair of a label and its context.
    hierarchical : bool
        Use hierarchical softmax, as in the paper on DeepWalk, instead of negative labels.
    epochs : int
        Number of passes over the walks.
    rate : float
        Learning rate at the start.
    seed : int
        Seed of the walks and the initial vectors.
    """

    dim: int = 100
    n_walks: int = 10
    length: int = 30
    window: int = 2
    n_negative: int = 5
    epochs: int = 1
    rate: float = 0.025
    hierarchical: bool = False
    seed: int = 0

    def check(self) -> None:
        """Raise an error for values outside their limits."""
        for name, limit in _WALK_LIMITS.items():
            value = getattr(self, name)
            if not limit.allows(value):
                raise SettingsError(f"{name} is {value!r}; give {limit}")


def learn_vectors(
    graph: csr_array, settings: WalkSettings, cache: str | os.PathLike[str] | None = None, n_jobs: int | None = None
) -> np.ndarray:
    """Learn vectors of the labels of a graph, or take them from a cache.

    Parameters
    ----------
    graph : csr_array, (L, L)
        The label graph; see :mod:`longtail.models.dxml.label_graph`.
    settings : WalkSettings
        How walks are drawn and vectors learnt.
    cache : path, optional
        Folder in which vectors are stored for other processes.
    n_jobs : int, optional
        Number of threads for the walks; all cores by default.

    Returns
    -------
    array, (L, dim)
        Rows of length 1, read-only.
    """
    settings.check()
    key = _cache_key(graph, settings)
    vectors = vector_cache.get(key)
    if vectors is not None:
        return vectors
    path = None if cache is None else Path(cache) / f"labels-{key}.npy"
    vectors = None if path is None else _read_vectors(path, (graph.shape[0], settings.dim))
    if vectors is None:
        vectors = _by_skip_gram(graph, settings, n_jobs)
        if len(vectors) > 2:  # skip-gram moves all vectors in one common direction, which says nothing about labels
            vectors = vectors - vectors.mean(axis=0)
        vectors = unit_vectors(vectors)
        if path is not None:
            _write_vectors(path, vectors)
    vectors.flags.writeable = False
    vector_cache.put(key, vectors)
    return vectors


def _cache_key(graph: csr_array, settings: WalkSettings) -> str:
    """Return a hash of the graph and the settings."""
    key = hashlib.blake2b(repr((graph.shape, sorted(asdict(settings).items()))).encode(), digest_size=12)
    for part in (graph.indptr.astype(np.int64), graph.indices, graph.data):
        key.update(np.ascontiguousarray(part).data)
    return key.hexdigest()


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Scale the rows of a dense array to length 1; rows of zeros stay."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.ascontiguousarray(vectors / np.where(length > 0, length, 1), np.float32)


def whitened(vectors: np.ndarray) -> np.ndarray:
    """Whiten vectors: subtract the mean, make coordinates uncorrelated, and scale rows to length 1.

    This separates labels that skip-gram puts close together. Directions in which rows hardly differ are left out, so
    that noise is not amplified. A row that becomes almost zero, such as that of a single label, is not changed.
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    variances, axes = np.linalg.eigh(centred.T @ centred / len(vectors))
    used = variances > max(1e-4 * variances.max(), 1e-12)
    white = centred @ (axes[:, used] / np.sqrt(variances[used])) @ axes[:, used].T
    vanished = np.einsum("ij,ij->i", white, white) < 1e-12
    return unit_vectors(np.where(vanished[:, None], vectors, white))


class Walker:
    """Draws random walks on a graph; each step follows an edge with probability in proportion to its weight.

    Parameters
    ----------
    graph : csr_array, (L, L)
        The graph.
    n_jobs : int, optional
        Number of threads; all cores by default.
    """

    def __init__(self, graph: csr_array, n_jobs: int | None = None) -> None:
        indptr, indices = graph.indptr.astype(np.int64), graph.indices.astype(np.int32)
        equal_weights = bool(graph.nnz == 0 or (graph.data == graph.data[0]).all())
        size = 0 if equal_weights else graph.nnz  # of the alias tables, which only unequal weights need
        self.n_jobs = n_jobs
        tables = np.empty(size, np.float32), np.empty(size, np.int32)
        self.edges = kernels.Edges(indptr, indices, *tables, equal_weights)
        if not equal_weights:
            weights = graph.data.astype(np.float32)
            blocks = pool.blocks(graph.shape[0], n_jobs, 1024)
            pool.run(lambda block: kernels.fill_alias_tables(self.edges, weights, *block), blocks, n_jobs)

    def walk(self, starts: np.ndarray, length: int, seed: int = 0) -> np.ndarray:
        """Draw one walk from each start.

        Parameters
        ----------
        starts : int array, (W,)
            Label at which each walk starts.
        length : int
            Number of labels per walk, the first included.
        seed : int
            Seed of the walks. A walk depends on the seed and its own number only.

        Returns
        -------
        int32 array, (W, length)
            Labels of each walk; -1 after a label without edges.
        """
        starts = np.ascontiguousarray(starts, np.int32)
        out = np.empty((len(starts), length), np.int32)
        blocks = pool.blocks(len(starts), self.n_jobs, 1024)
        pool.run(lambda block: kernels.walk(self.edges, starts, seed, *block, out), blocks, self.n_jobs)
        return out


def _walk_starts(graph: csr_array, settings: WalkSettings) -> tuple[list[np.ndarray], np.random.Generator]:
    """Return the starts of all walks in blocks: `n_walks` random permutations of the labels with edges."""
    rng = np.random.default_rng([settings.seed, 1])
    with_edges = labelled_rows(graph).astype(np.int32)
    permutations = [rng.permutation(with_edges) for _ in range(settings.n_walks)] if len(with_edges) else []
    starts = np.concatenate(permutations) if permutations else np.empty(0, np.int32)
    return [starts[at : at + _WALKS_AT_ONCE] for at in range(0, len(starts), _WALKS_AT_ONCE)], rng


def _random_directions(n_labels: int, dim: int, seed: int) -> np.ndarray:
    """Return initial vectors: random directions of length 1.

    word2vec starts near zero. All vectors then first turn into one common direction, and a graph of some hundred labels
    has too few walks to separate them again.
    """
    return unit_vectors(np.random.default_rng([seed, 2]).standard_normal((n_labels, dim), np.float32))


def _by_skip_gram(graph: csr_array, settings: WalkSettings, n_jobs: int | None) -> np.ndarray:
    """Learn vectors by skip-gram on random walks."""
    vectors = _random_directions(graph.shape[0], settings.dim, settings.seed)
    blocks, rng = _walk_starts(graph, settings)
    seeds = rng.integers(2**62, size=len(blocks))
    walker = Walker(graph, n_jobs)
    total = settings.epochs * sum(map(len, blocks))
    if settings.hierarchical:
        inner = np.zeros((max(1, len(vectors) - 1), settings.dim), np.float32)
        coded = kernels.CodedSpace(vectors, inner, *huffman_paths(np.asarray(graph.sum(axis=1)).ravel()))
    else:
        space = kernels.Space(vectors, np.zeros_like(vectors), _negative_table(graph))
    n_walked = 0
    with progress.stage("label vectors") as done:
        for epoch in range(settings.epochs):
            for starts, seed in zip(blocks, seeds, strict=True):
                walks = walker.walk(starts, settings.length, int(seed) + epoch)
                pace = kernels.Pace(settings.rate, float(n_walked), float(total))
                if settings.hierarchical:
                    kernels.skip_gram_coded(walks, settings.window, coded, pace, int(seed) + epoch)
                else:
                    kernels.skip_gram(walks, settings.window, settings.n_negative, space, pace, int(seed) + epoch)
                n_walked += len(starts)
                done(len(starts) / total)
    return vectors


def _negative_table(graph: csr_array) -> np.ndarray:
    """Return a table of labels from which negatives are drawn uniformly.

    A label is in it in proportion to the sum of the weights of its edges, to the power of 3/4.
    """
    weight = np.asarray(graph.sum(axis=1), np.float64).ravel() ** 0.75
    if not weight.any():
        return np.zeros(1, np.int32)
    bounds = np.cumsum(weight) / weight.sum()
    return np.searchsorted(bounds, (np.arange(_NEGATIVE_TABLE) + 0.5) / _NEGATIVE_TABLE).astype(np.int32)


def huffman_paths(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the path from the root of a Huffman tree to each label. Labels with a large weight have short paths.

    Parameters
    ----------
    weights : array, (L,)
        Weight of each label.

    Returns
    -------
    ptr, path, right : arrays
        The path of label l leads through the inner nodes ``path[ptr[l]:ptr[l + 1]]``, numbered from 0 to L - 2. It
        goes to the right child where `right` is 1.
    """
    order = np.argsort(weights, kind="stable")
    parent, side, depth = kernels.huffman_tree(np.asarray(weights, np.float64)[order])
    lengths = np.empty(len(order), np.int64)
    lengths[order] = depth[: len(order)]
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    path, right = np.empty(ptr[-1], np.int64), np.empty(ptr[-1], np.float32)
    kernels.fill_paths(order, parent, side, ptr, path, right)
    return ptr, path, right


def _read_vectors(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Read the vectors of a cache file; return None if there is no such file."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            vectors = np.load(file, allow_pickle=False)
    except (*BROKEN_ARRAY, zipfile.BadZipFile) as error:
        raise DataError(f"damaged ({error})", path=path, remedy="Remove it; it will be made again") from error
    if vectors.shape != shape or vectors.dtype != np.float32:
        raise DataError("holds other vectors than its name says", path=path, remedy="Remove it; it will be made again")
    return vectors


def _write_vectors(path: Path, vectors: np.ndarray) -> None:
    """Write a cache file, completely or not at all, even if two processes write the same file."""
    with store.atomic_file(path) as fresh, fresh.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
