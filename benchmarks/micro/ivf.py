"""Approximate search of vectors in partitions, beside faiss's IndexIVFFlat with the same number of partitions."""

from __future__ import annotations

import numpy as np

from benchmarks.index.run import make_queries, make_vectors, unit
from benchmarks.micro.timing import Figure, best_in_turn
from longtail.index import make_index

N, K, N_QUERIES, RECALL = 20_000, 10, 200, 0.98
WIDTHS = (512, 128)


def found(true: np.ndarray, ids: np.ndarray) -> float:
    """Return the recall of ids against those of an exact search."""
    return float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(true, ids, strict=True)]))


def measure() -> list[Figure]:
    """Compare long and short vectors."""
    return [figure for width in WIDTHS for figure in compare(width)]


def compare(width: int) -> list[Figure]:
    """Compare the latency of one query, tuned to the same recall in the same way, and the time to build."""
    import faiss

    whole = make_vectors("clustered", N)
    vectors, tuning, queries = (
        unit(np.ascontiguousarray(some[:, :width]))
        for some in (whole, make_queries(whole, N_QUERIES, 1), make_queries(whole, N_QUERIES, 2))
    )
    true, _ = make_index(vectors, kind="exact").search(queries, K)
    true_tuning, _ = make_index(vectors, kind="exact").search(tuning, K)
    ours = make_index(vectors, kind="ivf", n_probe=1)
    n_partitions = round(np.sqrt(N))

    def build() -> faiss.IndexIVFFlat:
        quantizer = faiss.IndexFlatIP(vectors.shape[1])
        index = faiss.IndexIVFFlat(quantizer, vectors.shape[1], n_partitions, faiss.METRIC_INNER_PRODUCT)
        index.cp.niter = 10
        index.train(vectors)
        index.add(vectors)
        return index

    theirs = build()
    # The fewest partitions that reach the recall on other queries, for both alike.
    while ours.n_probe < n_partitions and found(true_tuning, ours.search(tuning, K)[0]) < RECALL:
        ours.n_probe += 1
    while theirs.nprobe < n_partitions and found(true_tuning, theirs.search(tuning, K)[1]) < RECALL:
        theirs.nprobe += 1
    recalls = {"recall@10": (found(true, ours.search(queries, K)[0]), found(true, theirs.search(queries, K)[1]))}
    probes = {"partitions opened": (float(ours.n_probe), float(theirs.nprobe))}
    seconds = best_in_turn(
        5,
        {
            "ours": lambda: [ours.search_one(query, K) for query in queries],
            "theirs": lambda: [theirs.search(query[None], K) for query in queries],
        },
    )
    one = {name: value / N_QUERIES for name, value in seconds.items()}
    figures = [
        Figure("IVF search", "faiss", f"one query, length {width}", one["ours"], one["theirs"], recalls | probes)
    ]
    seconds = best_in_turn(1, {"ours": lambda: make_index(vectors, kind="ivf", n_probe=8), "theirs": build})
    return [*figures, Figure("IVF search", "faiss", f"build {N:,}, length {width}", seconds["ours"], seconds["theirs"])]
