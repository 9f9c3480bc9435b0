"""Losses over the scores of a batch against its candidate labels.

Each takes `scores` (B, C), float32, and **overwrites them with the gradient** of the mean loss. The positives of point
i are the candidates at positions ``places[ptr[i]:ptr[i + 1]]``. `rates` (C,) are the probabilities that a label is a
candidate of a batch, or None if all labels are. Each returns the mean loss over the points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from longtail.kernels import losses as kernels
from longtail.kernels import pool

Loss = Callable[..., float]
_SCORES_AT_ONCE = 1 << 16  # few enough to stay in a core's cache from one line to the next


def bce(
    scores: np.ndarray,
    ptr: np.ndarray,
    places: np.ndarray,
    rates: np.ndarray | None = None,
    correction: float = 0.4,
    *,
    n_jobs: int | None = None,
) -> float:
    r"""Compute binary cross-entropy, in which each label is decided independently.

    Formula: :math:`\sum_{l \in y} \log(1 + e^{-s_l}) + \sum_{l \notin y} w_l \log(1 + e^{s_l})`, w = rate^-correction,
    or 1 without rates.

    Reference: the logistic loss, with importance weights for sampled negatives. Use it for scores that are
    probabilities, and where points have many unrelated labels. It is the default.

    A label is a negative only in batches that have it among their candidates, which rare labels seldom are. Weights of
    1 / rate (correction 1) make up for that without bias but are noisy; correction 0 leaves the bias. A value between
    them is best.
    """
    n, width = scores.shape
    own = positions(ptr)
    weights = None if rates is None else rates ** np.float32(-correction)

    def work(first: int) -> float:
        last = min(n, first + size)
        rows, mine = scores[first:last], slice(ptr[first], ptr[last])
        at = own[mine] - first, places[mine]
        hits = rows[at]
        np.clip(rows, -80, 80, out=rows)
        np.exp(rows, out=rows)  # e^s
        softplus = rows + 1  # 1 + e^s
        rows /= softplus  # the probability
        np.log(softplus, out=softplus)  # log(1 + e^s)
        if weights is not None:  # positives keep the weight 1
            of_positives, probability = softplus[at], rows[at]
            rows *= weights
            softplus *= weights
            softplus[at], rows[at] = of_positives, probability
        rows[at] -= 1
        rows /= n
        return float(softplus.sum(dtype=np.float64) - hits.sum(dtype=np.float64))

    size = max(1, _SCORES_AT_ONCE // max(1, width))
    return sum(pool.run(work, range(0, n, size), n_jobs)) / n


def softmax(scores: np.ndarray, ptr: np.ndarray, places: np.ndarray, rates: np.ndarray | None = None) -> float:
    r"""Compute softmax cross-entropy against the uniform distribution over a point's labels.

    Formula: :math:`\log \sum_l e^{s_l - \log r_l} - \frac{1}{|y|} \sum_{l \in y} (s_l - \log r_l)`, r the rates, or 1.
    The full log rate is subtracted; otherwise labels that are often drawn would be scored too low.

    Reference: GLaS §4, used for Delicious-200K. It is the expectation over the label that Alg. 2 draws in line 12. Use
    it where points have many labels, or where rare labels matter more than P@1. A point without labels adds nothing.
    """
    own, counts = positions(ptr), np.diff(ptr)
    if rates is not None:
        scores -= np.log(rates)
    scores -= scores.max(axis=1, keepdims=True)
    hits = scores[own, places].astype(np.float64)
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1)  # (B,)
    share = 1 / np.maximum(counts, 1)
    loss = np.log(sums, dtype=np.float64)[counts > 0].sum() - (hits * share[own]).sum()
    scores *= ((counts > 0) / sums / len(scores)).astype(np.float32)[:, None]
    scores[own, places] -= (share[own] / len(scores)).astype(np.float32)
    return float(loss / len(scores))


def margin(
    scores: np.ndarray,
    ptr: np.ndarray,
    places: np.ndarray,
    rates: np.ndarray | None = None,
    *,
    c: float = 0.3,
    n_hard: int = 10,
    n_jobs: int | None = None,
) -> float:
    r"""Compute the margin loss against the hardest negatives among the candidates (stochastic negative mining).

    Formula: :math:`\frac{1}{|y|} \sum_{p \in y} \sum_{n \in N} [s_n - s_p + c]_+`, N the `n_hard` negatives that score
    highest.

    Reference: GLaS eq. 1 with the mining of its [25]. Use it to rank; its scores are no probabilities and are
    calibrated after training. Rates are not used, because mining takes the negatives of highest score, however often
    they are drawn.
    """

    def work(block: tuple[int, int]) -> float:
        return kernels.margin_rows(scores, ptr, places, np.float32(c), n_hard, *block)

    total = sum(pool.run(work, pool.blocks(len(scores), n_jobs), n_jobs))
    scores /= len(scores)
    return total / len(scores)


def noise_contrastive(cosines: np.ndarray, negatives: np.ndarray, margin: float = 0.0) -> float:
    r"""Compute the noise-contrastive loss over the cosines of points with the label sets of their batch.

    It takes `cosines` (B, B), whose diagonal compares each point with its own labels, and overwrites them with the
    gradient. `negatives` (B, h) are positions of other points in the batch; a point's own position stands for none.

    Formula: :math:`\frac{1}{4} (1 - c_{ii})^2 + \max_j [c_{ij} > m] \, c_{ij}^2` over its h negatives j.

    Reference: MNN eq. 9 to 11. Use it to match points with sets of labels. Because of the maximum, many easy negatives
    cannot outweigh the one positive.
    """
    n = len(cosines)
    own = np.arange(n)
    matched = cosines[own, own].astype(np.float64)
    loss = 0.25 * (1 - matched) ** 2  # eq. 9
    unmatched = np.take_along_axis(cosines, negatives, axis=1)  # (B, h)
    counts = (unmatched > margin) & (negatives != own[:, None])
    penalties = np.where(counts, unmatched**2, 0)  # eq. 10
    worst = penalties.argmax(axis=1)  # eq. 11
    values = penalties[own, worst].astype(np.float64)
    slopes = np.where(counts[own, worst], 2 * unmatched[own, worst], 0)
    cosines[:] = 0
    cosines[own, negatives[own, worst]] = slopes / n
    cosines[own, own] = (matched - 1) / (2 * n)
    return float((loss + values).mean())


def positions(ptr: np.ndarray) -> np.ndarray:
    """Return the row (point of the batch) of each positive."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


LOSSES: dict[str, Loss] = {"bce": bce, "softmax": softmax, "margin": margin}


def make_loss(name: str, correction: float, c: float, n_hard: int, n_jobs: int | None) -> Loss:
    """Return one of :data:`LOSSES` by name, with those of the settings that it has bound."""
    if name == "margin":
        return partial(margin, c=c, n_hard=n_hard, n_jobs=n_jobs)
    if name == "bce":
        return partial(bce, correction=correction, n_jobs=n_jobs)
    return LOSSES[name]
