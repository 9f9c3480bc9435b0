"""Calibration: whether scores are probabilities, so that 30 % of all labels with a score of 0.3 are correct.

The (point, label) pairs in the top k are put into bins of equal width by their score. Bin b has n_b of the n pairs;
s_b is their mean score and c_b the fraction of them that is correct:

    ECE@k = sum over b of n_b / n * |s_b - c_b|        (expected calibration error)

Points without labels are left out, as in all ranking metrics.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from longtail.errors import DataError, SettingsError
from longtail.kernels.metrics import csr_is_in
from longtail.metrics._inputs import Judged, SparseMatrix, check_ks, judge
from longtail.metrics.bins import equal_volume
from longtail.metrics.frontier import check_unit_scores

N_BINS = 10
_N_FREQUENCY_BINS = 5  # bins of equal volume, as in frequency_bins; the labels of the last one are the rare labels


def calibration_error(
    Y_true: SparseMatrix,
    scores: SparseMatrix,
    k: int = 1,
    *,
    n_bins: int = N_BINS,
    labels: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
) -> float:
    """Compute the expected calibration error of the top k labels.

    Parameters
    ----------
    Y_true, scores, ignore
        As for ``evaluate``. Scores must lie between 0 and 1.
    k : int
        Cut-off: the k best labels of each point are measured.
    n_bins : int
        Number of bins of equal width.
    labels : bool array, shape (L,), optional
        Measure only pairs of these labels, for example ``mark_rare_labels(counts)``.

    Returns
    -------
    float
        The error in percentage points; 0 is perfect. NaN if there is no pair to measure.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> truth = csr_array([[1, 0], [0, 1]])
    >>> scores = csr_array([[0.75, 0.0], [0.75, 0.0]])
    >>> calibration_error(truth, scores)
    25.0
    """
    return curve_error(reliability_curve(Y_true, scores, k, n_bins=n_bins, labels=labels, ignore=ignore))


def curve_error(curve: list[dict[str, float]]) -> float:
    """Compute the expected calibration error, in percentage points, from a curve of :func:`reliability_curve`."""
    total = sum(point["pairs"] for point in curve)
    gaps = sum(point["pairs"] * abs(point["score"] - point["correct"]) for point in curve)
    return float(gaps / total) if total else float("nan")


def reliability_curve(
    Y_true: SparseMatrix,
    scores: SparseMatrix,
    k: int = 1,
    *,
    n_bins: int = N_BINS,
    labels: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
) -> list[dict[str, float]]:
    """Compute the mean score and the fraction of correct labels for bins of scores.

    Parameters
    ----------
    Y_true, scores, k, n_bins, labels, ignore
        As for :func:`calibration_error`.

    Returns
    -------
    list of dict
        For each bin that has pairs, in ascending order: ``low`` and ``high``, its bounds; ``pairs``, the number of
        pairs; ``score``, their mean score; ``correct``, the fraction of them that is correct. All but ``pairs`` in
        percent.
    """
    if n_bins < 1:
        raise SettingsError(f"n_bins must be at least 1, got {n_bins}.")
    judged = judge(Y_true, scores, ignore)
    check_unit_scores(judged)
    values, correct = _pairs(judged, int(check_ks([k])[0]), labels)
    which = np.minimum((values * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(which, minlength=n_bins)
    sums, rights = np.bincount(which, values, n_bins), np.bincount(which, correct, n_bins)
    return [
        {
            "low": 100.0 * b / n_bins,
            "high": 100.0 * (b + 1) / n_bins,
            "pairs": int(counts[b]),
            "score": 100.0 * float(sums[b] / counts[b]),
            "correct": 100.0 * float(rights[b] / counts[b]),
        }
        for b in np.flatnonzero(counts).tolist()
    ]


def mark_rare_labels(counts: ArrayLike) -> np.ndarray:
    """Mark the rare labels: with labels sorted by descending frequency, those of the last fifth of training pairs.

    Parameters
    ----------
    counts : int array, shape (L,)
        Training points per label.

    Returns
    -------
    bool array, shape (L,)
        True for the labels of the last of five bins of :func:`longtail.metrics.frequency_bins`. These are most labels.
    """
    numbers = np.asarray(counts)
    by_frequency, ends = equal_volume(numbers, _N_FREQUENCY_BINS)
    rare = np.zeros(len(numbers), np.bool_)
    rare[by_frequency[ends[-2] :]] = True
    return rare


def _pairs(judged: Judged, k: int, labels: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the top k pairs of all points with labels, and whether each pair is correct."""
    best = judged.top(k)
    correct = csr_is_in(best.indptr, best.indices, best.true_indptr, best.true_indices)
    keep = np.repeat(np.diff(best.true_indptr) > 0, np.diff(best.indptr))
    if labels is not None:
        mask = np.asarray(labels)
        if mask.shape != (judged.n_labels,) or mask.dtype != np.bool_:
            raise DataError(
                f"labels has shape {mask.shape} and type {mask.dtype} for {judged.n_labels:,} labels",
                remedy="Give one bool per label: mark_rare_labels(counts).",
            )
        keep &= mask[best.indices]
    return best.scores[keep], correct[keep]
