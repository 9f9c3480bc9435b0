"""What held-out points change in trained networks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.index import make_index
from longtail.kernels.encode import SparseRows
from longtail.models.decaf.adjusting import Adjustment, learn_adjustment, token_counts
from longtail.models.decaf.trained import DecafScorer, DocumentEncoder, TextEncoder, TrainedNetwork
from tests.models.decaf.test_ranker import decaf, toy

LABELS, N = 6, 300


def held_out(rare_says: str, sureness: float = 6.0) -> tuple[TrainedNetwork, np.ndarray, csr_array, csr_array]:
    """A network, token counts and held-out points, each with a frequent token of its label and a rare one.

    The vector of a rare token points to a label: the right one, or any; that of a frequent one to the right one, but
    for every fourth point.
    """
    rng = np.random.default_rng(0)
    own = rng.integers(LABELS, size=N)
    rare = own if rare_says == "right" else rng.integers(LABELS, size=N)
    common = np.where(np.arange(N) % 4, own, rng.integers(LABELS, size=N))
    tokens = np.concatenate([np.eye(LABELS), 2 * np.eye(LABELS)[rare]]).astype(np.float32)
    labels = np.concatenate([sureness * np.eye(LABELS), np.full((LABELS, 1), -sureness)], axis=1).astype(np.float32)
    encoder = DocumentEncoder(tokens, np.zeros((LABELS, LABELS), np.float32), np.ones(LABELS, np.float32), relu=False)
    network = TrainedNetwork(encoder, None, labels, make_index(labels, "ip", "exact"))
    X = csr_array(np.concatenate([np.eye(LABELS)[common], np.eye(N)], axis=1).astype(np.float32))
    counts = np.repeat(np.array([N, 1], np.float32), [LABELS, N])
    return network, counts, X, csr_array(np.eye(LABELS)[own].astype(np.float32))


@pytest.mark.parametrize(("rare_says", "shrinks"), [("right", False), ("anything", True)])
def test_rare_tokens_are_trusted_as_far_as_held_out_points_say(rare_says: str, shrinks: bool) -> None:
    network, counts, X, Y = held_out(rare_says)
    assert (learn_adjustment([network], counts, X, Y, 1).rare > 0) == shrinks


def test_networks_that_are_too_sure_get_a_small_slope() -> None:
    sure, unsure = (learn_adjustment([held_out("right", s)[0]], *held_out("anything")[1:], 1) for s in (20.0, 1.0))
    assert 0.1 <= sure.slope < unsure.slope


def test_slope_and_offset_change_log_odds_and_not_the_ranking() -> None:
    network, _, X, _ = held_out("right")
    change = Adjustment(slope=0.5, offset=-1.0)
    labels = change.classifiers(network.labels)
    changed = TrainedNetwork(network.encoder, None, labels, make_index(labels, "ip", "exact"))
    odds = []
    for each in (network, changed):
        scorer = DecafScorer([each], np.arange(LABELS, dtype=np.int32), LABELS)
        listed = np.tile(np.arange(LABELS, dtype=np.int32), (N, 1))
        odds.append(scorer.log_odds(scorer.encode(SparseRows.of(X), 1), listed, 1))
    np.testing.assert_allclose(odds[1], 0.5 * odds[0] - 1, rtol=1e-5, atol=1e-5)


def test_text_alone_is_scored_on_the_same_scale() -> None:
    rng = np.random.default_rng(0)
    R, gate, weight, tokens = rng.random((3, 3)), rng.random(3), rng.random(3), rng.random((5, 3))
    encoder = TextEncoder(*(part.astype(np.float32) for part in (R, gate, weight, np.array([-2.0]))))
    Z, change = csr_array(np.eye(5, dtype=np.float32)), Adjustment(slope=0.5, offset=-1.0)
    changed = change.text(encoder)
    assert changed is not None
    before = encoder(tokens.astype(np.float32), Z, 1)
    np.testing.assert_allclose(changed(tokens.astype(np.float32), Z, 1), change.classifiers(before), rtol=1e-5)


def test_tokens_of_label_texts_alone_count_as_half_a_point() -> None:
    X = csr_array(np.array([[1, 0, 1, 0], [0, 0, 1, 0], [5, 5, 5, 5]], np.float32))
    text = csr_array(np.array([[0, 1, 1, 0]], np.float32))
    np.testing.assert_array_equal(token_counts(X, np.array([0, 1]), text), [1, 0.5, 2, 0])
    np.testing.assert_array_equal(token_counts(X, np.array([0, 1]), None), [1, 0, 2, 0])


def test_nothing_is_adjusted_without_held_out_points_or_where_it_is_switched_off() -> None:
    X, Y, Z = toy()
    plain = decaf(adjust=False).fit(X, Y, label_features=Z).predict(X, 3)
    adjusted = decaf().fit(X, Y, label_features=Z).predict(X, 3)
    assert not np.array_equal(plain.data, adjusted.data)
    with_none, without = (
        decaf(adjust=adjust, validation_fraction=0.0).fit(X, Y, label_features=Z).predict(X, 3)
        for adjust in (True, False)
    )
    np.testing.assert_array_equal(with_none.data, without.data)
