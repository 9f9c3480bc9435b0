"""Weights of features learnt from training points, against plain NumPy and on data with a known answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.index import feature_weights
from longtail.index.feature_weights import choose_powers, properties
from longtail.metrics import evaluate
from longtail.models.calibrated import Calibrated
from longtail.models.knn import KNN

TOPICS, WORDS = 20, 4


def topics(n: int, seed: int, n_noise: int = 30, noise: float = 1.0) -> tuple[csr_array, csr_array]:
    """Points with a label per topic, two of the four words of their topic, and ten of `n_noise` that say nothing.

    The latter have the value `noise`, as words have that TF-IDF takes for important.
    """
    rng = np.random.default_rng(seed)
    topic = rng.integers(TOPICS, size=n)
    X, Y = np.zeros((n, TOPICS * WORDS + n_noise), np.float32), np.zeros((n, TOPICS), np.float32)
    for i in range(n):
        X[i, topic[i] * WORDS + rng.permutation(WORDS)[:2]] = 1
        X[i, TOPICS * WORDS + rng.permutation(n_noise)[:10]] = noise
    Y[np.arange(n), topic] = 1
    return csr_array(X), csr_array(Y)


def test_rarity_and_agreement_are_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = csr_array((rng.random((60, 9)) < np.linspace(0.02, 0.6, 9)).astype(np.float32))
    Y = csr_array((rng.random((60, 7)) < 0.25).astype(np.float32))
    monkeypatch.setattr(
        feature_weights, "_PRIOR_PAIRS", 0.001
    )  # so little that it only decides where nothing else does
    rarity, agreement = properties(X, Y, 1)
    counts = (X.toarray() > 0).sum(axis=0)
    assert counts.min() >= 1
    expected = np.log(61 / (1 + counts))
    np.testing.assert_allclose(rarity, np.maximum(expected / expected.max(), 0.01), rtol=1e-6)
    labels = Y.toarray() * np.log(61 / (1 + Y.toarray().sum(axis=0)))
    labels /= np.maximum(np.linalg.norm(labels, axis=1, keepdims=True), 1e-12)
    means = []
    for feature in range(9):
        own = labels[X.toarray()[:, feature] > 0]
        pairs = [own[a] @ own[b] for a in range(len(own)) for b in range(len(own)) if a != b]
        means.append(np.mean(pairs) if pairs else np.nan)
    there = ~np.isnan(means)
    assert there.sum() >= 7
    wanted = np.maximum(np.array(means)[there] / np.nanmax(means), 0.01)
    np.testing.assert_allclose((agreement / agreement.max())[there], wanted, rtol=0.01)
    np.testing.assert_array_equal(properties(X, Y, 2)[1], agreement)


def test_features_of_one_point_agree_as_those_of_similar_frequency_do() -> None:
    X, Y = np.zeros((40, 12), np.float32), np.zeros((40, 5), np.float32)
    Y[np.arange(40), np.arange(40) % 5] = 1
    X[:, 11] = 1
    for feature in range(10):
        X[[feature, feature + 5], feature] = 1  # two points with the same label
    X[39, 10] = 1  # a single one
    agreement = properties(csr_array(X), csr_array(Y), 1)[1]
    np.testing.assert_allclose(agreement[:11], 1.0)
    assert agreement[11] < 0.5


@pytest.mark.parametrize(("n_noise", "noise"), [(30, 1.0), (300, 3.0)])
def test_words_that_say_something_count_most_whether_they_are_rare_or_frequent(n_noise: int, noise: float) -> None:
    X, Y = topics(900, 1, n_noise, noise)
    Q, truth = topics(300, 2, n_noise, noise)
    plain = evaluate(truth, KNN(8, feature_weights="none").fit(X, Y).predict(Q, 1), ks=(1,))["P@1"]
    model = KNN(8).fit(X, Y)
    assert evaluate(truth, model.predict(Q, 1), ks=(1,))["P@1"] > max(plain + 0.5, 97)
    used = np.unique(X.indices)
    says, noise = used[used < TOPICS * WORDS], used[used >= TOPICS * WORDS]
    assert model.points_.weights[says].min() > np.median(model.points_.weights[noise])


def test_few_points_teach_nothing() -> None:
    X, Y = topics(300, 3)
    assert choose_powers(X, Y, lambda *_: pytest.fail("nothing is to be tried"), 1) is None
    assert len(KNN().fit(X, Y).points_.weights) == 0


def test_weights_are_stored_and_apply_to_single_points_and_to_points_added_later(tmp_path: Path) -> None:
    X, Y = topics(900, 4)
    model = KNN(8).fit(X[:700], Y[:700])
    weights = model.points_.weights
    assert len(weights) == X.shape[1]
    whole = model.predict(X, 5)
    model.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    assert (loaded.predict(X, 5) != whole).nnz == 0
    for row in range(0, 900, 90):
        span = slice(X.indptr[row], X.indptr[row + 1])
        labels, scores = loaded.rank(X.indices[span], X.data[span], 5)
        own = slice(whole.indptr[row], whole.indptr[row + 1])
        np.testing.assert_array_equal(labels, whole.indices[own])
        np.testing.assert_array_equal(scores, whole.data[own])
    loaded.partial_fit(X[700:], Y[700:])
    np.testing.assert_array_equal(loaded.points_.weights, weights)
    near, similarity = loaded.points_.nearest(X.indices[: X.indptr[1]], X.data[: X.indptr[1]], 3)
    assert near[0] == 0
    assert similarity[0] == pytest.approx(1, abs=1e-5)
    points, labels = loaded.points_.matrices(X.shape[1])
    unit = X.toarray() / np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    np.testing.assert_allclose(points.toarray(), unit, atol=1e-5)
    assert (labels != Y).nnz == 0


def test_copies_share_the_powers_that_are_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another power of the similarity would give scores on another scale."""
    X, Y = topics(900, 5)
    chosen: list[object] = []
    choose = feature_weights.choose_powers
    monkeypatch.setattr(feature_weights, "choose_powers", lambda *a: chosen.append(choose(*a)) or chosen[-1])
    tuned = KNN(8).tuned(X, Y)
    copies = [tuned.tuned(X[part], Y[part]).fit(X[part], Y[part]) for part in (slice(0, 300), slice(300, 900))]
    assert len(chosen) == 1
    assert chosen[0] is not None
    assert {copy.sharpness_ for copy in copies} == {chosen[0][2]}  # type: ignore[index]
    assert all(len(copy.points_.weights) == X.shape[1] for copy in copies)
    Calibrated(KNN(8)).fit(X, Y)
    assert len(chosen) == 2
