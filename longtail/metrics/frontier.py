"""The frontier between P@k and PSP@k, and its best point, the balance.

Re-ranking can trade accuracy on frequent labels for accuracy on rare labels, so that one metric alone says little about
a model. The frontier re-ranks the top 50 predictions of each point by s * w^beta, for beta from -1 to 1. Here s is the
score in (0, 1) and w the label's inverse propensity. A better model has a higher curve. The balance B@k is the best
mean of P@k and PSP@k on the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from longtail.errors import DataError, SettingsError
from longtail.metrics._inputs import Judged, SparseMatrix, as_csr, check_ks, check_weights, judge
from longtail.metrics.accuracy import measure
from longtail.metrics.propensity import weights_from

BETAS = tuple(np.linspace(-1.0, 1.0, 9).tolist())
RERANK_DEPTH = 50


def frontier(
    Y_true: SparseMatrix,
    scores: SparseMatrix,
    inv_propensity: ArrayLike,
    ks: Sequence[int] = (1, 3, 5),
    *,
    betas: Sequence[float] = BETAS,
    depth: int = RERANK_DEPTH,
    ignore: ArrayLike | None = None,
) -> list[dict[str, float]]:
    """Compute P@k and PSP@k of predictions that are re-ranked by s * w^beta.

    Parameters
    ----------
    Y_true, scores, ignore
        As for ``evaluate``. Scores must lie between 0 and 1; for margins, pass ``to_unit(scores)``.
    inv_propensity : array, shape (L,)
        Inverse propensities, as ``inverse_propensity(Y_train)`` returns them.
    ks : sequence of int
        Cut-offs.
    betas : sequence of float
        Exponents. 0 is the model's own ranking; larger values raise rare labels.
    depth : int
        Number of best predictions per point that are re-ranked.

    Returns
    -------
    list of dict
        One dict per beta, in the given order: ``beta``, and ``P@k`` and ``PSP@k`` in percent for each k.
    """
    judged = judge(Y_true, scores, ignore)
    return _curve(judged, check_weights(inv_propensity, judged.n_labels), check_ks(ks), betas, depth)


def _curve(
    judged: Judged, weights: np.ndarray, ks: np.ndarray, betas: Sequence[float], depth: int
) -> list[dict[str, float]]:
    exponents = np.asarray(betas, np.float64)
    if exponents.ndim != 1 or exponents.size == 0 or not np.isfinite(exponents).all():
        raise SettingsError(f"betas must be finite numbers, at least one; got {betas!r}.")
    if depth < ks[-1]:
        raise SettingsError(f"depth must be at least the greatest k, {ks[-1]}; got {depth}.")
    check_unit_scores(judged)
    if (np.diff(judged.indptr) > depth).any():
        judged = judged.top(depth)
    curve = []
    for beta in exponents:
        count = judged.count(weights, ks, factors=weights**beta)
        point = {"beta": float(beta)}
        point |= {f"P@{k}": float(value) for k, value in zip(ks, count.precision(), strict=True)}
        point |= {f"PSP@{k}": float(value) for k, value in zip(ks, count.scored_precision(), strict=True)}
        curve.append(point)
    return curve


def check_unit_scores(judged: Judged) -> None:
    """Refuse scores that do not lie between 0 and 1."""
    beyond = (judged.scores < 0) | (judged.scores > 1)
    if beyond.any():
        at = int(beyond.argmax())
        raise DataError(
            f"the score {judged.scores[at]:g} of label {judged.indices[at]} is not between 0 and 1",
            row=int(np.searchsorted(judged.indptr, at, side="right")) - 1,
            remedy="Give scores in that range; for margins or logits, pass to_unit(scores).",
        )


def balance_at_k(curve: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the balance ``B@k`` for each k of a frontier: the best mean of P@k and PSP@k on the curve."""
    if not curve:
        raise DataError("the frontier has no points", remedy="Compute it with at least one beta.")
    ks = [key.removeprefix("P@") for key in curve[0] if key.startswith("P@")]
    return {f"B@{k}": max((point[f"P@{k}"] + point[f"PSP@{k}"]) / 2 for point in curve) for k in ks}


def full_report(
    Y_true: SparseMatrix,
    scores: SparseMatrix,
    *,
    train_Y: SparseMatrix | None = None,
    inv_propensity: ArrayLike | None = None,
    ks: Sequence[int] = (1, 3, 5),
    ignore: ArrayLike | None = None,
) -> dict[str, Any]:
    """Compute all metrics of a model, in one dict that can be written as JSON.

    Parameters are as for ``evaluate`` and ``frontier``. ``train_Y`` or ``inv_propensity`` is required. ``scores``
    should have the top 50 predictions of each point, with scores between 0 and 1.

    Returns
    -------
    dict
        The keys of ``evaluate``, ``B@k`` for each k, and ``frontier``, the curve as a list of dicts.
    """
    judged, cuts = judge(Y_true, scores, ignore), check_ks(ks)
    weights = weights_from(train_Y, inv_propensity, judged.n_labels)
    if weights is None:
        raise SettingsError("full_report needs train_Y or inv_propensity for the propensity-scored metrics.")
    curve = _curve(judged, weights, cuts, BETAS, RERANK_DEPTH)
    return {**measure(judged, weights, cuts), **balance_at_k(curve), "frontier": curve}


def to_unit(scores: SparseMatrix) -> sparse.csr_array:
    """Map margins or logits to scores in (0, 1), by the logistic function 1 / (1 + exp(-s)) of each stored score.

    The result of a score does not depend on the other scores of the point. It has double precision, which preserves the
    order of margins up to about 36. Probabilities need no mapping.
    """
    margins = as_csr(scores, "scores")
    odds = np.exp(-np.abs(margins.data.astype(np.float64)))  # never overflows
    unit = np.where(margins.data >= 0, 1.0, odds) / (1.0 + odds)
    return sparse.csr_array((unit, margins.indices, margins.indptr), shape=margins.shape)
