"""P, nDCG, PSP, PSnDCG, recall and coverage at k.

Let y be the labels of a point, r_1, r_2, ... the predicted ranking, and w the inverse propensities. Over the points
that have labels:

    P@k       mean of |{r_1..r_k} in y| / k, though y may be smaller than k
    nDCG@k    mean of DCG@k / IDCG@k;  DCG@k = sum of 1 / log2(i + 1) over correct r_i, i <= k;
              IDCG@k the same over min(k, |y|) correct labels
    R@k       mean of |{r_1..r_k} in y| / |y|
    PSP@k     sum over points of the w of correct r_i, i <= k, over the largest sum that k labels per point can reach
    PSnDCG@k  the same ratio of sums with w / log2(i + 1)
    C@k       labels predicted correctly at least once within the top k, over the labels that occur in the truth

Coverage counts only labels that occur in the truth: a label without a test point cannot be predicted correctly, and
counting it would make the metric depend on how much of the label space the test part happens to cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from longtail.metrics._inputs import Judged, SparseMatrix, are_lists, check_ks, judge, named_matrices
from longtail.metrics.propensity import weights_from


def evaluate(
    Y_true: SparseMatrix | Sequence[Any],
    scores: SparseMatrix | Sequence[Any],
    *,
    train_Y: SparseMatrix | Sequence[Any] | None = None,
    inv_propensity: ArrayLike | None = None,
    ks: Sequence[int] = (1, 3, 5),
    ignore: ArrayLike | None = None,
) -> dict[str, float]:
    """Compute P, nDCG, PSP, PSnDCG, recall and coverage at k.

    Parameters
    ----------
    Y_true : sparse matrix, shape (N, L), or list of lists of str
        True labels of the points; stored zeros are not labels. Points without labels are left out of all metrics.
    scores : sparse matrix, shape (N, L), or list of lists
        Predictions, any number per row; higher is better. If a row has fewer than k, the missing ones count as wrong.
        If the true labels are lists of names: lists of (name, score) as ``Tagger.suggest`` returns them, or lists of
        names, the best first.
    train_Y : sparse matrix, shape (M, L), or list of lists of str, optional
        Training labels, from which the inverse propensities are computed (A = 0.55, B = 1.5).
    inv_propensity : array, shape (L,), optional
        The inverse propensities, instead of ``train_Y``. With neither, PSP and PSnDCG are left out.
    ks : sequence of int
        Cut-offs.
    ignore : int array, shape (P, 2), optional
        (row, label) pairs to remove from both truth and predictions, such as a product that recommends itself.

    Returns
    -------
    dict
        ``P@k``, ``nDCG@k``, ``PSP@k``, ``PSnDCG@k``, ``R@k``, ``C@k`` for each k, in percent.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> truth = csr_array([[1, 1, 0], [0, 0, 1]])
    >>> scores = csr_array([[0.9, 0.0, 0.4], [0.0, 0.0, 0.7]])
    >>> evaluate(truth, scores, ks=[1, 2])["P@2"]
    50.0
    >>> evaluate([["moss", "botany"], ["bread"]], [[("moss", 0.9), ("bread", 0.2)], [("bread", 0.8)]], ks=[1])["P@1"]
    100.0
    """
    if are_lists(Y_true) and are_lists(scores):
        Y_true, scores, train_Y = named_matrices(Y_true, scores, train_Y)
    judged = judge(Y_true, scores, ignore)
    return measure(judged, weights_from(train_Y, inv_propensity, judged.n_labels), check_ks(ks))


def measure(judged: Judged, weights: np.ndarray | None, ks: np.ndarray) -> dict[str, float]:
    """Compute the metrics of ``evaluate`` from inputs that have been checked."""
    count = judged.count(np.ones(judged.n_labels) if weights is None else weights, ks)
    n_true_labels = np.count_nonzero(np.bincount(judged.true_indices))
    covered = np.array([np.count_nonzero(count.right_by_label(k)) for k in ks])
    values = {"P": count.precision(), "nDCG": 100.0 * count.ndcg / count.n_points}
    if weights is not None:
        values |= {"PSP": count.scored_precision(), "PSnDCG": 100.0 * count.gained_dcg / count.best_dcg}
    values |= {"R": 100.0 * count.recall / count.n_points, "C": 100.0 * covered / n_true_labels}
    return {f"{name}@{k}": float(v) for name, column in values.items() for k, v in zip(ks, column, strict=True)}
