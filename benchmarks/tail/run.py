"""Measure rankers around rankers, beside their bases: what they do for rare labels, and what they cost.

    python -m benchmarks.tail.run [--data tate,eurlex57k] [--systems bonsai,ranknet] [--data-root FOLDER]

Every system is fitted once to the train part and measured on the test part, in one process. Its curve between P and PSP
runs along its parameter `tail` where it has one; otherwise along the exponent of the inverse propensity by which its
own scores are multiplied, which is inverse-propensity re-ranking, the baseline. A run replaces the figures of its own
rows in ``results/tail.json``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from longtail import make
from longtail.data import Dataset, read
from longtail.metrics import evaluate, frequency_bins, frontier, full_report, inverse_propensity
from longtail.models.base import Ranker

KS = (1, 3, 5)
DEPTH = 50
BETAS = np.linspace(0, 2, 41).tolist()  # beyond 1, so that the baseline meets every P@1 that `tail` reaches
TAILS = [0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1]


@dataclass(frozen=True)
class System:
    """A ranker, and the one that it is compared with."""

    name: str
    model: str  # for longtail.make
    base: str  # name of the system that it wraps, or its own
    data: tuple[str, ...]


_THREE = ("eurlex57k", "tate", "debian-packages")
_TEXT = ("tate", "debian-packages")
_SMALL = ("bibtex", "delicious")
_TWO = ("eurlex57k", "tate")
_ALL = (*_SMALL, *_THREE)
SYSTEMS = [
    System("bonsai", "bonsai", "bonsai", _THREE),
    System("ranknet", "ranknet(bonsai)", "bonsai", _THREE),
    System("ranknet without text", "ranknet(bonsai, text=False)", "bonsai", _THREE),
    System("ranknet without blocks", "ranknet(bonsai, n_blocks=0, text=False)", "bonsai", _THREE),
    System(
        "ranknet with the loss of the paper",
        "ranknet(bonsai, text=False, advanced={'loss': 'population'})",
        "bonsai",
        _THREE,
    ),
    System("ranknet as in the paper", "ranknet(bonsai, preset='paper')", "bonsai", _THREE),
    System("glas", "glas", "glas", _THREE),
    System("ranknet of glas", "ranknet(glas)", "glas", _THREE),
    System("decaf", "decaf", "decaf", _THREE),
    System("ranknet of decaf", "ranknet(decaf)", "decaf", _THREE),
    System("blend", "blend", "blend", _ALL),  # keeps within 600 seconds
    System("ranknet of blend", "ranknet(blend)", "blend", _THREE),
    System("taug", "taug(bonsai)", "bonsai", _TWO),
    System("taug as in the paper", "taug(bonsai, preset='paper')", "bonsai", _TWO),
    System("taug without augmentation", "taug(bonsai, n_aug=0)", "bonsai", _TWO),
    System("taug with text", "taug(bonsai, advanced={'text': True})", "bonsai", _TWO),
    System("taug with text and a third copy", "taug(bonsai, advanced={'text': True, 'whole': True})", "bonsai", _TWO),
    System("ranknet of taug", "ranknet(taug(bonsai))", "bonsai", ("eurlex57k",)),
    System("labeltext", "labeltext(bonsai)", "bonsai", _TEXT),
    System("labeltext by the formula", "labeltext(bonsai, method=formula)", "bonsai", _TEXT),
    System("parabel", "parabel", "parabel", _TEXT),
    System("labeltext of parabel", "labeltext(parabel)", "parabel", _TEXT),
    System("dismec", "dismec", "dismec", _TEXT),
    System("labeltext of dismec", "labeltext(dismec)", "dismec", _TEXT),
    System("fastxml", "fastxml", "fastxml", _SMALL),
    System("pfastrexml", "pfastrexml", "fastxml", _SMALL),
]


def measure(system: System, data: Dataset) -> dict[str, Any]:
    """Fit and measure one system."""
    assert data.test is not None
    X, Y, weights = data.test.X, data.test.Y, inverse_propensity(data.Y)
    model = make(system.model, defaults={"random_state": 0})
    start = time.perf_counter()
    model.fit(data.X, data.Y, label_features=data.Z)
    row: dict[str, Any] = {"train_seconds": time.perf_counter() - start}
    scores = model.predict(X, DEPTH)
    row |= full_report(Y, scores, inv_propensity=weights, ks=KS)
    row["bins"] = frequency_bins(Y, scores, data.Y)
    row["curve"] = curve(model, X, Y, scores, weights)
    return row | times(model, X)


def curve(model: Ranker, X: csr_array, Y: csr_array, scores: csr_array, weights: np.ndarray) -> list[dict[str, float]]:
    """Return P@k and PSP@k along the model's parameter `tail`, or along the power of the inverse propensity."""
    if "tail" not in model.get_params(deep=False):
        return frontier(Y, scores, weights, KS, betas=BETAS)
    before, points = model.get_params(deep=False)["tail"], []
    for tail in TAILS:
        found = evaluate(Y, model.set_params(tail=tail).predict(X, max(KS)), inv_propensity=weights, ks=KS)
        points.append({"tail": tail} | {f"{name}@{k}": found[f"{name}@{k}"] for name in ("P", "PSP") for k in KS})
    model.set_params(tail=before)
    return points


def times(model: Ranker, X: csr_array) -> dict[str, float]:
    """Return milliseconds per point in a batch, and the median of points ranked one by one; the best of 3 passes."""
    batches, medians = [], []
    for _ in range(3):
        start = time.perf_counter()
        model.predict(X, max(KS))
        batches.append((time.perf_counter() - start) / X.shape[0])
        singles = []
        for i in range(min(500, X.shape[0])):
            row = slice(X.indptr[i], X.indptr[i + 1])
            start = time.perf_counter()
            model.rank(X.indices[row], X.data[row], max(KS))
            singles.append(time.perf_counter() - start)
        medians.append(float(np.median(singles)))
    return {"batch_ms": 1e3 * min(batches), "single_ms": 1e3 * min(medians)}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=",".join(dict.fromkeys(data for s in SYSTEMS for data in s.data)))
    parser.add_argument("--systems", default=",".join(system.name for system in SYSTEMS))
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    wanted = options.systems.split(",")
    for name in options.data.split(","):
        data = read(options.data_root / name)
        for system in SYSTEMS:
            if system.name in wanted and name in system.data:
                row = measure(system, data)
                row |= {"data": name, "system": system.name, "base": system.base}
                results.add("tail", f"{name} {system.name}", row, system.model)
                shown = " ".join(f"{key} {row[key]:.1f}" for key in ("P@1", "PSP@1", "B@1", "train_seconds"))
                print(f"{name} {system.name}: {shown}", flush=True)
    render.render()


if __name__ == "__main__":
    main()
