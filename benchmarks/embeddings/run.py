"""Measure the embedding models: accuracy against bars, ablations, training throughput.

    python -m benchmarks.embeddings.run accuracy [--data bibtex,eurlex57k] [--models "blend,glas"]
    python -m benchmarks.embeddings.run ablation [--data tate] [--points 12000] [--seeds 0,1,2]
    python -m benchmarks.embeddings.run throughput [--candidates 512,2048,8192]

`accuracy` runs ``longtail train`` and ``longtail evaluate`` with default settings, each in a process of its own, as a
user would: the papers' models alone, and GLaS combined with other models by Blend. `ablation` trains GLaS on a sample
of training points and measures it on points held out of training; test parts are not used. `throughput` steps GLaS and
a plain torch loop (`torch_loop.py`) in turn on the same batches.
A run replaces the figures of its own rows in ``results/embeddings.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from longtail import registry
from longtail.data.split import split
from longtail.kernels.pool import cores
from longtail.labels.cooccurrence import affinity
from longtail.metrics import full_report
from longtail.models.glas import GLaS
from longtail.neural.batch import Candidates, CandidateSampler

WITHOUT_TEXT = "blend without label text"  # where labels have text, Blend would choose DECAF instead of GLaS
SYSTEMS = {"blend": "blend", WITHOUT_TEXT: "blend([bonsai, knn, glas])", "glas": "glas", "mnn": "mnn"}
_SMALL = ("bibtex", "delicious")
_TEXT = ("tate", "debian-packages", "eurlex57k")
DATA = {"blend": _SMALL, WITHOUT_TEXT: _TEXT, "glas": (*_SMALL, *_TEXT), "mnn": _SMALL}
KEPT = [f"{measure}@{k}" for measure in ("P", "PSP", "nDCG", "B") for k in (1, 3, 5)]
ABLATION: dict[str, dict[str, Any]] = {
    "glas": {},
    "spreadout": {"regularizer": "spreadout"},
    "none": {"regularizer": "none"},
    "relu": {"advanced": {"relu": True}},
    "relu, random start": {"advanced": {"relu": True, "start": 0.0}},
    "input dropout 0.2": {"input_dropout": 0.2},
    "input dropout 0": {"input_dropout": 0.0},
    "random start": {"advanced": {"start": 0.0}},
}
HELD = 3000  # points on which ablations are measured
BATCH, DIM, RATE = 512, 512, 0.008  # of the throughput


def accuracy(name: str, model: str, root: Path) -> dict[str, Any]:
    """Train with defaults and measure on the test part, by the command line."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        trained = _longtail("train", root / name, "--model", model, "--out", f"{folder}/m")
        seconds = time.perf_counter() - start
        (measured,) = _longtail("evaluate", f"{folder}/m", root / name)
    row = {key: measured[key] for key in KEPT} | {"seconds": seconds, "cores": cores(None)}
    return row | {key: trained[key] for key in ("train_seconds", "peak_memory_mb", "model_mb")}


def _longtail(*words: Any) -> Any:
    command = [sys.executable, "-m", "longtail", *map(str, words), "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def ablation(X: csr_array, Y: csr_array, settings: dict[str, Any], n_points: int, seed: int) -> dict[str, float]:
    """Train GLaS on a sample of points, measure it on others, and return the gap between P@1 on both."""
    rows, held = split(Y, min(0.2, HELD / Y.shape[0]), seed)
    if n_points < len(rows):
        rows = np.sort(np.random.default_rng(seed).choice(rows, n_points, replace=False))
    model = GLaS(random_state=seed, refit=False, **settings).fit(X[rows], Y[rows])
    found = full_report(Y[held], model.predict(X[held], 50), train_Y=Y[rows])
    last = max(model.history_, key=lambda entry: entry["monitor"])  # the epoch whose weights were kept
    gap = last["train_P@1"] - found["P@1"]
    return {key: found[key] for key in KEPT} | {
        "train_P@1": last["train_P@1"],
        "gap": gap,
        "epochs": len(model.history_),
    }


def throughput(X: csr_array, Y: csr_array, n_candidates: int, n_steps: int, sparse: bool = False) -> dict[str, float]:
    """Step ours and the torch loop in turn, each step on the same points and candidates; return points per second."""
    import torch

    from benchmarks.embeddings.torch_loop import TorchLoop
    from longtail.kernels.rows import block
    from longtail.models.glas.learner import EmbeddingLearner, Recipe
    from longtail.models.glas.network import Network, NetworkSettings
    from longtail.models.glas.regularizers import glas
    from longtail.neural.losses import make_loss

    torch.manual_seed(0)
    sampler = Fixed(Y, n_candidates)
    settings = GLaS().settings()
    keep, U = 1 - settings.input_dropout, affinity(Y, settings.affinity)
    shape = NetworkSettings(DIM, True, False, "adam", 0.0, 1.0)
    network = Network(X.shape[1], Y.shape[1], shape, np.zeros(Y.shape[1]), np.random.default_rng(0))
    loss = make_loss("bce", settings.correction, settings.margin, settings.n_hard, None)
    recipe = Recipe(loss, glas, settings.regularization, U, settings.n_regularized, keep)
    ours = EmbeddingLearner(network, X, np.arange(X.shape[0]), Y, None, sampler, recipe)
    theirs = TorchLoop(X.shape[1], Y.shape[1], DIM, RATE, settings.regularization, sparse)
    rng = np.random.default_rng(0)
    place = np.full(Y.shape[1], -1, np.int32)
    seconds: dict[str, list[float]] = {"ours": [], "torch": []}
    for _ in range(n_steps):
        rows = np.sort(rng.choice(X.shape[0], BATCH, replace=False))
        candidates = sampler.choose(rows, rng)
        start = time.perf_counter()
        ours.step(rows, rng, RATE)
        middle = time.perf_counter()
        drawn = ours._draw(candidates.ptr, candidates.places, rng)
        affinities = block(U.indptr, U.indices, U.data, candidates.labels[drawn], place)
        theirs.step(X[rows], candidates, keep, settings.correction, drawn, affinities)
        seconds["ours"].append(middle - start)
        seconds["torch"].append(time.perf_counter() - middle)
    skipped = max(1, n_steps // 5)  # the first steps compile, or touch memory for the first time
    medians = {name: float(np.median(times[skipped:])) for name, times in seconds.items()}
    return {f"{name}_points_per_second": BATCH / value for name, value in medians.items()} | {
        "ratio": medians["torch"] / medians["ours"],
        "labels_met": float(len(candidates.labels)),
    }


class Fixed(CandidateSampler):
    """A sampler that returns its last choice again, so that both loops get the same candidates."""

    def __init__(self, Y: csr_array, n_candidates: int) -> None:
        super().__init__(Y, n_candidates, BATCH)

    def choose(self, rows: np.ndarray, rng: np.random.Generator) -> Candidates:
        """Draw candidates and keep them."""
        self._chosen = super().draw(rows, rng)
        return self._chosen

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> Candidates:
        """Return the candidates that were chosen last."""
        return self._chosen


def _merged(settings: dict[str, Any], variant: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of GLaS: those given, and those of a variant; of both, what `advanced` has."""
    advanced = settings.get("advanced", {}) | variant.get("advanced", {})
    return settings | variant | ({"advanced": advanced} if advanced else {})


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("accuracy", "ablation", "throughput"))
    parser.add_argument("--data", default="")
    parser.add_argument("--models", default=",".join(SYSTEMS))
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    parser.add_argument("--points", type=int, default=12_000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--variants", default=";".join(ABLATION), help="separated by semicolons")
    parser.add_argument("--candidates", default="512,2048,8192")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of GLaS, in ablations")
    options = parser.parse_args()

    def keep(group: str, name: str, row: dict[str, Any], model: str) -> None:
        results.add("embeddings", name, row, model, group)
        shown = {key: round(value, 2) for key, value in row.items() if isinstance(value, float)}
        print(f"{group} {name}: {shown}", flush=True)

    if options.what == "accuracy":
        for model in options.models.split(","):
            composed = SYSTEMS.get(model, model)
            for name in options.data.split(",") if options.data else DATA[model]:
                keep("accuracy", f"{model} {name}", accuracy(name, composed, options.data_root), composed)
    elif options.what == "ablation":
        settings = dict(registry.parse_setting(text) for text in options.set)
        for name in (options.data or "tate,eurlex57k").split(","):
            data = longtail.read(options.data_root / name)
            for seed in map(int, options.seeds.split(",")):
                for variant in options.variants.split(";"):
                    parameters = _merged(settings, ABLATION[variant])
                    row = ablation(data.X, data.Y, parameters, options.points, seed)
                    row |= {"points": options.points, "settings": settings}
                    model = repr(GLaS(**parameters)).replace("GLaS", "glas", 1)
                    keep("ablation", f"{name} {variant} {seed}", row, model)
    else:
        data = longtail.read(longtail.DEMO)
        for n in map(int, options.candidates.split(",")):
            row: dict[str, Any] = throughput(data.X, data.Y, n, options.steps)
            keep("throughput", str(n), row | {"labels": data.n_labels, "cores": cores(None)}, "glas")
    render.render()


if __name__ == "__main__":
    main()
