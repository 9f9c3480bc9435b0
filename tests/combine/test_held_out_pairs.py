"""What a combiner learns of labels that have text and no training points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.combine.combiner import Combiner, Layout
from longtail.combine.predictor import HeldOutPairs

LAYOUT = Layout(0, 1)
N_SEEN, N_MET, N_UNMET = 40, 30, 2000  # labels: with training points, with held-out points only, with none at all


def pairs_of(rng: np.random.Generator, labels: np.ndarray, right: np.ndarray) -> HeldOutPairs:
    """Return one held-out point per pair, with features that tell nothing."""
    features = rng.normal(size=(len(labels), LAYOUT.n_features)).astype(np.float32)
    features[:, 0] = 1.0
    features[:, LAYOUT.lister(0) + 1] = 1.0
    return HeldOutPairs(features, right, np.arange(len(labels)), labels, np.empty((len(labels), 0), np.float32))


@pytest.mark.parametrize("n_right", [25, 0])
def test_labels_that_no_point_has_count_as_wrong(n_right: int) -> None:
    rng = np.random.default_rng(0)
    n_labels = N_SEEN + N_MET + N_UNMET
    labels = np.concatenate([rng.integers(N_SEEN, size=600), np.arange(N_SEEN, n_labels)]).astype(np.int32)
    right = np.zeros(len(labels), bool)
    right[:600] = rng.random(600) < 0.4
    right[600 : 600 + n_right] = True
    pairs = pairs_of(rng, labels, right)
    ones = np.ones(3 * N_SEEN, np.float32)
    Y_train = csr_array((ones, (np.arange(3 * N_SEEN), np.tile(np.arange(N_SEEN), 3))), shape=(3 * N_SEEN, n_labels))
    Y_held = csr_array(
        (np.ones(right.sum(), np.float32), (pairs.points[right], labels[right])), shape=(len(labels), n_labels)
    )
    combiner = pairs.train(LAYOUT, Y_train, Y_held, 0)
    assert combiner.unseen_trees is None  # too few to learn from
    unseen = pairs.features[600:]
    expected = (1 / (1 + np.exp(-(unseen @ combiner.unseen)))).sum()
    assert expected == pytest.approx(max(n_right, 0.5), rel=0.5)


def test_labels_without_points_have_trees_of_their_own() -> None:
    rng = np.random.default_rng(1)
    n_labels = N_SEEN + N_UNMET
    labels = np.concatenate([rng.integers(N_SEEN, size=600), np.arange(N_SEEN, n_labels)]).astype(np.int32)
    pairs = pairs_of(rng, labels, np.zeros(len(labels), bool))
    score = pairs.features[:, LAYOUT.lister(0)]
    pairs.right[:600] = score[:600] > 0
    pairs.right[600:] = np.abs(score[600:]) < 0.3  # neither low nor high scores: no weighted sum can tell
    rows = rng.integers(200, size=600)
    Y_train = csr_array((np.ones(600, np.float32), (rows, labels[:600])), shape=(200, n_labels))
    Y_train.sum_duplicates()
    Y_held = csr_array(
        (np.ones(pairs.right.sum(), np.float32), (pairs.points[pairs.right], labels[pairs.right])),
        shape=(len(labels), n_labels),
    )
    combiner = pairs.train(LAYOUT, Y_train, Y_held, 0)
    unseen, right = pairs.features[600:], pairs.right[600:]
    odds = combiner.log_odds(unseen, unseen=True)
    assert odds[right].min() > np.quantile(odds[~right], 0.95)
    facts, arrays = combiner.state()
    again = Combiner.restored(facts, arrays)
    np.testing.assert_array_equal(again.log_odds(unseen, unseen=True), odds)
    assert (unseen @ combiner.unseen)[right].min() < np.quantile((unseen @ combiner.unseen)[~right], 0.95)
