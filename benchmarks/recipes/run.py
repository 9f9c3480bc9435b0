"""Measure what each choice in the recipes of DECAF and GLaS adds, on points held out of the training part.

    python -m benchmarks.recipes.run [--data debian-packages,tate] [--variants fast,relu,...] [--n-points 12000]
                                     [--seeds 0] [--data-root FOLDER]

The test part is never used. Of the training part, some points are trained on and 3,000 others measured; of the labels,
those that the former have. Each variant is the fast preset with one choice changed. A run replaces the figures of its
own rows in ``results/recipes.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from longtail import make
from longtail.metrics import full_report, to_unit
from longtail.sparse import label_counts, labelled_rows, take_labels

N_HELD = 3000
MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "B@1", "B@3", "B@5")
DECAF = {
    "fast": "decaf",
    "relu": "decaf(advanced={'relu': True})",
    "start from text": "decaf(advanced={'centroid_length': 0.0})",
    "short tokens": "decaf(advanced={'token_length': 0.3})",
    "adam": "decaf(learning_rate=0.01, advanced={'optimizer': 'adam', 'block_rate': 0.2})",
    "rate / 2": "decaf(learning_rate=0.05)",
    "rate × 2": "decaf(learning_rate=0.2)",
    "batches × 2": "decaf(batch_size=256)",
    "epochs × 2": "decaf(epochs=10)",
    "little correction": "decaf(advanced={'correction': 0.1})",
    "full correction": "decaf(advanced={'correction': 1.0})",
    "input dropout": "decaf(advanced={'input_dropout': 0.2})",
    "no label text": "decaf(classifier='refinement')",
    "one network": "decaf(n_networks=1)",
    "two networks": "decaf(n_networks=2)",
    "three networks of 128": "decaf(dim=128)",
    "own labels kept": "decaf(advanced={'own_labels': 'keep'})",
    "not adjusted": "decaf(advanced={'adjust': False})",
    "adam, one network": "decaf(n_networks=1, learning_rate=0.006, epochs=4, advanced={'optimizer': 'adam'})",
}
GLAS = {
    "glas": "glas",
    "glas, relu": "glas(advanced={'relu': True})",
}
VARIANTS: Mapping[str, str] = {"bonsai": "bonsai", "dismec": "dismec"} | DECAF | GLAS


class HeldOut(NamedTuple):
    """Training points, label text, and points to measure on."""

    X: csr_array
    Y: csr_array
    Z: csr_array | None
    X_held: csr_array
    Y_held: csr_array


def held_out(data: Any, n_points: int, n_held: int = N_HELD, seed: int = 7) -> HeldOut:
    """Divide the training part of a dataset; with too few points for both, four fifths are trained on."""
    some = labelled_rows(data.Y)
    order = np.random.default_rng(seed).permutation(some)
    n = n_points if len(order) >= n_points + n_held else len(order) * 4 // 5
    rows, rest = order[:n], order[n : n + n_held]
    labels = np.flatnonzero(label_counts(data.Y[rows])).astype(np.int32)
    Y_held = take_labels(data.Y[rest], labels)
    known = labelled_rows(Y_held)
    Z = None if data.Z is None else csr_array(data.Z[labels])
    return HeldOut(data.X[rows], take_labels(data.Y[rows], labels), Z, data.X[rest[known]], Y_held[known])


def measured(part: HeldOut, model: str, seed: int) -> dict[str, float]:
    """Train one variant and return its metrics and the seconds of CPU that it took."""
    ranker = make(model, defaults={"random_state": seed})
    start = time.process_time()
    ranker.fit(part.X, part.Y, label_features=part.Z)
    seconds = time.process_time() - start
    scores = ranker.predict(part.X_held, 50)
    if scores.nnz and (scores.data.max() > 1 or scores.data.min() < 0):
        scores = to_unit(scores)
    report = full_report(part.Y_held, scores, train_Y=part.Y)
    return {name: report[name] for name in MEASURES} | {"cpu_seconds": seconds}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="debian-packages,tate")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--n-points", type=int, default=12_000)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    for name in options.data.split(","):
        part = held_out(longtail.read(options.data_root / name), options.n_points)
        for variant in options.variants.split(","):
            for seed in (int(seed) for seed in options.seeds.split(",")):
                row: dict[str, Any] = measured(part, VARIANTS[variant], seed)
                row |= {"data": name, "variant": variant, "seed": seed, "points": part.X.shape[0]}
                results.add("recipes", f"{name} {variant} {seed}", row, VARIANTS[variant])
                print(name, variant, results.rounded(row), flush=True)
    render.render()


if __name__ == "__main__":
    main()
