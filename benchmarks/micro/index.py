"""Print how the partitioned index compares with faiss's IndexIVFFlat: recall, milliseconds and partitions opened.

    python -m benchmarks.micro.index [--n 60000] [--d 128] [--k 10]

Vectors are unit vectors around random centres. Queries are of two sorts: vectors with a little noise (one topic), and
sums of three vectors (three topics). Inner product, one query at a time on one thread, the best of several passes; the
two libraries take turns within each pass, so that both meet the same load of the machine. faiss opens the fewest
partitions (1, 2, 4, ...) that reach a recall of 0.99 on these very queries; ours chooses from samples of its own,
before it has seen any query.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from longtail.index import IVFIndex, make_index

N_QUERIES, PASSES, RECALL = 500, 15, 0.99


def make_data(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return vectors in clusters of about 100, and queries by sort."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // 100), d)).astype(np.float32)
    vectors = centres[rng.integers(0, len(centres), n)] + 0.5 * rng.standard_normal((n, d)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    noise = 0.3 * rng.standard_normal((N_QUERIES, d)).astype(np.float32) / np.float32(np.sqrt(d))
    one = vectors[rng.integers(0, n, N_QUERIES)] + noise
    three = vectors[rng.integers(0, n, (N_QUERIES, 3))].sum(axis=1)
    return vectors, {"one topic": one, "three topics": three}


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """Return the share of the true neighbours that were found."""
    pairs = zip(found.tolist(), true.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


def best_times(searches: list[Callable[[np.ndarray], Any]], queries: np.ndarray) -> list[float]:
    """Return the milliseconds per query of each search, the best of several passes in turn."""
    best = [np.inf] * len(searches)
    for _ in range(PASSES):
        for s, search in enumerate(searches):
            start = time.perf_counter()
            for query in queries:
                search(query)
            best[s] = min(best[s], (time.perf_counter() - start) / len(queries) * 1e3)
    return best


def main() -> None:
    """Build both indexes and print one line for each and each sort of query."""
    import faiss

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=60_000)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--k", type=int, default=10)
    options = parser.parse_args()
    k = options.k
    vectors, sorts = make_data(options.n, options.d)
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        start = time.perf_counter()
        ours = IVFIndex(vectors, n_jobs=1, recall=RECALL, recall_k=k)
        built = time.perf_counter() - start
        start = time.perf_counter()
        theirs = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(options.d), options.d, ours.n_partitions, faiss.METRIC_INNER_PRODUCT
        )
        theirs.train(vectors)
        theirs.add(vectors)
        print(f"built in {built:.2f} s (longtail), {time.perf_counter() - start:.2f} s (faiss)")
        exact = make_index(vectors, kind="exact")
        for sort, queries in sorts.items():
            true, _ = exact.search(queries, k, n_jobs=1)
            theirs.nprobe = 1
            while theirs.nprobe < ours.n_partitions and recall(theirs.search(queries, k)[1], true) < RECALL:
                theirs.nprobe = min(2 * theirs.nprobe, ours.n_partitions)
            our_ms, their_ms = best_times(
                [lambda query: ours.search_one(query, k), lambda query: theirs.search(query[None], k)], queries
            )
            found = ours.search(queries, k, n_jobs=1)[0]
            opened = float(np.mean([ours.n_opened(query, k) for query in queries]))
            print(
                f"{sort:<13} longtail: recall {recall(found, true):.3f}, {our_ms:.4f} ms, {opened:5.1f} of "
                f"{ours.n_partitions} partitions"
            )
            print(
                f"{sort:<13} faiss:    recall {recall(theirs.search(queries, k)[1], true):.3f}, {their_ms:.4f} ms, "
                f"{theirs.nprobe:5.1f} of {ours.n_partitions} partitions",
                flush=True,
            )


if __name__ == "__main__":
    main()
