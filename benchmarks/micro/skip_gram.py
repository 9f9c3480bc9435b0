"""Label vectors from random walks by our skip-gram kernel, beside gensim's Word2Vec on the same walks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

import longtail
from benchmarks.micro.timing import Figure, best_in_turn
from longtail.models.dxml.deepwalk import WalkSettings, learn_vectors
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


def measure() -> list[Figure]:
    """Compare walks and training together, on the label graph of the demo data."""
    data = longtail.read(longtail.DEMO)
    graph = cooccurrence_graph(data.Y)
    seeds = itertools.count()  # another seed each time, because vectors of known settings are kept

    def learn(skip_gram: str) -> np.ndarray:
        return learn_vectors(graph, replace(SETTINGS, skip_gram=skip_gram, seed=next(seeds)), n_jobs=1)

    quality = {"edge contrast": (contrast(graph, learn("kernel")), contrast(graph, learn("gensim")))}
    seconds = best_in_turn(2, {"ours": lambda: learn("kernel"), "theirs": lambda: learn("gensim")})
    task = f"{graph.shape[0]:,} labels, {SETTINGS.n_walks} walks each"
    return [Figure("skip-gram", "gensim", task, seconds["ours"], seconds["theirs"], quality)]
