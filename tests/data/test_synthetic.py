"""The generator: form, power law, topics, learnability, seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.data import synthetic
from longtail.data.dataset import Dataset
from longtail.data.synthetic import make
from longtail.errors import SettingsError
from longtail.kernels import synthetic as kernels


def frequencies(Y: csr_array) -> np.ndarray:
    return np.bincount(Y.indices, minlength=Y.shape[1])


def parts(data: Dataset) -> list[csr_array]:
    assert data.test is not None
    return [data.X, data.Y, data.Z, data.test.X, data.test.Y]


@pytest.mark.parametrize(
    ("sizes", "more"),
    [
        ((1, 1, 1), {}),
        ((1, 2, 3), {"labels_per_point": 9}),
        ((50, 3, 400), {"n_topics": 400}),
        ((300, 500, 40), {"power": 0}),
        ((300, 500, 40), {"power": 2.5, "words_per_point": 1, "labels_per_point": 1}),
    ],
)
def test_any_size_makes_a_valid_dataset(sizes: tuple[int, int, int], more: dict[str, Any]) -> None:
    data = make(*sizes, test_fraction=1.0, **more).validate()
    assert (data.n_points, data.n_features, data.n_labels) == sizes
    assert data.test is not None
    assert data.test.n_points == sizes[0]
    for A in parts(data):
        assert (A.data.dtype, A.indices.dtype, A.indptr.dtype) == (np.float32, np.int32, np.int32)
        assert csr_array((A.data, A.indices, A.indptr), shape=A.shape).has_canonical_format
        assert np.diff(A.indptr).min() >= 1
    for A in (data.X, data.Z, data.test.X):
        np.testing.assert_allclose(A.multiply(A).sum(axis=1), 1, rtol=1e-5)
    assert (data.Y.data == 1).all()


def test_sizes_and_power_law() -> None:
    data = make(20_000, 5_000, 1_000, labels_per_point=4, words_per_point=20, test_fraction=0.1)
    assert data.test is not None
    assert data.test.n_points == 2_000
    assert 3.6 < data.Y.nnz / data.n_points < 4.01
    assert 12 < data.X.nnz / data.n_points < 20
    frequency = np.sort(frequencies(data.Y))[::-1]
    assert frequency[-1] >= 1
    ranks = np.arange(10, 300)
    slope = np.polyfit(np.log(ranks + 1), np.log(frequency[ranks]), 1)[0]
    assert -1.2 < slope < -0.8
    equal = np.sort(frequencies(make(20_000, 5_000, 1_000, power=0).Y))
    assert equal[-1] < 3 * equal[0]


def test_every_label_has_a_training_point_where_there_are_enough() -> None:
    assert frequencies(make(500, 300, 500, power=2).Y).min() == 1
    assert np.count_nonzero(frequencies(make(100, 300, 500, power=2).Y)) >= 100


def test_labels_of_a_point_come_from_one_topic() -> None:
    """Labels that occur together do so far more often than in a shuffle of the same labels."""
    Y = make(5_000, 1_000, 900, power=0).Y
    shuffled = csr_array((Y.data, np.random.default_rng(0).permutation(Y.indices), Y.indptr), shape=Y.shape)
    pairs = [int((A.T @ A > 2).nnz) - A.shape[1] for A in (Y, shuffled)]
    assert pairs[0] > 5 * max(pairs[1], 1)


def top_1(scores: Any, Y: csr_array) -> float:
    best = np.asarray(scores.todense()).argmax(axis=1)
    return float(Y.toarray()[np.arange(Y.shape[0]), best].mean())


def test_a_linear_model_learns_it() -> None:
    data = make(4_000, 3_000, 500, words_per_point=30)
    assert data.test is not None
    centroids = data.Y.T @ data.X
    centroids = centroids.multiply(1 / np.sqrt(centroids.multiply(centroids).sum(axis=1))[:, None]).tocsr()
    chance = frequencies(data.Y).max() / data.n_points
    assert top_1(data.test.X @ centroids.T, data.test.Y) > chance + 0.3
    assert top_1(data.test.X @ data.Z.T, data.test.Y) > chance + 0.2  # from label text alone


def test_seeds_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "BLOCK_ROWS", 64)
    first = parts(make(500, 200, 100, random_state=3, n_jobs=1))
    for other in (parts(make(500, 200, 100, random_state=3, n_jobs=3)),):
        for A, B in zip(first, other, strict=True):
            for name in ("indptr", "indices", "data"):
                np.testing.assert_array_equal(getattr(A, name), getattr(B, name))
    assert (parts(make(500, 200, 100, random_state=4))[1] != first[1]).nnz > 0


def test_parts_can_be_left_out() -> None:
    data = make(50, 40, 10, test_fraction=0, label_text=False)
    assert data.test is None
    assert data.Z is None


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.0 + 1e-12, 2.0])
def test_power_law_inverts_its_distribution(exponent: float) -> None:
    n = 50
    u = (np.arange(200_000) + 0.5) / 200_000
    ranks = np.bincount([kernels._power_law.py_func(x, n, exponent) for x in u], minlength=n)
    edges = np.arange(1.0, n + 2)
    cumulated = np.log(edges) if abs(exponent - 1) < 1e-9 else (edges ** (1 - exponent) - 1) / (1 - exponent)
    expected = np.diff(cumulated) / cumulated[-1]
    np.testing.assert_allclose(ranks / u.size, expected, atol=2e-5)
    assert ranks.size == n
    assert kernels._power_law(np.nextafter(1.0, 0.0), n, exponent) == n - 1


@pytest.mark.parametrize(
    "wrong", [{"n_points": 0}, {"n_features": 0}, {"n_labels": 0}, {"n_topics": 0}, {"labels_per_point": 0.5},
              {"words_per_point": 0}, {"power": -1}, {"test_fraction": -0.1}, {"n_jobs": 0}]
)  # fmt: skip
def test_refuses_sizes_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        make(**{"n_points": 10, "n_features": 10, "n_labels": 5, **wrong})
