"""Label vectors from a label graph by DeepWalk (Perozzi et al., 2014): random walks, then skip-gram on them.

Skip-gram is gensim's, or a kernel of our own that needs nothing installed; either runs on one thread, because only so
does a seed give the same vectors again. Vectors are centred and of length 1. A label without edges keeps the random
direction it starts with, at nearly a right angle to all others, so a graph without any edge still gives usable vectors.

Vectors are kept: a second model on the same graph with the same settings gets them at once, in this process or, with a
folder, in any other.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.errors import DataError, SettingsError
from longtail.kernels import pool
from longtail.kernels import walks as kernels

SKIP_GRAMS = ("kernel", "gensim")
_HELD = 1 << 28  # bytes of vectors kept in this process
_BLOCK = 1 << 18  # walks held at once
_DRAWS = 1 << 20  # entries of the table that negatives are drawn from
_kept: OrderedDict[str, np.ndarray] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class WalkSettings:
    """How labels are walked and learnt.

    Parameters
    ----------
    dim : int
        ℓ, the length of a vector.
    n_walks : int
        Walks from each label.
    length : int
        Labels of a walk.
    window : int
        Labels at most so far apart in a walk are neighbours.
    n_negative : int
        Labels drawn against each pair of neighbours.
    epochs : int
        Passes over the walks.
    rate : float
        Learning rate at the start.
    skip_gram : {"kernel", "gensim"}
    seed : int
    """

    dim: int = 100
    n_walks: int = 10
    length: int = 30
    window: int = 2
    n_negative: int = 5
    epochs: int = 1
    rate: float = 0.025
    skip_gram: str = "kernel"
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be."""
        if self.skip_gram not in SKIP_GRAMS:
            raise SettingsError(f"skip_gram is {self.skip_gram!r}; choose one of {', '.join(SKIP_GRAMS)}")
        for name in ("dim", "n_walks", "length", "window", "n_negative", "epochs"):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < 1:
                raise SettingsError(f"{name} is {value!r}; give a whole number from 1")


def label_vectors(
    graph: csr_array, settings: WalkSettings, cache: str | os.PathLike[str] | None = None, n_jobs: int | None = None
) -> np.ndarray:
    """Vectors of the labels of a graph.

    Parameters
    ----------
    graph : csr_array, (L, L)
        See :mod:`longtail.labels.graph`.
    settings : WalkSettings
    cache : path, optional
        Folder in which vectors are kept for other processes.
    n_jobs : int, optional
        Threads for the walks.

    Returns
    -------
    array, (L, dim)
        Rows of length 1, not to be written to.
    """
    settings.check()
    key = fingerprint(graph, settings)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    path = None if cache is None else Path(cache) / f"labels-{key}.npy"
    vectors = None if path is None else _read(path, (graph.shape[0], settings.dim))
    if vectors is None:
        learn = _with_gensim if settings.skip_gram == "gensim" else _with_kernel
        vectors = learn(graph, settings, n_jobs)
        if len(vectors) > 2:  # all share one direction, which only says that random pairs are unlikely
            vectors = vectors - vectors.mean(axis=0)
        vectors = unit(vectors)
        if path is not None:
            _write(path, vectors)
    vectors.flags.writeable = False
    with _lock:
        _kept[key] = vectors
        while len(_kept) > 1 and sum(held.nbytes for held in _kept.values()) > _HELD:
            _kept.popitem(last=False)
    return vectors


def fingerprint(graph: csr_array, settings: WalkSettings) -> str:
    """What vectors are kept under: the graph and the settings, nothing else."""
    made = hashlib.blake2b(repr((graph.shape, sorted(asdict(settings).items()))).encode(), digest_size=12)
    for part in (graph.indptr.astype(np.int64), graph.indices, graph.data):
        made.update(np.ascontiguousarray(part).data)
    return made.hexdigest()


def forget() -> None:
    """Drop the vectors kept in this process."""
    with _lock:
        _kept.clear()


def random_walks(
    graph: csr_array, starts: np.ndarray, length: int, seed: int = 0, n_jobs: int | None = None
) -> np.ndarray:
    """Walks over the edges of a graph, each edge as likely as its share of its label's weights.

    Parameters
    ----------
    graph : csr_array, (L, L)
    starts : int array, (W,)
        Label at which each walk starts.
    length : int
        Labels of a walk, the first included.
    seed : int

    Returns
    -------
    int32 array, (W, length)
        -1 after a label without edges.
    """
    walker = _Walker(graph, n_jobs)
    return walker.walk(starts, length, seed)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1; a row of zeros stays."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.ascontiguousarray(vectors / np.where(length > 0, length, 1), np.float32)


def whitened(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1 again, after their mean was taken off and their coordinates made uncorrelated.

    It keeps labels apart that skip-gram puts close together. Directions in which rows hardly differ are left out, so
    that no noise is blown up; a row that all but vanishes, as that of a single label, stays as it was.
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    spread, axes = np.linalg.eigh(centred.T @ centred / len(vectors))
    some = spread > max(1e-4 * spread.max(), 1e-12)
    found = centred @ (axes[:, some] / np.sqrt(spread[some])) @ axes[:, some].T
    gone = np.einsum("ij,ij->i", found, found) < 1e-12
    return unit(np.where(gone[:, None], vectors, found))


class _Walker:
    """A graph made ready for walking."""

    def __init__(self, graph: csr_array, n_jobs: int | None) -> None:
        self.indptr, self.indices = graph.indptr.astype(np.int64), graph.indices.astype(np.int32)
        self.even = bool(graph.nnz == 0 or (graph.data == graph.data[0]).all())
        n_edges = 0 if self.even else graph.nnz
        self.keep, self.other, self.n_jobs = np.empty(n_edges, np.float32), np.empty(n_edges, np.int32), n_jobs
        if not self.even:
            weights = graph.data.astype(np.float32)
            pool.run(
                lambda block: kernels.alias(self.indptr, self.indices, weights, *block, self.keep, self.other),
                pool.blocks(graph.shape[0], n_jobs, 1024), n_jobs,
            )  # fmt: skip

    def walk(self, starts: np.ndarray, length: int, seed: int) -> np.ndarray:
        starts = np.ascontiguousarray(starts, np.int32)
        out = np.empty((len(starts), length), np.int32)
        tables = self.indptr, self.indices, self.keep, self.other, self.even
        blocks = pool.blocks(len(starts), self.n_jobs, 1024)
        pool.run(lambda block: kernels.walk(*tables, starts, seed, *block, out), blocks, self.n_jobs)
        return out


def _rounds(graph: csr_array, settings: WalkSettings) -> tuple[list[np.ndarray], np.random.Generator]:
    """Starts of the walks, in blocks: every label with edges as often as asked for, in random order each time."""
    rng = np.random.default_rng([settings.seed, 1])
    some = np.flatnonzero(np.diff(graph.indptr)).astype(np.int32)
    starts = [rng.permutation(some) for _ in range(settings.n_walks)] if len(some) else []
    everything = np.concatenate(starts) if starts else np.empty(0, np.int32)
    return [everything[at : at + _BLOCK] for at in range(0, len(everything), _BLOCK)], rng


def _start(n_labels: int, dim: int, seed: int) -> np.ndarray:
    """Vectors before learning: random directions of length 1.

    word2vec starts near zero; then all vectors first turn into one common direction, and a graph of some hundred labels
    has too few walks to part them again.
    """
    return unit(np.random.default_rng([seed, 2]).standard_normal((n_labels, dim), np.float32))


def _with_kernel(graph: csr_array, settings: WalkSettings, n_jobs: int | None) -> np.ndarray:
    vectors = _start(graph.shape[0], settings.dim, settings.seed)
    contexts = np.zeros_like(vectors)
    blocks, rng = _rounds(graph, settings)
    seeds = rng.integers(2**62, size=len(blocks))
    walker = _Walker(graph, n_jobs)
    total = settings.epochs * sum(map(len, blocks))
    draws = _negatives(graph)
    done = 0
    with progress.stage("label vectors") as tell:
        for epoch in range(settings.epochs):
            for starts, seed in zip(blocks, seeds, strict=True):
                walks = walker.walk(starts, settings.length, int(seed) + epoch)
                kernels.skip_gram(
                    walks, settings.window, draws, settings.n_negative, vectors, contexts, int(seed) + epoch,
                    settings.rate, float(done), float(total),
                )  # fmt: skip
                done += len(starts)
                tell(len(starts) / total)
    return vectors


def _negatives(graph: csr_array) -> np.ndarray:
    """Labels as often as they are to be drawn: by their weight in walks, which is that of their edges, to the 3/4."""
    weight = np.asarray(graph.sum(axis=1), np.float64).ravel() ** 0.75
    if not weight.any():
        return np.zeros(1, np.int32)
    bounds = np.cumsum(weight) / weight.sum()
    return np.searchsorted(bounds, (np.arange(_DRAWS) + 0.5) / _DRAWS).astype(np.int32)


def _with_gensim(graph: csr_array, settings: WalkSettings, n_jobs: int | None) -> np.ndarray:
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise SettingsError(
            'skip_gram="gensim" needs gensim: pip install "longtail[neural]", or choose skip_gram="kernel".'
        ) from error
    vectors = _start(graph.shape[0], settings.dim, settings.seed)
    blocks, rng = _rounds(graph, settings)
    if not blocks:
        return vectors
    walks = _Sentences(_Walker(graph, n_jobs), blocks, rng.integers(2**62, size=len(blocks)), settings.length)
    with progress.stage("label vectors"):
        model = Word2Vec(
            vector_size=settings.dim, window=settings.window, negative=settings.n_negative, sg=1, hs=0, min_count=1,
            sample=0, epochs=settings.epochs, alpha=settings.rate, workers=1, seed=settings.seed + 1,
        )  # fmt: skip
        model.build_vocab(walks)
        met = np.array([int(word) for word in model.wv.index_to_key], np.int64)
        model.wv.vectors[:] = vectors[met]
        model.train(walks, total_examples=model.corpus_count, epochs=settings.epochs)
    vectors[met] = model.wv.vectors
    return vectors


class _Sentences:
    """Walks as gensim wants them: lists of words, gone over several times, never all in memory."""

    def __init__(self, walker: _Walker, blocks: list[np.ndarray], seeds: np.ndarray, length: int) -> None:
        self.walker, self.blocks, self.seeds, self.length = walker, blocks, seeds, length
        self.words = np.array([str(label) for label in range(len(walker.indptr) - 1)], dtype=object)

    def __iter__(self) -> Any:
        for starts, seed in zip(self.blocks, self.seeds, strict=True):
            for labels in self.walker.walk(starts, self.length, int(seed)):  # none ends early: starts have edges
                yield self.words[labels].tolist()


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    if not path.is_file():
        return None
    try:
        vectors = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"damaged ({error})", path=path, remedy="Remove it; it will be made again") from error
    if vectors.shape != shape or vectors.dtype != np.float32:
        raise DataError("holds other vectors than its name says", path=path, remedy="Remove it; it will be made again")
    return vectors


def _write(path: Path, vectors: np.ndarray) -> None:
    """Whole or not at all, also where two processes write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    with fresh.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    os.replace(fresh, path)
