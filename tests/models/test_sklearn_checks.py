"""scikit-learn's own estimator checks, on all rankers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from longtail import registry
from longtail.models.base import Ranker

FAILING: dict[tuple[str, str], str] = {}
"""Checks that do not hold, with the reason: at most five. The test fails as soon as one of them holds."""

WITH_TEXT = {"textmatch", "vectormatch"}
"""Rankers that need label text, which the checks do not give: ``fit(X, y)`` is refused with what to do."""

SMALL = {"n_jobs": 1, "n_trees": 1, "dim": 8, "epochs": 2, "n_folds": 2}
"""Settings that keep models small, for the rankers that have them."""
INNER = {"base": "popular", "members": "[popular, parabel(n_trees=1, n_jobs=1)]"}
"""What a ranker around others is given."""


def small(name: str) -> Any:
    """Make a ranker that is fitted in milliseconds."""
    known = registry.model_class(name)._defaults()
    inner = ", ".join(f"{key}={text}" for key, text in INNER.items() if key in known)
    settings: dict[str, Any] = {key: value for key, value in SMALL.items() if key in known}
    return registry.make(f"{name}({inner})", settings)


def checks(name: str) -> Iterator[Any]:
    """Yield each check with an estimator for it."""
    with warnings.catch_warnings():
        # Rankers follow the protocol without inheriting from scikit-learn, whose import costs a second: see Params.
        warnings.filterwarnings("ignore", message=".*does not inherit from `sklearn.base.BaseEstimator`.*")
        for estimator, check in estimator_checks_generator(small(name), legacy=True):
            title = getattr(check, "func", check).__name__
            reason = FAILING.get((name, title))
            marks = () if reason is None else pytest.mark.xfail(reason=reason, strict=True)
            yield pytest.param(estimator, check, id=f"{name}-{title}", marks=marks)


@pytest.mark.parametrize(
    ("estimator", "check"), [param for name in registry.names() if name not in WITH_TEXT for param in checks(name)]
)
def test_estimator_check(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(check, "func", check).__name__.startswith("check_estimator_sparse"):
        # It expects the classes of a single label as columns of predict_proba; a ranker has one column per label.
        monkeypatch.delattr(Ranker, "predict_proba")
    check(estimator)


def test_few_checks_fail() -> None:
    assert len(FAILING) <= 5
