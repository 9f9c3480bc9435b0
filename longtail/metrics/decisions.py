"""Precision, recall and F1 of decisions: a set of labels per point instead of a ranking.

Let y be the labels of a point, d the labels decided for it, and TP = |y and d| the number of true positives:

    micro    over all pairs together: P = TP / decided, R = TP / true, F1 = 2 TP / (decided + true)
    macro    the mean over labels of each label's own P, R and F1: a rare label counts as much as a frequent one
    example  the mean over points of each point's own P, R and F1

Macro means are taken over the labels that occur in the truth or in the decisions. A quotient with a denominator of 0
counts as 0, with one exception: if a point has no labels and none was decided for it, its P, R and F1 are 100. Points
without labels count, because "no label" is a decision, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from longtail.kernels.metrics import csr_is_in
from longtail.metrics._inputs import Judged, SparseMatrix, judge, truth_matrix

AVERAGES = ("micro", "macro", "example")


@dataclass(frozen=True)
class DecisionCounts:
    """Numbers of decided, true and correctly decided pairs, per label and per point."""

    label_correct: np.ndarray  # (L,)
    label_decided: np.ndarray  # (L,)
    label_true: np.ndarray  # (L,)
    point_correct: np.ndarray  # (N,)
    point_decided: np.ndarray  # (N,)
    point_true: np.ndarray  # (N,)

    @classmethod
    def of(cls, judged: Judged) -> DecisionCounts:
        """Count every stored prediction as a decision."""
        correct = csr_is_in(judged.indptr, judged.indices, judged.true_indptr, judged.true_indices)
        before = np.concatenate(([0], np.cumsum(correct)))
        n_labels = judged.n_labels
        return cls(
            label_correct=np.bincount(judged.indices[correct], minlength=n_labels),
            label_decided=np.bincount(judged.indices, minlength=n_labels),
            label_true=np.bincount(judged.true_indices, minlength=n_labels),
            point_correct=np.diff(before[judged.indptr]),
            point_decided=np.diff(judged.indptr),
            point_true=np.diff(judged.true_indptr),
        )

    def per_label(self) -> dict[str, np.ndarray]:
        """Return P, R and F1 of each label in percent, (L,) each."""
        names = ("P", "R", "F1")
        return dict(zip(names, _quotients(self.label_correct, self.label_decided, self.label_true), strict=True))

    def metrics(self) -> dict[str, float]:
        """Return the metrics of :func:`decision_metrics`."""
        occurs = (self.label_decided > 0) | (self.label_true > 0)
        empty = (self.point_decided == 0) & (self.point_true == 0)
        totals = (self.label_correct.sum(), self.label_decided.sum(), self.label_true.sum())
        micro = _quotients(*(np.atleast_1d(total) for total in totals))
        macro = [values[occurs] for values in _quotients(self.label_correct, self.label_decided, self.label_true)]
        points = _quotients(self.point_correct, self.point_decided, self.point_true)
        example = [np.where(empty, 100.0, values) for values in points]
        metrics = {}
        for average, means in zip(AVERAGES, (micro, macro, example), strict=True):
            for name, values in zip(("P", "R", "F1"), means, strict=True):
                metrics[f"{average}-{name}"] = float(values.mean()) if values.size else 0.0
        return metrics


def decision_metrics(
    Y_true: SparseMatrix, decisions: SparseMatrix, *, ignore: ArrayLike | None = None
) -> dict[str, float]:
    """Compute micro, macro and example precision, recall and F1 of decisions.

    Parameters
    ----------
    Y_true : sparse matrix, shape (N, L)
        True labels of the points; stored zeros are not labels.
    decisions : sparse matrix, shape (N, L)
        The labels decided for each point, as ``Ranker.predict_labels`` returns them: every non-zero entry.
    ignore : int array, shape (P, 2), optional
        (row, label) pairs to remove from both truth and decisions.

    Returns
    -------
    dict
        ``micro-P``, ``micro-R``, ``micro-F1`` and the same for ``macro`` and ``example``, in percent.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> truth = csr_array([[1, 1, 0], [0, 0, 1]])
    >>> decided = csr_array([[1, 0, 0], [0, 0, 0]])
    >>> decision_metrics(truth, decided)["micro-F1"]
    50.0
    """
    return count_decisions(Y_true, decisions, ignore=ignore).metrics()


def count_decisions(
    Y_true: SparseMatrix, decisions: SparseMatrix, *, ignore: ArrayLike | None = None
) -> DecisionCounts:
    """Count decided, true and correct pairs per label and per point. Parameters are as in :func:`decision_metrics`."""
    return DecisionCounts.of(judge(Y_true, truth_matrix(decisions, "decisions"), ignore))


def _quotients(correct: np.ndarray, decided: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return P, R and F1 in percent, with 0 where a denominator is 0."""
    gain = 100.0 * correct
    return gain / np.maximum(decided, 1), gain / np.maximum(true, 1), 2 * gain / np.maximum(decided + true, 1)
