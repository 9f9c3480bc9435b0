"""The papers' directional claims, and whether our rows bear them out.

A claim compares one row with others by one metric, on the same data and seeds. It holds where the mean difference is
above zero by more than two standard errors over the seeds, and is refuted where it is below zero by as much; between
the two it shows no difference. With a single seed the margin is half a point.

A metric "matched PSP@k" is PSP@k where the row's curve of P against PSP comes down to the P@1 of the base less `BELOW`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tail.section import at

Row = dict[str, Any]
BASE, BELOW = "Bonsai", 1.5  # row whose P@1 curves are compared at, and how far below it
_ONE_SEED = 0.5  # points of a difference that a single seed can show


@dataclass(frozen=True)
class Claim:
    """A row is better than others.

    Attributes
    ----------
    paper, where : str
        Section of the page; table or figure.
    text : str
        The claim in words.
    row : str
        Name of the row that is to be better.
    others : tuple of str
        Names of the rows that it is compared with, one by one.
    metric : str
    lower : bool
        Whether better is lower.
    remark : str
        Why it does not hold here, where it does not.
    """

    paper: str
    where: str
    text: str
    row: str
    others: tuple[str, ...]
    metric: str = "P@1"
    lower: bool = False
    remark: str = ""


def differences(rows: Sequence[Row], claim: Claim) -> list[tuple[str, str, float, float]]:
    """Return data, other row, mean difference and its margin for each comparison of a claim that was measured."""
    found = []
    mine = {(row["data"], row["seed"]): row for row in rows if _is(row, claim.paper, claim.row)}
    for data in dict.fromkeys(data for data, _ in mine):
        for other in claim.others:
            theirs = {row["seed"]: row for row in rows if _is(row, claim.paper, other) and row["data"] == data}
            gaps = [
                _figure(mine[data, seed], claim.metric, rows) - _figure(theirs[seed], claim.metric, rows)
                for seed in sorted(theirs)
                if (data, seed) in mine
            ]
            if gaps:
                spread = 2 * float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5 if len(gaps) > 1 else _ONE_SEED
                found.append((data, other, (-1 if claim.lower else 1) * float(np.mean(gaps)), spread))
    return found


def verdict(gaps: Sequence[tuple[str, str, float, float]]) -> str:
    """Return one word for all comparisons of a claim."""
    if not gaps:
        return "not measured"
    signs = {int(np.sign(gap)) if abs(gap) > margin else 0 for _, _, gap, margin in gaps}
    if signs == {1}:
        return "holds"
    if 1 in signs:
        return "holds in part"
    return {frozenset({-1}): "refuted", frozenset({0}): "no difference"}.get(frozenset(signs), "refuted in part")


def _is(row: Row, paper: str, name: str) -> bool:
    return row["paper"] == paper and row["row"] == name


def matched(row: Row, rows: Sequence[Row]) -> list[float] | None:
    """Return PSP@1, 3 and 5 of a row at the P@1 of the base less `BELOW`; None where the base was not measured."""
    bases = (one for one in rows if _is(one, row["paper"], BASE))
    precision = next((one["P@1"] for one in bases if (one["data"], one["seed"]) == (row["data"], row["seed"])), None)
    return None if precision is None else at(row["curve"], precision - BELOW)


def _figure(row: Row, metric: str, rows: Sequence[Row]) -> float:
    if metric == "gap":
        return row["train P@1"] - row["P@1"]
    if metric.startswith("matched"):
        values = matched(row, rows)
        return float("nan") if values is None else values[("1", "3", "5").index(metric[-1])]
    return row[metric]


CLAIMS = [
    Claim(
        "glas",
        "Table 1",
        "the regulariser lifts P@1 above none, spread-out and gravity",
        "base",
        ("regulariser none", "regulariser spread-out", "regulariser gravity"),
    ),
    Claim("glas", "Table 1", "λ = 10 is better than 1 and 100", "base", ("λ = 1", "λ = 100")),
    Claim("glas", "Table 1", "input dropout of 0.8 is better than none and than 0.6", "base", ("ρ = 1.0", "ρ = 0.6")),
    Claim("glas", "Table 1", "larger embeddings are better", "base", ("d = 512", "d = 256")),
    Claim("glas", "Table 1", "ReLU is better than a linear embedding", "base", ("linear",)),
    Claim(
        "glas", "Table 1", "smaller batches are slightly worse", "base", ("half the batch", "a quarter of the batch")
    ),
    Claim("glas", "Table 2", "the regulariser narrows the gap to training", "base", ("regulariser none",), "gap", True),
    Claim("dxml", "Figure 2", "ReLU is better than a linear embedding", "paper", ("paper, linear",)),
    Claim("mnn", "eq. 11", "the nearest of several negatives is better than one", "fast, h = 5", ("fast, h = 1",)),
    Claim("ranknet", "Table 2", "RankNet raises PSP@1 of its base", "RankNet", ("Bonsai",), "PSP@1"),
    Claim("ranknet", "Table 2", "RankNet raises PSP@5 of its base", "RankNet", ("Bonsai",), "PSP@5"),
    Claim("ranknet", "Table 5", "RankNet costs P@1", "RankNet", ("Bonsai",), "P@1", True),
    Claim("ranknet", "Table 3", "TAug raises PSP@1 of its base", "TAug", ("Bonsai",), "PSP@1"),
    Claim("ranknet", "Table 6", "augmentation raises PSP@1", "TAug", ("TAug without augmentation",), "PSP@1"),
    Claim("ranknet", "Table 6", "dropout alone does", "TAug-d", ("TAug without augmentation",), "PSP@1"),
    Claim("ranknet", "Table 6", "swap alone does", "TAug-s", ("TAug without augmentation",), "PSP@1"),
    Claim("ranknet", "Table 6", "both are better than either", "TAug", ("TAug-d", "TAug-s"), "PSP@1"),
    Claim("ranknet", "Table 4", "both modules are better than each", "RankNet of TAug", ("RankNet", "TAug"), "PSP@1"),
    *(
        Claim("ranknet", "ours", f"{what} raises PSP@{k} at equal P@1", row, (other,), f"matched PSP@{k}")
        for what, row, other in (
            ("RankNet (fast, no text), against inverse propensity,", "RankNet, fast, without text", "Bonsai"),
            ("the residual part of RankNet (fast)", "RankNet, fast, without text", "RankNet, fast, without blocks"),
            ("augmentation (fast)", "TAug, fast", "TAug, fast, without augmentation"),
            ("TAug (fast), against inverse propensity,", "TAug, fast", "Bonsai"),
        )
        for k in (1, 5)
    ),
    *(
        Claim("decaf", "Table 4", f"label text lifts {name} in PSP@1", f"{name} + metadata", (name,), "PSP@1")
        for name in ("Parabel", "Bonsai", "DiSMEC")
    ),
    Claim("decaf", "Table 1", "DECAF is above the linear models in P@1", "fast", ("Parabel", "Bonsai", "DiSMEC")),
    Claim(
        "decaf",
        "Table 1",
        "DECAF is above the linear models in PSP@1",
        "fast",
        ("Parabel", "Bonsai", "DiSMEC"),
        "PSP@1",
    ),
    Claim("decaf", "Figure 5", "three networks are better than one", "three networks", ("one network",)),
    Claim(
        "decaf",
        "Table 5",
        "other shortlists are worse",
        "one network",
        ("HNSW shortlist", "Parabel shortlist"),
    ),
    Claim(
        "decaf",
        "Table 6",
        "every part is needed, by P@1",
        "one network",
        ("few clusters", "no-init", "ẑ¹", "ẑ²", "lite"),
    ),
    Claim(
        "decaf",
        "Table 6",
        "every part is needed, by PSP@1",
        "one network",
        ("few clusters", "no-init", "ẑ¹", "ẑ²", "lite"),
        "PSP@1",
    ),
]
