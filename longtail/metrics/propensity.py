"""Inverse propensities: the propensity model of Jain et al. (KDD 2016).

The propensity of a label is the probability that it is recorded where it is correct. Rare labels are missing from data
more often than frequent ones, and weighting correct predictions by the inverse propensity corrects for that. A label
with N_l of N training points has the inverse propensity

    w_l = 1 + C (N_l + B)^-A,        C = (ln N - 1) (B + 1)^A.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from longtail.errors import DataError, SettingsError
from longtail.metrics._inputs import SparseMatrix, check_weights, truth_matrix
from longtail.params import NOT_NEGATIVE, POSITIVE
from longtail.sparse import label_counts

PROPENSITY_A, PROPENSITY_B = 0.55, 1.5


def inverse_propensity(
    Y_train: SparseMatrix | None = None,
    A: float = PROPENSITY_A,
    B: float = PROPENSITY_B,
    *,
    counts: ArrayLike | None = None,
    n_points: int | None = None,
) -> np.ndarray:
    """Compute the weight of each label in the propensity-scored metrics.

    Parameters
    ----------
    Y_train : sparse matrix, shape (N, L), optional
        Labels of the TRAINING points.
    A, B : float
        Parameters of the propensity model. The field uses 0.5 and 0.4 for Wikipedia data, 0.6 and 2.6 for Amazon data,
        and 0.55 and 1.5 for everything else.
    counts : array, shape (L,), optional
        Number of training points per label, instead of `Y_train`; needs `n_points`.
    n_points : int, optional
        Number of training points, N.

    Returns
    -------
    array, shape (L,), float64
        Weights of at least 1, larger for rarer labels. With fewer than e training points C would be negative and rare
        labels would have the smallest weights, so that all weights are set to 1.

    Examples
    --------
    >>> inverse_propensity(counts=[100, 1], n_points=100).round(2).tolist()
    [1.47, 4.61]
    """
    if not (NOT_NEGATIVE.allows(A) and POSITIVE.allows(B)):
        raise SettingsError(f"inverse_propensity needs finite A >= 0 and B > 0, got A={A!r:.80}, B={B!r:.80}.")
    if Y_train is not None:
        if counts is not None or n_points is not None:
            raise SettingsError("Give Y_train, or counts and n_points, not both.")
        Y = truth_matrix(Y_train, "Y_train")
        counts, n_points = label_counts(Y), Y.shape[0]
    if counts is None or n_points is None:
        raise SettingsError("Give Y_train, or both counts and n_points.")
    per_label = np.asarray(counts)
    if per_label.ndim != 1 or (per_label.size and (per_label.min() < 0 or per_label.max() > n_points)):
        raise DataError(
            f"counts must hold one number from 0 to n_points ({n_points:,}) per label",
            remedy="Count the training points of each label.",
        )
    if n_points == 0:
        raise DataError("there are no training points", remedy="Propensities come from the training labels.")
    C = max(np.log(n_points) - 1.0, 0.0) * (B + 1.0) ** A
    return 1.0 + C * (per_label + B) ** -A


def weights_from(train_Y: SparseMatrix | None, inv_propensity: ArrayLike | None, n_labels: int) -> np.ndarray | None:
    """Return the inverse propensities from the training labels or as given, or None if neither was given."""
    if train_Y is not None and inv_propensity is not None:
        raise SettingsError("Give train_Y or inv_propensity, not both.")
    if train_Y is not None:
        inv_propensity = inverse_propensity(train_Y)
    return None if inv_propensity is None else check_weights(inv_propensity, n_labels)
