"""How good scores are on held-out points: the metrics by which members and settings are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.metrics import full_report, inverse_propensity

GOALS = ("P@1", "P@5", "B@1", "B@5")
DEPTH = 50  # scores per point that are measured


def measures(Y: csr_array, scores: csr_array, train_Y: csr_array, propensity: tuple[float, float]) -> dict[str, float]:
    """Return P, PSP and B at 1 and 5 of held-out points, and the mean of GOALS as ``goal``.

    `propensity` is A and B of the propensity model.
    """
    report = full_report(Y, scores, inv_propensity=inverse_propensity(train_Y, *propensity), ks=(1, 5))
    found = {f"{name}@{k}": float(report[f"{name}@{k}"]) for name in ("P", "PSP", "B") for k in (1, 5)}
    return found | {"goal": float(np.mean([found[goal] for goal in GOALS]))}


def compared(report: Sequence[dict[str, Any]], chosen: str) -> str:
    """Return one sentence about a choice; the last row of the report is the combination, the others its members."""
    *members, whole = report
    best = max(members, key=lambda row: row["goal"])
    return (
        f"{chosen}: the mean of P and B at 1 and 5 on held-out points is {whole['goal']:.2f} combined and "
        f"{best['goal']:.2f} for {best['model']} alone."
    )
