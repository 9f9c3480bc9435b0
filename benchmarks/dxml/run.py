"""Measure DXML: accuracy over seeds, the linear ablation, large data, walks, growth with N and L, learning on.

    python -m benchmarks.dxml.run [--parts accuracy,large,walks,scale,on] [--data-root FOLDER]

Each training runs in a process of its own, so that its peak of memory is its own. Matrices are those of
`benchmarks.peers`. A run replaces the figures of its own rows in ``results/dxml.json``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks import render, results
from benchmarks.paths import DATA_ROOT, WORK
from benchmarks.peers.prepare import prepare
from longtail.data import synthetic
from longtail.index import make_index
from longtail.metrics import evaluate
from longtail.models.dxml import DXML
from longtail.models.dxml.deepwalk import Walker
from longtail.models.dxml.label_graph import cooccurrence_graph

SEEDS = 5
PARTS = ("accuracy", "large", "walks", "scale", "on")
LARGE = ("tate", "debian-packages", "eurlex57k")
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"advanced": {"relu": False}},
    "paper": {"preset": "paper"},
}
SIZES = (5_000, 10_000, 20_000, 40_000)
LABELS = (1_000, 2_000, 4_000, 8_000)
_METRICS = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")


def matrices(folder: Path) -> tuple[sp.csr_array, ...]:
    """X and Y of the train part, X and Y of the test part."""
    names = ("X.trn", "Y.trn", "X.tst", "Y.tst")
    return tuple(sp.csr_array(sp.load_npz(folder / f"{name}.npz")) for name in names)


def measure(folder: Path, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train once, in this process; accuracy, time, memory, and how neighbours are found."""
    X, Y, X_test, Y_test = matrices(folder)
    DXML(epochs=1, advanced={"n_walks": 1}, random_state=seed).fit(X[:300], Y[:300]).predict(X_test[:1])  # compiles
    start = time.perf_counter()
    model = DXML(**settings, random_state=seed).fit(X, Y)
    row: dict[str, Any] = {"train_seconds": time.perf_counter() - start}
    row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    scores = model.predict(X_test, 5)
    row["batch_ms"] = (time.perf_counter() - start) / X_test.shape[0] * 1e3
    found = evaluate(Y_test, scores, train_Y=Y, ks=(1, 3, 5))
    row |= {name: found[name] for name in _METRICS}
    row |= latency(model, X_test)
    with tempfile.TemporaryDirectory() as place:
        model.save(Path(place) / "m")
        row["model_mb"] = sum(path.stat().st_size for path in (Path(place) / "m").iterdir()) / 1e6
    vote = model.neighbours_.vote
    return row | {"n_neighbors": vote.n_neighbors, "sharpness": vote.sharpness, "n_train": X.shape[0]}


def latency(model: DXML, X: sp.csr_array, n: int = 500) -> dict[str, Any]:
    """Milliseconds of one point on one thread, and the share of its true neighbours that the index finds."""
    rows = np.linspace(0, X.shape[0] - 1, min(n, X.shape[0])).astype(int)
    taken = np.empty((2, len(rows)))
    with threadpool_limits(1):
        for run in range(2):
            for at, row in enumerate(rows):
                part = slice(X.indptr[row], X.indptr[row + 1])
                idx, val = X.indices[part], X.data[part]
                start = time.perf_counter()
                model.rank(idx, val, 5)
                taken[run, at] = time.perf_counter() - start
    near = model.neighbours_
    points = model._embed(X[rows])
    k = near.vote.n_neighbors
    found, _ = near.index.search(points, k)
    true, _ = make_index(np.array(near.index.vectors), "ip", "exact").search(points, k)
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found, true, strict=True)]
    p50, p95 = (float(np.percentile(taken, q, axis=1).min()) * 1e3 for q in (50, 95))
    facts = {"p50_ms": p50, "p95_ms": p95, "recall": float(np.sum(hits) / true.size), "index": near.index.kind}
    if near.index.kind == "ivf":
        facts |= {"n_probe": near.index.n_probe, "n_partitions": near.index.n_partitions}
    return facts


def in_process(folder: Path, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """`measure` in a process of its own."""
    words = json.dumps([str(folder), settings, seed])
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.dxml.run", "--one", words], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return json.loads(ended.stdout.splitlines()[-1])


def walks() -> dict[str, Any]:
    """Measure steps per second of weighted walks on a graph of 20,000 labels."""
    data = synthetic.make(n_points=40_000, n_labels=20_000, n_features=1_000, test_fraction=0.0, label_text=False)
    graph = cooccurrence_graph(data.Y)
    starts = np.tile(np.arange(20_000, dtype=np.int32), 10)
    Walker(graph).walk(starts[:100], 5)
    row: dict[str, Any] = {"n_labels": 20_000, "n_edges": int(graph.nnz)}
    for jobs in (1, 2):
        best = 0.0
        for _ in range(3):
            start = time.perf_counter()
            Walker(graph, jobs).walk(starts, 40)
            best = max(best, starts.size * 39 / (time.perf_counter() - start))
        row[f"steps_{jobs}"] = best
    return row


def scale(by: str) -> dict[str, Any]:
    """Seconds of training at four sizes, with N or L doubling; and the slope of log time over log(n log n)."""
    sizes = SIZES if by == "points" else LABELS
    seconds = []
    for size in sizes:
        n_points, n_labels = (size, 2_000) if by == "points" else (10_000, size)
        data = synthetic.make(n_points=n_points, n_labels=n_labels, n_features=20_000, test_fraction=0.0)
        fixed = {"hidden": 256, "n_partitions": round(n_points**0.5)}
        model = DXML(epochs=3, dim=100, batch_size=256, advanced=fixed)
        start = time.perf_counter()
        model.fit(data.X, data.Y)
        seconds.append(time.perf_counter() - start)
    work = np.log(np.array(sizes) * np.log(sizes))
    slope = float(np.polyfit(work, np.log(seconds), 1)[0])
    return {"sizes": list(sizes), "seconds": seconds, "slope": slope}


def learning_on(folder: Path) -> dict[str, Any]:
    """Measure `partial_fit` on the last fifth of the points, beside training without and with them."""
    X, Y, X_test, Y_test = matrices(folder)
    order = np.random.default_rng(0).permutation(X.shape[0])
    old, new = np.sort(order[: 4 * len(order) // 5]), np.sort(order[4 * len(order) // 5 :])
    row: dict[str, Any] = {}

    def keep(name: str, model: DXML, seconds: float) -> None:
        found = evaluate(Y_test, model.predict(X_test, 5), train_Y=Y, ks=(1, 3, 5))
        row[name] = {"seconds": seconds} | {metric: found[metric] for metric in _METRICS}

    start = time.perf_counter()
    model = DXML().fit(X[old], Y[old])
    keep("without", model, time.perf_counter() - start)
    start = time.perf_counter()
    model.partial_fit(X[new], Y[new])
    keep("partial_fit", model, time.perf_counter() - start)
    start = time.perf_counter()
    keep("all", DXML().fit(X, Y), time.perf_counter() - start)
    return row


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data", default="bibtex,delicious,tate,debian-packages,eurlex57k")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        folder, settings, seed = json.loads(options.one)
        print(json.dumps(measure(Path(folder), settings, seed)))
        return
    parts, wanted = options.parts.split(","), options.data.split(",")

    def folder_of(data: str) -> Path:
        folder = options.work / "data" / data
        prepare(options.data_root / data, folder)
        return folder

    def keep(key: str, row: dict[str, Any], model: str = "dxml") -> None:
        results.add("dxml", key, row, model)
        shown = {name: round(value, 3) for name, value in row.items() if isinstance(value, float)}
        print(key, shown, flush=True)

    for data, variant, seeds in runs(parts, options.seeds):
        if data in wanted:
            for seed in range(seeds):
                row = in_process(folder_of(data), VARIANTS[variant], seed)
                keep(f"{data} {variant} {seed}", row, repr(DXML(**VARIANTS[variant])).replace("DXML", "dxml", 1))
    if "walks" in parts:
        keep("walks", walks())
    if "scale" in parts:
        for by in ("points", "labels"):
            keep(f"scale {by}", scale(by))
    if "on" in parts:
        for data in ("bibtex", "tate"):
            if data in wanted:
                keep(f"on {data}", learning_on(folder_of(data)))
    render.render()


def runs(parts: list[str], seeds: int) -> list[tuple[str, str, int]]:
    """Return what is trained: data, variant, number of seeds."""
    found = []
    if "accuracy" in parts:
        found += [(data, "default", seeds) for data in ("bibtex", "delicious")]
        found += [("delicious", "linear", seeds), ("bibtex", "paper", 1), ("delicious", "paper", 1)]
    if "large" in parts:
        found += [(data, "default", 1) for data in LARGE] + [("tate", "linear", 1)]
    return found


if __name__ == "__main__":
    main()
