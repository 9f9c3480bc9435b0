"""Measure the papers' systems as the papers describe them, and write ``docs/papers.md``.

    python -m benchmarks.papers [--papers glas,dxml] [--data bibtex] [--rows base,fast] [--seeds 3] [--data-root FOLDER]

Each row of each table is a model of `benchmarks.papers.experiments`. A run replaces the figures of its own rows in
``results/papers.json`` and writes the page from all of them; with ``--papers none`` only the page is written.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks import render, results
from benchmarks.papers import page
from benchmarks.papers.experiments import EXPERIMENTS, N_TEST, SMALL, Experiment
from benchmarks.paths import DATA_ROOT
from benchmarks.tail.run import curve
from longtail import make
from longtail.data import Dataset, read
from longtail.labels.cooccurrence import affinity
from longtail.metrics import evaluate, full_report, inverse_propensity
from longtail.models.glas import GLaS
from longtail.models.glas.regularizers import glas
from longtail.sparse import label_counts, take_labels

KS, DEPTH = (1, 3, 5), 50
N_SEEN = 2_000  # training points on which accuracy in training is measured


def drawn(data: Dataset, name: str, n_train: int, seen: bool = False) -> Dataset:
    """Return a small data set whole, and of a large one some points of each part, always the same.

    With `seen`, labels that have no training point among those drawn are left out, as in the papers' data.
    """
    assert data.test is not None
    if name in SMALL:
        return data
    rng = np.random.default_rng(0)
    parts = [
        part.subset(np.sort(rng.permutation(part.n_points)[:n])) for part, n in ((data, n_train), (data.test, N_TEST))
    ]
    if seen:
        labels = np.flatnonzero(label_counts(parts[0].Y))
        Z = None if data.Z is None else data.Z[labels]
        parts = [Dataset(part.X, take_labels(part.Y, labels), Z, name=data.name) for part in parts]
    parts[0].test = parts[1]
    return parts[0]


def measure(one: Experiment, data: Dataset, seed: int) -> dict[str, Any]:
    """Fit and measure the model of one row."""
    assert data.test is not None
    X, Y, weights = data.test.X, data.test.Y, inverse_propensity(data.Y)
    model = make(one.model, defaults={"random_state": seed})
    start, spent = time.perf_counter(), time.process_time()
    model.fit(data.X, data.Y, label_features=data.Z)
    row: dict[str, Any] = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - spent}
    scores = model.predict(X, DEPTH)
    report = full_report(Y, scores, inv_propensity=weights, ks=KS)
    row |= {name: report[name] for name in report if name.partition("@")[0] in ("P", "PSP", "nDCG", "B", "C")}
    row["R@20"] = evaluate(Y, scores, ks=(20,))["R@20"]
    seen = slice(None, None, max(1, data.X.shape[0] // N_SEEN))
    row["train P@1"] = evaluate(data.Y[seen], model.predict(data.X[seen], 1), ks=(1,))["P@1"]
    if isinstance(model, GLaS):
        row["gram"] = gram_gap(model, data.Y)
    if one.base:
        row["curve"] = curve(model, X, Y, scores, weights)
    return row | {"paper": one.paper, "row": one.name, "seed": seed, "n_train": data.X.shape[0]}


def gram_gap(model: GLaS, Y: csr_array) -> float:
    """Return the regulariser's value (eq. 3) over all labels: how far the label vectors are from co-occurrence."""
    known = model.scorer_.labels.ids
    vectors = model.scorer_.network_tables()["labels"]
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    U = affinity(take_labels(Y, known), "arithmetic").toarray()
    return glas(unit, unit, U)[0]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--papers", default="glas,dxml,mnn,ranknet,decaf")
    parser.add_argument("--data", default="bibtex,delicious,eurlex57k,tate,debian-packages")
    parser.add_argument("--rows", help="names of rows, separated by semicolons (default: all)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds at most")
    parser.add_argument("--missing", action="store_true", help="leave out rows that are recorded")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    wanted = None if options.rows is None else options.rows.split(";")
    load = cache(lambda name: read(options.data_root / name))
    for seed in range(options.seeds):
        for one in EXPERIMENTS:
            if one.paper not in options.papers.split(",") or seed >= one.seeds or (wanted and one.name not in wanted):
                continue
            for name in one.data:
                key = f"{one.paper} {name} {one.name} {seed}"
                known = (results.load("papers") or {}).get("rows", {})
                if name not in options.data.split(",") or (options.missing and key in known):
                    continue
                row = measure(one, drawn(load(name), name, one.n_train, one.seen), seed) | {"data": name}
                results.add("papers", key, row, one.model)
                shown = " ".join(f"{figure} {row[figure]:.2f}" for figure in ("P@1", "P@5", "PSP@1", "cpu_seconds"))
                print(f"{key}: {shown}", flush=True)
    page.write()
    render.render()


if __name__ == "__main__":
    main()
