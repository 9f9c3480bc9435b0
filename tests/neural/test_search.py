"""Search with biases and the schedule of the loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.engine.checkpoints import fingerprint
from longtail.index import make_index
from longtail.models.raw_scores import calibrate
from longtail.neural import search
from longtail.neural.loop import LoopSettings


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_search_with_biases_is_a_sort_of_all_scores(size: float) -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((9, 4), np.float32), rng.standard_normal((30, 4), np.float32)
    bias = rng.standard_normal(30).astype(np.float32) * np.float32(size)
    found, scores = search.top_labels(points, labels, bias, 5)
    expected = points @ labels.T + bias
    np.testing.assert_array_equal(found, np.argsort(-expected, axis=1)[:, :5])
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :5], rtol=1e-5)


def test_large_biases_leave_eight_bit_codes_their_precision() -> None:
    rng = np.random.default_rng(0)
    labels, bias = rng.standard_normal((3000, 32), np.float32), rng.uniform(-300, -298, 3000).astype(np.float32)
    points = rng.standard_normal((50, 32), np.float32)
    vectors, scale = search.with_bias(labels, bias)
    index = make_index(vectors, "ip", "ivf", queries=search.queries(points, scale), n_rescored=20)
    found, _ = index.search(search.queries(points, scale), 5)
    true, _ = search.top_labels(points, labels, bias, 5)
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.tolist(), true.tolist(), strict=True)]) > 0.9


@pytest.mark.parametrize(("schedule", "middle"), [("constant", 1.0), ("linear", 0.5), ("cosine", 0.5)])
def test_schedules_start_high_and_end_low(schedule: str, middle: float) -> None:
    settings = LoopSettings(1, 1, 2.0, schedule)
    assert settings.rate_at(0.0) == 2.0
    assert settings.rate_at(0.5) == pytest.approx(2 * middle)
    assert settings.rate_at(1.0) == pytest.approx(2.0 if schedule == "constant" else 0.0)


def test_fingerprints_tell_data_and_settings_apart() -> None:
    X = csr_array(np.eye(3, dtype=np.float32))
    same = fingerprint({"a": 1}, X, None)
    assert same == fingerprint({"a": 1}, X.copy(), None)
    assert same != fingerprint({"a": 2}, X, None)
    assert same != fingerprint({"a": 1}, 2 * X, None)
    assert same != fingerprint({"a": 1}, csr_array((X.data, X.indices, X.indptr), shape=(3, 4)), None)


def test_calibration_finds_the_chances() -> None:
    rng = np.random.default_rng(1)
    raw = np.sort(rng.uniform(-2, 2, (4000, 3)).astype(np.float32), axis=1)[:, ::-1]
    right = rng.random((4000, 3)) < 1 / (1 + np.exp(-(3 * raw - 1)))
    found = np.tile(np.arange(3, dtype=np.int32), (4000, 1))
    slope, offset = calibrate(lambda X, k: (found, raw), csr_array((4000, 1)), csr_array(right.astype(np.float32)))
    assert slope == pytest.approx(3, abs=0.25)
    assert offset == pytest.approx(-1, abs=0.15)
