"""The benchmark of DECAF: its variants, and what its section shows."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.decaf import run as decaf
from benchmarks.decaf import section
from longtail import registry


def test_every_variant_can_be_made() -> None:
    for variant in decaf.VARIANTS.values():
        registry.make(variant.model).check_params()


def test_one_point_among_generated_classifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, dict[str, Any]] = {}
    monkeypatch.setattr(decaf, "N_SINGLE", 40)
    decaf.latency(lambda key, row, model: kept.update({key: row}), n_labels=3000, width=16)
    assert kept["latency"]["agreement"] > 0.5
    assert kept["latency"]["p50_ms"] > 0


def test_bars_are_judged() -> None:
    metrics = {f"{metric}@{k}": 52.5 for metric in ("P", "PSP", "B") for k in (1, 3, 5)}
    costs = dict.fromkeys(("train_seconds", "predict_ms_per_point", "single_ms", "peak_memory_mb", "model_mb"), 9.0)
    row = {**metrics, **costs, "data": "tate", "variant": "default", "model": "decaf", "seed": 0}
    rows: dict[str, dict[str, Any]] = {"a": row}
    rows["b"] = {"data": "tate", "variant": "paper", "model": "decaf(preset='paper')", "seed": 0, "error": "no memory"}
    rows |= {f"s{n}": {"labels": n, "with points": n, "epoch_seconds": 1.0, "fit_seconds": n} for n in (10, 100)}
    rows["z"] = {"data": "tate", "system": "decaf", "model": "decaf", "hidden": 3, "pairs": 4}
    rows["z"] |= {"recall all": 30.0, "recall hidden": 60.0, "tf-idf all": 20.0, "tf-idf hidden": 50.0}
    rows["l"] = {"labels": 1_300_000, "dim": 256, "p50_ms": 1.9, "agreement": 0.97}
    text = section.render({"rows": rows})
    assert "| default | paper | 52.50/52.50/52.50 |" in text
    assert "| paper | paper | no memory |" in text
    assert "(bar ≤ 0.3): of an epoch 0.00 (✓)" in text
    assert "a classifier for each label, 1.00 (**✗**)" in text
    assert "| tate | decaf | paper | 3, 4 test pairs | the hidden ones | 60.0 | 50.0 |" in text
    assert "p50 1.90 ms (bar ≤ 1.7 **✗**)" in text


def test_differences_from_the_whole_are_shown() -> None:
    keys = ("P@1", "P@5", "PSP@1", "PSP@5", "B@1", "B@5")
    whole = dict.fromkeys(keys, 50.0) | {"train_seconds": 9.0, "data": "tate", "seed": 0, "model": "decaf"}
    less = whole | dict.fromkeys(keys, 49.0) | {"variant": "parts-z1", "recorded_with": "0.1.0 (commit abc)"}
    text = section.render({"rows": {"a": whole | {"variant": "parts"}, "b": less}})
    assert "| parts-z1\\* | -1.00 ± 0.00 |" in text
    assert "Measured with version 0.1.0" in text


def test_an_epoch_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, dict[str, Any]] = {}
    monkeypatch.setattr(decaf, "SIZES", (200,))
    monkeypatch.setattr(decaf, "N_POINTS", 400)
    decaf.scaling(lambda key, row, model: kept.update({key: row}))
    row = kept["scaling 200"]
    assert 0 < row["epoch_seconds"] < row["fit_seconds"]
