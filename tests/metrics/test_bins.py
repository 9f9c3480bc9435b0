"""Contribution of each frequency bin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import DataError, SettingsError
from longtail.metrics import evaluate, frequency_bins
from longtail.metrics.bins import equal_volume

from . import oracle
from .cases import Case, cases, to_csr


@settings(max_examples=150, deadline=None)
@given(cases(), st.integers(1, 5), st.integers(1, 6))
def test_parts_add_up_and_agree_with_the_oracle(case: Case, k: int, n_bins: int) -> None:
    truth, scores, train = (case.matrix(rows) for rows in (case.truth, case.scores, case.train))
    ignore = np.array(case.ignore, np.int32).reshape(-1, 2)
    got = frequency_bins(truth, scores, train, k=k, n_bins=n_bins, ignore=ignore)
    whole = evaluate(truth, scores, train_Y=train, ks=[k], ignore=ignore)
    assert [part["bin"] for part in got] == list(range(1, n_bins + 1))
    assert sum(part["labels"] for part in got) == case.n_labels
    for key in (f"P@{k}", f"PSP@{k}"):
        assert sum(part[key] for part in got) == pytest.approx(whole[key], rel=1e-9, abs=1e-9)

    # Each part by hand: only the labels of the bin count as right, over the denominators of the whole.
    counts = [sum(label in oracle.labels_of(row) for row in case.train) for label in range(case.n_labels)]
    by_frequency = sorted(range(case.n_labels), key=lambda label: (-counts[label], label))
    w = oracle.propensity_weights(case.train, case.n_labels)
    points = [
        (oracle.labels_of(t), oracle.ranking(s)[:k])
        for t, s in zip(oracle.drop(case.truth, case.ignore), oracle.drop(case.scores, case.ignore), strict=True)
    ]
    n = sum(bool(true) for true, _ in points)
    best = sum(sum(sorted((w[label] for label in true), reverse=True)[:k]) for true, _ in points)
    for part in got:
        labels, by_frequency = by_frequency[: int(part["labels"])], by_frequency[int(part["labels"]) :]
        right = [label for true, ranked in points for label in ranked if label in true and label in labels]
        assert part[f"P@{k}"] == pytest.approx(100 * len(right) / (n * k))
        assert part[f"PSP@{k}"] == pytest.approx(100 * sum(w[label] for label in right) / best)
        assert part["volume"] == sum(counts[label] for label in labels)
        assert part["frequency_max"] == max((counts[label] for label in labels), default=0)
        assert part["frequency_min"] == min((counts[label] for label in labels), default=0)


@pytest.mark.parametrize(
    ("counts", "n_bins", "sizes"),
    [
        ([1] * 10, 5, [2, 2, 2, 2, 2]),
        ([8, 4, 2, 1, 1], 2, [1, 4]),
        ([1, 1, 2, 4, 8], 2, [1, 4]),  # by frequency, not by index
        ([100, 1, 1, 1, 1], 5, [1, 1, 1, 1, 1]),  # one label of nearly all the volume fills one bin only
        ([3, 3, 0, 0, 0], 2, [1, 4]),  # labels never seen are the rarest
        ([1, 1], 4, [1, 1, 0, 0]),
        ([0, 0, 0], 2, [0, 3]),
        ([], 3, [0, 0, 0]),
        ([5, 3, 2], 1, [3]),
    ],
)
def test_equal_volume(counts: list[int], n_bins: int, sizes: list[int]) -> None:
    by_frequency, ends = equal_volume(np.array(counts, np.int64), n_bins)
    assert np.diff([0, *ends]).tolist() == sizes
    assert sorted(by_frequency.tolist()) == list(range(len(counts)))


def test_bins_of_a_power_law_hold_about_the_same_volume() -> None:
    counts = (1e6 / np.arange(1, 100_001)).astype(np.int64)
    by_frequency, ends = equal_volume(counts, 5)
    volumes = np.add.reduceat(counts[by_frequency], [0, *ends[:-1]])
    np.testing.assert_allclose(volumes, counts.sum() / 5, rtol=0.05)


def test_own_weights() -> None:
    truth = to_csr([{0: 1}, {1: 1}], 2)
    got = frequency_bins(truth, truth, to_csr([{0: 1}] * 3 + [{1: 1}], 2), k=1, n_bins=2, inv_propensity=[1, 3])
    assert got == [
        {"bin": 1, "labels": 1, "frequency_max": 3, "frequency_min": 3, "volume": 3, "P@1": 50.0, "PSP@1": 25.0},
        {"bin": 2, "labels": 1, "frequency_max": 1, "frequency_min": 1, "volume": 1, "P@1": 50.0, "PSP@1": 75.0},
    ]


def test_settings_and_shapes_are_checked() -> None:
    truth = to_csr([{0: 1}], 2)
    with pytest.raises(SettingsError, match="n_bins"):
        frequency_bins(truth, truth, truth, n_bins=0)
    with pytest.raises(SettingsError, match="ks"):
        frequency_bins(truth, truth, truth, k=0)
    with pytest.raises(DataError, match="train_Y has 3 labels and Y_true 2"):
        frequency_bins(truth, truth, to_csr([{0: 1}], 3))
