"""Contributions of frequent and rare labels to the accuracy: they show where in the label space a model is good.

The bins have equal volume, as in Figure 4 of DECAF: each has about the same number of (training point, label) pairs.
The first bin therefore has a few head labels, and the last bin has most of the label space.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from longtail.errors import DataError, SettingsError
from longtail.metrics._inputs import SparseMatrix, check_ks, check_weights, judge, truth_matrix
from longtail.metrics.propensity import inverse_propensity
from longtail.sparse import label_counts


def frequency_bins(
    Y_true: SparseMatrix,
    scores: SparseMatrix,
    train_Y: SparseMatrix,
    *,
    k: int = 5,
    n_bins: int = 5,
    inv_propensity: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
) -> list[dict[str, float]]:
    """Split P@k and PSP@k into the contributions of labels of different frequency.

    Parameters
    ----------
    Y_true, scores, ignore
        As for ``evaluate``.
    train_Y : sparse matrix, shape (M, L)
        Training labels. Labels are binned by their frequency in it. Those without a training point are in the last bin.
    k : int
        Cut-off.
    n_bins : int
        Number of bins, from the most frequent labels (1) to the rarest.
    inv_propensity : array, shape (L,), optional
        Weights to use instead of ``inverse_propensity(train_Y)``.

    Returns
    -------
    list of dict
        Per bin: ``bin`` (its number, from 1), ``labels`` (number of labels), ``frequency_max`` and ``frequency_min``
        (training points of its most and least frequent label), ``volume`` (sum of the training points of its labels),
        and its contributions to ``P@k`` and ``PSP@k`` in percent. The contributions of all bins sum to the metric.
    """
    if n_bins < 1:
        raise SettingsError(f"n_bins must be at least 1, got {n_bins}.")
    judged, ks = judge(Y_true, scores, ignore), check_ks([k])
    counts = label_counts(truth_matrix(train_Y, "train_Y"))
    if counts.shape[0] != judged.n_labels:
        raise DataError(
            f"train_Y has {counts.shape[0]:,} labels and Y_true {judged.n_labels:,}",
            remedy="Give both over the same labels, in the same order.",
        )
    weights = inverse_propensity(train_Y) if inv_propensity is None else inv_propensity
    weights = check_weights(weights, judged.n_labels)
    count = judged.count(weights, ks)
    right = count.right_by_label(k)
    by_frequency, ends = equal_volume(counts, n_bins)
    bins = []
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True), 1):
        labels = by_frequency[start:end]
        bins.append(
            {
                "bin": number,
                "labels": len(labels),
                "frequency_max": int(counts[labels].max(initial=0)),
                "frequency_min": int(counts[labels[-1]]) if len(labels) else 0,
                "volume": int(counts[labels].sum()),
                f"P@{k}": 100.0 * float(right[labels].sum()) / (k * count.n_points),
                f"PSP@{k}": 100.0 * float(right[labels] @ weights[labels]) / float(count.best_gain[0]),
            }
        )
    return bins


def equal_volume(counts: np.ndarray, n_bins: int) -> tuple[np.ndarray, list[int]]:
    """Sort labels by descending frequency and cut them into bins of about equal volume.

    Each bin is closed as soon as it has an equal share of the remaining volume. One very frequent label thus fills one
    bin and does not leave the next ones empty.

    Returns
    -------
    by_frequency : int array, shape (L,)
        Labels, most frequent first, ties by index.
    ends : list of int
        Where each bin ends in `by_frequency`. The last ends at L. If fewer labels than bins have training points, some
        bins are empty.
    """
    by_frequency = np.argsort(-counts, kind="stable")
    volume = np.cumsum(counts[by_frequency])  # (L,)
    total = int(volume[-1]) if len(volume) else 0
    ends: list[int] = []
    end = used = 0
    for bins_left in range(n_bins, 1, -1):
        if used < total:
            share = -(-(total - used) // bins_left)  # rounded up, in integers to be exact
            end = int(np.searchsorted(volume, used + share)) + 1
            used = int(volume[end - 1])
        ends.append(end)
    return by_frequency, [*ends, len(counts)]
