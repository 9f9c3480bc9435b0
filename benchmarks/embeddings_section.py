"""The section of RESULTS.md on the embedding models, from ``results/embeddings.json``."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.machine import described

# What is to be reached with default settings. For GLaS the best peer's figures on the same data; for MNN the paper's
# neighbourhood (two cells of its table contradict each other, see the bars).
BARS: dict[str, dict[str, float]] = {
    "glas bibtex": {"P@1": 63.54, "P@5": 28.68, "F@1": 58.04, "F@5": 43.76},
    "glas delicious": {"P@1": 66.97, "P@5": 55.92, "F@1": 49.77, "F@5": 45.08},
    "glas tate": {"F@1": 63.29, "F@3": 57.81, "F@5": 53.42},
    "glas debian-packages": {"F@1": 50.06, "F@3": 41.18, "F@5": 37.20},
    "glas eurlex57k": {"P@1": 91.0, "P@5": 68.0, "F@1": 75.5, "F@5": 68.2},
    "mnn bibtex": {"P@1": 64.2, "P@5": 28.8, "nDCG@5": 61.5},
    "mnn delicious": {"P@1": 68.0, "P@5": 57.0, "nDCG@5": 59.5},
}
LIMITS = {"glas eurlex57k": {"seconds": 360.0, "peak_memory_mb": 3 * 1024.0}}
RATIO = 4.0
_SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "nDCG@5", "F@1", "F@3", "F@5")
_HOW_ABLATION = """\
GLaS without the mix on a sample of training points, measured on 3,000 others; mean and spread of some seeds (each
another split, sample and start). The gap is P@1 on training points less P@1 on held-out points."""
_READING = """\
Read with care: runs are short and on small samples, so that all of them could be made. Where the means of `glas`,
`spreadout` and `none` are closer than the spread over seeds, no order is shown, and the gap is about a point larger
with `glas` than with `none`, the contrary of what the paper reports. `relu` does not go together with label vectors
that start at their points: compare it with `relu, random start`, and that with `random start`, which is linear. All
run with settings that suit the linear encoder; what a ReLU would reach with its own is not measured. `keep 1.0` is
ahead of input dropout in these runs, which end before a model overfits much. `random start` shows what starting
label vectors at the mean of their points is worth: PSP and F gain, more on tate, whose labels have fewer points;
P@1 gains little or nothing."""
_HOW_THROUGHPUT = """\
Points a second while training on the demo data (37,907 labels) at d = 512 in batches of 512, by turns with the loop
one writes first in torch: EmbeddingBag, automatic differentiation, Adam over all parameters; same points, candidates,
loss and regulariser. Candidates are the labels of the batch and so many drawn ones: the more there are, the more of the
time is one matrix product, which is the same for both."""


def render(results: dict[str, Any]) -> str:
    """The whole section, as Markdown."""
    lines = [
        "## Embedding models",
        "",
        *described(results, cores=False),
    ]
    if "accuracy" in results:
        lines += ["", *_accuracy(results["accuracy"])]
    if "ablation" in results:
        lines += ["", *_ablation(results["ablation"])]
    if "throughput" in results:
        lines += ["", *_throughput(results["throughput"])]
    return "\n".join(lines)


def _accuracy(rows: dict[str, dict[str, Any]]) -> list[str]:
    head = ["model and data", *_SHOWN, "cores", "s", "MB at most", "model MB", "date"]
    lines = [
        "### Accuracy with default settings",
        "",
        "Seconds from the start of `longtail train` to the saved model, reading and TF-IDF included. `glas alone` is",
        "the paper's model: the network without the mix (`mix=False`).",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for name, row in rows.items():
        figures = " | ".join(f"{row[key]:.2f}" for key in _SHOWN)
        costs = f"{row.get('cores', '–')} | {row['seconds']:.0f} | {row['peak_memory_mb']:,.0f} | {row['model_mb']:.0f}"
        lines.append(f"| {name} | {figures} | {costs} | {row['date']} |")
    lines += ["", "| goal | bar | measured |", "|---|---|---|"]
    for name, row in rows.items():
        lines += [
            f"| {name}: {key} | ≥ {bar} | {row[key]:.2f} {_mark(row[key] >= bar)} |"
            for key, bar in BARS.get(name, {}).items()
        ]
        lines += [
            f"| {name}: {key.replace('_', ' ')} | ≤ {bar:,.0f} | {row[key]:,.0f} {_mark(row[key] <= bar)} |"
            for key, bar in LIMITS.get(name, {}).items()
        ]
    return lines


def _ablation(rows: dict[str, dict[str, Any]]) -> list[str]:
    keys = ("P@1", "P@5", "PSP@1", "PSP@5", "F@1", "F@5", "train_P@1", "gap")
    lines = ["### What each part of GLaS is worth", "", _HOW_ABLATION, "", _READING]
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, row in rows.items():
        data, _, rest = name.partition(" ")
        variant, _, _ = rest.rpartition(" ")
        groups.setdefault(data, {}).setdefault(variant, []).append(row)
    for data, variants in groups.items():
        first = next(iter(variants.values()))[0]
        settings = ", ".join(f"{key}={value}" for key, value in first["settings"].items()) or "defaults"
        lines += [
            "",
            f"#### {data}, {first['points']:,} points, {settings}",
            "",
            f"| variant | seeds | {' | '.join(keys)} |",
            "|---" * (len(keys) + 2) + "|",
        ]
        for variant, runs in variants.items():
            cells = [_spread([run[key] for run in runs]) for key in keys]
            lines.append(f"| {variant} | {len(runs)} | {' | '.join(cells)} |")
    return lines


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def _throughput(rows: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["### Training throughput", "", _HOW_THROUGHPUT, ""]
    lines += [
        "| drawn candidates | labels met | cores | longtail, points/s | torch, points/s | ratio | goal |",
        "|---" * 7 + "|",
    ]
    for drawn, row in sorted(rows.items(), key=lambda item: int(item[0])):
        goal = f"≥ {RATIO:g} {_mark(row['ratio'] >= RATIO)}"
        lines.append(
            f"| {drawn} | {row['labels_met']:,.0f} | {row.get('cores', '–')} | {row['ours_points_per_second']:,.0f} "
            f"| {row['torch_points_per_second']:,.0f} | {row['ratio']:.1f} | {goal} |"
        )
    return lines


def _mark(passed: bool) -> str:
    return "✓" if passed else "**✗**"
