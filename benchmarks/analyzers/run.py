"""Measure ways to cut texts into terms on held-out training points.

    python -m benchmarks.analyzers.run [--data tate,eurlex57k] [--analyzers words,pairs] [--points 12000]

A tenth of the drawn training points is held out, `bonsai` is fitted to the rest; test points are not used. A run
replaces the figures of its own rows in ``results/analyzers.json``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from longtail import Bonsai, TextVectorizer
from longtail.combine.selection import LABELS_MEASURED, held_out_metrics
from longtail.data import Dataset, read
from longtail.data.split import hold_out_points
from longtail.sparse import labelled_rows, take_labels

DATA = ("eurlex57k", "tate", "yso-titles")
ANALYZERS: dict[str, dict[str, Any]] = {
    "words": {},
    "words and pairs": {"ngrams": (1, 2)},
    "stems": {"stemmer": "english"},
    "words without stop words": {"stop_words": "english"},
    "1 to 3 characters": {"analyzer": "char_wb"},
    "3 to 5 characters": {"analyzer": "char_wb", "ngrams": (3, 5)},
}


def measure(settings: dict[str, Any], data: Dataset, points: np.ndarray) -> dict[str, Any]:
    """Fit `bonsai` to most of these points with one way to cut texts, and measure it on the others."""
    assert data.texts is not None
    train, held = hold_out_points(data.Y[points], 0.1)
    texts = [[data.texts[at] for at in points[part].tolist()] for part in (train, held)]
    labels = np.unique(data.Y[points[train]].indices)
    Y, Y_held = (take_labels(data.Y[points[part]], labels) for part in (train, held))
    known = labelled_rows(Y_held)
    start = time.process_time()
    vectorizer = TextVectorizer(**settings)
    X, X_held = vectorizer.fit_transform(texts[0]), vectorizer.transform(texts[1])
    ranker = Bonsai().fit(X, Y)
    scores = ranker.predict(X_held[known], LABELS_MEASURED)
    row: dict[str, Any] = {"cpu_seconds": time.process_time() - start, "n_features": vectorizer.n_features_}
    return (
        row
        | held_out_metrics(Y_held[known], scores, Y, (0.55, 1.5))
        | {"n_train": len(train), "n_held_out": len(known)}
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--analyzers", default=",".join(ANALYZERS))
    parser.add_argument("--points", type=int, default=12_000)
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    for name in options.data.split(","):
        data = read(options.data_root / name, vectorizer=None)
        points = np.sort(np.random.default_rng(0).permutation(data.n_points)[: options.points])
        for analyzer in options.analyzers.split(","):
            row = measure(ANALYZERS[analyzer], data, points) | {"data": name, "analyzer": analyzer}
            results.add("analyzers", f"{name} {analyzer}", row, "bonsai")
            print(f"{name} {analyzer}: goal {row['goal']:.2f}, {row['cpu_seconds']:.0f} CPU s", flush=True)
    render.render()


if __name__ == "__main__":
    main()
