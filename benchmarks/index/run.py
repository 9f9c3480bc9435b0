"""Time the search of label vectors: one query on one thread, at sizes up to a million vectors.

    python -m benchmarks.index.run [--sizes 10000,100000,1000000] [--data clustered,gaussian] [--kinds auto,exact,...]

Vectors are generated, 512 long: `clustered` are unit vectors around topics that lie around fields, as trained label
vectors do; `gaussian` have no structure at all, the worst case of every approximate search. Half of the queries are a
stored vector with noise of its own length (a point near one label), half the sum of three (a point with three labels).
Recall is against exact search of the same queries. A run replaces the figures of its own rows in
``results/index.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import render, results
from longtail.index import IVFIndex, make_index

WIDTH, K, N_QUERIES = 512, 5, 500
DATA = ("clustered", "gaussian")
KINDS = ("auto", "exact", "hnsw", "faiss-ivf")
LARGEST = {"hnsw": 100_000}  # beyond, building takes longer than all the rest
Single = Callable[[np.ndarray], Any]
Batch = Callable[[np.ndarray], np.ndarray]


def make_vectors(data: str, n: int, seed: int = 0) -> np.ndarray:
    """Make unit vectors: in topics of about 100, 30 topics per field, two of a topic at a cosine of 0.5; or random."""
    rng = np.random.default_rng(seed)
    vectors = np.empty((n, WIDTH), np.float32)
    n_topics = max(1, n // 100)
    fields = rng.standard_normal((max(1, n_topics // 30), WIDTH), np.float32)
    topics = unit(fields[rng.integers(0, len(fields), n_topics)] + rng.standard_normal((n_topics, WIDTH), np.float32))
    for start in range(0, n, 16_384):
        part = vectors[start : start + 16_384]
        part[:] = rng.standard_normal(part.shape, np.float32) / np.float32(np.sqrt(WIDTH))
        if data == "clustered":
            part += topics[rng.integers(0, n_topics, len(part))]
        part[:] = unit(part)
    return vectors


def make_queries(vectors: np.ndarray, n: int, seed: int = 1) -> np.ndarray:
    """Make unit vectors: half near one stored vector (at a cosine of about 0.7), half sums of three."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n // 2, WIDTH), np.float32) / np.float32(np.sqrt(WIDTH))
    near = vectors[rng.integers(0, len(vectors), n // 2)] + noise
    mixed = vectors[rng.integers(0, len(vectors), (n - n // 2, 3))].sum(axis=1)
    return unit(np.concatenate((near, mixed)))


def unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def measure(kind: str, vectors: np.ndarray, queries: np.ndarray, true: np.ndarray) -> dict[str, Any]:
    """Build one index; time some queries one at a time, and find all of them in a batch, which gives the same."""
    start = time.perf_counter()
    if kind == "faiss-ivf":
        single, batch, facts = faiss_ivf(vectors, queries, true)
    else:
        index = make_index(vectors, "ip", kind, **({"n_jobs": -1} if kind == "hnsw" else {}))
        facts = {"kind": index.kind, "build_seconds": time.perf_counter() - start}
        facts["mb"] = sum(array.nbytes for array in index.to_arrays()[1].values()) / 1e6
        if isinstance(index, IVFIndex):
            facts |= {"n_partitions": index.n_partitions, "n_probe": index.n_probe}

        def single(query: np.ndarray) -> Any:
            return index.search_one(query, K)

        def batch(queries: np.ndarray) -> np.ndarray:
            return index.search(queries, K, n_jobs=1)[0]

    single(queries[0])  # compiles, or loads from the cache
    batch(queries[:1])
    with threadpool_limits(1):
        runs = [times(single, queries[:: max(1, len(queries) // 100)]) for _ in range(2)]
        start = time.perf_counter()
        found = batch(queries)
        facts["batch_ms"] = (time.perf_counter() - start) / len(queries) * 1e3
    facts["p50_ms"], facts["p95_ms"] = (min(float(np.percentile(run, q)) for run in runs) * 1e3 for q in (50, 95))
    half = len(queries) // 2
    facts |= {"recall_near": recall(found[:half], true[:half]), "recall_mixed": recall(found[half:], true[half:])}
    return facts | {"recall": recall(found, true)}


def times(single: Single, queries: np.ndarray) -> np.ndarray:
    """Seconds of each query alone."""
    out = np.empty(len(queries))
    for row, query in enumerate(queries):
        start = time.perf_counter()
        single(query)
        out[row] = time.perf_counter() - start
    return out


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """Return the share of true neighbours that were found."""
    pairs = zip(found.tolist(), true.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


def faiss_ivf(vectors: np.ndarray, queries: np.ndarray, true: np.ndarray) -> tuple[Single, Batch, dict[str, Any]]:
    """Build faiss's float32 partitions, as many as ours, opening the fewest (doubling) that reach recall 0.98."""
    import faiss

    start = time.perf_counter()
    n_partitions = round(np.sqrt(len(vectors)))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(WIDTH), WIDTH, n_partitions, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.max_points_per_centroid = 10, 64
    index.train(vectors)
    index.add(vectors)
    seconds = time.perf_counter() - start

    def batch(queries: np.ndarray) -> np.ndarray:
        return index.search(queries, K)[1]

    index.nprobe = 1
    while index.nprobe < n_partitions and recall(batch(queries), true) < 0.98:
        index.nprobe = min(n_partitions, 2 * index.nprobe)
    facts = {"kind": "faiss-ivf", "mb": vectors.nbytes / 1e6, "n_partitions": n_partitions, "n_probe": index.nprobe}
    return lambda query: index.search(query[None], K), batch, {"build_seconds": seconds, **facts}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    for n in map(int, options.sizes.split(",")):
        for data in options.data.split(","):
            vectors = make_vectors(data, n)
            queries = make_queries(vectors, N_QUERIES)
            true, _ = make_index(vectors, kind="exact").search(queries, K)
            for kind in options.kinds.split(","):
                if n > LARGEST.get(kind, n):
                    continue
                row = measure(kind, vectors, queries, true)
                row |= {"data": data, "n": n, "requested": kind}
                results.add("index", f"{data} {n} {kind}", row)
                print(
                    f"{data:<10} {n:>9,} {kind:<10} p50 {row['p50_ms']:8.3f} ms  p95 {row['p95_ms']:8.3f} ms  "
                    f"recall@5 {row['recall']:.3f}  {row['mb']:7.0f} MB  built in {row['build_seconds']:6.1f} s",
                    flush=True,
                )
    render.render()


if __name__ == "__main__":
    main()
