"""Precision, recall and F1 of decisions against a naive oracle and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from longtail.errors import DataError
from longtail.metrics import decision_metrics

from . import oracle
from .cases import Case, cases, to_csr


def f1_of(true: set[int], decided: set[int]) -> tuple[float, float, float]:
    hit = len(true & decided)
    p = hit / len(decided) if decided else 0.0
    r = hit / len(true) if true else 0.0
    return p, r, 2 * p * r / (p + r) if p + r else 0.0


def naive(truth: list[set[int]], decided: list[set[int]], n_labels: int) -> dict[str, float]:
    """Every mean by loops over points and labels."""

    def pairs(rows: list[set[int]]) -> set[int]:
        return {row * n_labels + label for row, labels in enumerate(rows) for label in labels}

    def points_of(rows: list[set[int]], label: int) -> set[int]:
        return {row for row, labels in enumerate(rows) if label in labels}

    occurring = sorted(set().union(*truth, *decided))
    per_label = [f1_of(points_of(truth, label), points_of(decided, label)) for label in occurring]
    per_point = [(1.0, 1.0, 1.0) if not t and not d else f1_of(t, d) for t, d in zip(truth, decided, strict=True)]
    means = {
        "micro": f1_of(pairs(truth), pairs(decided)),
        "macro": tuple(np.mean(per_label, axis=0)),
        "example": tuple(np.mean(per_point, axis=0)),
    }
    return {f"{a}-{m}": 100 * v for a, found in means.items() for m, v in zip(("P", "R", "F1"), found, strict=True)}


@settings(max_examples=150, deadline=None)
@given(cases())
def test_agrees_with_the_oracle(case: Case) -> None:
    ignore = np.array(case.ignore, np.int32).reshape(-1, 2)
    got = decision_metrics(case.matrix(case.truth), case.matrix(case.scores), ignore=ignore)
    truth = [set(oracle.labels_of(row)) for row in oracle.drop(case.truth, case.ignore)]
    decided = [set(oracle.labels_of(row)) for row in oracle.drop(case.scores, case.ignore)]
    assert got == pytest.approx(naive(truth, decided, case.n_labels), abs=1e-9)


def test_agrees_with_scikit_learn() -> None:
    from sklearn.metrics import precision_recall_fscore_support

    rng = np.random.default_rng(0)
    truth, decided = (rng.random((2, 50, 7)) < 0.3).astype(int)
    truth[:, 0] |= truth.sum(axis=1) == 0  # scikit-learn has no value for a point with nothing in truth and decision
    got = decision_metrics(csr_array(truth), csr_array(decided))
    for ours, theirs in (("micro", "micro"), ("macro", "macro"), ("example", "samples")):
        found = precision_recall_fscore_support(truth, decided, average=theirs, zero_division=0)[:3]
        assert [got[f"{ours}-{name}"] for name in ("P", "R", "F1")] == pytest.approx([100 * v for v in found])


def test_no_label_is_a_decision_too() -> None:
    nothing = to_csr([{}, {}], 3)
    assert decision_metrics(nothing, nothing)["example-F1"] == 100
    assert decision_metrics(nothing, to_csr([{1: 1.0}, {}], 3))["example-F1"] == 50
    assert decision_metrics(to_csr([{1: 1.0}, {}], 3), nothing)["micro-F1"] == 0


def test_other_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="points x labels"):
        decision_metrics(to_csr([{0: 1.0}], 3), to_csr([{0: 1.0}], 2))
