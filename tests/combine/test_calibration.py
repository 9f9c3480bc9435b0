"""Calibration: probabilities by score, rank and label frequency, in the order of the ranker."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.combine.calibration import Calibration, HeldOut, LabelFrequency
from longtail.combine.score_map import ScoreMap
from longtail.metrics import calibration_error
from longtail.sparse import from_top_k, labelled_rows

N_LABELS, K = 40, 4
COUNTS = np.where(np.arange(N_LABELS) < 20, 500, 1)  # half of the labels are frequent
RARE = COUNTS == 1


def draw(seed: int, n: int) -> tuple[csr_array, csr_array]:
    """Draw scores of four labels per point, and truth: a rare label is correct half as often as its score says."""
    rng = np.random.default_rng(seed)
    labels = np.argsort(rng.random((n, N_LABELS)), axis=1)[:, :K].astype(np.int32)
    scores = -np.sort(-rng.uniform(0.05, 0.95, (n, K)), axis=1).astype(np.float32)
    correct = rng.random((n, K)) < np.where(RARE[labels], 0.5, 1.0) * scores
    rows = np.nonzero(correct)[0]
    Y = csr_array((np.ones(len(rows), np.float32), (rows, labels[correct])), shape=(n, N_LABELS))
    some = labelled_rows(Y)  # metrics of rankings leave out points without labels
    return from_top_k(labels, scores, None, N_LABELS)[some], Y[some]


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_rare_labels_are_calibrated_too(method: str) -> None:
    frequency = LabelFrequency.of(COUNTS, 2000)
    fitted, chosen = Calibration.fit([HeldOut(*draw(0, 4000), frequency)], method)
    assert chosen == method
    scores, Y = draw(1, 8000)
    found = fitted.apply(scores, frequency)
    np.testing.assert_array_equal(found.indices, scores.indices)
    rows = found.data.reshape(-1, K)
    assert (np.diff(rows) < 0).all()
    assert calibration_error(Y, scores, labels=RARE) > 20
    for labels in (None, RARE, ~RARE):
        assert calibration_error(Y, found, labels=labels) < 5


def test_one_row_is_calibrated_as_in_a_batch_and_stored_maps_are_the_same() -> None:
    frequency = LabelFrequency.of(COUNTS, 2000)
    fitted, _ = Calibration.fit([HeldOut(*draw(0, 2000), frequency)])
    scores, _ = draw(1, 50)
    whole = fitted.apply(scores, frequency)
    again = Calibration.from_arrays(fitted.arrays())
    np.testing.assert_array_equal(again.apply(scores, frequency).data, whole.data)
    np.testing.assert_array_equal(fitted.apply(scores[[7]], frequency).data, whole[[7]].data)
    empty = csr_array((2, N_LABELS), dtype=np.float32)
    assert fitted.apply(empty, frequency).nnz == 0


def test_the_number_of_pairs_chooses_the_function() -> None:
    frequency = LabelFrequency.of(COUNTS, 2000)
    assert Calibration.fit([HeldOut(*draw(0, 200), frequency)])[1] == "platt"
    assert Calibration.fit([HeldOut(*draw(0, 4000), frequency)])[1] == "isotonic"


def test_a_shape_is_calibrated_for_the_pairs_that_it_was_fitted_to() -> None:
    """Lines between the middles of the steps of isotonic regression were off by several points here."""
    rng = np.random.default_rng(0)
    scores = rng.beta(2, 5, 4000).astype(np.float32)
    correct = rng.random(4000) < np.select([scores < 0.25, scores < 0.4], [0.08, 0.4], 0.9)
    found = 1 / (1 + np.exp(-ScoreMap.isotonic(scores, correct)(scores)))
    assert abs(found.mean() - correct.mean()) < 0.001
    for low in np.arange(0, 1, 0.1):
        inside = (found >= low) & (found < low + 0.1)
        assert abs(found[inside].sum() - correct[inside].sum()) < 0.01 * len(found)


def test_scores_that_rise_with_rarity_are_calibrated() -> None:
    """PfastreXML weighs rare labels up, so that of its highest scores fewer are correct: no monotone shape fits."""
    rng = np.random.default_rng(0)
    counts = np.repeat([1, 3, 10, 30, 100, 300, 1000], 6)
    frequency = LabelFrequency.of(counts, 2000)

    def draw_weighted(n: int) -> tuple[csr_array, csr_array]:
        labels = rng.integers(len(counts), size=(n, 1), dtype=np.int32)
        chance = rng.uniform(0.2, 0.98, (n, 1))
        scores = np.clip(0.3 * chance / np.sqrt(counts[labels]), 1e-4, 0.99).astype(np.float32)
        rows = np.flatnonzero(rng.random(n) < chance[:, 0])
        others = np.setdiff1d(np.arange(n), rows)  # a wrong point has another label
        at = np.concatenate([rows, others]), np.concatenate([labels[rows, 0], (labels[others, 0] + 1) % len(counts)])
        return from_top_k(labels, scores, None, len(counts)), csr_array((np.ones(n, np.float32), at), (n, len(counts)))

    fitted, _ = Calibration.fit([HeldOut(*draw_weighted(6000), frequency)], "isotonic")
    scores, Y = draw_weighted(20_000)
    probabilities = fitted.apply(scores, frequency)
    assert calibration_error(Y, probabilities) < 2
    informative = np.std(probabilities.data[np.isin(scores.indices, np.flatnonzero(counts == 1000))])
    assert informative > 0.15  # as the chances are; a monotone shape gives the most frequent labels nearly one value
