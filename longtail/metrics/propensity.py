"""How likely a label is to be noticed when it is true: the propensity model of Jain et al. (KDD 2016).

Rare labels are missing from the data more often than frequent ones; dividing by the propensity pays that back. A label
with N_l of N training points has the inverse propensity

    w_l = 1 + C (N_l + B)^-A,        C = (ln N - 1) (B + 1)^A.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from longtail.errors import DataError, SettingsError
from longtail.metrics._inputs import SparseMatrix, check_weights, truth_matrix


def label_counts(Y_train: SparseMatrix) -> tuple[np.ndarray, int]:
    """Training points of each label, shape (L,), and of all; stored zeros are not labels."""
    Y = truth_matrix(Y_train, "Y_train")
    return np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0]


def inverse_propensity(Y_train: SparseMatrix, A: float = 0.55, B: float = 1.5) -> np.ndarray:
    """Weight of each label in the propensity-scored metrics.

    Parameters
    ----------
    Y_train : sparse matrix, shape (N, L)
        Labels of the TRAINING points.
    A, B : float
        0.55 and 1.5 unless the data is Wikipedia's (0.5, 0.4) or Amazon's (0.6, 2.6), as the field uses them.

    Returns
    -------
    array, shape (L,), float64
        At least 1; the greater, the rarer the label. Below e training points, where C would be negative and rare labels
        would weigh least, all weights are 1.
    """
    if not (A >= 0 and B > 0):
        raise SettingsError(f"inverse_propensity needs A >= 0 and B > 0, got A={A}, B={B}.")
    counts, n_points = label_counts(Y_train)
    if n_points == 0:
        raise DataError("Y_train has no points", remedy="Propensities come from the training labels.")
    C = max(np.log(n_points) - 1.0, 0.0) * (B + 1.0) ** A
    return 1.0 + C * (counts + B) ** -A


def weights_from(train_Y: SparseMatrix | None, inv_propensity: ArrayLike | None, n_labels: int) -> np.ndarray | None:
    """Inverse propensities from whichever of the two the caller gave; None if neither."""
    if train_Y is not None and inv_propensity is not None:
        raise SettingsError("Give train_Y or inv_propensity, not both.")
    if train_Y is not None:
        inv_propensity = inverse_propensity(train_Y)
    return None if inv_propensity is None else check_weights(inv_propensity, n_labels)
