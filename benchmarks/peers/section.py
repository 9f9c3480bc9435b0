"""The section of RESULTS.md that compares longtail with its peers, from ``results/peers.json``."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import described
from benchmarks.peers.bars import Figures, bars
from benchmarks.peers.generated import described_settings
from benchmarks.peers.summary import KS, error, summary
from benchmarks.peers.systems import DATA, OURS, SYSTEMS
from benchmarks.tables import mark, origin

_OURS = {system.name for system in OURS}
_HOW = """\
Every system gets the same matrices (TF-IDF of words, or the given features; rows of length one) and 2 threads, and runs
in processes of its own: one trains and saves, one loads and predicts. Systems take turns, so that all meet the same
machine. Timings and sizes are the best of the runs, metrics their mean, computed by `longtail.metrics` for all. Batch
and single-point times are for 5 labels; single points are predicted on one thread. Memory is the peak of the process
and, in brackets, the peak above what it held with its imports and the data loaded. Warm-up is the loading of compiled
kernels (their compilation, the first time on a machine), before the clock starts. Model sizes are in 10⁶ bytes.
longtail's rows are bold; each is a paper's model alone but for `blend`, its combination of models, which also takes the
text of labels and is measured where labels have some; more of it is in the section on Blend.

Peers run with their defaults or documented settings, untuned. longtail's defaults are the same for all data sets; the
tree, slope and pruning were chosen on held-out training points, but the effort of the solver, the start of two-means
and the eight-bit weights were also compared on test points of these sets while they were developed. A few tenths of a
point in longtail's favour may be due to that."""
_SPEED = ["system", "train s (CPU s)", "batch ms 1 / 2 threads", "single ms p50"]
_SPEED += ["train MB", "predict MB", "model MB", "warm-up s", "runs"]


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    entries = results["results"]
    data = sorted(entries, key=lambda name: (DATA.index(name) if name in DATA else len(DATA), name))
    figures: dict[str, Figures] = {
        name: {system: known for system, entry in entries[name].items() if (known := summary(entry)) is not None}
        for name in data
    }
    parts = [_preface(results, figures), _bars(data, figures, entries)]
    for name in data:
        systems = sorted(entries[name], key=lambda system: list(SYSTEMS).index(system) if system in SYSTEMS else 99)
        parts.append(_data_set(name, systems, results["data"][name], entries[name], figures[name]))
    return "\n\n".join(parts)


def _preface(results: dict[str, Any], figures: dict[str, Figures]) -> str:
    seen = {known["version"] for part in figures.values() for known in part.values()}
    peers = sorted(text for text in seen if not text.startswith("longtail "))
    dates = sorted({entry["date"] for part in results["results"].values() for entry in part.values()})
    lines = [
        "## Beside other libraries",
        "",
        _HOW,
        "",
        *described(results),
        f"- peers: {', '.join(peers) or 'none'}",
        f"- measured: {dates[0] if dates[0] == dates[-1] else f'{dates[0]} to {dates[-1]}'}",
        "",
        "| system | from | settings |",
        "|---|---|---|",
    ]
    used = {system for part in results["results"].values() for system in part}
    lines += [
        f"| {_name(name)} | {'another library' if system.environment else origin(system.model)} | {system.about} |"
        for name, system in SYSTEMS.items()
        if name in used
    ]
    return "\n".join(lines)


def _bars(data: list[str], figures: dict[str, Figures], entries: dict[str, Any]) -> str:
    lines = [
        "### Bars",
        "",
        "Ratios and differences of longtail to its peers; ✓ reached, ✗ not. 'Same trees' is the ratio to "
        "omikuji's model with the same settings. † marks figures of more than one run.",
        "",
        f"| goal | bar | {' | '.join(data)} |",
        "|---|---|" + "---|" * len(data),
    ]
    for bar in bars():
        cells = []
        for name in data:
            cell = bar.judge(figures[name])
            marks = "" if cell is None else f" {mark(cell.passed)}" + _apart(entries[name], bar.ours)
            cells.append("–" if cell is None else cell.text + marks)
        if set(cells) != {"–"}:
            lines.append(f"| {bar.goal} | {bar.limit} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 6 else "### Bars\n\nNeeds figures of longtail and of peers."


def _apart(entries: dict[str, Any], ours: str) -> str:
    """Return a mark where ours and some peer were not measured in one run."""
    runs = {entry["run"] for system, entry in entries.items() if system == ours or system not in _OURS}
    return " †" if len(runs) > 1 else ""


def _data_set(name: str, systems: list[str], facts: dict[str, Any], entries: dict[str, Any], figures: Figures) -> str:
    left_out = facts["n_without_features"]
    note = (
        f" {left_out} training points without features are kept from omikuji, which refuses them." if left_out else ""
    )
    note += described_settings(name)
    lines = [
        f"### {name}",
        "",
        f"{facts['n_train']:,} training points, {facts['n_test']:,} test points, {facts['n_features']:,} features, "
        f"{facts['n_labels']:,} labels, {facts['n_nonzeros'] / facts['n_train']:.0f} features per point." + note,
        "",
        f"| {' | '.join(_SPEED)} |",
        "|---" * len(_SPEED) + "|",
    ]
    lines += [_speed(system, figures.get(system), error(entries[system])) for system in systems]
    kinds = ("P", "nDCG", "PSP", "PSnDCG", "R", "C", "B")
    heads = [f"{kind}@{'/'.join(map(str, KS))}" for kind in kinds]
    lines += ["", f"| system | {' | '.join(heads)} |", "|---|" + "---|" * len(kinds)]
    for system in systems:
        if system in figures:
            cells = ["/".join(f"{figures[system][f'{kind}@{k}']:.2f}" for k in KS) for kind in kinds]
            lines.append(f"| {_name(system)} | {' | '.join(cells)} |")
    lines += ["", *_frontier(systems, figures)]
    return "\n".join(lines)


def _speed(system: str, known: dict[str, Any] | None, failed: str | None) -> str:
    if known is None:
        return f"| {_name(system)} | failed: {(failed or 'no figures').replace('|', '/')} |" + " |" * (len(_SPEED) - 2)
    warm_up = f"{known['warm_up_seconds']:.1f}" if known["warm_up_seconds"] > 0.01 else ""
    return (
        f"| {_name(system)} | {known['train_seconds']:.2f} ({known['train_cpu_seconds']:.1f}) "
        f"| {known['batch_ms_1']:.4f} / {known['batch_ms_2']:.4f} | {known['single_ms_p50']:.3f} "
        f"| {known['train_peak_mb']:.0f} (+{known['train_peak_above_start_mb']:.0f}) "
        f"| {known['predict_peak_mb']:.0f} (+{known['predict_peak_above_start_mb']:.0f}) "
        f"| {known['model_mb']:.2f} | {warm_up} | {known['n_runs']} |"
    )


def _frontier(systems: list[str], figures: Figures) -> list[str]:
    """Return the curve between P@1 and PSP@1 of each system, folded away."""
    known = [system for system in systems if system in figures]
    if not known:
        return []
    betas = [point["beta"] for point in figures[known[0]]["frontier"]]
    lines = ["<details><summary>Frontier: P@1 / PSP@1 when the top 50 are re-ranked by s·w<sup>β</sup></summary>", ""]
    lines += [f"| system | {' | '.join(f'β = {beta:g}' for beta in betas)} |", "|---|" + "---|" * len(betas)]
    for system in known:
        cells = [f"{point['P@1']:.1f} / {point['PSP@1']:.1f}" for point in figures[system]["frontier"]]
        lines.append(f"| {_name(system)} | {' | '.join(cells)} |")
    return [*lines, "", "</details>"]


def _name(system: str) -> str:
    return f"**{system}**" if system in _OURS else system
