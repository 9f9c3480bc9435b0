"""Write ``docs/papers.md`` from ``results/papers.json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.papers import published
from benchmarks.papers.claims import BELOW, CLAIMS, differences, matched, verdict
from benchmarks.papers.experiments import EXPERIMENTS, N_MODULES, N_TEST, N_TRAIN
from benchmarks.paths import HERE, RESULTS

PAGE = HERE.parent / "docs" / "papers.md"
Row = dict[str, Any]
_FIGURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
_HEAD = f"""# The papers and this library

What each paper reports, what we measure, and whether its claims hold here. Written by `python -m benchmarks.papers`
from rows that carry the commit and the settings they were measured with; `python -m benchmarks.stale papers` names rows
that are older than the code.

"paper" rows are `preset="paper"`: the published recipe, with usual values where a paper gives none. "fast" rows are the
default preset. bibtex and delicious are measured whole, the other data sets with {N_TRAIN:,} training and {N_TEST:,}
test points, the same for all rows ({N_MODULES:,} training points for DECAF's four modules). The papers' large data sets
are not here, so that most published figures belong to other data: compare differences between rows, not the rows.
Figures are means over seeds, in percent, with the number of seeds in brackets. "not measured" is a claim whose rows are
still to be run: `python -m benchmarks.papers --missing`.
"""
_INTROS = {
    "glas": """## GLaS
`glas(preset='paper')` is Algorithm 2 with the base setting of Table 1. The gap is P@1 in training less P@1 in test;
eq. 3 is the mean squared difference between the Gram matrix of all label vectors and their co-occurrence, which the
regulariser is made to lower. Published: AmazonCat-13K.""",
    "dxml": """## DXML
`dxml(preset='paper')` has the sizes, optimiser and loss of §4.1, one network, and a plain vote of the nearest
neighbours, whose number is chosen on held-out points. Published: the same data, means over ten other splits.""",
    "mnn": """## MNN
`mnn(preset='paper')` has ten negatives and ranks labels by the cosine. The published P@3 and P@5 on bibtex contradict
the paper's own nDCG@5 and are errors. Published: the same data.""",
    "ranknet": f"""## RankNet and TAug
Around Bonsai, without label text. The last column compares curves of P against PSP: PSP where a model's own curve comes
down to the P@1 of Bonsai less {BELOW}. For Bonsai and TAug the curve is re-ranking by inverse propensity, for RankNet
it is its parameter `tail`. The row of Bonsai in that column is what inverse propensity alone reaches, which both
modules have to beat; claims marked "ours" compare this column. Published: EUR-Lex, 15,539 training points and 3,993
labels; TAug with dense features.""",
    "decaf": """## DECAF
Rows of Tables 1 and 4 use the fast preset; those of Tables 5 and 6 the four modules of `decaf(preset='paper')` with one
network. Labels without training points among those drawn are left out, as in the published data:
LF-AmazonTitles-131K.""",
}
_PUBLISHED: dict[str, dict[str, dict[str, published.Figures]]] = {  # paper -> data ("" for any) -> our row -> figures
    "glas": {"": published.GLAS},
    "dxml": {data: {"paper": rows["DXML"]} for data, rows in published.DXML.items()},
    "mnn": {data: {"paper": rows["MNN"]} for data, rows in published.MNN.items()},
    "ranknet": {
        "": {
            "Bonsai": published.RANKNET["Bonsai"],
            "RankNet": published.RANKNET["RankNet (Bonsai)"],
            "TAug": published.TAUG["TAug-ds"],
            "TAug without augmentation": published.TAUG["baseline"],
            "TAug-d": published.TAUG["TAug-d"],
            "TAug-s": published.TAUG["TAug-s"],
            "RankNet of TAug": published.TAUG["RankNet+TAug"],
        }
    },
    "decaf": {
        "": published.DECAF | {"three networks": published.DECAF["DECAF"], "few clusters": published.DECAF["8K"]}
    },
}


def write(page: Path = PAGE, folder: Path = RESULTS) -> Path:
    """Write the page from all recorded rows."""
    known = results.load("papers", folder) or {}
    places = {(one.paper, one.name): place for place, one in enumerate(EXPERIMENTS)}
    rows = sorted(known.get("rows", {}).values(), key=lambda row: places.get((row["paper"], row["row"]), len(places)))
    parts = [_HEAD]
    for paper, intro in _INTROS.items():
        own = [row for row in rows if row["paper"] == paper]
        if own:
            parts += ["\n".join([intro, "", *_tables(paper, own), "", *_claims(paper, own)]) + "\n"]
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def _tables(paper: str, rows: Sequence[Row]) -> list[str]:
    """Return one table per data set: our rows, with the published figures of the same row."""
    lines: list[str] = []
    for data in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == data]
        found = _PUBLISHED[paper].get(data) or _PUBLISHED[paper].get("") or {}
        last = {"glas": "gap to training; eq. 3", "ranknet": f"PSP@1/3/5 at P@1 of Bonsai − {BELOW}"}.get(paper, "R@20")
        lines += ["", f"### {data}", "", f"| row | P@1/3/5 | PSP@1/3/5 | B@1/5 | {last} | published | CPU s |"]
        lines.append("|---" * 7 + "|")
        for name in dict.fromkeys(row["row"] for row in here):
            same = [row for row in here if row["row"] == name]
            cells = [f"{name} ({len(same)})", _means(same, _FIGURES[:3]), _means(same, _FIGURES[3:])]
            cells += [_means(same, ("B@1", "B@5")), _last(paper, same, here), _printed(found.get(name, {}))]
            lines.append(f"| {' | '.join(cells)} | {np.mean([row['cpu_seconds'] for row in same]):.0f} |")
    return lines[1:]


def _means(rows: Sequence[Row], names: Iterable[str]) -> str:
    return "/".join(f"{np.mean([row[name] for row in rows]):.1f}" for name in names)


def _last(paper: str, same: Sequence[Row], here: Sequence[Row]) -> str:
    """Return the cell of the column that differs from paper to paper."""
    if paper == "glas":
        gap = f"{np.mean([row['train P@1'] - row['P@1'] for row in same]):.1f}"
        return f"{gap}; {np.mean([row['gram'] for row in same]):.4f}"
    if paper != "ranknet":
        return f"{np.mean([row['R@20'] for row in same]):.1f}"
    found = [values for row in same if (values := matched(row, here)) is not None]
    return "/".join(f"{value:.1f}" for value in np.mean(found, axis=0)) if found else ""


def _printed(figures: published.Figures) -> str:
    """Return published figures as one cell."""
    cells = []
    for kind in ("P", "PSP"):
        ks = [k for k in "135" if f"{kind}@{k}" in figures]
        if ks:
            values = "/".join(f"{figures[f'{kind}@{k}']:g}" for k in ks)
            cells.append(f"{kind}@{'/'.join(ks)} {values}")
    return ", ".join(cells)


def _claims(paper: str, rows: Sequence[Row]) -> list[str]:
    lines = ["| | claim | here | measured |", "|---|---|---|---|"]
    for claim in CLAIMS:
        if claim.paper == paper:
            gaps = differences(rows, claim)
            shown = "; ".join(f"{data}, {other}: {gap:+.1f} ± {margin:.1f}" for data, other, gap, margin in gaps)
            measured = f"{claim.metric}: {shown}. {claim.remark}".strip() if gaps else ""
            lines.append(f"| {claim.where} | {claim.text} | {verdict(gaps)} | {measured} |")
    return lines
