"""Measure DECAF alone: its presets, with parts left out, on labels it has never seen, and as labels grow.

    python -m benchmarks.decaf.run [--parts accuracy,zero-shot,scaling,latency] [--data debian-packages,tate]
                                   [--variants default,paper,...] [--seeds 0] [--data-root FOLDER]

- accuracy: each variant in a process of its own (as ``longtail compare`` does), on the given test part.
- zero-shot: labels hidden from training and added by their text (`benchmarks.zero_shot`).
- scaling: seconds of one epoch against the number of labels, with the number of points fixed (synthetic data).
- latency: one point on one thread against generated classifiers of 1.3 million labels.

DECAF combined with other models is measured by `benchmarks.blend`. A run replaces the figures of its own rows in
``results/decaf.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import longtail
from benchmarks import render, results
from benchmarks.index.run import make_vectors
from benchmarks.paths import DATA_ROOT
from benchmarks.variants import N_SINGLE, Variant, measured, single_point_ms
from benchmarks.zero_shot import zero_shot
from longtail import make, progress
from longtail.index import make_index
from longtail.kernels.encode import SparseRows
from longtail.models.decaf import DECAF
from longtail.models.decaf.trained import DecafScorer, DocumentEncoder, TrainedNetwork

_MODULES: dict[str, Any] = {"n_networks": 1, "shortlist": "clusters", "dim": 128, "n_candidates": 1024, "epochs": 5}


def _modules(advanced: dict[str, Any] | None = None, **settings: Any) -> Variant:
    """Return the paper's four modules with the steps of the fast preset: two minutes per run, not an hour."""
    parameters = [f"{name}={value}" for name, value in (_MODULES | settings).items()]
    recipe = {"surrogate_epochs": 3, "centroid_length": 0.0} | (advanced or {})
    return Variant(f"decaf({', '.join(parameters)}, advanced={recipe})")


VARIANTS = {
    "default": Variant("decaf"),
    "no-text": Variant("decaf", text=False),
    "one-network": Variant("decaf(n_networks=1)"),
    "int8": Variant("decaf(dtype='int8')"),
    "paper": Variant("decaf(preset='paper')"),
    "paper-one-network": Variant("decaf(preset='paper', n_networks=1)"),
    # Tables 5 and 6 of the paper, which leave out one part at a time:
    "parts": _modules(),
    "parts-lite": _modules({"lite": True}),
    "parts-few-clusters": _modules(n_clusters=512),
    "parts-no-init": _modules({"init": "random"}),
    "parts-z1": _modules(classifier="text"),
    "parts-z2": _modules(classifier="refinement"),
    "parts-hnsw": _modules(shortlist="hnsw"),
    "parts-tree": _modules(shortlist="tree"),
}
PARTS = ("accuracy", "zero-shot", "scaling", "latency")
SIZES, N_POINTS = (16_000, 64_000, 256_000, 1_000_000), 20_000  # of the growth with labels
_GROWING = "decaf(n_networks=1, epochs=2, validation_fraction=0.0)"
_TRAINING = "training the network"  # the stage that DECAF reports while it trains one network
Keep = Callable[[str, dict[str, Any], str], None]


def scaling(keep: Keep) -> None:
    """Measure the seconds of an epoch at a fixed number of points."""
    from longtail.data.synthetic import make as make_data

    for n_labels in SIZES:
        data = make_data(N_POINTS, 50_000, n_labels, words_per_point=12, power=0.5, test_fraction=0.0)
        spent: dict[str, float] = {}

        def listener(stage: str, done: float, spent: dict[str, float] = spent) -> None:
            if stage == _TRAINING:
                spent.setdefault("start", time.perf_counter())
                spent["end"] = time.perf_counter()

        model = make(_GROWING)
        start = time.perf_counter()
        with progress.listen(listener):
            model.fit(data.X, data.Y, label_features=data.Z)
        total = time.perf_counter() - start
        seen = len(np.unique(data.Y.indices))
        row = {"labels": n_labels, "with points": seen, "epoch_seconds": (spent["end"] - spent["start"]) / 2}
        keep(f"scaling {n_labels}", row | {"fit_seconds": total}, _GROWING)


def latency(keep: Keep, n_labels: int = 1_300_000, width: int = 256) -> None:
    """Measure one point among generated classifiers."""
    rng = np.random.default_rng(0)
    labels = np.ascontiguousarray(make_vectors("clustered", n_labels)[:, : width + 1])
    labels[:, width] = 0
    tokens = rng.standard_normal((max(1, n_labels // 20), width), np.float32)
    for start in range(0, len(tokens), 4096):  # a token points at a label, so that points lie near labels
        part = tokens[start : start + 4096]
        part *= 0.02
        part += labels[rng.integers(n_labels, size=len(part)), :width]
    encoder = DocumentEncoder(tokens, np.zeros((width, width), np.float32), np.ones(width, np.float32))
    ptr = np.arange(0, 3 * N_SINGLE + 1, 3)
    idx = np.sort(rng.integers(len(tokens), size=(N_SINGLE, 3)), axis=1).ravel().astype(np.int32)
    X = csr_array((np.ones(len(idx), np.float32), idx, ptr), shape=(N_SINGLE, len(tokens)))
    queries = encoder(SparseRows.of(X), None)
    parts = round(3 * n_labels**0.5)  # as in training
    index = make_index(labels, "ip", "ivf", queries=queries[::2], recall=0.9, recall_k=10, n_partitions=parts)
    model = DECAF()
    model.tree_ = None
    model.n_features_in_, model.n_labels_ = len(tokens), n_labels
    network = TrainedNetwork(encoder, None, labels, index)
    model.scorer_ = DecafScorer([network], np.arange(n_labels, dtype=np.int32), n_labels)
    true, _ = make_index(labels, "ip", "exact").search(queries, 5)
    found = model.predict(X, 5).indices.reshape(-1, 5)
    agree = np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(found[1::2], true[1::2], strict=True)])
    row = {"labels": n_labels, "dim": width, "p50_ms": single_point_ms(model, X), "agreement": float(agree)}
    keep("latency", row, "decaf")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data", default="debian-packages,tate,eurlex57k")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    parts = options.parts.split(",")

    def keep(key: str, row: dict[str, Any], model: str) -> None:
        results.add("decaf", key, row, model)
        print(key, results.rounded(row), flush=True)

    if "accuracy" in parts:
        variants = {name: VARIANTS[name] for name in options.variants.split(",")}
        seeds = [int(seed) for seed in options.seeds.split(",")]
        for name in options.data.split(","):
            for key, row in measured(longtail.read(options.data_root / name), name, variants, seeds):
                keep(key, row, variants[row["variant"]].model)
    if "zero-shot" in parts:
        data = longtail.read(options.data_root / "debian-packages")
        keep("debian-packages zero-shot", zero_shot(data, "debian-packages", "decaf"), "decaf")
    if "scaling" in parts:
        scaling(keep)
    if "latency" in parts:
        latency(keep)
    render.render()


if __name__ == "__main__":
    main()
