"""Measure calibration and automatic thresholds on test points.

    python -m benchmarks.calibration.run [--data tate,eurlex57k] [--models knn,bonsai] [--points N] [--data-root FOLDER]

`blend` is measured as it is, every other model as ``calibrated(MODEL)``, beside the scores of its base. ``--points``
draws so many training points, for a quick look, and leaves out the labels and words that they do not have. A run
replaces the figures of its own rows in ``results/calibration.json``. No data set has sentence vectors: `vectorknn` and
`vectormatch` need ``--points``, and an encoder that is learnt from the other training points stands in (latent semantic
analysis, a hundred numbers per text).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from longtail import make
from longtail.data import Dataset, read
from longtail.metrics import calibration_error, evaluate, mark_rare_labels
from longtail.metrics.calibration import N_BINS
from longtail.metrics.thresholds import MOST_DECIDED, ScoredPairs, choose_thresholds
from longtail.sparse import label_counts, take_labels, unit_rows

DATA = ("debian-packages", "tate", "eurlex57k")
MODELS = (
    *("bonsai", "parabel", "dismec", "fastxml", "pfastrexml", "knn", "textmatch", "glas", "mnn", "dxml", "decaf"),
    *("popular", "vectorknn", "vectormatch"),
    *("ranknet(bonsai)", "taug(bonsai)", "labeltext(bonsai)", "blend"),
)

_VECTOR_SIZE = 100


def measure(model: str, data: Dataset) -> dict[str, Any]:
    """Fit one model and measure its probabilities and decisions on the test part."""
    assert data.test is not None
    X, Y, counts = data.test.X, data.test.Y, label_counts(data.Y)
    ranker: Any = make(model if model == "blend" else f"calibrated({model})", defaults={"random_state": 0})
    start = time.perf_counter()
    ranker.fit(data.X, data.Y, label_features=data.Z)
    row: dict[str, Any] = {"train_seconds": time.perf_counter() - start, "train_points": data.n_points}
    scores, rare = ranker.predict(X, MOST_DECIDED), mark_rare_labels(counts)
    before = scores if model == "blend" else ranker.base_.predict(X, MOST_DECIDED)
    same = np.array_equal(before.indices, scores.indices)
    row |= {"P@1": evaluate(Y, scores, ks=(1,))["P@1"], "same_ranking": same}
    row |= {"ECE@1 before": calibration_error(Y, before), "ECE@1": calibration_error(Y, scores)}
    row["confidence"] = confidence(Y, scores)
    row |= {"test_points": int(np.count_nonzero(np.diff(Y.indptr))), "ECE@1 by chance": error_by_chance(Y, scores)}
    row |= {"ECE@1 rare": calibration_error(Y, scores, labels=rare), "ECE@5": calibration_error(Y, scores, 5)}
    pairs = ScoredPairs.of(Y, scores)
    row["threshold"] = ranker.threshold_
    row["micro-F1 auto"] = pairs.f1(pairs.scores >= ranker.threshold_, "micro")
    row["micro-F1 best"] = choose_thresholds(Y, scores).f1
    return row


def confidence(Y: csr_array, scores: csr_array) -> float:
    """Return the mean score of the first label, in percent; with perfect probabilities it is P@1."""
    return float(100 * _first(Y, scores).mean())


def _first(Y: csr_array, scores: csr_array) -> np.ndarray:
    """Return the first score of each point that has scores and labels."""
    return scores.data[scores.indptr[:-1][(np.diff(scores.indptr) > 0) & (np.diff(Y.indptr) > 0)]].astype(np.float64)


def error_by_chance(Y: csr_array, scores: csr_array) -> float:
    """Return the expected calibration error at 1 that perfect probabilities would have with so few points."""
    best = _first(Y, scores)
    variance = np.bincount((best * N_BINS).astype(int), best * (1 - best))  # of the number of correct labels in a bin
    return float(100 * np.sqrt(2 / np.pi * variance).sum() / len(best))  # the mean of |x| of a normal distribution


def some_points(data: Dataset, n_points: int) -> Dataset:
    """Draw training points, and keep the labels and words that they have, in the test part too."""
    assert data.test is not None
    part = data.subset(np.sort(_drawn(data)[:n_points]))
    labels, words = np.flatnonzero(label_counts(part.Y)), label_counts(part.X)
    if data.Z is not None:
        words += label_counts(data.Z[labels])
    known = np.flatnonzero(words)
    Z = None if data.Z is None else take_labels(data.Z[labels], known)
    test = Dataset(unit_rows(take_labels(data.test.X, known)), take_labels(data.test.Y, labels), name=data.name)
    return Dataset(take_labels(part.X, known), take_labels(part.Y, labels), Z, test=test, name=data.name)


def _drawn(data: Dataset) -> np.ndarray:
    """Return the training points in the order in which they are drawn."""
    return np.random.default_rng(0).permutation(data.n_points)


def with_vectors(data: Dataset, n_points: int | None) -> Dataset:
    """Return the data with dense vectors in place of words, by an encoder that knows none of the points to be drawn."""
    from sklearn.decomposition import TruncatedSVD

    assert data.test is not None
    others = _drawn(data)[n_points or data.n_points :]
    if not len(others):
        raise SystemExit("Models of vectors need --points: the other points are what the encoder is learnt from.")
    encoder = TruncatedSVD(_VECTOR_SIZE, random_state=0).fit(data.X[others])
    X, X_test, Z = (
        None if words is None else _unit(encoder.transform(words)) for words in (data.X, data.test.X, data.Z)
    )
    return Dataset(X, data.Y, Z, test=Dataset(X_test, data.test.Y, name=data.name), name=data.name)


def _unit(vectors: np.ndarray) -> csr_array:
    return unit_rows(csr_array(vectors.astype(np.float32)))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--points", type=int)
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    for name in options.data.split(","):
        whole = read(options.data_root / name)
        for model in options.models.split(","):
            data = with_vectors(whole, options.points) if make(model).takes_vectors else whole
            if options.points is not None and options.points < data.n_points:
                data = some_points(data, options.points)
            row = measure(model, data) | {"data": name}
            key = f"{name} {model}" if options.points is None else f"{name} {model} {options.points}"
            results.add("calibration", key, row, model)
            shown = " ".join(
                f"{key} {row[key]:.2f}" for key in ("P@1", "confidence", "ECE@1 before", "ECE@1", "ECE@1 rare")
            )
            print(f"{name} {model}: {shown}", flush=True)
    render.render()


if __name__ == "__main__":
    main()
