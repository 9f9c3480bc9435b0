"""Memory: what is free, and the refusal of what would not fit."""

from __future__ import annotations

import pytest

from longtail.engine import memory
from longtail.errors import SettingsError
from longtail.models.dismec import DiSMEC
from tests.contract import toy


def test_this_machine_says_what_is_free() -> None:
    free = memory.available()
    assert free is None or free > 1 << 20


def test_a_container_may_have_less_than_the_machine(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "max").write_text("5000\n")
    (tmp_path / "current").write_text("2000\n")
    monkeypatch.setattr(memory, "_GROUP_FILES", ((str(tmp_path / "max"), str(tmp_path / "current")),))
    assert memory.available() == 3000
    (tmp_path / "max").write_text("max\n")
    assert memory.available() == memory._machine()


def test_training_that_does_not_fit_is_refused_before_it_starts(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(memory, "available", lambda: 1000)
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=r"GiB are free.*n_jobs"):
        DiSMEC().fit(X, Y)
    monkeypatch.setattr(memory, "available", lambda: None)
    DiSMEC().fit(X, Y)
