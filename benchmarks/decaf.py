"""Measure DECAF: beside peers, with parts left out, on labels it has never seen, and as labels grow.

    python -m benchmarks.decaf [--parts accuracy,zero-shot,scaling,latency] [--data debian-packages,tate]
                               [--variants default,no-text,...] [--seeds 0] [--data-root FOLDER]

- accuracy: each variant in a process of its own (as ``longtail compare`` does), on the given test part. The peers'
  figures beside it are those of ``benchmarks.peers``.
- zero-shot: a tenth of the labels and their pairs are hidden from training and added by their text; recall@10 on test
  points that have such a label, among all labels and among the hidden, beside the similarity of TF-IDF vectors; and P@1
  and P@5 of the trained labels before and after, which is what the added ones cost them.
- scaling: seconds of one epoch against the number of labels, with the number of points fixed (synthetic data).
- latency: one point on one thread against generated classifiers of 1.3 million labels.

A run replaces the figures of its own rows in ``results/decaf.json``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

import longtail
from benchmarks import machine, render, results
from benchmarks.index import make_vectors
from longtail import progress, registry
from longtail.cli.worker import Prepared, run
from longtail.index import make_index
from longtail.kernels import pool
from longtail.metrics import evaluate
from longtail.models.decaf import DECAF
from longtail.models.views import Views
from longtail.neural.ensemble import Ensemble
from longtail.neural.instance import Instance
from longtail.neural.mixing import Mix
from longtail.neural.text_learner import Encoder

_MODULES = {  # the four modules and nothing else, steps as in the default
    "shortlist": "clusters", "mix": False, "n_trees": 0, "neighbours": 0, "matches": 0, "dim": 128, "candidates": 1024,
    "epochs": 5, "surrogate_epochs": 3,
}  # fmt: skip
VARIANTS = {  # name: (model, whether it sees label text)
    "default": ("decaf", True),
    "no-text": ("decaf", False),
    "three-instances": ("decaf(instances=3)", True),
    "no-linear": ("decaf(n_trees=0)", True),
    "no-mix": ("decaf(n_trees=0, mix=False)", True),
    "int8": ("decaf(dtype='int8')", True),
    "paper": ("decaf(preset='paper')", True),
    "paper-one-instance": ("decaf(preset='paper', instances=1)", True),
} | {  # Tables 5 and 6: the paper's four modules, trained as the default is: two minutes a run, not an hour
    f"parts{name}": (f"decaf({', '.join(f'{key}={value}' for key, value in (_MODULES | setting).items())})", True)
    for name, setting in {
        "": {},
        "-lite": {"lite": True},
        "-few-clusters": {"n_clusters": 512},
        "-no-init": {"init": "random"},
        "-z1": {"classifier": "text"},
        "-z2": {"classifier": "refinement"},
        "-hnsw": {"shortlist": "hnsw"},
        "-tree": {"shortlist": "tree"},
    }.items()
}
PARTS = ("accuracy", "zero-shot", "scaling", "latency")
SIZES = (16_000, 64_000, 256_000, 1_000_000)
HIDDEN, N_SINGLE = 0.1, 500
_COST = ("P@1", "P@5")
Row = dict[str, Any]


def accuracy(folder: Path, variants: list[str], seeds: list[int], keep: Callable[[str, Row], None]) -> None:
    """Variants on one data set."""
    data = longtail.read(folder)
    with tempfile.TemporaryDirectory(prefix="longtail-") as scratch:
        prepared = Prepared.of(data)
        prepared.save(Path(scratch) / "text")
        replace(prepared, Z=None).save(Path(scratch) / "no-text")
        for seed in seeds:
            for variant in variants:
                model, with_text = VARIANTS[variant]
                own = Path(scratch) / f"{variant}-{seed}"
                row = run(Path(scratch) / ("text" if with_text else "no-text"), model, {}, {"random_state": seed}, own)
                row.pop("frontier", None)
                row["cores"] = pool.cores(None)
                if "error" not in row:
                    row["single_ms"] = single(registry.load(own / "model"), prepared.X_test)
                keep(f"{folder.name} {variant} {seed}", row | {"data": folder.name, "variant": variant, "seed": seed})


def single(model: Any, X: csr_array) -> float:
    """Milliseconds of one point on one thread: the median, in the best of three passes."""
    return min(_pass(model, X) for _ in range(3))


def _pass(model: Any, X: csr_array) -> float:
    taken = []
    with threadpool_limits(1):
        for row in range(0, X.shape[0], max(1, X.shape[0] // N_SINGLE)):
            held = slice(X.indptr[row], X.indptr[row + 1])
            start = time.perf_counter()
            model.rank(X.indices[held], X.data[held], 5)
            taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e3


def zero_shot(folder: Path, keep: Callable[[str, Row], None]) -> None:
    """Labels that training never saw."""
    data = longtail.read(folder)
    assert data.X is not None
    assert data.Z is not None
    assert data.test is not None
    assert data.test.X is not None
    rng = np.random.default_rng(0)
    hidden = np.zeros(data.n_labels, bool)
    hidden[rng.choice(data.n_labels, round(HIDDEN * data.n_labels), replace=False)] = True
    order = np.concatenate([np.flatnonzero(~hidden), np.flatnonzero(hidden)])  # the hidden ones come last
    n_known = int((~hidden).sum())
    Y = csr_array(data.Y[:, order[:n_known]])
    some = np.flatnonzero(np.diff(Y.indptr))
    model = DECAF().fit(data.X[some], Y[some], label_features=data.Z[order[:n_known]])
    known = csr_array(data.test.Y[:, order[:n_known]])
    before = evaluate(known, model.predict(data.test.X), train_Y=Y, ks=(1, 5))
    model.add_labels(data.Z[order[n_known:]])
    wider = csr_array((known.data, known.indices, known.indptr), shape=data.test.Y.shape)
    wider_Y = csr_array((Y.data, Y.indices, Y.indptr), shape=data.Y.shape)
    after = evaluate(wider, model.predict(data.test.X), train_Y=wider_Y, ks=(1, 5))
    truth = csr_array(data.test.Y[:, order[n_known:]])
    asked = np.flatnonzero(np.diff(truth.indptr))
    X, truth = data.test.X[asked], truth[asked]
    similar = csr_array(X @ csr_array(data.Z[order].T))
    row = {"data": folder.name, "points": len(asked), "pairs": truth.nnz, "hidden": int(hidden.sum())}
    row |= {f"{name} {when}": held[name] for when, held in (("before", before), ("after", after)) for name in _COST}
    for name, scores in (("decaf", model.predict(X, 2000)), ("tf-idf", similar)):
        row |= {
            f"{name} all": recall(scores, truth, n_known, False),
            f"{name} hidden": recall(scores, truth, n_known, True),
        }
    keep(f"{folder.name} zero-shot", row)


def recall(scores: csr_array, truth: csr_array, first: int, among_hidden: bool, k: int = 10) -> float:
    """Share of the hidden labels of points among the k best, in percent."""
    found = 0
    for i in range(truth.shape[0]):
        part = slice(scores.indptr[i], scores.indptr[i + 1])
        ids, values = scores.indices[part], scores.data[part]
        if among_hidden:
            ids, values = ids[ids >= first], values[ids >= first]
        best = ids[np.lexsort((ids, -values))[:k]]
        found += len(np.intersect1d(best - first, truth.indices[truth.indptr[i] : truth.indptr[i + 1]]))
    return 100 * found / truth.nnz


def scaling(keep: Callable[[str, Row], None]) -> None:
    """Seconds of an epoch at a fixed number of points."""
    from longtail.data.synthetic import make

    for n_labels in SIZES:
        data = make(20_000, 50_000, n_labels, words_per_point=12, power=0.5, test_fraction=0.0)
        spent: dict[str, float] = {}

        def listener(stage: str, done: float, spent: dict[str, float] = spent) -> None:
            if stage.startswith("module IV"):
                spent.setdefault("start", time.perf_counter())
                spent["end"] = time.perf_counter()

        model = DECAF(epochs=2, n_trees=0, validation_fraction=0.0)
        start = time.perf_counter()
        with progress.listen(listener):
            model.fit(data.X, data.Y, label_features=data.Z)
        total = time.perf_counter() - start
        seen = len(np.unique(data.Y.indices))
        row = {"labels": n_labels, "with points": seen, "epoch_seconds": (spent["end"] - spent["start"]) / 2}
        keep(f"scaling {n_labels}", row | {"fit_seconds": total})


def latency(keep: Callable[[str, Row], None], n_labels: int = 1_300_000, width: int = 256) -> None:
    """One point among generated classifiers."""
    rng = np.random.default_rng(0)
    labels = np.ascontiguousarray(make_vectors("clustered", n_labels)[:, : width + 1])
    labels[:, width] = 0
    tokens = rng.standard_normal((n_labels // 20, width), np.float32)
    for start in range(0, len(tokens), 4096):  # a token points at a label, so that points lie near labels
        part = tokens[start : start + 4096]
        part *= 0.02
        part += labels[rng.integers(n_labels, size=len(part)), :width]
    encoder = Encoder(tokens, np.zeros((width, width), np.float32), np.ones(width, np.float32))
    ptr = np.arange(0, 3 * N_SINGLE + 1, 3)
    idx = np.sort(rng.integers(len(tokens), size=(N_SINGLE, 3)), axis=1).ravel().astype(np.int32)
    X = csr_array((np.ones(len(idx), np.float32), idx, ptr), shape=(N_SINGLE, len(tokens)))
    queries = encoder(X.indptr, X.indices, X.data, None)
    parts = round(3 * n_labels**0.5)  # as in training
    index = make_index(labels, "ip", "ivf", queries=queries[::2], recall=0.9, recall_k=10, n_partitions=parts)
    model = DECAF()
    model.views_ = Views()
    model.n_features_in_, model.n_labels_ = len(tokens), n_labels
    model.ensemble_ = Ensemble(
        [Instance(encoder, None, labels, index)], np.arange(n_labels, dtype=np.int32), np.zeros(n_labels, np.float32),
        np.zeros(n_labels, bool), Mix.start(0, shared=False), n_labels,
    )  # fmt: skip
    true, _ = make_index(labels, "ip", "exact").search(queries, 5)
    found = model.predict(X, 5).indices.reshape(-1, 5)
    agree = np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(found[1::2], true[1::2], strict=True)])
    keep(
        "latency",
        {
            "labels": n_labels,
            "dim": width,
            "p50_ms": single(model, X),
            "agreement": float(agree),
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data", default="debian-packages,tate,eurlex57k")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--data-root", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    options = parser.parse_args()
    parts = options.parts.split(",")

    def keep(name: str, row: Row) -> None:
        known = results.load("decaf") or {"rows": {}}  # afresh, since another run may have added rows
        known |= {"machine": machine.facts(), "versions": machine.versions()}
        known["rows"][name] = row | {"date": datetime.now(UTC).date().isoformat()}
        results.save("decaf", known)
        print(name, {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})

    for name in options.data.split(","):
        if "accuracy" in parts:
            seeds = [int(seed) for seed in options.seeds.split(",")]
            accuracy(options.data_root / name, options.variants.split(","), seeds, keep)
    if "zero-shot" in parts:
        zero_shot(options.data_root / "debian-packages", keep)
    if "scaling" in parts:
        scaling(keep)
    if "latency" in parts:
        latency(keep)
    render.render()


if __name__ == "__main__":
    main()
