"""Exact search and the schedule of the loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.neural import search
from longtail.neural.learner import calibrate
from longtail.neural.loop import LoopSettings, fingerprint


@pytest.mark.parametrize("held", [1, 7, 1 << 22])
def test_exact_search_is_a_sort_of_all_scores(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SCORES", held)
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((9, 4), np.float32), rng.standard_normal((30, 4), np.float32)
    bias = rng.standard_normal(30).astype(np.float32)
    found, scores = search.top_k(points, labels, bias, 5)
    expected = points @ labels.T + bias
    np.testing.assert_array_equal(found, np.argsort(-expected, axis=1)[:, :5])
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :5], rtol=1e-5)


@pytest.mark.parametrize(("schedule", "middle"), [("constant", 1.0), ("linear", 0.5), ("cosine", 0.5)])
def test_schedules_start_high_and_end_low(schedule: str, middle: float) -> None:
    settings = LoopSettings(1, 1, 2.0, schedule)
    assert settings.rate_at(0.0) == 2.0
    assert settings.rate_at(0.5) == pytest.approx(2 * middle)
    assert settings.rate_at(1.0) == pytest.approx(2.0 if schedule == "constant" else 0.0)
    assert LoopSettings(1, 1, 2.0, schedule, warmup=0.1).rate_at(0.05) == pytest.approx(1.0)


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
