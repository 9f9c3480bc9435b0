"""The benchmark of DECAF: what it counts and what it shows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks import decaf_section
from benchmarks.decaf import VARIANTS, recall
from longtail import registry


def test_recall_among_all_and_among_the_hidden() -> None:
    scores = csr_array(np.array([[0.9, 0.8, 0.1, 0.7], [0.2, 0.9, 0.0, 0.1]], np.float32))
    truth = csr_array(np.array([[1, 0], [0, 1]], np.float32))  # of labels 2 and 3
    assert recall(scores, truth, 2, among_hidden=False, k=2) == 0
    assert recall(scores, truth, 2, among_hidden=False, k=3) == 50
    assert recall(scores, truth, 2, among_hidden=True, k=1) == 50
    assert recall(scores, truth, 2, among_hidden=True, k=2) == 100


def test_every_variant_can_be_made() -> None:
    for model, _ in VARIANTS.values():
        registry.make(model)


def test_bars_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def metrics(value: float) -> dict[str, float]:
        return {f"{measure}@{k}": value for measure in ("P", "PSP", "F") for k in (1, 3, 5)}

    peers = {"results": {"tate": {"omikuji-bonsai": {"runs": [{"metrics": metrics(50.0)}]}, "bonsai": {"runs": []}}}}
    monkeypatch.setattr(decaf_section.store, "load", lambda name, folder=None: peers)
    costs = {
        "train_seconds": 9.0,
        "predict_ms_per_point": 0.1,
        "single_ms": 0.2,
        "peak_memory_mb": 9.0,
        "model_mb": 8.0,
    }
    row = {**metrics(52.5), **costs, "data": "tate", "variant": "default", "seed": 0}
    failed = {"data": "tate", "variant": "paper", "seed": 0, "error": "no memory"}
    rows = {"a": row, "b": failed}
    rows |= {f"s{n}": {"labels": n, "with points": n, "epoch_seconds": 1.0, "fit_seconds": n} for n in (10, 100)}
    rows["z"] = {"data": "tate", "hidden": 3, "pairs": 4, "decaf all": 30.0, "decaf hidden": 60.0}
    rows["z"] |= {"tf-idf all": 20.0, "tf-idf hidden": 50.0}
    rows["l"] = {"labels": 1_300_000, "dim": 256, "p50_ms": 1.9, "agreement": 0.97}
    text = decaf_section.render({"rows": rows})
    assert "| F@1, best peer's + 2 | ≥ 52.00 | 52.50 ✓ |" in text
    assert "| F@5, best peer's + 3 | ≥ 53.00 | 52.50 **✗** |" in text
    assert "| paper | no memory |" in text
    assert "(bar ≤ 0.3): of an epoch 0.00 (✓)" in text
    assert "a classifier for each label, 1.00 (**✗**)" in text
    assert "| tate | 3, 4 test pairs | the hidden ones | 60.0 | 50.0 |" in text
    assert "p50 1.90 ms (bar ≤ 1.7 **✗**)" in text
