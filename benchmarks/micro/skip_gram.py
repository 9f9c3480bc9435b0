"""Label vectors from random walks by our skip-gram kernel, beside gensim's Word2Vec on walks of the same kind."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

import longtail
from benchmarks.micro.timing import Figure, best_in_turn
from longtail.models.dxml.deepwalk import Walker, WalkSettings, learn_vectors, unit_vectors
from longtail.models.dxml.label_graph import cooccurrence_graph

SETTINGS = WalkSettings(dim=100, n_walks=2, length=20)


def contrast(graph: csr_array, vectors: np.ndarray) -> float:
    """Return the mean cosine of labels that share an edge, less that of random pairs: higher is better."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    some = rng.choice(graph.nnz, min(20_000, graph.nnz), replace=False)
    a, b = rows[some], graph.indices[some]
    other = rng.integers(graph.shape[0], size=len(a))
    return float((vectors[a] * vectors[b]).sum(axis=1).mean() - (vectors[a] * vectors[other]).sum(axis=1).mean())


def learn_with_gensim(graph: csr_array, seed: int) -> np.ndarray:
    """Return label vectors of gensim's skip-gram, centred and of length 1 as ours are."""
    from gensim.models import Word2Vec

    starts = np.repeat(np.flatnonzero(np.diff(graph.indptr)).astype(np.int32), SETTINGS.n_walks)
    np.random.default_rng(seed).shuffle(starts)
    names = np.array([str(label) for label in range(graph.shape[0])], dtype=object)
    walks = [names[walk].tolist() for walk in Walker(graph, 1).walk(starts, SETTINGS.length, seed)]
    model = Word2Vec(
        walks,
        vector_size=SETTINGS.dim,
        window=SETTINGS.window,
        negative=SETTINGS.n_negative,
        sg=1,
        min_count=1,
        sample=0,
        epochs=SETTINGS.epochs,
        alpha=SETTINGS.rate,
        workers=1,
        seed=seed + 1,
    )
    vectors = np.zeros((graph.shape[0], SETTINGS.dim), np.float32)
    vectors[[int(name) for name in model.wv.index_to_key]] = model.wv.vectors
    return unit_vectors(vectors - vectors.mean(axis=0))


def measure() -> list[Figure]:
    """Compare walks and training together, on the label graph of the demo data."""
    data = longtail.read(longtail.DEMO)
    graph = cooccurrence_graph(data.Y)
    seeds = itertools.count()  # another seed each time, because vectors of known settings are kept

    def ours() -> np.ndarray:
        return learn_vectors(graph, replace(SETTINGS, seed=next(seeds)), n_jobs=1)

    def theirs() -> np.ndarray:
        return learn_with_gensim(graph, next(seeds))

    quality = {"edge contrast": (contrast(graph, ours()), contrast(graph, theirs()))}
    seconds = best_in_turn(2, {"ours": ours, "theirs": theirs})
    task = f"{graph.shape[0]:,} labels, {SETTINGS.n_walks} walks each"
    return [Figure("skip-gram", "gensim", task, seconds["ours"], seconds["theirs"], quality)]
