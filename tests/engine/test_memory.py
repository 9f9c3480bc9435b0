"""Memory: what is free, and the refusal of what would not fit."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack, vstack

import longtail
from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.kernels import pool
from longtail.linear import train
from longtail.models import MODELS, label_tree
from longtail.models.decaf import DECAF
from longtail.models.dismec import DiSMEC
from tests.contract import toy


def make_sparse(L: int) -> tuple[csr_array, csr_array, csr_array]:
    """Return one feature and one label per point, and label text."""
    some = csr_array((np.ones(L, np.float32), np.arange(L), np.arange(L + 1)), shape=(L, L))
    return some, some, some


def test_this_machine_says_what_is_free() -> None:
    free = memory.available()
    assert free is None or free > 1 << 20


def test_a_container_may_have_less_than_the_machine(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "max").write_text("5000\n")
    (tmp_path / "current").write_text("2000\n")
    monkeypatch.setattr(memory, "_CGROUP_FILES", ((str(tmp_path / "max"), str(tmp_path / "current")),))
    assert memory.available() == 3000
    (tmp_path / "max").write_text("max\n")
    monkeypatch.setattr(memory, "_free_on_machine", lambda: 4000)  # the real one changes from one moment to the next
    assert memory.available() == 4000


def test_training_that_does_not_fit_is_refused_before_it_starts(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(memory, "available", lambda: 1000)
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=r"0\.0 MiB are free.*n_jobs"):
        DiSMEC().fit(X, Y)
    monkeypatch.setattr(memory, "available", lambda: None)
    DiSMEC().fit(X, Y)


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("8GB", 8 * 10**9), ("1.5 GiB", 3 * 2**29), ("500M", 5 * 10**8), ("20kb", 20_000), ("7", 7)]
)
def test_sizes_are_read(text: str, n_bytes: int) -> None:
    assert memory.parse_size(text) == n_bytes


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "8XB", "0GB", "many", "9" * 400])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="not an amount of memory"):
        memory.parse_size(text)


def test_a_limit_is_compared_with_what_the_process_holds() -> None:
    X, Y, _ = toy()
    memory.set_limit("1MB")  # less than Python itself
    try:
        assert memory.available() == 0
        with pytest.raises(SettingsError, match=r"within the limit of.*n_jobs"):
            DiSMEC().fit(X, Y)
        memory.set_limit(memory.used_bytes() + 2**30)
        assert 2**29 < (memory.available() or 0) <= 2**30
    finally:
        memory.set_limit(None)


@pytest.mark.parametrize("model", ["dismec(cost=1.0)", "bonsai(arity=5, max_leaf=3, n_trees=2)", "parabel(n_trees=1)"])
@pytest.mark.parametrize("resumable", [False, True])
def test_weights_on_disk_make_the_same_model(model: str, resumable: bool, monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    X, Y, _ = toy()
    monkeypatch.setattr(train, "SPILLED", 200.0)  # several batches
    expected = longtail.make(model).fit(X, Y)._state()[1]
    spilled: list[Path] = []
    with memory.on_disk():
        folder = memory.spill_folder()
        assert folder is not None
        ranker = longtail.make(model)
        packed = train._packed
        monkeypatch.setattr(train, "_packed", lambda solved: spilled.append(folder) or packed(solved))
        with ranker.resumable(tmp_path / "steps") if resumable else nullcontext():
            found = ranker.fit(X, Y)._state()[1]
        assert len(spilled) > ("bonsai" in model)  # the others have one task
        assert not any(folder.iterdir())
    assert not folder.exists()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_fit_is_made_to_fit_before_it_is_refused(monkeypatch, caplog) -> None:  # type: ignore[no-untyped-def]
    X, Y, _ = toy(n=3000)
    model = DiSMEC(cost=1.0)
    monkeypatch.setattr(pool, "available_cores", lambda: min([64, *pool._limits]))
    monkeypatch.setattr(label_tree, "SPILLED", 100.0)
    many = model.memory_needed(X, Y)
    with pool.limited_cores(1):
        one = model.memory_needed(X, Y)
        with memory.on_disk():
            least = model.memory_needed(X, Y)
    assert least < one < many
    seen: list[tuple[int, bool]] = []
    fit = DiSMEC._fit

    def watched(self, *given) -> None:  # type: ignore[no-untyped-def]
        seen.append((pool.available_cores(), memory.spill_folder() is not None))
        fit(self, *given)

    monkeypatch.setattr(DiSMEC, "_fit", watched)
    for free in (many, one, least):
        monkeypatch.setattr(memory, "available", lambda free=free: free)
        DiSMEC(cost=1.0).fit(X, Y)
    assert seen == [(64, False), (1, False), (1, True)]
    assert pool.available_cores() == 64
    monkeypatch.setattr(memory, "available", lambda: least - 1)
    with pytest.raises(SettingsError, match="n_jobs"):
        DiSMEC(cost=1.0).fit(X, Y)


def test_fits_that_overlap_leave_no_limit_and_share_the_folder() -> None:
    began, ended = threading.Event(), threading.Event()

    def first() -> None:
        with pool.limited_cores(1), memory.on_disk():
            began.set()
            ended.wait(10)

    before = pool.available_cores()
    thread = threading.Thread(target=first)
    thread.start()
    assert began.wait(10)
    with pool.limited_cores(1), memory.on_disk() as folder:
        ended.set()
        thread.join()  # the one that entered first leaves first
        assert pool.available_cores() == 1
        assert memory.spill_folder() == folder
        assert folder.is_dir()
    assert pool.available_cores() == before
    assert memory.spill_folder() is None
    assert not folder.exists()


WRAPPERS = ("ranknet", "taug", "labeltext", "calibrated")


@pytest.mark.parametrize("name", [name for name in MODELS if name not in WRAPPERS])
def test_every_ranker_estimates_more_memory_for_more_data(name: str) -> None:
    def needed(times: int) -> float:
        X, Y, Z = toy()
        more_labels = csr_array(hstack([Y] * times))
        many = [csr_array(vstack([part] * times)) for part in (X, more_labels, Z)]
        return longtail.make(name).memory_needed(*many)

    assert 0 < needed(1) < needed(8)


def test_wrappers_need_more_than_their_base() -> None:
    X, Y, Z = toy()
    base = longtail.make("bonsai").memory_needed(X, Y, Z)
    for name in ("ranknet(bonsai)", "taug(bonsai)", "labeltext(bonsai)", "blend([bonsai, knn])"):
        assert longtail.make(name).memory_needed(X, Y, Z) > base


def test_a_wide_beam_is_counted() -> None:
    X, Y, Z = make_sparse(L=20_000)
    wide, narrow = (DECAF(preset="paper", beam=beam).memory_needed(X, Y, Z) for beam in (None, 10))
    assert wide > narrow + 1e8
