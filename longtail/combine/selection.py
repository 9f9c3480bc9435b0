"""Metrics on held-out points, by which the members of a blend and the settings of a wrapper are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.metrics import full_report, inverse_propensity

GOALS = ("P@1", "P@5", "B@1", "B@5")
LABELS_MEASURED = 50  # labels to predict per point for these metrics: B re-ranks them


def held_out_metrics(
    Y: csr_array, scores: csr_array, train_Y: csr_array, propensity: tuple[float, float]
) -> dict[str, float]:
    """Compute P, PSP and B at 1 and 5 of held-out points, and the mean of GOALS as ``goal``.

    Parameters
    ----------
    Y, scores : csr_array, (N, L)
        Correct labels of the held-out points, and the scores to measure.
    train_Y : csr_array, (M, L)
        Labels of the training points, from which propensities are computed.
    propensity : tuple of float
        A and B of the propensity model.
    """
    report = full_report(Y, scores, inv_propensity=inverse_propensity(train_Y, *propensity), ks=(1, 5))
    metrics = {f"{name}@{k}": float(report[f"{name}@{k}"]) for name in ("P", "PSP", "B") for k in (1, 5)}
    return metrics | {"goal": float(np.mean([metrics[goal] for goal in GOALS]))}


def describe_choice(report: Sequence[dict[str, Any]], chosen: str) -> str:
    """Compare a combination with its best member in one sentence.

    Parameters
    ----------
    report : sequence of dict
        Rows of :func:`held_out_metrics`: one per member, then one for the combination.
    chosen : str
        What was chosen; the sentence begins with it.
    """
    *members, combination = report
    best = max(members, key=lambda row: row["goal"])
    return (
        f"{chosen}: the mean of P and B at 1 and 5 on held-out points is {combination['goal']:.2f} combined and "
        f"{best['goal']:.2f} for {best['model']} alone."
    )
