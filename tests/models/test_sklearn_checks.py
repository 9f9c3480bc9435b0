"""scikit-learn's own estimator checks, but for those that assume a dense or single-output prediction."""

from __future__ import annotations

import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from longtail.models.bonsai import Bonsai
from longtail.models.decaf import DECAF
from longtail.models.glas import GLaS
from longtail.models.mnn import MNN
from longtail.models.parabel import Parabel

SPARSE_SCORES = "predict gives a sparse matrix of scores, at most k a row, not an array of the shape of y"
SKIPPED = {
    "check_dict_unchanged": SPARSE_SCORES,
    "check_estimators_pickle": SPARSE_SCORES,
    "check_fit2d_predict1d": "the message names our own remedy, not 'Expected 2D array, got 1D array instead'",
    "check_fit_check_is_fitted": "fitted means having n_labels_; check_is_fitted knows only scikit-learn's base",
    "check_fit_idempotent": SPARSE_SCORES,
    "check_methods_sample_order_invariance": SPARSE_SCORES,
    "check_methods_subset_invariance": SPARSE_SCORES,
    "check_pipeline_consistency": SPARSE_SCORES,
    "check_estimators_unfitted": "an unfitted model raises ModelError, a ValueError but not NotFittedError",
    "check_supervised_y_2d": "a single column of labels is a ranking of one label, not a vector; no warning is due",
    "check_do_not_raise_errors_in_init_or_set_param": "set_params refuses names that do not exist, at once",
    "check_n_features_in_after_fitting": "the message differs in wording",
    "check_n_features_in": SPARSE_SCORES,
    "check_requires_y_none": "Y is a required argument",
    "check_estimators_nan_inf": "rankers refuse NaN with a DataError that names the row; the check wants other words",
    "check_estimator_sparse_tag": SPARSE_SCORES,
}


def _checks() -> list[object]:
    with warnings.catch_warnings():
        # Rankers follow the protocol without inheriting from scikit-learn, whose import costs a second: see Params.
        warnings.filterwarnings("ignore", message=".*does not inherit from `sklearn.base.BaseEstimator`.*")
        return _listed()


def _listed() -> list[object]:
    return [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{_name(check)}")
        for model in (
            Parabel(n_trees=1, n_jobs=1),
            Bonsai(n_trees=1, n_jobs=1),
            DECAF(dim=8, epochs=2, n_jobs=1),
            GLaS(dim=8, epochs=2, n_jobs=1),
            MNN(dim=8, epochs=2, n_jobs=1),
        )
        for estimator, check in estimator_checks_generator(model, legacy=True)
        if _name(check) not in SKIPPED
    ]


def _name(check: object) -> str:
    return getattr(check, "func", check).__name__  # type: ignore[attr-defined]


@pytest.mark.parametrize(("estimator", "check"), _checks())
def test_estimator_check(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]
