"""One network trained by several processes."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import longtail
from longtail.models.decaf import DECAF
from longtail.neural import replicas
from longtail.neural.optimizers import RowOptimizer
from tests.contract import toy

pytestmark = pytest.mark.timeout(300)
_TRAINING = "decaf(dim=16, epochs=4, batch_size=16, n_workers=2)"


@pytest.fixture(scope="module")
def trained() -> DECAF:
    X, Y, Z = toy()
    return longtail.make(_TRAINING).fit(X, Y, label_features=Z)  # type: ignore[return-value]


def precision(model: Any) -> float:
    X, Y, _ = toy(seed=1)
    return longtail.evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"]


def test_two_workers_learn_as_much_as_one(trained: DECAF) -> None:
    X, Y, Z = toy()
    alone = longtail.make(_TRAINING.replace("n_workers=2", "n_workers=1")).fit(X, Y, label_features=Z)
    assert precision(trained) > precision(alone) - 5 > 50


def test_a_lost_worker_is_replaced_and_the_model_is_the_same(trained: DECAF, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    start = replicas.Replicas._start

    def start_and_kill(self: replicas.Replicas, n: int) -> list[Any]:
        started = start(self, n)
        if len(killed) < 3:  # the first worker, its replacement, and the replacement of that
            killed.append(started[0].pid)  # type: ignore[attr-defined]
            os.kill(killed[-1], signal.SIGKILL)
        return started

    monkeypatch.setattr(replicas.Replicas, "_start", start_and_kill)
    X, Y, Z = toy()
    again = longtail.make(_TRAINING).fit(X, Y, label_features=Z)
    assert len(killed) == 3
    (_, one, _), (_, two, _) = trained._state(), again._state()
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name])


def test_changes_of_workers_are_added_up() -> None:
    table = np.ones((4, 2), np.float32)
    network = SimpleNamespace(tables={"E": table}, optimizers={"E": RowOptimizer("adam", (4, 2))})
    state = network.optimizers["E"]

    def left(rows: list[int], value: float, m: float, age: int) -> replicas.Rows:
        full = {"": value, ".m": m, ".v": m, ".age": age}
        shapes = {"": (len(rows), 2), ".m": (len(rows), 2), ".v": (len(rows), 2), ".age": (len(rows),)}
        parts = {part: np.full(shapes[part], full[part], np.float32) for part in full}
        parts[".age"] = parts[".age"].astype(np.int32)
        return {"E": (np.array(rows), parts)}

    changed = replicas.merge(network, [left([0, 2], 3, 4, 1), left([2, 3], 0, 2, 2)])
    np.testing.assert_array_equal(table[:, 0], [3, 1, 2, 0])  # changes of + 2 and - 1
    np.testing.assert_array_equal(state.m[:, 0], [4, 0, 3, 2])
    np.testing.assert_array_equal(state.v[:, 0], [4, 0, 6, 2])
    np.testing.assert_array_equal(state.age, [1, 0, 3, 2])
    np.testing.assert_array_equal(changed["E"][0], [0, 2, 3])
    np.testing.assert_array_equal(changed["E"][1][""], table[[0, 2, 3]])


@pytest.mark.parametrize(("n", "sizes"), [(64, [[16, 16], [16, 16]]), (20, [[10], [10]]), (1, [[1], []])])
def test_points_are_shared_out(n: int, sizes: list[list[int]]) -> None:
    shares = replicas._shares(np.arange(n), 2, 16)
    assert [[len(batch) for batch in share] for share in shares] == sizes
