"""The section of RESULTS.md about DECAF."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import results as store

_KS = (1, 3, 5)
_ABOVE = {"F@1": 2.0, "F@3": 2.0, "F@5": 3.0, "P@1": 0.0, "P@3": 0.0, "P@5": 0.0}
_LONG = {"P@5": 0.0, "F@5": 0.0}
_BARS = {"debian-packages": _ABOVE, "tate": _ABOVE, "eurlex57k": _LONG, "yso-titles": _LONG}
_TEXT_GAINS = {"F@1": 2.0, "F@5": 3.0}
_SLOPE = 0.3
_PARTS = ("P@1", "P@5", "PSP@1", "PSP@5", "F@1", "F@5")
_HEAD = (
    "variant", "P@1/3/5", "PSP@1/3/5", "F@1/3/5", "cores", "train s", "batch ms", "single ms", "peak MB", "model MB",
    "seeds",
)  # fmt: skip


def render(results: dict[str, Any]) -> str:
    """The section, from ``results/decaf.json`` and the peers' figures."""
    rows = list(results["rows"].values())
    lines = [
        "## DECAF",
        "",
        "Label text inside the classifiers. Each variant is trained in a process of its own with the defaults but for",
        "what its name says (`benchmarks/decaf.py`), and measured on the test part; settings were chosen on parts of",
        "the training points. A peer's figure is the best of all peers above, for each measure. Single points are the",
        "median on one thread. Times taken while the machine had other work are upper bounds.",
    ]
    measured = [row for row in rows if "variant" in row]
    for data in dict.fromkeys(row["data"] for row in measured):
        here = [row for row in measured if row["data"] == data and not row["variant"].startswith("parts")]
        lines += ["", f"### DECAF on {data}", "", *_variants(here, data), *_label_text(here)]
    lines += _ablations([row for row in measured if row["variant"].startswith("parts") and "error" not in row])
    others = {name: row for name, row in results["rows"].items() if "variant" not in row}
    lines += _zero_shot([row for row in others.values() if "hidden" in row])
    lines += _scaling(sorted((row for row in others.values() if "fit_seconds" in row), key=lambda row: row["labels"]))
    lines += _latency([row for row in others.values() if "agreement" in row])
    return "\n".join(lines)


def _variants(rows: list[dict[str, Any]], data: str) -> list[str]:
    lines = []
    best, default = store.best_peer(data), [row for row in rows if row["variant"] == "default" and "error" not in row]
    if best and default:
        lines += ["| goal | bar | default |", "|---|---|---|"]
        for measure, above in _BARS.get(data, {}).items():
            found = float(np.mean([row[measure] for row in default]))
            bar = best[measure] + above
            lines.append(f"| {measure}, best peer's + {above:g} | ≥ {bar:.2f} | {found:.2f} {_mark(found >= bar)} |")
        lines.append("")
    lines += [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        same = [row for row in rows if row["variant"] == variant]
        fine = [row for row in same if "error" not in row]
        if not fine:
            lines.append(f"| {variant} | {same[0]['error']} |" + " |" * (len(_HEAD) - 2))
            continue
        mean = {key: float(np.mean([row[key] for row in fine])) for key in fine[0] if isinstance(fine[0][key], float)}
        figures = ["/".join(f"{mean[f'{measure}@{k}']:.2f}" for k in _KS) for measure in ("P", "PSP", "F")]
        costs = [
            "/".join(sorted({str(row.get("cores", "?")) for row in fine})),
            f"{mean['train_seconds']:.0f}",
            f"{mean['predict_ms_per_point']:.3f}",
            f"{mean['single_ms']:.3f}",
        ]
        sizes = [f"{mean['peak_memory_mb']:.0f}", f"{mean['model_mb']:.1f}", str(len(fine))]
        lines.append(f"| {' | '.join([variant, *figures, *costs, *sizes])} |")
    return lines


def _label_text(rows: list[dict[str, Any]]) -> list[str]:
    """What label text is worth, where both were measured."""
    one = {row["variant"]: row for row in rows if "error" not in row and row["seed"] == 0}
    if not {"default", "no-text"} <= one.keys():
        return []
    gains = {measure: one["default"][measure] - one["no-text"][measure] for measure in _TEXT_GAINS}
    told = [f"{m} {gain:+.2f} (bar {_TEXT_GAINS[m]:+g} {_mark(gain >= _TEXT_GAINS[m])})" for m, gain in gains.items()]
    return ["", f"Label text: {', '.join(told)}."]


def _ablations(rows: list[dict[str, Any]]) -> list[str]:
    """Tables 5 and 6 of the paper, where every variant is below the whole."""
    whole = {row["seed"]: row for row in rows if row["variant"] == "parts"}
    if not whole:
        return []
    lines = [
        "",
        "### DECAF with parts left out",
        "",
        f"The paper's four modules on {rows[0]['data']} and nothing beside them, stepped as the default's network is,",
        "with 128 numbers a vector, three epochs of Module I and five of II and IV: the network alone, so that figures",
        "are below the default's. Differences from the whole, mean and deviation over seeds. In the paper every",
        "difference is below zero; what is not is discussed in [README.md](README.md#parts-of-decaf).",
        "",
        "| variant | " + " | ".join(_PARTS) + " | below the whole, as in the paper | train s | seeds |",
        "|---" * (len(_PARTS) + 4) + "|",
    ]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        same = [row for row in rows if row["variant"] == variant and row["seed"] in whole]
        gaps = {m: np.array([row[m] - whole[row["seed"]][m] for row in same]) for m in _PARTS}
        if variant == "parts":
            cells = [
                f"{np.mean([row[m] for row in same]):.2f} ± {np.std([row[m] for row in same]):.2f}" for m in _PARTS
            ]
            told = ""
        else:
            cells = [f"{gaps[m].mean():+.2f} ± {gaps[m].std():.2f}" for m in _PARTS]
            told = ", ".join(m for m in _PARTS if gaps[m].mean() < 0) or "**nowhere**"
        seconds = np.mean([row["train_seconds"] for row in same])
        lines.append(f"| {variant} | {' | '.join(cells)} | {told} | {seconds:.0f} | {len(same)} |")
    return lines


def _zero_shot(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = [
        "",
        "### Labels that were never seen",
        "",
        "| data | hidden labels | recall@10 among | DECAF | TF-IDF similarity |",
    ]
    lines += ["|---|---|---|---|---|"]
    for row in rows:
        for among in ("all", "hidden"):
            of = "all labels" if among == "all" else "the hidden ones"
            lines.append(
                f"| {row['data']} | {row['hidden']:,}, {row['pairs']:,} test pairs | {of} "
                f"| {row[f'decaf {among}']:.1f} | {row[f'tf-idf {among}']:.1f} |"
            )
    return lines


def _scaling(rows: list[dict[str, Any]]) -> list[str]:
    if len(rows) < 2:
        return []
    labels = np.log([row["labels"] for row in rows])
    slopes = [np.polyfit(labels, np.log([row[f"{what}_seconds"] for row in rows]), 1)[0] for what in ("epoch", "fit")]
    told = [f"{slope:.2f} ({_mark(slope <= _SLOPE)})" for slope in slopes]
    lines = ["", "### Labels and training time", ""]
    lines += [
        f"20,000 synthetic points; slope in log-log against labels (bar ≤ {_SLOPE}): of an epoch {told[0]}, of all",
        f"that `fit` does, which includes making and indexing a classifier for each label, {told[1]}.",
        "",
        "| labels | with points | s an epoch | s in all, 2 epochs |",
        "|---|---|---|---|",
    ]
    return lines + [
        f"| {row['labels']:,} | {row['with points']:,} | {row['epoch_seconds']:.2f} | {row['fit_seconds']:.1f} |"
        for row in rows
    ]


def _latency(rows: list[dict[str, Any]]) -> list[str]:
    return [
        f"\n### One point among {row['labels']:,} labels\n\nGenerated classifiers of length {row['dim']}, one thread: "
        f"p50 {row['p50_ms']:.2f} ms (bar ≤ 1.7 {_mark(row['p50_ms'] <= 1.7)}), top-5 agreement with exhaustive "
        f"scoring {row['agreement']:.3f} (bar ≥ 0.95 {_mark(row['agreement'] >= 0.95)})."
        for row in rows
    ]


def _mark(passed: bool) -> str:
    return "✓" if passed else "**✗**"
