"""The section of RESULTS.md on growth with the size of the data, from ``results/scale.json``."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.machine import described
from benchmarks.scale.run import base
from benchmarks.tables import mark

_AXES = ("N", "D", "L")
_BASE = "{N:,} points, {D:,} features and {L:,} labels".format_map(base("bonsai"))
_VECTORS = "{N:,} vectors of {D:,} numbers with {L:,} labels".format_map(base("vectorknn"))
_HOW = f"""\
Synthetic data (`longtail.data.synthetic`) of {_BASE}; ten times as many of each for `knn`, `textmatch` and `popular`,
a quarter for `dxml`, and {_VECTORS} for `vectorknn`, with ten times the labels for `vectormatch`.
One of these numbers at a time is multiplied by ½, 1, 2 and 4. A slope is that of the logarithm of CPU seconds (all
threads), or of the peak memory of the fit beyond the data, against the logarithm of the size: 1 means twice as much for
twice the size, 0 that it does not matter. Goals: no time slope above 1.1 in N; none above 0.6 in L for trees and
DECAF."""
_MOST_N, _MOST_L, _BOUND_IN_L = 1.1, 0.6, ("bonsai", "parabel", "fastxml", "pfastrexml", "decaf")
_ESTIMATES = """\
The estimate of the whole process (what it held before the fit, and what the fit is expected to need) as a share of its
measured peak, at the sizes above: the lowest and the highest, and the mean. The last column is the same mean for what
the fit needs alone. Goal: every size within ± 25 % of the peak."""
_ESTIMATES_HEAD = ["model", "sizes", "peak MB", "lowest", "highest", "mean", "fit alone, mean"]
_LEAST_ESTIMATE, _MOST_ESTIMATE = 0.75, 1.25
_KILLS = """\
`longtail train` of small synthetic data, killed with signal 9 at a random moment and started again
(`benchmarks.kills`). The resumed model must equal that of an undisturbed training byte for byte, and nothing but the
model may be left in its folder. Resumed: runs that went on from finished steps; the others were killed before the first
step, or had already ended."""
_KILLS_HEAD = ["model", "kills", "identical models", "nothing left", "resumed"]
_CLUSTER = """\
Two nodes of one core each on one machine (`ray.cluster_utils`), already started, against two threads without Ray. The
better of the runs on either side, in turn. CPU seconds are those of all processes, Ray's own among them; beside other
work on the machine they are the more reliable. Goal: at most 15 % more time."""
_LARGE = """\
From data to predictions of the loaded model, in one process (`benchmarks.scale.large`). Synthetic data is named by its
points × features × labels. The peak is that of the whole process, predictions included; a limit is that of
`--memory`. Some rows were measured beside other work on the same core: CPU time and memory hardly depend on it,
seconds and milliseconds do. Milliseconds are the median over points, one at a time."""
_LARGE_HEAD = ["model", "data", "limit", "s", "CPU s", "peak GB", "model MB", "ms per point", "CPU ms", "P@5"]
_CLUSTER_HEAD = ["model", "points", "local s", "Ray s", "ratio", "local CPU s", "Ray CPU s", "ratio", "same model"]
_MOST_OF_LOCAL = 1.15  # time on a cluster, as a share of the time without
_WORKERS = """\
One network of DECAF trained by several processes, each of which has a share of the points
(`benchmarks.scale.workers`), default epochs, scored on the test points. Goal: P@5 and PSP@5 within 0.5 of those of one
process."""
_WORKERS_HEAD = ["data", "seed", "processes", "s", "CPU s", "P@5", "PSP@5"]
_SAME = 0.5  # difference of a metric


def slope(rows: list[dict[str, Any]], axis: str, figure: str) -> float | None:
    """Return the slope of a figure of one model against one size in logarithms; None with fewer than three sizes."""
    others = {name: size for name, size in base(rows[0]["name"]).items() if name != axis}
    found = sorted((row[axis], row[figure]) for row in rows if others.items() <= row.items())
    if len(found) < 3:
        return None
    x, y = np.log(np.array(found, float)).T
    return float(np.polyfit(x, y, 1)[0])


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = list(results["rows"].values())
    names = list(dict.fromkeys(row["name"] for row in rows))
    lines = [
        "## Growth with the size of the data",
        "",
        _HOW,
        "",
        *described(results),
        f"- measured: {', '.join(sorted({row['date'] for row in rows}))}",
        "",
        "| model | time in N | in D | in L | memory in N | in D | in L | CPU s | MB | ms per point |",
        "|---" * 10 + "|",
    ]
    for name in names:
        own = [row for row in rows if row["name"] == name]
        cells = [f"`{own[0]['model']}`"]
        for figure in ("fit_cpu_s", "fit_mb"):
            timed = figure == "fit_cpu_s"
            cells += [_cell(slope(own, axis, figure), _bound(name, axis) if timed else None) for axis in _AXES]
        whole = next((row for row in own if base(name).items() <= row.items()), None)
        if whole is None:
            cells += ["", "", ""]
        else:
            cells += [f"{whole['fit_cpu_s']:.1f}", f"{whole['fit_mb']:.0f}", f"{whole['predict_cpu_ms']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "The last three columns are of the base size; milliseconds per point are CPU time of a batch."]
    lines += ["", "### Estimates of memory", "", _ESTIMATES, ""]
    lines += [f"| {' | '.join(_ESTIMATES_HEAD)} |", "|---" * 7 + "|"]
    estimated = {name: [row for row in rows if row["name"] == name and "peak_mb" in row] for name in names}
    lines += [_estimate_row(own) for own in estimated.values() if own]
    if "large" in results:
        lines += ["", "### Large trainings", "", _LARGE, "", f"| {' | '.join(_LARGE_HEAD)} |", "|---" * 10 + "|"]
        lines += [_large_row(row) for row in results["large"].values()]
    if "cluster" in results:
        lines += ["", "### A Ray cluster", "", _CLUSTER, "", f"| {' | '.join(_CLUSTER_HEAD)} |", "|---" * 9 + "|"]
        lines += [_cluster_row(row) for row in results["cluster"].values()]
    if "workers" in results:
        lines += ["", "### A network on several processes", "", _WORKERS, ""]
        lines += [f"| {' | '.join(_WORKERS_HEAD)} |", "|---" * 7 + "|"]
        lines += [_workers_row(row, results["workers"]) for row in results["workers"].values()]
    if "kills" in results:
        lines += ["", "### Killed trainings", "", _KILLS, "", f"| {' | '.join(_KILLS_HEAD)} |", "|---" * 5 + "|"]
        lines += [_kills_row(row) for row in results["kills"].values()]
    return "\n".join(lines)


def _large_row(row: dict[str, Any]) -> str:
    limit = row["memory"] or ""
    figures = [
        f"{row['fit_s']:.0f}",
        f"{row['fit_cpu_s']:.0f}",
        f"{row['peak_all_mb'] / 1e3:.2f}",
        f"{row['model_mb']:.0f}",
    ]
    cpu = f"{row['p50_cpu_ms']:.2f}" if "p50_cpu_ms" in row else ""
    cells = [f"`{row['model']}`", row["data"], limit, *figures, f"{row['p50_ms']:.2f}", cpu, f"{row['P@5']:.2f}"]
    return f"| {' | '.join(cells)} |"


def _estimate_row(rows: list[dict[str, Any]]) -> str:
    shares = [(row["peak_mb"] - row["fit_mb"] + row["estimated_fit_mb"]) / row["peak_mb"] for row in rows]
    alone = [row["estimated_fit_mb"] / row["fit_mb"] for row in rows]
    peaks = [row["peak_mb"] for row in rows]
    lowest, highest = min(shares), max(shares)
    cells = [f"`{rows[0]['model']}`", str(len(rows)), f"{min(peaks):.0f} to {max(peaks):.0f}"]
    cells += [f"{lowest:.2f} {mark(lowest >= _LEAST_ESTIMATE)}", f"{highest:.2f} {mark(highest <= _MOST_ESTIMATE)}"]
    return f"| {' | '.join([*cells, f'{np.mean(shares):.2f}', f'{np.mean(alone):.2f}'])} |"


def _kills_row(row: dict[str, Any]) -> str:
    kills = row["kills"]
    found = [f"{row[name]} {mark(row[name] == kills)}" for name in ("identical", "nothing_left")]
    cells = [f"`{row['model']}`", str(kills), *found, str(row["resumed"])]
    return f"| {' | '.join(cells)} |"


def _cluster_row(row: dict[str, Any]) -> str:
    cells = [f"`{row['model']}`", f"{row['data']}, {row['n_points']:,}"]
    for unit in ("s", "cpu_s"):
        local, there = row[f"local_{unit}"], row[f"ray_{unit}"]
        cells += [f"{local:.1f}", f"{there:.1f}", f"{there / local:.2f} {mark(there <= _MOST_OF_LOCAL * local)}"]
    return f"| {' | '.join([*cells, 'yes' if row['same'] else 'NO'])} |"


def _workers_row(row: dict[str, Any], rows: dict[str, dict[str, Any]]) -> str:
    kept = row["data"], row["seed"]
    one = next(other for other in rows.values() if (other["data"], other["seed"], other["n_workers"]) == (*kept, 1))
    cells = [row["data"], str(row["seed"]), str(row["n_workers"]), f"{row['fit_s']:.0f}", f"{row['cpu_s']:.0f}"]
    for metric in ("P@5", "PSP@5"):
        goal = "" if row is one else f" {mark(abs(row[metric] - one[metric]) <= _SAME)}"
        cells.append(f"{row[metric]:.2f}{goal}")
    return f"| {' | '.join(cells)} |"


def _bound(name: str, axis: str) -> float | None:
    if axis == "N":
        return _MOST_N
    return _MOST_L if axis == "L" and name in _BOUND_IN_L else None


def _cell(value: float | None, most: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if most is None else f"{value:.2f} {mark(value <= most)}"
