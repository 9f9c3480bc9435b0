"""The section of RESULTS.md on rankers around rankers, from ``results/tail.json``."""

from __future__ import annotations

from typing import Any

from benchmarks import results as store
from benchmarks.machine import described
from benchmarks.tables import LEGEND, footnote, mark, origin, star, three

_HOW = """\
Each ranker and the one it wraps, fitted and measured in one run with its defaults, which were chosen on held-out
training points. P and PSP trade against each other, so one column compares curves: PSP where a curve comes down to
the P@1 of the base less 1.5. For a base the curve is inverse-propensity re-ranking of its own scores, s · w^β with β
from 0 up to 2; for a ranker with the parameter `tail`, it runs along that. A curve that ends above that P@1 counts by
its end. Milliseconds are per point in a batch, and alone. `ranknet` is given label text, as every ranker is where the
data has it; the rows with `text=False` show what scores alone can do. `blend` is to be no more than 0.3 below the best
other model, whichever that is for a metric, here, in the sections above and of all peers."""
_BELOW = 1.5
_BARS = {  # PSP@1 above inverse propensity
    "ranknet": 1.0,
    "ranknet without text": 1.0,
    "ranknet of glas": 0.0,
    "ranknet of decaf": 0.0,
    "ranknet of blend": 0.0,
}
_TEXT_GAINS = {"P@1": 0.0, "B@1": 1.0, "B@5": 1.0}  # above the base
_GAINS = dict.fromkeys(("labeltext", "labeltext of parabel", "labeltext of dismec"), _TEXT_GAINS)
_TAUG_GAINS = {"PSP@1": 2.0, "B@1": 0.0, "B@5": 0.0}
_GAINS |= dict.fromkeys(("taug", "taug with text and a third copy"), _TAUG_GAINS)
_PAPERS = {  # about half a point below the papers' rows, which are means over other splits
    "bibtex fastxml": {"P@1": 62.9, "P@5": 28.5},
    "delicious fastxml": {"P@1": 69.0, "P@5": 58.7},
    "bibtex pfastrexml": {"PSP@1": 51.5},
    "delicious pfastrexml": {"PSP@1": 34.0},
}
_HIGHEST = dict.fromkeys(  # of all rankers made of the same base
    ("ranknet of taug", "ranknet of taug with text and a third copy"), ("PSP@1", "B@1")
)
_BLENDS, _BLEND_METRICS, _BLEND_BELOW = ("blend", "blend within 600 s"), ("P@5", "B@1", "B@5"), 0.3
_SINGLE = ("pfastrexml",)  # models that are compared with another and wrap none
_ADDED_MS = 0.3
_HEAD = [
    "model",
    "from",
    "P@1/3/5",
    "PSP@1/3/5",
    "B@1/3/5",
    "PSP@1/3/5 at P@1 of base − 1.5",
    "train s",
    "batch / single ms",
]
Row = dict[str, Any]


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows: list[Row] = list(results["rows"].values())
    lines = [
        "## Rare labels: rankers around rankers",
        "",
        _HOW,
        "",
        LEGEND,
        "",
        *described(results),
        f"- measured: {', '.join(sorted({row['date'] for row in rows}))}",
        "",
        *_bars(rows),
    ]
    for data in dict.fromkeys(row["data"] for row in rows):
        here = {row["system"]: row for row in rows if row["data"] == data}
        lines += ["", f"### {data}", "", f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
        lines += [*(_row(row, here) for row in here.values()), *footnote(here.values())]
        lines += ["", *_bins(here)]
    return "\n".join(lines)


def _bars(rows: list[Row]) -> list[str]:
    lines = ["| goal, PSP being at P@1 of base − 1.5 | bar | measured |", "|---|---|---|"]
    for row in rows:
        lines += _reached(row, rows)
        base = next((r for r in rows if r["data"] == row["data"] and r["system"] == row["base"]), None)
        if base is not None and row["system"] in _GAINS:
            for measure, gain in _GAINS[row["system"]].items():
                lines.append(
                    f"| {row['data']}, {row['model']}: {measure} as it is | {base[measure] + gain:.2f} "
                    f"| {row[measure]:.2f} {mark(row[measure] >= base[measure] + gain)} |"
                )
        if row["system"] not in _BARS or base is None:
            continue
        own, bar = at(row["curve"], base["P@1"] - _BELOW), at(base["curve"], base["P@1"] - _BELOW)
        bar[0] += _BARS[row["system"]]
        passed = all(a >= b for a, b in zip(own, bar, strict=True))
        lines.append(f"| {row['data']}, {row['model']}: PSP@1/3/5 | {three(bar)} | {three(own)} {mark(passed)} |")
        for what in ("batch_ms", "single_ms"):
            added = row[what] - base[what]
            name = what.removesuffix("_ms")
            lines.append(
                f"| {row['data']}, {row['model']}: added ms per point, {name} | {_ADDED_MS} "
                f"| {added:.3f} {mark(added <= _ADDED_MS)} |"
            )
    return lines


def _reached(row: Row, rows: list[Row]) -> list[str]:
    """Judge figures as they are, without a curve: by those of the papers, or by the best of others."""
    goals = dict(_PAPERS.get(f"{row['data']} {row['system']}", {}))
    others = [r for r in rows if r["data"] == row["data"] and r is not row]
    for measure in _HIGHEST.get(row["system"], ()):
        goals[measure] = max((r[measure] for r in others if row["base"] in r["model"]), default=0.0)
    if row["system"] in _BLENDS:
        known = [store.best_peer(row["data"]), store.best_own(row["data"])]
        singles = [r for r in others if r["system"] == r["base"] or r["system"] in _SINGLE]
        for measure in _BLEND_METRICS:
            goals[measure] = max(r.get(measure, 0.0) for r in [*singles, *known]) - _BLEND_BELOW
    return [
        f"| {row['data']}, {row['model']}: {measure} as it is | {goal:.2f} "
        f"| {row[measure]:.2f} {mark(row[measure] >= goal)} |"
        for measure, goal in goals.items()
    ]


def at(curve: list[dict[str, float]], precision: float) -> list[float]:
    """Return PSP@1, 3 and 5 where a curve comes down to a P@1, interpolated; at its end if it never does."""
    keys = ("PSP@1", "PSP@3", "PSP@5")
    last = max((i for i, point in enumerate(curve) if point["P@1"] >= precision), default=0)
    here, there = curve[last], curve[min(last + 1, len(curve) - 1)]
    gap = here["P@1"] - there["P@1"]
    share = max(0.0, (here["P@1"] - precision) / gap) if gap > 0 else 0.0
    return [(1 - share) * here[key] + share * there[key] for key in keys]


def _row(row: Row, here: dict[str, Row]) -> str:
    base = here.get(row["base"], row)
    cells = [three([row[f"{name}@{k}"] for k in (1, 3, 5)]) for name in ("P", "PSP", "B")]
    cells.append(three(at(row["curve"], base["P@1"] - _BELOW)))
    cells += [f"{row['train_seconds']:.0f}", f"{row['batch_ms']:.3f} / {row['single_ms']:.3f}"]
    name = f"**{row['model']}**" if row["system"] == row["base"] else row["model"]
    return f"| {name}{star(row)} | {origin(row['model'])} | {' | '.join(cells)} |"


def _bins(here: dict[str, Row]) -> list[str]:
    """Return what labels of each frequency contribute to P@5 and PSP@5."""
    parts = next(iter(here.values()))["bins"]
    head = [f"{part['frequency_max']:,}–{part['frequency_min']:,}" for part in parts]
    lines = ["P@5 / PSP@5 by the number of training points of labels:", "", f"| model | {' | '.join(head)} |"]
    lines.append("|---" * (len(head) + 1) + "|")
    for row in here.values():
        cells = [f"{part['P@5']:.1f} / {part['PSP@5']:.1f}" for part in row["bins"]]
        lines.append(f"| {row['model']}{star(row)} | {' | '.join(cells)} |")
    return lines
