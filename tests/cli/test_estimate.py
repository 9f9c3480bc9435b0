"""Estimates of memory, time and model size, from samples and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.sparse import csr_array, vstack

import longtail
from longtail.cli.estimate import estimate
from tests.cli.conftest import Run
from tests.contract import toy


@pytest.mark.parametrize("name", ["bonsai", "knn", "glas(epochs=1)", "blend([bonsai(n_trees=1), knn])"])
def test_an_estimate_fits_samples_and_leaves_the_ranker_as_it_was(name: str) -> None:
    X, Y, Z = toy()
    X, Y = (csr_array(vstack([part] * 20)) for part in (X, Y))
    model = longtail.make(name)
    expected = estimate(model, X, Y, Z)
    assert expected.memory_bytes > 1e7
    assert expected.seconds > 0
    assert expected.model_bytes > 100
    assert not hasattr(model, "n_labels_")


def test_the_command_line_prints_an_estimate_and_trains_nothing(run: Run, raw: Path, here: Path) -> None:
    shown = run("train", "raw", "-m", "bonsai", "--estimate")
    assert "MB of memory" in shown.stdout
    facts = json.loads(run("train", "raw", "-m", "bonsai", "--estimate", "--json").stdout)
    assert facts["memory_mb"] > 0
    assert facts["model_mb"] > 0
    assert [path.name for path in here.iterdir()] == ["raw"]


def test_a_memory_limit_refuses_before_training(run: Run, raw: Path, here: Path) -> None:
    refused = run("train", "raw", "-m", "decaf", "--out", "m", "--memory", "10MB", code=2)
    assert "within the limit of 9.5 MiB. Lower dim" in refused.stderr
    assert "not an amount of memory" in run("train", "raw", "--out", "m", "--memory", "lots", code=2).stderr
    assert "--out" in run("train", "raw", "-m", "popular", code=2).stderr
    assert [path.name for path in here.iterdir()] == ["raw"]
    run("train", "raw", "-m", "popular", "--out", "m", "--memory", "64GB")
