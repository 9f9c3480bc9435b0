"""Vectors to search, and the twin: a full sort in NumPy."""

from __future__ import annotations

import numpy as np


def clustered(n: int, width: int, seed: int = 0, spread: float = 0.7, per_cluster: int = 50) -> np.ndarray:
    """Unit vectors around directions, as label vectors lie around topics."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // per_cluster), width))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    noise = rng.standard_normal((n, width)) * spread / np.sqrt(width)
    rows = centres[rng.integers(0, len(centres), n)] + noise
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def scores_of(queries: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """Every score, (queries, vectors), in double precision."""
    queries, vectors = queries.astype(np.float64), vectors.astype(np.float64)
    if metric == "cosine":
        queries, vectors = (
            rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-30)[:, None] for rows in (queries, vectors)
        )
    return queries @ vectors.T


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """Ids of the k best of each row, ties by smaller id, -1 where there are fewer."""
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.pad(ids, ((0, 0), (0, k - ids.shape[1])), constant_values=-1)


def recall(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)]))
