"""Measure the embedding models: accuracy against bars, ablations, training throughput.

    python -m benchmarks.embeddings accuracy [--data bibtex,eurlex57k] [--models "glas,glas alone"] [--data-root DIR]
    python -m benchmarks.embeddings ablation [--data tate] [--points 12000] [--seeds 0,1,2]
    python -m benchmarks.embeddings throughput [--candidates 512,2048,8192]

`accuracy` runs ``longtail train`` and ``longtail evaluate`` with default settings, each in a process of its own, as a
user would; "glas alone" is the paper's model, without the mix. `ablation` trains that on a sample of training points
and measures it on points held out of training; test parts are not looked at. `throughput` steps GLaS and a plain torch
loop (`torch_loop.py`) by turns on the same batches.
A run replaces the figures of its own rows in ``results/embeddings.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import longtail
from benchmarks import machine, render, results
from longtail import registry
from longtail.data.split import split
from longtail.kernels.pool import cores
from longtail.labels.cooccurrence import affinity
from longtail.metrics import full_report
from longtail.models.glas import GLaS
from longtail.neural.batch import CandidateSampler

ROOT = Path(__file__).resolve().parents[1].parent / "shared" / "data"
SYSTEMS = {"glas": "glas", "glas alone": "glas(mix=False)", "mnn": "mnn"}
_ALL = ("bibtex", "delicious", "tate", "debian-packages", "eurlex57k")
DATA = {"glas": _ALL, "glas alone": _ALL, "mnn": ("bibtex", "delicious")}
KEPT = [f"{measure}@{k}" for measure in ("P", "PSP", "nDCG", "F") for k in (1, 3, 5)]
ABLATION: dict[str, dict[str, Any]] = {
    "glas": {},
    "spreadout": {"regularizer": "spreadout"},
    "none": {"regularizer": None},
    "relu": {"relu": True},
    "relu, random start": {"relu": True, "start": 0.0},
    "keep 0.8": {"keep": 0.8},
    "keep 1.0": {"keep": 1.0},
    "random start": {"start": 0.0},
}
HELD = 3000  # points on which ablations are measured
BATCH, DIM = 512, 512  # of the throughput


def accuracy(name: str, model: str, root: Path) -> dict[str, Any]:
    """Train with defaults and measure on the test part, by the command line."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        trained = _longtail("train", root / name, "--model", model, "--out", f"{folder}/m")
        seconds = time.perf_counter() - start
        (measured,) = _longtail("evaluate", f"{folder}/m", root / name)
    row = {key: measured[key] for key in KEPT} | {"seconds": seconds, "cores": cores(None), "date": _today()}
    return row | {key: trained[key] for key in ("train_seconds", "peak_memory_mb", "model_mb")}


def _longtail(*words: Any) -> Any:
    command = [sys.executable, "-m", "longtail", *map(str, words), "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def ablation(X: csr_array, Y: csr_array, settings: dict[str, Any], n_points: int, seed: int) -> dict[str, float]:
    """GLaS without the mix on a sample of points, measured on others, and the gap between P@1 on both."""
    rows, held = split(Y, min(0.2, HELD / Y.shape[0]), seed)
    if n_points < len(rows):
        rows = np.sort(np.random.default_rng(seed).choice(rows, n_points, replace=False))
    model = GLaS(mix=False, random_state=seed, refit=False, **settings).fit(X[rows], Y[rows])
    found = full_report(Y[held], model.predict(X[held], 50), train_Y=Y[rows])
    last = max(model.history_, key=lambda entry: entry["monitor"])  # the epoch whose weights were kept
    gap = last["train_P@1"] - found["P@1"]
    return {key: found[key] for key in KEPT} | {
        "train_P@1": last["train_P@1"],
        "gap": gap,
        "epochs": len(model.history_),
    }


def throughput(X: csr_array, Y: csr_array, n_candidates: int, n_steps: int) -> dict[str, float]:
    """Seconds a step of ours and of the torch loop, by turns, each step on the same points and candidates."""
    import torch

    from benchmarks.torch_loop import TorchLoop
    from longtail.kernels.rows import block
    from longtail.neural.learner import EmbeddingLearner
    from longtail.neural.losses import bce
    from longtail.neural.network import Network, NetworkSettings
    from longtail.neural.regularizers import glas

    torch.manual_seed(0)
    sampler = Fixed(Y, n_candidates)
    model = GLaS()
    U = affinity(Y, "arithmetic")
    network = Network(
        X.shape[1], Y.shape[1], NetworkSettings(DIM, True, False, "adam", 0.0, 1.0), np.zeros(Y.shape[1]),
        np.random.default_rng(0),
    )  # fmt: skip
    ours = EmbeddingLearner(network, X, np.arange(X.shape[0]), Y, None, sampler, bce, glas, model.weight, U, model.keep)
    theirs = TorchLoop(X.shape[1], Y.shape[1], DIM, 0.008, model.weight)
    rng = np.random.default_rng(0)
    place = np.full(Y.shape[1], -1, np.int32)
    seconds: dict[str, list[float]] = {"ours": [], "torch": []}
    for _ in range(n_steps):
        rows = np.sort(rng.choice(X.shape[0], BATCH, replace=False))
        candidates = sampler.choose(rows, rng)
        start = time.perf_counter()
        ours.step(rows, rng, 0.008)
        middle = time.perf_counter()
        drawn = ours._draw(candidates.ptr, candidates.places, rng)
        affinities = block(U.indptr, U.indices, U.data, candidates.labels[drawn], place)
        theirs.step(X[rows], candidates, model.keep, model.correction, drawn, affinities)
        seconds["ours"].append(middle - start)
        seconds["torch"].append(time.perf_counter() - middle)
    skipped = max(1, n_steps // 5)  # the first steps compile, or touch memory for the first time
    medians = {name: float(np.median(times[skipped:])) for name, times in seconds.items()}
    return {f"{name}_points_per_second": BATCH / value for name, value in medians.items()} | {
        "ratio": medians["torch"] / medians["ours"],
        "labels_met": float(len(candidates.labels)),
    }


class Fixed(CandidateSampler):
    """A sampler that gives again what was chosen last, so that both loops meet the same candidates."""

    def __init__(self, Y: csr_array, n_candidates: int) -> None:
        super().__init__(Y, n_candidates, BATCH)

    def choose(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        self._chosen = super().draw(rows, rng)
        return self._chosen

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        return self._chosen


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("accuracy", "ablation", "throughput"))
    parser.add_argument("--data", default="")
    parser.add_argument("--models", default=",".join(SYSTEMS))
    parser.add_argument("--data-root", type=Path, default=ROOT)
    parser.add_argument("--points", type=int, default=12_000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--variants", default=";".join(ABLATION), help="separated by semicolons")
    parser.add_argument("--candidates", default="512,2048,8192")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of GLaS, in ablations")
    options = parser.parse_args()

    def keep(part: str, name: str, row: dict[str, Any]) -> None:
        known = results.load("embeddings") or {}  # again each time: another run may have added to it
        known |= {"machine": machine.facts(), "versions": machine.versions()}
        known.setdefault(part, {})[name] = row
        results.save("embeddings", known)
        shown = {key: round(value, 2) for key, value in row.items() if isinstance(value, float)}
        print(f"{part} {name}: {shown}", flush=True)

    if options.what == "accuracy":
        for model in options.models.split(","):
            for name in options.data.split(",") if options.data else DATA[model]:
                keep("accuracy", f"{model} {name}", accuracy(name, SYSTEMS.get(model, model), options.data_root))
    elif options.what == "ablation":
        settings = dict(registry.parse_setting(text) for text in options.set)
        for name in (options.data or "tate,eurlex57k").split(","):
            data = longtail.read(options.data_root / name)
            for seed in map(int, options.seeds.split(",")):
                for variant in options.variants.split(";"):
                    row = ablation(data.X, data.Y, settings | ABLATION[variant], options.points, seed)
                    row |= {"points": options.points, "settings": settings, "date": _today()}
                    keep("ablation", f"{name} {variant} {seed}", row)
    else:
        data = longtail.read(longtail.DEMO)
        for n in map(int, options.candidates.split(",")):
            row: dict[str, Any] = throughput(data.X, data.Y, n, options.steps)
            keep("throughput", str(n), row | {"labels": data.n_labels, "cores": cores(None), "date": _today()})
    render.render()


if __name__ == "__main__":
    main()
