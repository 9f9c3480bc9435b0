"""The section of RESULTS.md on the embedding models, from ``results/embeddings.json``."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.machine import described
from benchmarks.tables import LEGEND, footnote, mark, origin, star

# Bars with default settings. For Blend the best peer's figures on the same data; for MNN about the paper's (two cells
# of its table contradict each other).
BARS: dict[str, dict[str, float]] = {
    "blend bibtex": {"P@1": 63.54, "P@5": 28.68, "B@1": 58.04, "B@5": 43.76},
    "blend delicious": {"P@1": 66.97, "P@5": 55.92, "B@1": 49.77, "B@5": 45.08},
    "blend without label text tate": {"B@1": 63.29, "B@3": 57.81, "B@5": 53.42},
    "blend without label text debian-packages": {"B@1": 50.06, "B@3": 41.18, "B@5": 37.20},
    "blend without label text eurlex57k": {"P@1": 91.0, "P@5": 68.0, "B@1": 75.5, "B@5": 68.2},
    "mnn bibtex": {"P@1": 64.2, "P@5": 28.8, "nDCG@5": 61.5},
    "mnn delicious": {"P@1": 68.0, "P@5": 57.0, "nDCG@5": 59.5},
}
LIMITS = {"blend without label text eurlex57k": {"seconds": 360.0, "peak_memory_mb": 3 * 1024.0}}
RATIO = 4.0
_SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "nDCG@5", "B@1", "B@3", "B@5")
_HOW_ABLATION = """\
GLaS alone, the paper's model, on a sample of training points, measured on 3,000 others; mean and standard deviation
over seeds (each another split, sample and start). The gap is P@1 on training points less P@1 on held-out points."""
_READING = """\
Read with care: runs are short and on small samples, so that all of them could be made. Where the means of `glas`,
`spreadout` and `none` are closer than the spread over seeds, no order is shown, and the gap is about a point larger
with `glas` than with `none`, the contrary of what the paper reports. `relu` does not go together with label vectors
that start at their points: compare it with `relu, random start`, and that with `random start`, which is linear. All
run with settings that suit the linear encoder; what a ReLU would reach with its own is not measured. `input dropout 0`
is ahead of the default 0.1 in these runs, which end before a model overfits much. `random start` shows the effect of
starting label vectors at the mean of their points: PSP and B gain, more on tate, whose labels have fewer points; P@1
gains little or nothing."""
_HOW_THROUGHPUT = """\
Points per second while GLaS trains on the demo data (37,907 labels) at d = 512 in batches of 512, in turn with the
plain loop in torch: EmbeddingBag, automatic differentiation, Adam over all parameters; same points, candidates, loss
and regulariser. Candidates are the labels of the batch and as many drawn ones as the first column has: the more there
are, the more of the time is one matrix product, which is the same for both."""


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
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
    head = ["model and data", "from", *_SHOWN, "cores", "s", "MB at most", "model MB", "date"]
    lines = [
        "### Accuracy with default settings",
        "",
        "Seconds from the start of `longtail train` to the saved model, reading and TF-IDF included. `blend` combines",
        "`glas`, `bonsai` and `knn` here; where labels have text it would choose `decaf` instead of `glas`, so that",
        "`blend without label text` is `blend([bonsai, knn, glas])`.",
        "",
        LEGEND,
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for name, row in rows.items():
        figures = " | ".join(f"{row[key]:.2f}" for key in _SHOWN)
        costs = f"{row.get('cores', '–')} | {row['seconds']:.0f} | {row['peak_memory_mb']:,.0f} | {row['model_mb']:.0f}"
        lines.append(f"| {name}{star(row)} | {origin(row['model'])} | {figures} | {costs} | {row['date']} |")
    lines += footnote(rows.values())
    lines += ["", "| goal | bar | measured |", "|---|---|---|"]
    for name, row in rows.items():
        lines += [
            f"| {name}: {key} | ≥ {bar} | {row[key]:.2f} {mark(row[key] >= bar)} |"
            for key, bar in BARS.get(name, {}).items()
        ]
        lines += [
            f"| {name}: {key.replace('_', ' ')} | ≤ {bar:,.0f} | {row[key]:,.0f} {mark(row[key] <= bar)} |"
            for key, bar in LIMITS.get(name, {}).items()
        ]
    return lines


def _ablation(rows: dict[str, dict[str, Any]]) -> list[str]:
    keys = ("P@1", "P@5", "PSP@1", "PSP@5", "B@1", "B@5", "train_P@1", "gap")
    lines = ["### What each part of GLaS contributes", "", _HOW_ABLATION, "", _READING]
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
            lines.append(f"| {variant}{star(runs[0])} | {len(runs)} | {' | '.join(cells)} |")
    return lines + footnote(rows.values())


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def _throughput(rows: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["### Training throughput", "", _HOW_THROUGHPUT, ""]
    lines += [
        "| drawn candidates | labels met | cores | longtail, points/s | torch, points/s | ratio | goal |",
        "|---" * 7 + "|",
    ]
    for drawn, row in sorted(rows.items(), key=lambda item: int(item[0])):
        goal = f"≥ {RATIO:g} {mark(row['ratio'] >= RATIO)}"
        lines.append(
            f"| {drawn} | {row['labels_met']:,.0f} | {row.get('cores', '–')} | {row['ours_points_per_second']:,.0f} "
            f"| {row['torch_points_per_second']:,.0f} | {row['ratio']:.1f} | {goal} |"
        )
    return lines
